import pytest

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.scoring.outputs import find_marks, from_files, from_generated, remove_marks

# Out of order, with two hypotheses of sentence 0, none of 2 and an empty one of 3.
GENERATED = """\
2026-11-21 10:00:00 | INFO | fairseq_cli.generate | loading model(s)
S-1\tzwei
T-1\ttwo words
H-1\t-0.5\ttwo wor@@ ds
D-1\t-0.5\ttwo words
P-1\t-0.1 -0.2
S-0\teins
T-0\tone
H-0\t-0.9\tthe worse
D-0\t-0.9\tthe worse
H-0\t-0.3\tone
D-0\t-0.3\tone
T-2\tthree
T-3\tfour
H-3\t-2\t
D-3\t-2\t
Generate test with beam=5: BLEU4 = 12.34
"""


def test_generated_lines_are_sorted_and_the_best_hypothesis_kept(write):
    pairs = from_generated(write("generate-test.txt", GENERATED))
    assert pairs.hypotheses == ["one", "two words", "", ""]
    assert pairs.references == ["one", "two words", "three", "four"]
    assert pairs.counts() == {"scored": 4, "missing": 1, "empty": 1, "skipped": 0}

    lines = [line for line in GENERATED.splitlines(True) if not line.startswith("D-")]
    pairs = from_generated(write("out", "".join(lines)))
    assert pairs.hypotheses == ["one", "two words", "", ""]


def test_skipped_references_of_a_file_are_counted(write):
    generated = write("out", "T-1\tother\nH-1\t-1\tb\n")
    counts = {"scored": 1, "missing": 0, "empty": 0, "skipped": 1}
    assert from_generated(generated).counts() == counts
    pairs = from_generated(generated, write("ref", "A\nB\nC\n"))
    assert pairs.hypotheses == ["", "b", ""]
    assert pairs.references == ["A", "B", "C"]
    assert pairs.missing == 2 and pairs.skipped == 0


def test_text_keeps_its_tabs_and_its_unicode_line_separators(write):
    pairs = from_generated(write("out", "T-0\ta\tb\nH-0\t-1\tx\ty\u2028z\n"))
    assert pairs.references == ["a\tb"]
    assert pairs.hypotheses == ["x\ty\u2028z"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("just text\n", "out: no hypotheses .lines such as H-0"),
        ("H-0\t-1\ta\n", "out: no references .* --references"),
        ("T-0\ta\nH-0\ta\n", "out:2: no score between H-0 and its text"),
        ("T-0\ta\nH-0\tone\ttwo\n", "out:2: no score"),
        ("T-0\ta\nH-7\t-1\ta\n", "no reference for hypothesis 7"),
        ("", "out: the file is empty"),
    ],
)
def test_malformed_generated_files_are_refused(write, text, message):
    with pytest.raises(UsageError, match=message) as error:
        from_generated(write("out", text))
    assert "\n" not in str(error.value)


def test_plain_files_are_read_line_by_line(write):
    pairs = from_files(write("hyp", "a b\r\n\r\nc\r\n"), write("ref", "A\nB\nC\n"))
    assert pairs.hypotheses == ["a b", "", "c"]
    assert pairs.counts() == {"scored": 3, "missing": 0, "empty": 1, "skipped": 0}


@pytest.mark.parametrize(
    ("hypotheses", "message"),
    [(b"a\n", "hyp: 1 lines, but 2 in "), (b"good\nb\xe4d\n", "hyp:2: not UTF-8")],
)
def test_wrong_plain_files_are_refused(write, hypotheses, message):
    with pytest.raises(UsageError, match=message):
        from_files(write("hyp", hypotheses), write("ref", "A\nB\n"))


@pytest.mark.parametrize(
    ("marked", "words"),
    [
        ("ein lan@@ ger Sa@@ tz", "ein langer Satz"),
        ("am En@@ de@@", "am Ende"),
        ("▁ein ▁lang er ▁Satz", "ein langer Satz"),
        ("plain a@b text", "plain a@b text"),
    ],
)
def test_subword_marks_are_removed(marked, words):
    assert remove_marks([marked]) == [words]
    assert remove_marks([marked], find_marks([marked])) == [words]
    assert remove_marks([marked], "none") == [marked]


def test_wordpieces_are_joined_only_on_request():
    """Check that ``auto`` leaves them: digits of Gigaword look alike."""
    lines = ["un ##want ##ed guests", "the ##th day", "##s end", ""]
    assert remove_marks(lines, "wordpiece") == ["unwanted guests", "theth day", "s end", ""]
    assert remove_marks(lines) == lines


def test_only_the_side_in_subwords_is_joined(write):
    pairs = from_files(write("hyp", "▁a b\n▁c\n"), write("ref", "ab\nc\n"))
    assert pairs.hypotheses == pairs.references == ["ab", "c"]
