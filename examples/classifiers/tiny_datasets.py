#!/usr/bin/env python3
"""Generate small data sets in the layout that scripts/prepare_classification.py writes.

    python tiny_datasets.py FOLDER trec sick ...

makes FOLDER/trec, FOLDER/sick and so on. Sentences are of made-up words, one of which tells their
class; the sentences of a pair have the more words in common the more they are related. They are for
seeing that commands run, no more. The names are those of prepare_classification.py; of ten folds
there are two.
"""

import argparse
import logging
import random
import shutil
from pathlib import Path

from fairseq import options
from fairseq_cli import preprocess

CLASSES = {
    **dict.fromkeys(["sst2", "cr", "mpqa", "subj", "yelp_polarity"], 2),
    **dict.fromkeys(["sick", "snli", "multinli"], 3),
    "ag_news": 4,
    **dict.fromkeys(["sst5", "yelp_full", "amazon_electronics"], 5),
    "trec": 6,
    "yahoo_answers": 10,
}
PAIRS = {"sick", "snli", "multinli"}
SCORED = {"sick", "amazon_electronics"}
DOCUMENTS = {"amazon_electronics"}
FOLDED = {"cr", "mpqa", "subj"}
SIZES = {"train": 40, "valid": 20, "test": 20}
FILLERS = [consonant + vowel for consonant in "bdgklm" for vowel in "aeiou"]
DIM = 12  # of the word vectors


def make(dataset, folder, generator):
    """Write a data set; where it fails nothing is left at ``folder``."""
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    for name in ("fold0", "fold1") if dataset in FOLDED else (".",):
        make_fold(dataset, part / name, generator)
    words = [f"cue{number}" for number in range(CLASSES[dataset])] + FILLERS + ["<sep>"]
    vectors = ([word, *(f"{generator.gauss(0, 0.4):.4f}" for _ in range(DIM))] for word in words)
    lines = [f"{len(words)} {DIM}", *map(" ".join, vectors)]
    (part / "glove.txt").write_text("\n".join(lines) + "\n")
    part.rename(folder)


def make_fold(dataset, folder, generator):
    text = folder / "text"
    text.mkdir(parents=True)
    for split, size in SIZES.items():
        examples = [example(dataset, number, generator) for number in range(size)]
        for kind in examples[0]:
            lines = [str(one[kind]) + "\n" for one in examples]
            (text / f"{split}.{kind}").write_text("".join(lines))
    kinds = ["input0", "input1", "label"] if dataset in PAIRS else ["input0", "label"]
    for kind in kinds:
        binarise(text, folder, kind)
    if dataset in SCORED:
        for split in SIZES:
            (text / f"{split}.score").rename(folder / "label" / f"{split}.label")


def example(dataset, number, generator):
    """Texts, label and score of an example."""
    classes = CLASSES[dataset]
    label = number % classes
    sentences = [
        " ".join([*generator.choices(FILLERS, k=generator.randint(1, 6)), f"cue{label}"])
        for _ in range(3 if dataset in DOCUMENTS else 1)
    ]
    found = {"input0": " <sep> ".join(sentences), "label": f"class{label}"}
    if dataset in PAIRS:
        words = found["input0"].split()
        shared = words[: round(len(words) * label / (classes - 1))]
        found["input1"] = " ".join(shared + generator.choices(FILLERS, k=2))
    if dataset in SCORED:
        found["score"] = 1 + 4 * label / (classes - 1)
    return found


def binarise(text, folder, kind):
    flags = ["--only-source", "--destdir", folder / kind]
    flags += [f"--{split}pref={text / split}.{kind}" for split in SIZES]
    if kind == "input1":
        flags += ["--srcdict", folder / "input0" / "dict.txt"]
    preprocess.main(options.get_preprocessing_parser().parse_args(list(map(str, flags))))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("datasets", nargs="+", metavar="DATASET", choices=CLASSES)
    args = parser.parse_args()
    logging.disable()  # a page for each file
    generator = random.Random(1)
    for dataset in args.datasets:
        make(dataset, args.folder / dataset, generator)


if __name__ == "__main__":
    main()
