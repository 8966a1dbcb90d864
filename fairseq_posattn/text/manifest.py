"""``preparation.json`` beside binarised data: how its text was made.

Prediction, translation and export tokenize new text by the same rules as the training data.
"""

import json
from dataclasses import asdict, dataclass, field, fields, replace
from importlib.metadata import version
from pathlib import Path

from fairseq_posattn import __version__
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import read_limited

NAME = "preparation.json"
RECENT = ("cased", "longest")  # not compared: older folders are the same without these fields
PACKAGES = ("sacremoses", "sentencepiece", "subword-nmt")
FIX = "prepare the data again"


@dataclass(frozen=True)
class Manifest:
    """Description of how the text of binarised data was made.

    Attributes:
        corpus: its name, such as ``sst5``.
        task: fairseq's.
        word_rule: tokenization rule: a key of :data:`.text.words.RULES`, or, for translation, of
            :data:`.text.moses.RULES`.
        lower: the text is lower-cased.
        subwords: ``subword_nmt``, ``sentencepiece``, ``wordpiece``, ``gpt``, or None.
        languages: source and target, for translation and summarization.
        versions: package versions used; empty for folders older than the manifest.
        cased: WordPiece kept capitals and accents. Older manifests lack it: then they are kept
            unless ``lower``.
        longest: maximum subwords per line, the rest is cut off; None if unknown.
    """

    corpus: str
    task: str
    word_rule: str
    lower: bool = False
    subwords: str | None = None
    languages: tuple[str, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)
    cased: bool = False
    longest: int | None = None


def write(folder, manifest):
    """Write the manifest of a folder of binarised data."""
    text = json.dumps(asdict(manifest), indent=1)
    (Path(folder) / NAME).write_text(f"{text}\n", encoding="utf-8")


def stage(stages, corpus, *, lower, parts=(".",), **pieces):
    """Run the last stage of a preparation, which writes the manifests.

    Args:
        stages: a :class:`.preparation.stages.Stages`.
        corpus: a :class:`.preparation.corpus.Corpus`.
        lower: the text is lower-cased.
        parts: folders that fairseq reads, each of which gets a manifest.
        pieces: ``cased`` and ``longest``, settings of the stage that makes the subwords.
    """
    manifest = Manifest(
        corpus.name, corpus.task, corpus.word_rule, lower, corpus.subwords, list(corpus.sides)
    )
    packages = (*PACKAGES, "tokenizers") if corpus.subwords == "wordpiece" else PACKAGES
    versions = {}
    if stages.redo:  # unknown for finished stages; a checkout need not be installed
        versions = {"fairseq-posattn": __version__} | {name: version(name) for name in packages}

    def make(work):
        for part in parts:
            write(work / part, replace(manifest, versions=versions, **pieces))

    outputs = [f"{part}/{NAME}".removeprefix("./") for part in parts]
    settings = {name: value for name, value in asdict(manifest).items() if name not in RECENT}
    stages.run("manifest", outputs, make, **settings)


def read(folder) -> Manifest | None:
    """Return the manifest of a folder of binarised data; None if there is none.

    Raises:
        UsageError: it is damaged.
    """
    path = Path(folder) / NAME
    try:
        content = json.loads(read_limited(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, RecursionError):
        raise UsageError(f"{path}: not in JSON format; {FIX}") from None
    return Manifest(**_checked(content, path))


def _is_text(values):
    return all(isinstance(value, str) for value in values)


_CHECKS = {
    "lower": lambda value: isinstance(value, bool),
    "cased": lambda value: isinstance(value, bool),
    "subwords": lambda value: value is None or isinstance(value, str),
    "languages": lambda value: isinstance(value, list) and _is_text(value),
    "versions": lambda value: isinstance(value, dict) and _is_text(value.values()),
    "longest": lambda value: value is None or type(value) is int and value > 0,
}


def _checked(content, path):
    if not isinstance(content, dict) or not content.keys() >= {"corpus", "task", "word_rule"}:
        raise UsageError(f"{path}: lacks corpus, task or word_rule; {FIX}")
    known = {one.name for one in fields(Manifest)}  # a newer version may write more
    content = {name: value for name, value in content.items() if name in known}
    for name, value in content.items():
        if not _CHECKS.get(name, lambda value: isinstance(value, str))(value):
            raise UsageError(f"{path}: {name} is {value!r}; {FIX}")
    return {**content, "languages": tuple(content.get("languages", ()))}
