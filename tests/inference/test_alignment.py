"""Attention between words, from that between pieces."""

import pytest
import torch

from fairseq_posattn.inference.translation.hypotheses import BEGINS, align

WEIGHTS = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.3, 0.2, 0.1, 0.4], [0.0, 0.0, 1.0, 0.0]])
KINDS = {
    None: (["ab", "c", "d"], ["e", "f", "gh"]),
    "subword_nmt": (["a@@", "b", "c"], ["d", "e@@", "f"]),
    "sentencepiece": (["\u2581a", "b", "\u2581c"], ["\u2581d", "\u2581", "ef"]),
    "wordpiece": (["a", "##b", "c"], ["d", "e", "##f"]),
}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind])
def test_pieces_of_a_word_are_added_where_attended_to_and_averaged_where_attending(kind):
    found = align(*KINDS[kind], WEIGHTS, kind)
    assert found.source == ("ab", "c", "</s>")
    assert found.target == ("d", "ef")
    expected = torch.tensor([[0.3, 0.3, 0.4], [0.25, 0.55, 0.2]])
    torch.testing.assert_close(found.weights, expected)


def test_pieces_that_are_words_stay_what_they_are():
    found = align(*KINDS[None], WEIGHTS, None)
    assert found.source == ("ab", "c", "d", "</s>")
    assert found.target == ("e", "f", "gh")
    torch.testing.assert_close(found.weights, WEIGHTS)


def test_json_has_four_digits():
    found = align(["a"], ["b"], torch.tensor([[1 / 3, 2 / 3]]), None)
    assert found.as_json() == {
        "source": ["a", "</s>"],
        "target": ["b"],
        "weights": [[0.3333, 0.6667]],
    }


def test_the_kinds_of_pieces_are_those_of_preparation():
    from fairseq_posattn.text.plain_text import CODES

    assert BEGINS.keys() | {"gpt"} == {None, *CODES}  # of classifiers only
