"""Reading of lines, and separators within them."""

import io
from argparse import Namespace

import corpora
import pytest
from archive_files import write_folder

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.archives import open_archive
from fairseq_posattn.preparation.corpora import CLASSIFICATION, TRANSLATION
from fairseq_posattn.preparation.kinds.classification import ClassificationPreparation
from fairseq_posattn.text.lines import one_line, parallel_lines, read_lines

SEPARATORS = ["\r", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]


def lines(content, **options):
    return list(read_lines(io.BytesIO(content), "text.de", **options))


ODD = "a\rb\x0bc\x0cd\x1ce\x85f\u2028g\u2029h"


@pytest.mark.parametrize(
    ("content", "options", "expected"),
    [
        (b"eins\r\nzwei\n\n drei ", {}, ["eins", "zwei", "", " drei "]),
        ("\ufeffeins\nzwei\n".encode(), {}, ["eins", "zwei"]),
        (f"{ODD}\nend\n".encode(), {}, [ODD, "end"]),  # only line feeds end a line
        ("Größe\n".encode("latin-1"), {"encoding": "latin-1"}, ["Größe"]),
        (b"\n", {}, [""]),
        (b"eins\r\r\nzwei\r", {}, ["eins\r", "zwei"]),  # the second CR is part of the line's end
        (b"", {"allow_empty": True}, []),
        (b"\0\na\0\n", {}, ["\0", "a\0"]),  # stray zero bytes
    ],
)
def test_lines_of_a_file(content, options, expected):
    assert lines(content, **options) == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "text.de: the file is empty"),
        (b"eins\nGr\xf6\xdfe\n", "text.de:2: not UTF-8: byte 3 is 0xf6; convert the file: iconv"),
        ("a b\nc d\n".encode("utf-16-le"), "text.de:1: looks like UTF-16; convert the file: iconv"),
        ("да\nда\n".encode("utf-16-le"), "text.de:2: looks like UTF-16"),  # after a zero byte
        ("да\nда\n".encode("utf-16-be"), "text.de:1: looks like UTF-16"),
    ],
)
def test_malformed_files_are_reported_with_line_and_byte(content, message):
    with pytest.raises(UsageError, match=f"^{message}"):
        lines(content)


def test_unequal_counts_are_reported():
    sides = {"de": ["x"] * 2, "en": ["x"] * 5, "fr": []}
    with pytest.raises(UsageError, match="^line counts differ: de has 2, en has 5, fr has 0;"):
        list(parallel_lines(**sides))


def test_one_line_replaces_all_line_separators():
    known = [chr(code) for code in range(0x110000) if len(f"a{chr(code)}b".splitlines()) > 1]
    assert set(known) == {"\n", *SEPARATORS}
    assert one_line("".join(known)) == " " * len(known)
    assert one_line("a\r\nb\n\nc\n\rd") == "a b  c  d"


@pytest.mark.parametrize("separator", SEPARATORS)
def test_prepared_pairs_and_examples_keep_their_lines(tmp_path, separator):
    files = {"de": f"ein{separator}mann\nzwei\ndrei\n", "en": f"a man\ntwo\nth{separator}ree\n"}
    files |= {"txt": f"1\tone{separator}two\n2\tb c\n"}
    source, splits = tmp_path / "source", ("train", "valid", "test")
    for split in splits:
        write_folder(source, {f"{split}.{suffix}": text for suffix, text in files.items()})
    options = {"jobs": 1, "limit": None, "seed": 1, "cased": False, "valid_fraction": 0.5}
    options |= {"template": None, "language_model": None}
    args, corpus = Namespace(dest=tmp_path, **options), CLASSIFICATION["ag_news"]
    readers = corpus.read(open_archive(source), args)
    readers = {split: readers.get(split, readers["train"]) for split in splits}
    ClassificationPreparation(corpus, args).write_text(readers, tmp_path)
    corpora.written_text(TRANSLATION["multi30k"], source, tmp_path, **options)
    expected = {"de": ["ein mann", "zwei", "drei"], "en": ["a man", "two", "th ree"]}
    expected["input0"] = ["one two", "b c"]
    for split in splits:  # read with all separators that Python knows
        for kind, texts in expected.items():
            path = tmp_path / "text" / f"{split}.{kind}"
            assert path.read_text(encoding="utf-8").splitlines() == texts
