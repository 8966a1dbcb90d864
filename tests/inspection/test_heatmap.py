import warnings

import numpy
import pytest
import torch

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.figures import write_picture
from fairseq_posattn.inspection.collect import measure_batch
from fairseq_posattn.inspection.heatmap import attention_numbers, draw_attention

LETTERS = list("abcdefg")


def numbers_of(build, names, heads=(1, 2), length=7, **flags):
    encoder, sublayers = build(names, **flags)
    sentence = torch.arange(4, 4 + length)
    return attention_numbers(encoder, sublayers, heads, sentence, LETTERS[:length])


def numbers_of_random_weights(tokens, heads=2):
    weights = torch.rand(heads, len(tokens), len(tokens)).tolist()
    of_heads = [{"head": head, "note": "", "weights": weights[head]} for head in range(heads)]
    sublayer = {"layer": 1, "sublayer": "san", "heads": of_heads}
    return {"tokens": tokens, "sublayers": [sublayer]}


def panels(figure):
    """The axes with a picture of weights in them, less the colour bars."""
    return [axis for axis in figure.axes if axis.images and axis.get_title()]


def tick_texts(axis):
    return [tick.get_text() for tick in axis.get_ticklabels()]


# --- The numbers -------------------------------------------------------------------------------


def test_numbers_are_the_weights_of_the_chosen_heads(build):
    encoder, sublayers = build("dman,san,ffn")
    sentence = torch.arange(4, 11)
    numbers = attention_numbers(encoder, sublayers, [2], sentence, LETTERS)
    weights = measure_batch(encoder, sublayers, sentence[None], lambda call: call.weights)
    assert numbers["tokens"] == LETTERS
    for found, sublayer, expected in zip(numbers["sublayers"], sublayers, weights, strict=True):
        assert (found["layer"], found["sublayer"]) == (sublayer.layer, sublayer.name)
        (head,) = found["heads"]
        assert head["head"] == 2
        assert head["weights"] == expected[0, 1].tolist()


def test_heads_of_da_are_noted_with_their_w(build):
    encoder, sublayers = build("da,ffn")
    with torch.no_grad():
        sublayers[0].mechanism.distance_weight.copy_(torch.tensor([-0.254, 1.5]))
    numbers = attention_numbers(encoder, sublayers[:1], [1, 2], torch.arange(4, 8), LETTERS[:4])
    assert [head["note"] for head in numbers["sublayers"][0]["heads"]] == ["w = -0.25", "w = +1.50"]


def test_heads_under_masks_are_noted_with_their_mask(build):
    for names in ("masked,ffn", "mtsa,ffn"):
        heads = numbers_of(build, names)["sublayers"][0]["heads"]
        assert [head["note"] for head in heads] == ["mask past", "mask future"]
        for head, unseen in zip(heads, (numpy.triu, numpy.tril), strict=True):
            assert not unseen(head["weights"]).any()


def test_mtsa_has_source2token_weights_and_only_mtsa(build):
    encoder, sublayers = build("san,mtsa,ffn")
    sentence = torch.arange(4, 9)
    numbers = attention_numbers(encoder, sublayers, [1, 2], sentence, LETTERS[:5])
    san, mtsa = (found["heads"] for found in numbers["sublayers"][:2])
    assert not any("source2token" in head for head in san)

    (call,) = measure_batch(encoder, sublayers[1:2], sentence[None], lambda call: call)
    scores = call.mechanism.source_scores(call.key, call.value)[0]  # [H, T, D]
    for head, of_head in zip(mtsa, scores.exp(), strict=True):
        shares = of_head / of_head.sum(0)  # [T, D], of each feature
        assert head["source2token"] == pytest.approx(shares.mean(1).tolist(), abs=1e-6)


# --- The picture -------------------------------------------------------------------------------


