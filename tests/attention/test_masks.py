import copy
import pickle
from math import inf, log

import pytest
import torch

from fairseq_posattn.attention.mask_bank import MaskBank
from fairseq_posattn.attention.masks import (
    distance_mask,
    future_mask,
    looks_ahead,
    mask_by_name,
    masked_softmax_attention,
    past_mask,
    scaled_distance_mask,
    separate_mask,
    window_mask,
)

# Rows are queries, columns keys.
PAST = [
    [-inf, -inf, -inf, -inf],
    [0, -inf, -inf, -inf],
    [0, 0, -inf, -inf],
    [0, 0, 0, -inf],
]
FUTURE = [
    [-inf, 0, 0, 0],
    [-inf, -inf, 0, 0],
    [-inf, -inf, -inf, 0],
    [-inf, -inf, -inf, -inf],
]
OTHERS = [
    [-inf, 0, 0, 0],
    [0, -inf, 0, 0],
    [0, 0, -inf, 0],
    [0, 0, 0, -inf],
]
WINDOW_1 = [
    [-inf, 0, -inf, -inf],
    [0, -inf, 0, -inf],
    [-inf, 0, -inf, 0],
    [-inf, -inf, 0, -inf],
]
WINDOW_1_WITH_SELF = [
    [0, 0, -inf, -inf],
    [0, 0, 0, -inf],
    [-inf, 0, 0, 0],
    [-inf, -inf, 0, 0],
]
WINDOW_2 = [
    [-inf, 0, 0, -inf],
    [0, -inf, 0, 0],
    [0, 0, -inf, 0],
    [-inf, 0, 0, -inf],
]
DISTANCE = [
    [0, -1, -2, -3],
    [-1, 0, -1, -2],
    [-2, -1, 0, -1],
    [-3, -2, -1, 0],
]
SCALED_DISTANCE = [
    [0, 0, -log(2), -log(3)],
    [0, 0, 0, -log(2)],
    [-log(2), 0, 0, 0],
    [-log(3), -log(2), 0, 0],
]
PAST_AND_SCALED_DISTANCE = [
    [-inf, -inf, -inf, -inf],
    [0, -inf, -inf, -inf],
    [-log(2), 0, -inf, -inf],
    [-log(3), -log(2), 0, -inf],
]
FUTURE_AND_DISTANCE = [
    [-inf, -1, -2, -3],
    [-inf, -inf, -1, -2],
    [-inf, -inf, -inf, -1],
    [-inf, -inf, -inf, -inf],
]
WINDOW_2_AND_PAST = [
    [-inf, -inf, -inf, -inf],
    [0, -inf, -inf, -inf],
    [0, 0, -inf, -inf],
    [-inf, 0, 0, -inf],
]

BY_NAME = {
    "past": PAST,
    "future": FUTURE,
    "others": OTHERS,
    "others+past": PAST,
    "window:1": WINDOW_1,
    "window:2": WINDOW_2,
    "distance": DISTANCE,
    "scaled_distance": SCALED_DISTANCE,
    "past+scaled_distance": PAST_AND_SCALED_DISTANCE,
    "scaled_distance + past": PAST_AND_SCALED_DISTANCE,
    "future+distance": FUTURE_AND_DISTANCE,
    "window:2+past": WINDOW_2_AND_PAST,
}


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        (past_mask(4), PAST),
        (future_mask(4), FUTURE),
        (window_mask(4, 1), WINDOW_1),
        (window_mask(4, 1, include_self=True), WINDOW_1_WITH_SELF),
        (window_mask(4, 2), WINDOW_2),
        (distance_mask(4), DISTANCE),
        (scaled_distance_mask(4), SCALED_DISTANCE),
    ],
)
def test_masks_by_hand(mask, expected):
    assert mask.dtype == torch.float32
    torch.testing.assert_close(mask, torch.tensor(expected, dtype=torch.float32))


