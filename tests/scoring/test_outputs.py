import unicodedata
from pathlib import Path

import pytest

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.inference.hypotheses import Hypothesis, Translation
from fairseq_posattn.scoring.outputs import (
    Pairs,
    find_marks,
    from_files,
    from_generated,
    remove_marks,
    warnings_of,
)
from fairseq_posattn.text.manifest import Manifest
from fairseq_posattn.text.manifest import write as write_manifest

# Out of order, with two hypotheses of sentence 0, none of 2 and an empty hypothesis of 3.
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

    pairs = from_generated(write("out", "T-0\ta\tb\nH-0\t-1\tx\ty\u2028z\n"))  # TABs are text
    assert (pairs.references, pairs.hypotheses) == (["a\tb"], ["x\ty\u2028z"])


def test_skipped_references_of_a_file_are_counted(write):
    generated = write("out", "T-1\tother\nH-1\t-1\tb\n")
    counts = {"scored": 1, "missing": 0, "empty": 0, "skipped": 1}
    assert from_generated(generated).counts() == counts
    log = "10:00:00 | INFO | fairseq.tasks.translation | data-bin test de-en 4 examples\n"
    longer = write("longer", f"{log}T-1\tother\nH-1\t-1\tb\n")  # the last two are skipped, too
    assert from_generated(longer).counts() == counts | {"skipped": 3}
    pairs = from_generated(generated, write("ref", "A\nB\nC\n"))
    assert pairs.hypotheses == ["", "b", ""]
    assert pairs.references == ["A", "B", "C"]
    assert pairs.missing == 2 and pairs.skipped == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("just text\n", "out: no hypotheses .lines such as H-0"),
        ("H-0\t-1\ta\n", "out: no references .* --references"),
        ("T-0\ta\nH-0\ta\n", "out:2: no score behind H-0"),
        ("T-0\ta\nH-0\tone\ttwo\n", "out:2: no score"),
        ("T-0\ta\nH-7\t-1\ta\n", "no reference for hypothesis 7"),
        ("", "out: the file is empty"),
        ("T-0\ta <<unk>>\nT-1\tb\nH-0\t-1\ta b\n", "out: 1 of 2 references have <<unk>>"),
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
    # Only the side in subwords is joined.
    pairs = from_files(write("hyp", "▁a b\n▁c\n"), write("ref", "ab\nc\n"))
    assert pairs.hypotheses == pairs.references == ["ab", "c"]


def test_lines_of_translate_json_have_the_text(write):
    lines = [Translation((Hypothesis(text, -0.5, ""),)).as_json() for text in ("Größe .", "b")]
    lines.append('{"hypotheses":[],"text":"c"}')  # as jq -cS writes it
    text = "\n".join([*lines, Translation().as_json(), '{"text": 1}', ""])
    pairs = from_files(write("hyp", text), write("ref", "A\nB\nC\nD\nE\n"))
    assert pairs.hypotheses == ["Größe .", "b", "c", "", '{"text": 1}']


