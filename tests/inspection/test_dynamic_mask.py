"""DMAN's mask by distance, and its picture."""

import math
import statistics

import pytest
import torch

from fairseq_posattn.inspection.collect import measure_batch
from fairseq_posattn.inspection.dynamic_mask import draw_masks, mask_numbers, median_query_terms


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


@pytest.fixture
def places(build, set_parameters):
    """Return places whose P is n/10 at n tokens before the query, -n/10 after it; U is ±0.5."""

    def places(decoder=False, **flags):
        names = {"encoder": "san,ffn", "decoder": "dman,cross,ffn", "side": "decoder"}
        _, places = build(**names if decoder else {"encoder": "dman,ffn"}, **flags)
        for place in places:
            steps = [step / 10 for step in range(1, len(place.owner.past_bias) + 1)]
            set_parameters(place.owner, past_bias=steps, head_bias=[0.5, -0.5])
            if not decoder:
                set_parameters(place.owner, future_bias=[-step for step in steps])
        return places

    return places


def test_the_mask_is_the_equation(places):
    numbers = mask_numbers(places(dman_max_distance=2)[:1], furthest=3, query_terms=[0.25])
    assert numbers["positions"] == [-3, -2, -1, 0, 1, 2, 3]
    distance_terms = [0.2, 0.2, 0.1, 0.0, -0.1, -0.2, -0.2]  # the furthest counts beyond itself
    (sublayer,) = numbers["sublayers"]
    assert sublayer["query_term"] == 0.25
    for head, head_term in zip(sublayer["heads"], (0.5, -0.5), strict=True):
        expected = [sigmoid(0.25 + term + head_term) for term in distance_terms]
        assert head["mask"] == pytest.approx(expected, rel=1e-5)


def test_without_sentences_the_query_term_is_0(places):
    numbers = mask_numbers(places(), furthest=1)
    assert not numbers["median_query"]
    assert [sublayer["query_term"] for sublayer in numbers["sublayers"]] == [0.0, 0.0]


def test_a_decoder_does_not_see_later_keys(places):
    numbers = mask_numbers(places(decoder=True)[:1], furthest=2)
    (head, _) = numbers["sublayers"][0]["heads"]
    assert head["mask"][3:] == [None, None]
    expected = [sigmoid(0.5 + term) for term in (0.2, 0.1, 0.0)]
    assert head["mask"][:3] == pytest.approx(expected, rel=1e-5)
    (axis,) = draw_masks(numbers).axes
    drawn = [math.isnan(value) for value in axis.lines[0].get_ydata()]
    assert drawn == [False, False, False, True, True]


def test_the_median_is_over_all_tokens(build, sentences):
    encoder, places = build("dman,san,ffn")
    places = [place for place in places if place.name == "dman"]
    sentences = sentences[:3]  # of 15 tokens: an odd number has a median among them
    for place, median in zip(places, median_query_terms(encoder, places, sentences), strict=True):
        weight, terms = place.owner.query_weight[:, 0].detach(), []
        for sentence in sentences:
            (hidden,) = measure_batch(encoder, [place], sentence[None], lambda call: call.args[0])
            terms += [float(torch.dot(one, weight)) for one in hidden[0]]
        assert len(terms) == 15
        assert median == pytest.approx(statistics.median(terms), abs=1e-5)


def test_the_picture_shows_the_numbers(places, labels_of):
    numbers = mask_numbers(places(), furthest=4, query_terms=[0.0, 1.0])
    figure = draw_masks(numbers)
    for sublayer, axis in zip(numbers["sublayers"], figure.axes, strict=True):
        lines = {line.get_label(): line for line in axis.lines}
        for head in sublayer["heads"]:
            line = lines[f"head {head['head']}"]
            assert line.get_xdata().tolist() == numbers["positions"]
            assert line.get_ydata().tolist() == head["mask"]
    labels = {"key's position - query's (tokens)", "mask M (logarithmic)"}
    assert labels | {"layer 2, dman, median query"} <= set(labels_of(figure))
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["head 1", "head 2"]


def test_the_shared_scale_holds_every_mask(places):
    numbers = mask_numbers(places(), furthest=3)
    numbers["sublayers"][1]["heads"][0]["mask"][0] = 1e-6
    for axis in draw_masks(numbers).axes:
        lowest, highest = axis.get_ylim()
        assert lowest < 1e-6 and highest == 1.2
