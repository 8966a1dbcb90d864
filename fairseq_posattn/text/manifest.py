"""``preparation.json``: beside binarised data, how its text was made.

Who reads text for a model later, such as prediction and translation, makes words of it by the same
rules as the training data.
"""

import json
from dataclasses import asdict, dataclass, field, fields, replace
from importlib.metadata import version
from pathlib import Path

from fairseq_posattn import __version__
from fairseq_posattn.common.errors import UsageError

NAME = "preparation.json"
LATER = ("cased", "longest")  # what a folder was prepared by before there were these, it still is
PACKAGES = ("sacremoses", "sentencepiece", "subword-nmt")


@dataclass(frozen=True)
class Manifest:
    """How the text of some binarised data was made.

    Attributes:
        corpus: its name, such as ``sst5``.
        task: fairseq's.
        word_rule: what made words of text: a key of :data:`.text.words.RULES`, or, for translation,
            of :data:`.text.moses.RULES`.
        lower: capitals were made small.
        subwords: what then made subwords: ``subword_nmt``, ``sentencepiece``, ``wordpiece``,
            ``gpt``, or None.
        languages: source and target of pairs that are translated or summarised.
        versions: of what made it, by package; empty where it was made before it had a manifest.
        cased: WordPiece kept capitals and accents. An older manifest does not say it: they were
            kept where it has not ``lower``.
        longest: pieces of a line; those after them are cut off. None where that is not known.
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
    """The last stage of a preparation: write the manifest into each folder that fairseq reads.

    Args:
        stages: :class:`.pipeline.stages.Stages`.
        corpus: a :class:`.corpus.Corpus`.
        lower: its text is in small letters.
        parts: these folders.
        pieces: ``cased`` and ``longest``, which the stage of the pieces depends on.
    """
    manifest = Manifest(
        corpus.name, corpus.task, corpus.word_rule, lower, corpus.subwords, list(corpus.sides)
    )
    packages = (*PACKAGES, "tokenizers") if corpus.subwords == "wordpiece" else PACKAGES
    versions = {}
    if stages.redo:  # of a checkout, which need not be installed, and of packages
        versions = {"fairseq-posattn": __version__} | {name: version(name) for name in packages}

    def make(work):
        for part in parts:
            write(work / part, replace(manifest, versions=versions, **pieces))

    outputs = [f"{part}/{NAME}".removeprefix("./") for part in parts]
    settings = {name: value for name, value in asdict(manifest).items() if name not in LATER}
    stages.run("manifest", outputs, make, **settings)


def read(folder) -> Manifest | None:
    """The manifest of a folder of binarised data; None where there is none, as in older folders.

    Raises:
        UsageError: it is not what :func:`write` writes.
    """
    path = Path(folder) / NAME
    if path.exists() and not path.is_file():  # a FIFO would be waited for
        raise UsageError(f"{path}: no file; {_MEND}")
    try:
        with open(path, "rb") as file:
            told = json.loads(file.read(_LARGEST))  # of a larger one, half, which is no JSON
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, RecursionError):
        raise UsageError(f"{path}: not in JSON format; {_MEND}") from None
    return Manifest(**_checked(told, path))


_MEND = "prepare the data again"
_LARGEST = 1 << 20  # bytes
_TYPES = {
    **{"lower": bool, "subwords": (str, type(None)), "languages": list, "versions": dict},
    **{"cased": bool, "longest": (int, type(None))},
}
_REQUIRED = {"corpus", "task", "word_rule"}


def _checked(told, path):
    if not isinstance(told, dict) or not told.keys() >= _REQUIRED:
        raise UsageError(f"{path}: does not say corpus, task and word_rule; {_MEND}")
    known = {one.name for one in fields(Manifest)}
    told = {name: value for name, value in told.items() if name in known}  # later ones may say more
    for name, value in told.items():
        if not isinstance(value, _TYPES.get(name, str)):
            raise UsageError(f"{path}: {name} is {value!r}; {_MEND}")
    longest = told.get("longest")
    if longest is not None and (isinstance(longest, bool) or longest < 1):
        raise UsageError(f"{path}: longest is {longest!r}, not null or 1 and more; {_MEND}")
    parts = [*told.get("languages", ()), *told.get("versions", {}).values()]
    if not all(isinstance(part, str) for part in parts):
        raise UsageError(f"{path}: languages and versions are not all text; {_MEND}")
    return {**told, "languages": tuple(told.get("languages", ()))}
