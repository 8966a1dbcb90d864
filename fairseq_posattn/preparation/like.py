"""Preparation for an existing model, ``--like``: with its rules, subwords and dictionaries."""

import hashlib
import re
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import StrPath
from fairseq_posattn.text import manifest, plain_text
from fairseq_posattn.text.vocabulary import count_words, read_symbols

# Fields of a manifest on which the text depends.
TEXT = {"word_rule", "lower", "subwords", "languages", "cased", "longest", "joined", "normalize"}
TEXT |= {"accents"}
CHECKPOINTS = ("checkpoint_best.pt", "checkpoint_last.pt")


def add_option(parser: ArgumentParser) -> None:
    about = (
        "prepare for the model of this checkpoint, its folder or its prepared data: with the same "
        "subwords, dictionaries, languages, tokenization, case and Unicode form, for posattn train "
        "--from"
    )
    parser.add_argument("--like", type=Path, metavar="FOLDER|CHECKPOINT", help=about)


def checkpoints_of(folder: Path) -> Path:
    """Return the folder of checkpoints of prepared data; a fold's is in that of its corpus."""
    path = folder.resolve()
    is_fold = re.fullmatch(r"fold\d", path.name)
    return Path("checkpoints", path.parent.name if is_fold else "", path.name)


class Template:
    """Rules, subwords and dictionaries of a prepared folder, a checkpoint or its folder.

    UsageError, which names ``option``, if there is no manifest.
    """

    def __init__(self, path: StrPath, option: str = "--like") -> None:
        self.path, self.name = Path(path), f"{option} {path}".strip()
        if not self.path.exists():
            raise UsageError(f"{self.name}: no such folder or checkpoint")
        if not self.path.is_dir() and self.path.suffix != ".pt":
            raise UsageError(f"{self.name}: not a checkpoint (.pt); name its folder")
        self.folder = self.path if self.path.is_dir() else self.path.parent
        rules = manifest.read(self.folder)
        if rules is None:
            fix = "name the folder that posattn prepare made for its training"
            if option == "--like":
                fix += ", or run fairseq-preprocess with its dictionaries as --srcdict, --tgtdict"
            raise UsageError(f"{self.name}: there is no {manifest.NAME}; {fix}")
        self.rules, self.codes = rules, plain_text.codes_file(self.folder, rules)

    def __str__(self) -> str:
        return self.name

    def dictionary(self, column: str) -> Path:
        """Return the dictionary of a language or column; UsageError if it is missing."""
        for name in (f"dict.{column}.txt", f"{column}/dict.txt"):
            if (self.folder / name).is_file():
                manifest.check_size(self.folder / name)
                return self.folder / name
        raise UsageError(f"{self.name}: has no dictionary of {column}; copy it from prepared data")

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the classes of a classifier, by number."""
        return tuple(read_symbols(self.dictionary("label")))

    @property
    def start(self) -> Path | None:
        """Return the checkpoint, or folder of checkpoints, of its model; None if unknown."""
        for folder in (self.folder, checkpoints_of(self.folder)):
            if any((folder / name).exists() for name in CHECKPOINTS):
                return folder if self.path.is_dir() else self.path
        return None if self.path.is_dir() else self.path

    def text_fields(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self.rules).items() if name in TEXT}

    def digest(self, *columns: str) -> str:
        """Return the SHA-256 of the rules, the subwords and the dictionaries of columns."""
        result = hashlib.sha256(repr(sorted(self.text_fields().items())).encode())
        for path in filter(None, (self.codes, *map(self.dictionary, columns))):
            result.update(path.read_bytes())
        return result.hexdigest()

    def tokenizer(self, language: str) -> Callable[[str], str]:
        """Return the function from plain text to words."""
        return plain_text.tokenizer(self.folder, self.rules, language)

    def require(self, kind: str, options: Namespace, kept: Mapping[str, Any]) -> None:
        """Raise UsageError for another kind of data, or options that are not ``kept``."""
        if self.rules.kind != kind:
            other = f"was prepared for {self.rules.kind}, not for {kind}"
            raise UsageError(f"{self.name}: {other}; name a folder or model for {kind}")
        for name, value in kept.items():
            argument = getattr(options, name)
            if argument != value:
                flag = f"--{name.replace('_', '-')}"
                flag += "" if argument is True else f" {argument}"
                raise UsageError(f"{flag}: {self.name} decides that; leave one of them out")


def unknown_tokens(dictionary: Path, files: Iterable[Path], name: str) -> str:
    """Return a line: how many tokens of segmented text a dictionary lacks, and their share."""
    known = {*read_symbols(dictionary)}
    counts = count_words(files)
    unknown = sum(count for word, count in counts.items() if word not in known)
    share = f"{unknown / max(counts.total(), 1):.1%}"
    return f"{name}: {unknown:,} of {counts.total():,} tokens ({share}) are unknown to the model"
