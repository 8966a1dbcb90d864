"""Numbers and pictures of the attention in a sentence."""

import warnings

import numpy
import pytest
import torch

from fairseq_posattn.common.figures import write_pages
from fairseq_posattn.inspection.collect import measure_batch
from fairseq_posattn.inspection.heatmap import attention_numbers, draw_attention
from fairseq_posattn.inspection.places import encoder_places

LETTERS = list("abcdefg")


def numbers_of(build, names, heads=None, length=7, **flags):
    encoder, places = build(names, **flags)
    sentence = torch.arange(4, 4 + length)
    return attention_numbers(encoder, places, heads, sentence, LETTERS[:length])


def numbers_of_random_weights(tokens, heads=2):
    weights = torch.rand(heads, len(tokens), len(tokens)).tolist()
    of_heads = [{"head": head, "note": "", "weights": one} for head, one in enumerate(weights)]
    return {"tokens": tokens, "sublayers": [{"layer": 1, "sublayer": "san", "heads": of_heads}]}


def panels(*figures):
    """Return the axes with weights in them, without the color bars."""
    axes = [axis for figure in figures for axis in figure.axes]
    return [axis for axis in axes if axis.images and axis.get_title()]


def tick_texts(axis):
    return [tick.get_text() for tick in axis.get_ticklabels()]


def test_numbers_are_the_weights_of_the_chosen_heads(build):
    encoder, places = build("dman,san,ffn")
    sentence = torch.arange(4, 11)
    numbers = attention_numbers(encoder, places, [2], sentence, LETTERS)
    weights = measure_batch(encoder, places, sentence[None], lambda call: call.weights[0, 1])
    assert numbers["tokens"] == LETTERS
    for sublayer, place, expected in zip(numbers["sublayers"], places, weights, strict=True):
        assert place.labels.items() <= sublayer.items()
        assert sublayer["heads"] == [{"head": 2, "note": "", "weights": expected.tolist()}]


def test_heads_have_notes_on_parameters_and_masks(build, set_parameters):
    encoder, places = build("da,ffn")
    set_parameters(places[0].owner, distance_weight=[-0.254, 1.5])
    numbers = attention_numbers(encoder, places[:1], [1, 2], torch.arange(4, 8), LETTERS[:4])
    assert [head["note"] for head in numbers["sublayers"][0]["heads"]] == ["w = -0.25", "w = +1.50"]
    for names in ("masked,ffn", "mtsa,ffn"):
        heads = numbers_of(build, names)["sublayers"][0]["heads"]
        assert [head["note"] for head in heads] == ["mask past", "mask future"]
        for head, unseen in zip(heads, (numpy.triu, numpy.tril), strict=True):
            assert not unseen(head["weights"]).any()


@pytest.mark.parametrize("features", [False, True])
def test_mpsan_has_a_head_for_each_mask(classifier, features):
    masks = "window:2,past+scaled_distance"
    view = classifier(encoder="mpsan", mpsan_masks=masks, mpsan_multi_dimensional=features)
    encoder, sentence = view.trained.model.encoder, torch.tensor([5, 6, 7, 5, 2])
    numbers = attention_numbers(encoder, encoder_places(view.trained), None, sentence, LETTERS[:5])
    (sublayer,) = numbers["sublayers"]
    assert numbers["tokens"] == LETTERS[:4]  # less the end
    assert [head["note"] for head in sublayer["heads"]] == [f"mask {m}" for m in masks.split(",")]
    assert ("each of 8 features: shown is the mean" in sublayer["note"]) == features
    window, past = (numpy.array(head["weights"]) for head in sublayer["heads"])
    assert (window > 0).tolist() == [[0 < abs(q - k) <= 2 for k in range(4)] for q in range(4)]
    assert (past > 0).tolist() == [[k < q for k in range(4)] for q in range(4)]
    assert window.sum(1) == pytest.approx(1, abs=1e-6)


def test_only_mtsa_has_source2token_weights(build):
    encoder, places = build("san,mtsa,ffn")
    sentence = torch.arange(4, 9)
    numbers = attention_numbers(encoder, places, None, sentence, LETTERS[:5])
    san, mtsa = (sublayer["heads"] for sublayer in numbers["sublayers"][:2])
    assert not any("source2token" in head for head in san)
    (call,) = measure_batch(encoder, places[1:2], sentence[None], lambda call: call)
    _, _, key, value = call.args
    scores = call.place.owner.source_scores(key, value)[0]  # [H, T, D]
    for head, of_head in zip(mtsa, scores.exp(), strict=True):
        shares = of_head / of_head.sum(0)  # [T, D], of each feature
        assert head["source2token"] == pytest.approx(shares.mean(1).tolist(), abs=1e-6)