def test_masks_of_one_token():
    for mask in (past_mask(1), future_mask(1), window_mask(1, 3)):
        assert mask.tolist() == [[-inf]]
    for mask in (window_mask(1, 3, include_self=True), distance_mask(1), scaled_distance_mask(1)):
        assert mask.tolist() == [[0]]


def test_a_window_of_no_width():
    assert window_mask(2, 0).tolist() == [[-inf, -inf], [-inf, -inf]]
    assert window_mask(2, 0, include_self=True).tolist() == [[0, -inf], [-inf, 0]]
    with pytest.raises(ValueError, match="radius -1: the radius cannot be negative"):
        window_mask(2, -1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("name", BY_NAME)
def test_names_and_sums_by_hand(name, dtype):
    mask = mask_by_name(name, 4, dtype=dtype)
    assert mask.dtype == dtype
    # Rounded once: to the nearest number of that precision.
    assert torch.equal(mask, torch.tensor(BY_NAME[name], dtype=torch.float64).to(dtype))


def test_no_sum_is_ever_nan():
    parts = ["past", "future", "others", "window:1", "distance", "scaled_distance"]
    names = [f"{a}+{b}" for a in parts for b in parts if {a, b} != {"past", "future"}]
    for dtype in (torch.float16, torch.float32):
        for name in names:
            mask = mask_by_name(name, 301, dtype=dtype)
            assert not mask.isnan().any() and mask.le(0).all()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "sideways",
            "mask 'sideways': unknown part 'sideways'; known: past, future, others, "
            r"window:RADIUS, distance, scaled_distance, joined by '\+'",
        ),
        ("past+", r"mask 'past\+': unknown part ''; known: past, "),
        ("past:2", "mask 'past:2': unknown part 'past:2'; known: past, "),
        ("window", "mask 'window': window needs a radius of 1 or more, as in 'window:2'"),
        ("past+window:0", r"mask 'past\+window:0': window needs a radius of 1 or more"),
        ("window:-1", "mask 'window:-1': window needs a radius of 1 or more"),
        ("window:1.5", "mask 'window:1.5': window needs a radius of 1 or more"),
        ("past+future", r"mask 'past\+future' lets no key through"),
    ],
)
def test_bad_names_are_refused_in_one_line(name, message):
    for call in (
        lambda: mask_by_name(name, 4),
        lambda: looks_ahead(name),
        lambda: MaskBank([name]),
    ):
        with pytest.raises(ValueError, match=message) as error:
            call()
        assert "\n" not in str(error.value)


def test_which_masks_look_ahead():
    for name in ("past", "past+distance", "window:3+past+scaled_distance"):
        assert not looks_ahead(name)
    for name in ("future", "others", "window:1", "distance", "future+window:2", "scaled_distance"):
        assert looks_ahead(name)


def test_a_bank_of_masks():
    bank = MaskBank(["past", " window:2", "future+distance"])
    expected = torch.tensor([PAST, WINDOW_2, FUTURE_AND_DISTANCE])

    def masks(bank, query_length, key_length, dtype=torch.float32):
        return bank(query_length, key_length, device=torch.device("cpu"), dtype=dtype)

    torch.testing.assert_close(masks(bank, 4, 4), expected)
    torch.testing.assert_close(masks(bank, 1, 4), expected[:, -1:])
    # Shorter and longer sentences, in any order, and fewer queries than keys.
    for query_length, key_length in ((1, 1), (3, 3), (2, 9), (33, 33), (4, 4), (7, 31)):
        whole = torch.stack([mask_by_name(name, key_length) for name in bank.names])
        torch.testing.assert_close(masks(bank, query_length, key_length), whole[:, -query_length:])
    half = masks(bank, 4, 4, dtype=torch.float16)
    torch.testing.assert_close(half, expected.half())
    for other in (copy.deepcopy(bank), pickle.loads(pickle.dumps(bank))):
        torch.testing.assert_close(masks(other, 4, 4), expected)