def test_the_picture_shows_the_numbers(build):
    numbers = numbers_of(build, "dman,san,ffn")
    shown = {axis.get_title(): axis.images[0] for axis in panels(draw_attention(numbers))}
    assert len(shown) == 8
    for sublayer in numbers["sublayers"]:
        for head in sublayer["heads"]:
            title = f"layer {sublayer['layer']}, {sublayer['sublayer']}, head {head['head']}"
            assert shown[title].get_array().tolist() == head["weights"]
    scales = {(image.norm.vmin, image.norm.vmax) for image in shown.values()}
    assert len(scales) == 1  # the same colour is the same weight


def test_the_picture_of_mtsa(build, labels_of):
    numbers = numbers_of(build, "mtsa,ffn", length=5)
    figure = draw_attention(numbers)
    shown = {axis.get_title(): axis for axis in panels(figure)}
    assert len(shown) == 6
    axis = shown["layer 2, mtsa\nsource2token"]
    heads = numbers["sublayers"][1]["heads"]
    expected = [head["source2token"] for head in heads]
    assert axis.images[0].get_array().T.tolist() == expected
    assert tick_texts(axis.yaxis) == LETTERS[:5]
    assert tick_texts(axis.xaxis) == ["1", "2"]
    assert (axis.get_xlabel(), axis.get_ylabel()) == ("head", "")
    assert {"source2token weight", "attention weight"} <= set(labels_of(figure))


def test_axes_are_labelled(build, labels_of):
    figure = draw_attention(numbers_of(build, "san,ffn", length=3))
    first, *_ = panels(figure)
    assert tick_texts(first.xaxis) == tick_texts(first.yaxis) == LETTERS[:3]
    assert first.get_xlabel() == "key (the token attended to)"
    assert first.get_ylabel() == "query (the token that attends)"
    assert "attention weight" in labels_of(figure)


def test_tokens_that_look_like_formulas_and_long_ones(tmp_path):
    tokens = ["$", "$5_a$", "\\frac", "donaudampfschifffahrt", "</s>"]
    figure = draw_attention(numbers_of_random_weights(tokens))
    texts = tick_texts(panels(figure)[0].xaxis)
    assert texts == ["$", "$5_a$", "\\frac", "donaudampfsch…", "</s>"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write_picture(figure, str(tmp_path / "figure.png"))


def test_labels_of_many_tokens_do_not_overlap(tmp_path):
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    tokens = [f"token{position}" for position in range(150)]
    figure = draw_attention(numbers_of_random_weights(tokens))
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    first, *_ = panels(figure)
    for axis, side in ((first.xaxis, "x"), (first.yaxis, "y")):
        boxes = [label.get_window_extent() for label in axis.get_ticklabels()]
        spans = sorted(getattr(box, f"interval{side}").tolist() for box in boxes)
        assert len(spans) >= 50
        assert all(one[1] <= next_[0] for one, next_ in zip(spans, spans[1:], strict=False))


def test_many_heads_fill_rows_evenly():
    figure = draw_attention(numbers_of_random_weights(LETTERS, heads=16))
    rows = {round(axis.get_subplotspec().rowspan.start) for axis in panels(figure)}
    assert len(panels(figure)) == 16
    assert len(rows) == 2


def test_more_than_can_be_looked_at():
    numbers = numbers_of_random_weights([f"token{position}" for position in range(70)], heads=24)
    with pytest.raises(UsageError, match=r"^a picture of \d+ by \d+ inches is too large: .*heads"):
        draw_attention(numbers)


def test_weights_below_zero_are_shown_as_such(build):
    numbers = numbers_of(build, "da,ffn", da_adjustment="late_add", da_mapping="clip")
    for sublayer in numbers["sublayers"]:
        sublayer["heads"][0]["weights"][0][1] = -0.5
    for axis in panels(draw_attention(numbers)):
        assert axis.images[0].norm.vmin == -0.5
        assert axis.images[0].norm(-0.5) == 0.0
