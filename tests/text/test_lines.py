"""Reading of lines, and separators within them."""

import io

import pytest

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.parallel import LineWriter
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
    ],
)
def test_lines_of_a_file(content, options, expected):
    assert lines(content, **options) == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "text.de: the file is empty"),
        (b"eins\nGr\xf6\xdfe\n", "text.de:2: not UTF-8: byte 3 is 0xf6; convert the file: iconv"),
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


def test_written_lines_have_no_separator_that_python_knows(tmp_path):
    texts = [(f"ein{separator}mann", f"a man{separator}") for separator in SEPARATORS]
    with LineWriter(tmp_path / "train", ("de", "en")) as writer:
        for pair in texts:
            writer.write(pair)
    for side, text in (("de", "ein mann"), ("en", "a man ")):
        written = (tmp_path / f"train.{side}").read_text(encoding="utf-8")
        assert written.splitlines() == [text] * len(texts) and writer.count == len(texts)