def test_a_bank_first_used_in_inference_mode_serves_training_after():
    bank = MaskBank(["scaled_distance"])
    scores = torch.zeros(1, 3, 3, requires_grad=True)
    with torch.inference_mode():
        bank(3, 3, device=scores.device, dtype=scores.dtype)
    weighted = scores * bank(3, 3, device=scores.device, dtype=scores.dtype)
    (gradient,) = torch.autograd.grad(weighted.sum(), scores)
    torch.testing.assert_close(gradient[0], scaled_distance_mask(3))


def test_a_mask_of_the_distance_knows_its_reach():
    """Queries 2 and 3 of four positions: keys before them, and at most one away."""
    bank = MaskBank(["past", "window:1", "distance"])
    bank(9, 9, device=torch.device("cpu"), dtype=torch.float32)  # knows longer sentences
    mask = bank.of_distance(2, 4, device=torch.device("cpu"))
    assert mask.reach[:2].tolist() == [[1, mask.reach[0, 1]], [-1, 1]]
    assert mask.reach[0, 1] >= 3 and mask.reach[2, 0] <= -1 and mask.reach[2, 1] >= 3
    assert mask.matrix()[0].tolist() == [[0, 0, -inf, -inf], [0, 0, 0, -inf]]
    assert mask.matrix()[1].tolist() == [[-inf, 0, -inf, 0], [-inf, -inf, 0, -inf]]
    own = mask.with_self()
    assert own.reach[:2].tolist() == [[0, mask.reach[0, 1]], [-1, 1]]
    assert own.matrix()[0].tolist() == [[0, 0, 0, -inf], [0, 0, 0, 0]]
    assert mask.matrix()[0].tolist() == [[0, 0, -inf, -inf], [0, 0, 0, -inf]]  # as it was


@pytest.mark.parametrize("known", [1, 9])
def test_more_queries_than_keys_are_the_last_positions_too(known):
    """Four queries of two keys: the first two stand before the first key."""
    bank = MaskBank(["past", "window:1"])
    options = {"device": torch.device("cpu"), "dtype": torch.float32}
    bank(known, known, **options)
    past, window = bank(4, 2, **options)
    assert past.tolist() == [[-inf, -inf], [-inf, -inf], [-inf, -inf], [0, -inf]]
    assert window.tolist() == [[-inf, -inf], [0, -inf], [-inf, 0], [0, -inf]]


def test_a_bank_without_masks_is_refused():
    with pytest.raises(ValueError, match="no masks given"):
        MaskBank([])


def test_what_a_mask_shuts_out_and_what_it_costs():
    penalties, blocked = separate_mask(torch.tensor([[0.0, -2.0, -inf]]))
    assert penalties.tolist() == [[0.0, -2.0, 0.0]]
    assert blocked.tolist() == [[False, False, True]]


def test_attention_under_a_mask_by_hand():
    """Scores are even, so only masks and padding weigh the values 1, 2 and 4."""
    value = torch.tensor([[[1.0], [2.0], [4.0]]])

    def attend(mask, padding=None):
        context = masked_softmax_attention(
            torch.zeros(1, 3, 3), value, mask=mask, key_padding_mask=padding
        )
        return context.flatten().tolist()

    assert attend(past_mask(3)) == [0, 1, 1.5]
    assert attend(future_mask(3)) == [3, 4, 0]
    assert attend(past_mask(3), torch.tensor([[True, False, False]])) == [0, 0, 2]
    # Weights are 1 at distances 0 and 1, and 1/2 at distance 2.
    assert attend(scaled_distance_mask(3)) == pytest.approx([5 / 2.5, 7 / 3, 6.5 / 2.5])


def test_a_penalty_too_large_for_the_precision_shuts_the_key_out():
    mask = torch.tensor([[-1e30, 0.0], [-1e30, -1e30]])
    value = torch.tensor([[[1.0], [2.0]]], dtype=torch.float16)
    context = masked_softmax_attention(value.new_zeros(1, 2, 2), value, mask=mask)
    assert context.flatten().tolist() == [2, 0]
