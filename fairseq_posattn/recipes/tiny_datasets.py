"""Generate small data sets in the layout that ``posattn prepare`` writes.

    python -m fairseq_posattn.recipes.tiny_datasets FOLDER trec sick ewt ...

makes FOLDER/trec, FOLDER/sick and so on. Sentences are of made-up words, one of which tells their
class; the sentences of a pair have the more words in common the more they are related; what stands
before a predicate is its A0, and what stands behind it its A1; users click what shares a word with
what they clicked before. They are for seeing that commands run, no more. Of ten folds there are
two.
"""

import argparse
import logging
import random
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from fairseq_posattn.preparation.corpora import CLASSIFICATION, RECOMMENDATION, TAGGING
from fairseq_posattn.preparation.corpus import SPLITS, ClassificationCorpus, TaggingCorpus
from fairseq_posattn.recipes.tiny_news import write_logs
from fairseq_posattn.recipes.tiny_transfer import FILES, make_transfer

DOCUMENTS = {"amazon_electronics"}  # of several sentences
SIZES = dict(zip(SPLITS, (40, 20, 20), strict=True))
FILLERS = [consonant + vowel for consonant in "bdgklm" for vowel in "aeiou"]
KNOWN = (*CLASSIFICATION, *TAGGING, *RECOMMENDATION, *FILES)
DIM = 12  # of the word vectors


def make(name: str, folder: Path, generator: random.Random) -> None:
    """Write a data set; where it fails nothing is left at ``folder``."""
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    if name in FILES:
        corpus = CLASSIFICATION[name.removesuffix("_gpt")]
        make_transfer(name, part, _pairs(corpus, generator))
        part.rename(folder)
        return
    if name in TAGGING:
        words = _make_roles(TAGGING[name], part, generator)
    elif name in RECOMMENDATION:
        words = _make_news(name, part, generator)
    else:
        words = _make_labelled(CLASSIFICATION[name], part, generator)
    vectors = ([word, *(f"{generator.gauss(0, 0.4):.4f}" for _ in range(DIM))] for word in words)
    lines = [f"{len(words)} {DIM}", *map(" ".join, vectors)]
    (part / "glove.txt").write_text("\n".join(lines) + "\n")
    part.rename(folder)


def _pairs(
    corpus: ClassificationCorpus, generator: random.Random
) -> dict[str, list[tuple[int, str, str]]]:
    """Label's number, premise and hypothesis, by split."""
    rows = {
        split: [(number % 3, _example(corpus, number, generator)) for number in range(size)]
        for split, size in SIZES.items()
    }
    return {
        split: [(label, str(one["input0"]), str(one["input1"])) for label, one in examples]
        for split, examples in rows.items()
    }


def _make_labelled(
    corpus: ClassificationCorpus, folder: Path, generator: random.Random
) -> list[str]:
    """Write all folds; returns the words."""
    for fold in corpus.parts[:2]:
        _make_fold(corpus, folder / fold, generator)
    return [f"cue{number}" for number in range(_classes(corpus))] + FILLERS + ["<sep>"]


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


def _make_roles(corpus: TaggingCorpus, folder: Path, generator: random.Random) -> list[str]:
    """Write sentences with a predicate in them; returns the words."""
    text = folder / "text"
    text.mkdir(parents=True)
    sizes = {split: SIZES.get(split, 20) for split in corpus.predicates}
    for split, size in sizes.items():
        columns: dict[str, list[str]] = {"words": [], "predicate": [], "tags": []}
        for _ in range(size):
            before, behind = generator.randint(1, 3), generator.randint(1, 3)
            words = generator.choices(FILLERS, k=before + 1 + behind)
            words[before] = "verb"
            flags = [*"0" * before, "1", *"0" * behind]
            tags = ["B-A0", *["I-A0"] * (before - 1), "B-V", "B-A1", *["I-A1"] * (behind - 1)]
            for name, cells in zip(columns, (words, flags, tags), strict=True):
                columns[name].append(" ".join(cells) + "\n")
        for name, lines in columns.items():
            (text / f"{split}.{name}").write_text("".join(lines))
    for name in columns:
        _binarise(text, folder, name, sizes)
    return [*FILLERS, "verb"]


def _make_news(name: str, folder: Path, generator: random.Random) -> list[str]:
    """Prepare made-up logs; returns the words."""
    from fairseq_posattn.preparation.kinds import (
        prepare,  # only here: it reads everything
    )

    with tempfile.TemporaryDirectory() as logs:
        words = write_logs(Path(logs), FILLERS, generator)
        options = ["--source", logs, "--dest", str(folder), "--jobs", "1"]
        if prepare("recommendation", [name, *options]):
            raise RuntimeError("the made-up logs could not be prepared")
    return words


def _classes(corpus: ClassificationCorpus) -> int:
    assert corpus.labels is not None
    return len(corpus.labels)


def _binarise(text: Path, folder: Path, kind: str, splits: Iterable[str] = SIZES) -> None:
    from fairseq import options  # only here: it takes seconds
    from fairseq_cli import preprocess

    flags = ["--only-source", "--destdir", folder / kind]
    for option in SPLITS:
        # of several test sets the second is called test1, as fairseq names them
        files = [f"{text / split}.{kind}" for split in splits if split.startswith(option)]
        flags += [f"--{option}pref={','.join(files)}"]
    if kind == "input1":
        flags += ["--srcdict", folder / "input0" / "dict.txt"]
    preprocess.main(options.get_preprocessing_parser().parse_args(list(map(str, flags))))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("datasets", nargs="+", metavar="DATASET", choices=KNOWN)
    args = parser.parse_args(arguments)
    logging.disable()  # a page for each file
    generator = random.Random(1)
    for dataset in args.datasets:
        make(dataset, args.folder / dataset, generator)


if __name__ == "__main__":
    main()
