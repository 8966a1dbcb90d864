"""Counts beside the published ones."""

import pytest

from fairseq_posattn.preparation.counts import count_lines, report_counts


@pytest.mark.parametrize(
    ("count", "published", "limit", "shown", "warns"),
    [
        (160_239, 160_239, None, "160,239", False),
        (7_000, 7_283, None, "7,283", True),
        (7_000, 7_283, 5, "7,283", False),  # a quick look
        (4_490_000, "4.5M", None, "4.5M", False),  # rounded
    ],
)
def test_counts_beside_published_ones(capsys, count, published, limit, shown, warns):
    report_counts({"train": count, "extra": 5}, {"train": published}, limit, what="pairs")
    printed, warning = capsys.readouterr()
    assert [line.split() for line in printed.splitlines()[:3]] == [
        ["split", "pairs", "published"],
        ["train", f"{count:,}", shown],
        ["extra", "5", "-"],
    ]
    assert ("--limit 5" in printed) == (limit is not None)
    assert bool(warning) == warns
    assert not warns or "train has 7,000 pairs, not the 7,283 published" in warning


def test_counting_lines(tmp_path):
    (tmp_path / "text").write_text("a\n\nb\n")
    assert count_lines(tmp_path / "text") == 3
