"""Counts beside the published ones."""

from fairseq_posattn.preparation.counts import count_lines, report_counts

COUNTS = {"train": 160_239, "valid": 7_000, "extra": 5}
PUBLISHED = {"train": 160_239, "valid": 7_283}


def test_table_and_warning(capsys):
    report_counts(COUNTS, PUBLISHED, what="pairs")
    printed, said = capsys.readouterr()
    assert [line.split() for line in printed.splitlines()] == [
        ["split", "pairs", "published"],
        ["train", "160,239", "160,239"],
        ["valid", "7,000", "7,283"],
        ["extra", "5", "-"],
    ]
    (warning,) = said.splitlines()
    assert warning.startswith("warning: valid has 7,000 pairs, not the 7,283 published")


def test_a_rounded_count_is_shown_and_not_compared(capsys):
    report_counts({"train": 4_490_000}, {"train": "4.5M"}, what="pairs")
    printed, said = capsys.readouterr()
    assert printed.splitlines()[1].split() == ["train", "4,490,000", "4.5M"]
    assert not said


def test_quick_look_is_named_and_warns_of_nothing(capsys):
    report_counts(COUNTS, PUBLISHED, limit=5)
    printed, said = capsys.readouterr()
    assert "--limit 5" in printed
    assert not said


def test_counting_lines(tmp_path):
    (tmp_path / "text").write_text("a\n\nb\n")
    assert count_lines(tmp_path / "text") == 3
