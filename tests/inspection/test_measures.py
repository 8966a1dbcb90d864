"""Attention within a window (MANs eq. 13 and Table 5), and the cost of classifiers."""

import pytest
import torch

from fairseq_posattn.inspection.measures import (
    MEGABYTE,
    attention_within,
    locality,
    locality_table,
    peak_bytes,
)

ONE_HEAD = [[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.2, 0.2, 0.6]]
NEAR, FAR = torch.eye(4).tolist(), torch.eye(4).flip(0).tolist()  # FAR: 3, 1, 1, 3 tokens away


@pytest.mark.parametrize(
    "heads, windows, expected",
    [
        ([ONE_HEAD], [0, 1, 2, 5], [1.7 / 3, 2.6 / 3, 1.0, 1.0]),
        ([NEAR, FAR], [0, 1, 2, 3], [0.5, 0.75, 0.75, 1.0]),
        ([[[0.0, 0.0], [1.0, 0.0]]], [0, 1], [0.0, 0.5]),  # a query that sees nothing counts as 0
    ],
)
def test_attention_within_windows(heads, windows, expected):
    result = attention_within(torch.tensor(heads, dtype=torch.float64), windows)
    assert result.tolist() == pytest.approx(expected)


def test_a_set_is_the_mean_of_its_sentences(build, sentences):
    encoder, layers = build("dman,san,ffn")
    whole, *alone = (
        torch.tensor([row["percent"] for row in locality(encoder, layers, some, [1, 2, 4])])
        for some in (sentences, *([sentence] for sentence in sentences))
    )
    torch.testing.assert_close(whole, torch.stack(alone).mean(0), rtol=1e-5, atol=1e-4)
    assert whole.unique().numel() == whole.numel()


def test_the_table_is_the_papers():
    numbers = [76.58, 95.09, 12.8, 30.38, 60.864, 86.0, 40.0, 100.0]
    labels = [(n, name, w) for n in (1, 2) for name in ("dman", "san") for w in (1, 4)]
    rows = [
        {"window": window, "layer": layer, "sublayer": name, "percent": percent}
        for (layer, name, window), percent in zip(labels, numbers, strict=True)
    ]
    assert locality_table(rows).split("\n") == [
        "window  sublayer  layer 1  layer 2",
        "     1  dman        76.58    60.86",
        "     1  san         12.80    40.00",
        "     4  dman        95.09    86.00",
        "     4  san         30.38   100.00",
    ]


CPU = torch.device("cpu")


def test_peak_memory_counts_tensors_that_exist_at_once():
    def work():
        first = torch.zeros(3, MEGABYTE, dtype=torch.uint8)
        del first
        second, third = (torch.zeros(2, MEGABYTE, dtype=torch.uint8) for _ in range(2))
        del second, third

    before = torch.zeros(MEGABYTE)  # does not count
    assert 4 * MEGABYTE <= peak_bytes(work, CPU) < 5 * MEGABYTE
    assert before.numel() == MEGABYTE
