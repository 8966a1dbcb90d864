"""Semantic roles: the CoNLL-2005 shared task and the English Web Treebank with PropBank's roles.

CoNLL-2005 (Carreras and Màrquez, 2005) has roles of verbs in the Penn Treebank, whose words are
licensed: read from ``train/words/train.02.words.gz`` and so on, or from the Treebank's trees.
UD_English-EWT has the words of the Web Treebank, propbank-release (Bonial et al., 2014) the roles
of the same documents. A sentence is used if it has as many words in both.
"""

import re
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatch
from functools import partial
from typing import IO

from fairseq_posattn.common.archives import decompressed
from fairseq_posattn.common.errors import UsageError, counted
from fairseq_posattn.preparation.archives import Archive
from fairseq_posattn.preparation.corpus import Readers
from fairseq_posattn.text import props
from fairseq_posattn.text.lines import read_lines
from fairseq_posattn.text.props import RoleSentence

# Files of CoNLL's release of each split, without folder and suffix, and the trees of each.
FILES = {
    "train": {f"train.{section:02}": f"*wsj/{section:02}/*.mrg" for section in range(2, 22)},
    "valid": {"devel.24": "*wsj/24/*.mrg"},
    "test": {"test.wsj": "*wsj/23/*.mrg"},
    "test1": {"test.brown": "*brown/ck/ck0[123].mrg"},
}
TRACE = "-NONE-"
TREE = re.compile(r"(?P<word>\((?P<tag>[^\s()]+)\s+(?P<form>[^\s()]+)\s*\))|\(|\)")
AUXILIARIES = {"be.03", "have.01", "do.01"}  # never have an argument
LISTS = {"train": "files.train", "valid": "files.dev", "test": "files.test"}
LISTED = tuple(f"/file-lists/{name}" for name in LISTS.values())
WORDS, ROLES = ".xml.conllu", ".xml.gold_skel"
SENTENCE, TAG, LEMMA, ROLESET, FIRST_ROLE = 1, 4, 6, 7, 8  # columns of gold_skel
PACKED = (".tar", ".tar.gz", ".tgz", ".zip")

Document = tuple[str, str]  # genre and name


def read_conll05(archive: Archive, options: Namespace) -> Readers:
    return {split: partial(_split, archive, parts) for split, parts in FILES.items()}


def _split(archive: Archive, parts: Mapping[str, str]) -> Iterator[RoleSentence]:
    names = sorted(archive.names)
    for part, trees in parts.items():
        files = _matching(names, f"*props/{part}.props*")
        if not files:
            raise UsageError(f"{archive.name}: holds no props/{part}.props.gz")
        label = archive.label(files[0])
        roles = list(props.read_props_lines(archive.lines(files[0], _lines), label))
        words = list(_part_words(archive, names, part, trees))
        if len(words) != len(roles):
            raise UsageError(
                f"{label}: {counted(len(roles), 'sentence')}, but there are words of {len(words)}"
            )
        for tokens, its in zip(words, roles, strict=True):
            at = f"{label}:{its.line}"
            if len(tokens) != its.length:
                raise UsageError(f"{at}: roles of {counted(its.length, 'word')}, but {len(tokens)}")
            yield RoleSentence(tokens, its, at)


def _part_words(
    archive: Archive, names: Sequence[str], part: str, trees: str
) -> Iterator[tuple[str, ...]]:
    if files := _matching(names, f"*words/{part}.words*"):
        for _, rows in props.blocks(archive.lines(files[0], _lines)):
            yield tuple(word for word, *_ in rows)
        return
    files = _matching(names, trees)
    if not files:
        raise UsageError(
            f"{archive.name}: holds no words/{part}.words.gz, and no {trees[1:]} of the Penn "
            "Treebank"
        )
    for name in files:
        with archive.open(name) as stream:
            yield from trees_words(stream.read().decode("latin-1"), archive.label(name))


def trees_words(text: str, label: str) -> Iterator[tuple[str, ...]]:
    """Yield the words of each tree, without traces; raise :exc:`UsageError` if brackets differ."""
    depth = 0
    words: list[str] = []
    for match in TREE.finditer(text):
        if match["word"]:
            if match["tag"] != TRACE:
                words.append(match["form"])
            continue
        depth += 1 if match[0] == "(" else -1
        if depth < 0:
            break
        if depth == 0 and words:
            yield tuple(words)
            words = []
    if depth or words:
        raise UsageError(f"{label}: its brackets do not match")


