import pytest
import torch

from fairseq_posattn.inspection.locality import (
    attention_within,
    locality,
    locality_rows,
    locality_table,
)

ONE_HEAD = [[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.2, 0.2, 0.6]]


def test_a_window_holds_what_is_that_near_on_both_sides():
    weights = torch.tensor([ONE_HEAD], dtype=torch.float64)
    expected = [(0.5 + 0.6 + 0.6) / 3, (0.8 + 1.0 + 0.8) / 3, 1.0, 1.0]
    found = attention_within(weights, windows=[0, 1, 2, 5])
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))


def test_heads_are_averaged():
    near = torch.eye(4)
    far = torch.eye(4).flip(0)  # 3, 1, 1 and 3 tokens away
    found = attention_within(torch.stack([near, far]), windows=[0, 1, 2, 3])
    assert found.tolist() == [0.5, 0.75, 0.75, 1.0]


def test_a_query_that_sees_nothing_counts_with_nothing():
    weights = torch.tensor([[[0.0, 0.0], [1.0, 0.0]]])
    assert attention_within(weights, windows=[0, 1]).tolist() == [0.0, 0.5]


def uniform(length, window):
    """Eq. 13 of one sentence whose tokens all attend to all of it alike."""
    near = 0
    for query in range(length):
        for key in range(length):
            near += abs(query - key) <= window
    return near / length**2


def test_average_of_sentences_and_not_of_tokens(build, sentences):
    encoder, sublayers = build("san,ffn")
    for sublayer in sublayers:
        torch.nn.init.zeros_(sublayer.attention.qkv_proj.weight)  # every score is 0
    lengths = [len(sentence) for sentence in sentences]
    expected = [sum(uniform(length, window) for length in lengths) / 6 for window in (1, 2, 4)]
    found = locality(encoder, sublayers, sentences, windows=[1, 2, 4])
    for of_sublayer in found.tolist():
        assert of_sublayer == pytest.approx(expected, abs=1e-6)


def test_a_set_is_the_mean_of_its_sentences_alone(build, sentences):
    encoder, sublayers = build("dman,san,ffn")
    whole = locality(encoder, sublayers, sentences, windows=[1, 2, 4])
    alone = [locality(encoder, sublayers, [sentence], [1, 2, 4]) for sentence in sentences]
    torch.testing.assert_close(whole, torch.stack(alone).mean(0), rtol=1e-5, atol=1e-6)
    assert whole.unique().numel() == whole.numel()  # what is compared is not all alike


def test_table_as_in_the_paper(build):
    _, sublayers = build("dman,san,ffn")
    chosen = [sublayers[0], sublayers[1], sublayers[2], sublayers[3]]
    attention = torch.tensor(
        [[0.7658, 0.9509], [0.128, 0.3038], [0.60864, 0.86], [0.4, 1.0]], dtype=torch.float64
    )
    rows = locality_rows(chosen, [1, 4], attention)
    assert rows[3] == {"window": 4, "layer": 1, "sublayer": "san", "percent": 100 * 0.3038}
    assert locality_table(rows).split("\n") == [
        "window  sublayer  layer 1  layer 2",
        "     1  dman        76.58    60.86",
        "     1  san         12.80    40.00",
        "     4  dman        95.09    86.00",
        "     4  san         30.38   100.00",
    ]
