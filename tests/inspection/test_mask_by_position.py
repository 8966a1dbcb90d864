import math
import statistics

import pytest
import torch

from fairseq_posattn.inspection.collect import measure_batch
from fairseq_posattn.inspection.dynamic_mask import draw_masks, mask_numbers, median_query_terms


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def set_parameters(mechanism):
    """P is n/10 at n tokens before the query and -n/10 behind it; U is 0.5 and -0.5."""
    steps = torch.arange(1, len(mechanism.past_bias) + 1) / 10
    with torch.no_grad():
        mechanism.past_bias.copy_(steps)
        mechanism.head_bias.copy_(torch.tensor([0.5, -0.5]))
        if mechanism.future_bias is not None:
            mechanism.future_bias.copy_(-steps)


def test_the_equation_by_position(build):
    _, (sublayer, *_) = build("dman,ffn", dman_max_distance=2)
    set_parameters(sublayer.mechanism)
    numbers = mask_numbers([sublayer], furthest=3, query_terms=[0.25])
    assert numbers["positions"] == [-3, -2, -1, 0, 1, 2, 3]
    distance_terms = [0.2, 0.2, 0.1, 0.0, -0.1, -0.2, -0.2]  # the furthest counts beyond itself
    (found,) = numbers["sublayers"]
    assert found["query_term"] == 0.25
    for head, head_term in zip(found["heads"], (0.5, -0.5), strict=True):
        expected = [sigmoid(0.25 + term + head_term) for term in distance_terms]
        assert head["mask"] == pytest.approx(expected, rel=1e-5)


def test_without_sentences_the_query_has_no_term(build):
    _, sublayers = build("dman,ffn")
    numbers = mask_numbers(sublayers, furthest=1)
    assert not numbers["median_query"]
    assert [sublayer["query_term"] for sublayer in numbers["sublayers"]] == [0.0, 0.0]


def test_a_decoder_does_not_see_what_follows(build):
    _, sublayers = build("san,ffn", decoder="dman,cross,ffn", side="decoder")
    set_parameters(sublayers[0].mechanism)
    (head, _) = mask_numbers(sublayers, furthest=2)["sublayers"][0]["heads"]
    assert head["mask"][3:] == [None, None]
    expected = [sigmoid(0.5 + term) for term in (0.2, 0.1, 0.0)]
    assert head["mask"][:3] == pytest.approx(expected, rel=1e-5)


def test_median_over_all_tokens(build, sentences):
    encoder, sublayers = build("dman,san,ffn")
    sublayers = [sublayer for sublayer in sublayers if sublayer.name == "dman"]
    sentences = sentences[:3]  # of 15 tokens: an odd number has a median among them
    found = median_query_terms(encoder, sublayers, sentences)
    for index, median in enumerate(found):
        terms = []
        for sentence in sentences:
            calls = measure_batch(encoder, sublayers, sentence[None], lambda call: call)
            weight = calls[index].mechanism.query_weight[:, 0].detach()
            terms += [float(torch.dot(hidden, weight)) for hidden in calls[index].hidden[0]]
        assert len(terms) == 15
        assert median == pytest.approx(statistics.median(terms), abs=1e-5)


def test_the_picture_shows_the_numbers(build, labels_of):
    _, sublayers = build("dman,san,ffn")
    sublayers = [sublayer for sublayer in sublayers if sublayer.name == "dman"]
    numbers = mask_numbers(sublayers, furthest=4, query_terms=[0.0, 1.0])
    figure = draw_masks(numbers)
    for sublayer, axis in zip(numbers["sublayers"], figure.axes, strict=True):
        lines = {line.get_label(): line for line in axis.lines}
        for head in sublayer["heads"]:
            line = lines[f"head {head['head']}"]
            assert line.get_xdata().tolist() == numbers["positions"]
            assert line.get_ydata().tolist() == head["mask"]
        assert axis.get_xlabel() == "key's position - query's (tokens)"
    assert "mask M (logarithmic)" in labels_of(figure)
    assert "layer 2, dman, median query" in labels_of(figure)
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["head 1", "head 2"]


def test_positions_that_a_decoder_does_not_see_are_left_out(build):
    _, sublayers = build("san,ffn", decoder="dman,cross,ffn", side="decoder")
    numbers = mask_numbers(sublayers[:1], furthest=2)
    (axis,) = draw_masks(numbers).axes
    line = axis.lines[0].get_ydata()
    assert [math.isnan(value) for value in line] == [False, False, False, True, True]


def test_no_sublayers_mask_is_below_the_picture(build):
    """They share a scale, which is not that of the first."""
    _, sublayers = build("dman,ffn")
    numbers = mask_numbers(sublayers, furthest=3)
    numbers["sublayers"][1]["heads"][0]["mask"][0] = 1e-6
    for axis in draw_masks(numbers).axes:
        lowest, highest = axis.get_ylim()
        assert lowest < 1e-6 and highest == 1.2