def _matching(names: Sequence[str], pattern: str) -> list[str]:
    return [name for name in names if fnmatch(f"/{name}", pattern)]


def _lines(stream: IO[bytes], name: str) -> Iterator[str]:
    return read_lines(decompressed(stream, name), name, allow_empty=True)


def read_ewt(archive: Archive, options: Namespace) -> Readers:
    listed: dict[str, list[Document]] = {}
    words: dict[Document, dict[int, tuple[str, ...]]] = {}
    roles: dict[Document, dict[int, props.Sentence]] = {}
    for name, stream, label in archive.unpacked(PACKED):
        if f"/{name}".endswith(LISTED):
            paths = filter(None, map(str.strip, read_lines(stream, label)))
            listed[name.rpartition("/")[2]] = [_document(path, WORDS) for path in paths]
        elif name.endswith(WORDS):
            words[_document(name, WORDS)] = dict(_words(stream, label))
        elif name.endswith(ROLES):
            roles[_document(name, ROLES)] = dict(_roles(stream, label, options.all_predicates))
    for what, is_present in (
        ("file-lists/files.train, files.dev and files.test", len(listed) == len(LISTS)),
        (f"*{WORDS} of UD_English-EWT's not-to-release/sources", words),
        (f"*{ROLES} of propbank-release's data/google/ewt", roles),
    ):
        if not is_present:
            raise UsageError(f"{archive.name}: holds no {what}")
    return {s: partial(_joined, listed[name], words, roles) for s, name in LISTS.items()}


def _document(name: str, suffix: str) -> Document:
    """Return genre and document of ``.../answers/DOC.xml.conllu`` or ``.../answers/00/DOC...``."""
    *folders, file = name.removesuffix(suffix).split("/")
    return folders[-2 if suffix == ROLES else -1], file


def _words(stream: IO[bytes], label: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield ``(number from 0, words)`` of each sentence in CoNLL-U."""
    number = -1  # of no sentence
    words: list[str] = []
    for line in [*read_lines(stream, label, allow_empty=True), ""]:
        if line.startswith("# sent_id"):
            number = int(line.rpartition("-")[2]) - 1
        elif line.strip() and not line.startswith("#"):
            columns = line.split("\t")
            if columns[0].isdecimal():  # not contractions (3-4) and empty nodes (8.1)
                words.append(columns[1].replace(" ", "_"))
        elif words:
            yield number, tuple(words)
            words = []


def _roles(
    stream: IO[bytes], label: str, every_predicate: bool
) -> Iterator[tuple[int, props.Sentence]]:
    """Yield ``(number from 0, Sentence)`` of each sentence in gold_skel."""
    for first, rows in props.blocks(read_lines(stream, label, allow_empty=True)):
        predicates = [at for at, row in enumerate(rows) if row[ROLESET:] and row[ROLESET] != "-"]
        width = FIRST_ROLE + len(predicates)
        for number, row in enumerate(rows, start=first):
            if len(row) != width:
                raise UsageError(
                    f"{label}:{number}: there should be {width} columns, as the sentence has "
                    f"{counted(len(predicates), 'predicate')}, not {len(row)}"
                )
        propositions = []
        for column, at in enumerate(predicates, start=FIRST_ROLE):
            is_verb = rows[at][TAG].startswith("V") and rows[at][ROLESET] not in AUXILIARIES
            if is_verb or every_predicate:
                spans = props.spans_of_cells([row[column] for row in rows], label, first)
                propositions.append(props.Proposition(rows[at][LEMMA], at, spans))
        yield int(rows[0][SENTENCE]), props.Sentence(len(rows), propositions, first)


def _joined(
    documents: Sequence[Document],
    words: Mapping[Document, Mapping[int, tuple[str, ...]]],
    roles: Mapping[Document, Mapping[int, props.Sentence]],
) -> Iterator[RoleSentence]:
    for document in documents:
        for number, tokens in words.get(document, {}).items():
            its_roles = roles.get(document, {}).get(number)
            if its_roles is not None and its_roles.length == len(tokens):
                yield RoleSentence(tokens, its_roles, f"{'/'.join(document)}:{number + 1}")
