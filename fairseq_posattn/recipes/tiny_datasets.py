"""Generate small data sets in the layout that ``posattn prepare classification`` writes.

    python -m fairseq_posattn.recipes.tiny_datasets FOLDER trec sick ...

makes FOLDER/trec, FOLDER/sick and so on. Sentences are of made-up words, one of which tells their
class; the sentences of a pair have the more words in common the more they are related. They are for
seeing that commands run, no more. Of ten folds there are two.
"""

import argparse
import logging
import random
import shutil
from collections.abc import Sequence
from pathlib import Path

from fairseq_posattn.preparation.corpora import CLASSIFICATION
from fairseq_posattn.preparation.corpus import SPLITS, ClassificationCorpus

DOCUMENTS = {"amazon_electronics"}  # of several sentences
SIZES = dict(zip(SPLITS, (40, 20, 20), strict=True))
FILLERS = [consonant + vowel for consonant in "bdgklm" for vowel in "aeiou"]
DIM = 12  # of the word vectors


def make(corpus: ClassificationCorpus, folder: Path, generator: random.Random) -> None:
    """Write a data set; where it fails nothing is left at ``folder``."""
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    for fold in corpus.parts[:2]:
        _make_fold(corpus, part / fold, generator)
    words = [f"cue{number}" for number in range(_classes(corpus))] + FILLERS + ["<sep>"]
    vectors = ([word, *(f"{generator.gauss(0, 0.4):.4f}" for _ in range(DIM))] for word in words)
    lines = [f"{len(words)} {DIM}", *map(" ".join, vectors)]
    (part / "glove.txt").write_text("\n".join(lines) + "\n")
    part.rename(folder)


def _make_fold(corpus: ClassificationCorpus, folder: Path, generator: random.Random) -> None:
    text = folder / "text"
    text.mkdir(parents=True)
    for split, size in SIZES.items():
        examples = [_example(corpus, number, generator) for number in range(size)]
        for kind in corpus.kinds:
            lines = [f"{one[kind]}\n" for one in examples]
            (text / f"{split}.{kind}").write_text("".join(lines))
    for kind in (*corpus.inputs, "label"):
        _binarise(text, folder, kind)
    if corpus.scored:
        for split in SIZES:
            (text / f"{split}.score").rename(folder / "label" / f"{split}.label")


def _example(
    corpus: ClassificationCorpus, number: int, generator: random.Random
) -> dict[str, str | float]:
    """Texts, label and score of an example."""
    classes = _classes(corpus)
    label = number % classes
    sentences = [
        " ".join([*generator.choices(FILLERS, k=generator.randint(1, 6)), f"cue{label}"])
        for _ in range(3 if corpus.name in DOCUMENTS else 1)
    ]
    words = " <sep> ".join(sentences).split()
    shared = words[: round(len(words) * label / (classes - 1))]
    return {
        "input0": " ".join(words),
        "input1": " ".join(shared + generator.choices(FILLERS, k=2)),
        "label": f"class{label}",
        "score": 1 + 4 * label / (classes - 1),
    }


def _classes(corpus: ClassificationCorpus) -> int:
    assert corpus.labels is not None
    return len(corpus.labels)


def _binarise(text: Path, folder: Path, kind: str) -> None:
    from fairseq import options  # only here: it takes seconds
    from fairseq_cli import preprocess

    flags = ["--only-source", "--destdir", folder / kind]
    flags += [f"--{split}pref={text / split}.{kind}" for split in SIZES]
    if kind == "input1":
        flags += ["--srcdict", folder / "input0" / "dict.txt"]
    preprocess.main(options.get_preprocessing_parser().parse_args(list(map(str, flags))))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("datasets", nargs="+", metavar="DATASET", choices=CLASSIFICATION)
    args = parser.parse_args(arguments)
    logging.disable()  # a page for each file
    generator = random.Random(1)
    for dataset in args.datasets:
        make(CLASSIFICATION[dataset], args.folder / dataset, generator)


if __name__ == "__main__":
    main()
