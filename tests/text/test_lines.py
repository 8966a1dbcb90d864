"""Lines are checked while they are read."""

import io

import pytest

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.text.lines import parallel_lines, read_lines


def lines(content, **options):
    return list(read_lines(io.BytesIO(content), "text.de", **options))


def test_lines_come_without_their_ends():
    assert lines(b"eins\r\nzwei\n\n drei ") == ["eins", "zwei", "", " drei "]


def test_byte_order_mark_is_no_text():
    assert lines("\ufeffeins\nzwei\n".encode()) == ["eins", "zwei"]


def test_only_line_feeds_end_a_line():
    odd = "a\rb\x0bc\x0cd\x1ce\x85f\u2028g\u2029h"
    assert lines(f"{odd}\nend\n".encode()) == [odd, "end"]


def test_other_encodings():
    assert lines("Größe\n".encode("latin-1"), encoding="latin-1") == ["Größe"]


def test_wrong_encoding_names_file_line_and_byte():
    with pytest.raises(UsageError) as caught:
        lines(b"eins\nGr\xf6\xdfe\n")
    assert str(caught.value) == (
        "text.de:2: not UTF-8: byte 3 is 0xf6; convert the file: iconv -f ITS-ENCODING -t UTF-8"
    )


def test_empty_file():
    with pytest.raises(UsageError, match="text.de: the file is empty"):
        lines(b"")
    assert lines(b"", allow_empty=True) == []
    assert lines(b"\n") == [""]


def test_lines_that_belong_together():
    assert list(parallel_lines(de=["eins", "zwei"], en=["one", "two"])) == [
        ("eins", "one"),
        ("zwei", "two"),
    ]


@pytest.mark.parametrize(
    ("german", "english", "third", "counts"),
    [
        (3, 2, 3, "de has 3, en has 2, fr has 3"),
        (2, 5, 2, "de has 2, en has 5, fr has 2"),
        (0, 1, 4, "de has 0, en has 1, fr has 4"),
    ],
)
def test_unequal_counts_are_reported(german, english, third, counts):
    sides = {"de": ["x"] * german, "en": ["x"] * english, "fr": ["x"] * third}
    with pytest.raises(UsageError) as caught:
        list(parallel_lines(**sides))
    assert str(caught.value).startswith(f"line counts differ: {counts};")
