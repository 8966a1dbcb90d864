"""Attention within a window: MANs eq. 13 and Table 5."""

import pytest
import torch

from fairseq_posattn.inspection.locality import attention_within, locality, locality_table

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


def uniform(length, window):
    """Eq. 13 of one sentence whose tokens attend to all of it alike."""
    near = sum(abs(query - key) <= window for query in range(length) for key in range(length))
    return near / length**2


def test_sentences_are_averaged_not_tokens(build, sentences):
    encoder, places = build("san,ffn")
    for layer in encoder.layers:
        torch.nn.init.zeros_(layer.sublayers[0].sublayer.qkv_proj.weight)  # every score is 0
    rows = locality(encoder, places, sentences, windows=[1, 2, 4])
    lengths = [len(sentence) for sentence in sentences]
    for row in rows:
        expected = sum(uniform(length, row["window"]) for length in lengths) / len(lengths)
        assert row["percent"] == pytest.approx(100 * expected, abs=1e-4)


def test_a_set_is_the_mean_of_its_sentences(build, sentences):
    encoder, places = build("dman,san,ffn")
    whole, *alone = (
        torch.tensor([row["percent"] for row in locality(encoder, places, some, [1, 2, 4])])
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