@pytest.mark.parametrize(
    ("hypotheses", "message"),
    [(b"a\n", "hyp: 1 line, but 2 in "), (b"good\nb\xe4d\n", "hyp:2: not UTF-8")],
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


@pytest.mark.parametrize("line", ["▁▂▃ load of the server", "mail user@@ host now", "the ##th day"])
def test_one_line_does_not_decide_on_marks(line):
    lines = [*(f"house number {number} was sold" for number in range(4)), line]
    assert remove_marks(lines) == lines
    warnings = list(warnings_of(Pairs(lines, lines)))
    assert len(warnings) == (0 if "##" in line else 2)
    assert all("1 of 5" in w and "give --remove-bpe se" in w for w in warnings if "▁" in line)
    assert list(warnings_of(Pairs(lines, lines), "none")) == []


def test_marks_of_another_preparation_are_text():
    lines = ["ein lan@@ ger Sa@@ tz", "am En@@ de@@"]
    assert find_marks(lines) == find_marks(lines, "subword_nmt") == "subword_nmt"
    assert find_marks(lines, "sentencepiece") == "none"
    assert find_marks(["▁so ▁it ▁is"], "subword_nmt") == "none"
    assert find_marks(["▁so ▁it", "ne is"], "sentencepiece") == "sentencepiece"
    assert find_marks(["▁so ▁it", "ne is"]) == "none"
    # auto leaves WordPieces, since digits of Gigaword look alike.
    lines = ["un ##want ##ed guests", "the ##th day", "##s end", ""]
    assert remove_marks(lines, "wordpiece") == ["unwanted guests", "theth day", "s end", ""]
    assert remove_marks(lines) == lines


def test_numbers_of_plain_text_are_no_marks_of_wordpiece():
    """Gigaword's titles have "##" for digits, before letters, too."""
    lines = ["for its ##th anniversary", "u.s. troops , ## dead"]
    parted = ["for its # # th anniversary", "u . s . troops , # # dead"]
    assert remove_marks(lines, "wordpiece") == parted
    assert remove_marks(parted, "wordpiece") == parted
    subwords = ["<unk> ann ##iversary", "u . s . troops"]
    assert remove_marks(subwords, "wordpiece")[0] == "< unk > anniversary"


def test_marks_of_one_side_of_generated_text_are_those_of_both(write):
    lines = [f"T-{n}\ta lan@@ ge\nH-{n}\t-1\ta b\n" for n in range(20)]
    lines[3] = "T-3\ta lan@@ ge\nH-3\t-1\ta lan@@ ge\n"
    pairs = from_generated(write("out", "".join(lines)))
    assert pairs.hypotheses[3] == pairs.references[3] == "a lange"


def test_plain_text_beside_subwords_keeps_its_spaces(write):
    references = write("ref", "a longer\nwe see\n")
    hypotheses = write("hyp", "▁a ▁long er\nwe ▁see\n")
    pairs = from_files(hypotheses, references, "sentencepiece")
    assert pairs.hypotheses == pairs.references == ["a longer", "we see"]
    output = write("out", "T-0\t▁a ▁b\nH-0\t-1\t▁a ▁long er\nT-1\t▁c\nH-1\t-1\twe ▁see\n")
    pairs = from_generated(output, references, "sentencepiece")
    assert pairs.hypotheses == pairs.references == ["a longer", "we see"]


WITH_UNKNOWN = "T-1\tthe <<unk>>\nH-1\t-1\tthe <unk>\nT-0\ta b\nH-0\t-1\ta b\n"


def generate(tmp_path, write, *text):
    """Return output of fairseq-generate with a log, and its data with this text of references."""
    (tmp_path / "data bin/text").mkdir(parents=True)
    (tmp_path / "data bin/text/test.en").write_text("".join(f"{line}\n" for line in text))
    manifest = Manifest("x", "translation", "en", subwords="subword_nmt")
    write_manifest(tmp_path / "data bin", manifest)
    log = "2026 | INFO | fairseq.tasks.translation | "
    lines = [f"{log}[de] dictionary: 8 types", f"{log}[en] dictionary: 8 types"]
    lines += [f"{log}{tmp_path / 'data bin'} test de-en 2 examples"]
    return write("out", "\n".join([*lines, WITH_UNKNOWN]))


def test_unknown_words_of_references_come_from_the_prepared_text(tmp_path, write):
    pairs = from_generated(generate(tmp_path, write, "a b", "the ▁zebra"))
    assert pairs.references == ["a b", "the ▁zebra"]
    restored, unknown, marks = warnings_of(pairs)
    assert restored.startswith("1 of 2 references have <<unk>>")
    assert restored.endswith("data bin/text/test.en") and "\n" not in restored
    assert unknown == "1 of 2 hypotheses have <unk>"
    assert marks.startswith("1 of 2 references have marks like those of sentencepiece")


def test_text_that_may_be_cut_comes_from_the_prepared_text(tmp_path, write):
    output = Path(generate(tmp_path, write, "a b c d", "the zebra"))
    manifest = Manifest("x", "translation", "en", subwords="sentencepiece", longest=2)
    write_manifest(tmp_path / "data bin", manifest)
    log, _, _ = output.read_text().partition("T-1")
    (tmp_path / "data bin/text/test.de").write_text("A B C\nD\n")
    pairs = from_generated(write("part", f"{log}S-0\t▁A ▁B\nT-0\t▁a ▁b\nH-0\t-1\t▁a ▁b\n"))
    assert (pairs.hypotheses, pairs.references) == (["a b"], ["a b c d"])
    assert pairs.sources == ["A B C"]
    assert (pairs.missing, pairs.skipped, pairs.restored) == (0, 1, "")


def test_unknown_words_are_refused_without_the_text(tmp_path, write):
    path = generate(tmp_path, write, "a b")  # a line is missing
    fix = "1 of 2 references have <<unk>> .* with --references FILE"
    with pytest.raises(UsageError, match=f"out: {fix}"):
        from_generated(path)
    references = write("ref", "a b\nthe <<unk>>\n")
    for read, text in ((from_generated, path), (from_files, references)):
        with pytest.raises(UsageError, match=f"ref: {fix}"):
            read(text, references)
    assert from_generated(path, write("ref", "a b\nthe zebra\n")).references[1] == "the zebra"


def test_unicode_forms_are_compared():
    nfc = ["Kẹ́ bùrú", "tailandés: วันดี", "plain text", "한국어", "dára"]
    nfd = [unicodedata.normalize("NFD", line) for line in nfc]
    (warning,) = warnings_of(Pairs(nfd, nfc))
    composed = "0% of the hypotheses with accents are composed (NFC), 100% of"
    assert f"differ in 4 of 5 lines: {composed}" in warning
    assert "\n" not in warning
    mixed = [*nfd[:1], *nfc[1:]]
    assert "differ in 1 of 5 lines: 75% of" in next(warnings_of(Pairs(mixed, nfc)))
    for side in (nfc, nfd, mixed):
        assert list(warnings_of(Pairs(side, side))) == []
    assert list(warnings_of(Pairs(["ascii"] * 5, nfd))) == []


def test_letters_and_orders_of_marks_that_nfc_replaces_are_another_form():
    typed = ["\u0958लम", "বা\u09dcি", "\u05e9\u05c1\u05b8", "د\u0651\u064e", "\uf900"]
    nfc = [unicodedata.normalize("NFC", line) for line in typed]
    for pairs, composed in ((Pairs(typed, nfc), "0%"), (Pairs(nfc, typed), "100%")):
        (warning,) = warnings_of(pairs)
        assert f"differ in 5 of 5 lines: {composed} of the hypotheses" in warning
    for other in (typed, ["क", "ব", "\u05e9", "د\u0651", "\u4e00"]):
        assert list(warnings_of(Pairs(typed, other))) == []


def test_text_in_nfkc_beside_other_text_is_reported():
    wide, narrow = ["（１）", "か\u3099", "no\u00a0", "…"] * 5, ["(1)", "が", "no ", "..."] * 5
    hint = "10 of 20 references have compatible characters such as （, and no hypotheses do"
    warnings = list(warnings_of(Pairs(narrow, wide)))
    assert hint in warnings[-1] and "normalize('NFKC'" in warnings[-1]
    assert "20 hypotheses have" in list(warnings_of(Pairs(wide, narrow)))[-1]
    for pairs in (Pairs(wide, wide), Pairs(narrow, ["…", *narrow[1:]])):
        assert not any("compatible" in warning for warning in warnings_of(pairs))