def test_the_picture_shows_the_numbers(build, labels_of):
    numbers = numbers_of(build, "dman,san,ffn")
    (figure,) = draw_attention(numbers)
    shown = {axis.get_title(): axis for axis in panels(figure)}
    assert len(shown) == 8
    for sublayer in numbers["sublayers"]:
        for head in sublayer["heads"]:
            title = f"layer {sublayer['layer']}, {sublayer['sublayer']}, head {head['head']}"
            assert shown[title].images[0].get_array().tolist() == head["weights"]
    scales = {(axis.images[0].norm.vmin, axis.images[0].norm.vmax) for axis in shown.values()}
    assert len(scales) == 1  # the same color is the same weight
    first = shown["layer 1, dman, head 1"]
    assert tick_texts(first.xaxis) == tick_texts(first.yaxis) == LETTERS
    assert first.get_xlabel() == "key (the token attended to)"
    assert first.get_ylabel() == "query (the token that attends)"
    assert "attention weight, color by its square root" in labels_of(figure)


def test_the_picture_of_mtsa(build, labels_of):
    numbers = numbers_of(build, "mtsa,ffn", length=5)
    (figure,) = draw_attention(numbers)
    shown = {axis.get_title(): axis for axis in panels(figure)}
    assert len(shown) == 6
    axis = shown["layer 2, mtsa\nsource2token"]
    expected = [head["source2token"] for head in numbers["sublayers"][1]["heads"]]
    assert axis.images[0].get_array().T.tolist() == expected
    assert (tick_texts(axis.yaxis), tick_texts(axis.xaxis)) == (LETTERS[:5], ["1", "2"])
    by_root = "attention weight, color by its square root"
    assert {"source2token weight", by_root, "head"} <= set(labels_of(figure))


def test_tokens_that_look_like_formulas_and_long_ones(tmp_path):
    tokens = ["$", "$5_a$", "\\frac", "donaudampfschifffahrt", "</s>"]
    (figure,) = draw_attention(numbers_of_random_weights(tokens))
    texts = tick_texts(panels(figure)[0].xaxis)
    assert texts == ["$", "$5_a$", "\\frac", "donaudampfsch…", "</s>"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert write_pages([figure], str(tmp_path / "figure.png")) == [str(tmp_path / "figure.png")]


def test_labels_of_many_tokens_do_not_overlap():
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    tokens = [f"token{position}" for position in range(150)]
    figure, *_ = draw_attention(numbers_of_random_weights(tokens))
    FigureCanvasAgg(figure).draw()
    first, *_ = panels(figure)
    for axis, side in ((first.xaxis, "x"), (first.yaxis, "y")):
        boxes = [label.get_window_extent() for label in axis.get_ticklabels()]
        spans = sorted(getattr(box, f"interval{side}").tolist() for box in boxes)
        assert len(spans) >= 50
        assert all(one[1] <= next_[0] for one, next_ in zip(spans, spans[1:], strict=False))


@pytest.mark.parametrize(
    "tokens, heads, rows", [(7, 16, [2]), (52, 4, [1, 1]), (52, 2, [1]), (20, 48, [3, 3, 1])]
)
def test_rows_are_even_and_pages_not_too_high(tokens, heads, rows):
    numbers = numbers_of_random_weights(["token"] * tokens, heads)
    figures = list(draw_attention(numbers))
    starts = [
        {axis.get_subplotspec().rowspan.start for axis in panels(figure)} for figure in figures
    ]
    assert list(map(len, starts)) == rows
    assert len(panels(*figures)) == heads
    assert all(max(figure.get_size_inches()) <= 21 for figure in figures)
    assert len({axis.images[0].norm.vmax for axis in panels(*figures)}) == 1


@pytest.mark.parametrize("names", [["figure.pdf"], ["figure-1.png", "figure-2.png"]])
def test_pages_are_files_or_pages_of_a_pdf(names, tmp_path):
    pages = draw_attention(numbers_of_random_weights(["token"] * 52, heads=4))
    files = write_pages(pages, str(tmp_path / f"figure{names[0][-4:]}"))
    assert files == [str(tmp_path / name) for name in names]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    assert len(names) == 2 or b"/Count 2" in (tmp_path / names[0]).read_bytes()


def test_negative_weights_extend_the_scale(build):
    numbers = numbers_of(build, "da,ffn", da_adjustment="late_add", da_mapping="clip")
    for sublayer in numbers["sublayers"]:
        sublayer["heads"][0]["weights"][0][1] = -2.0
    for axis in panels(*draw_attention(numbers)):
        assert axis.images[0].norm.vmin == -2.0
        assert axis.images[0].norm(-2.0) == 0.0
