import copy
import pickle
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from math import inf, log

import pytest
import torch
from kernel_checks import require_kernels

from fairseq_posattn.attention.call import Call
from fairseq_posattn.attention.masks import MaskBank, looks_ahead, mask_by_name
from fairseq_posattn.attention.san import MaskedDotProductAttention
from fairseq_posattn.attention.softmax import masked_softmax_attention

CPU = {"device": torch.device("cpu")}
# Masks by hand as functions of i - j, query less key.
BY_DISTANCE = {
    "past": lambda d: 0 if d > 0 else -inf,
    "future": lambda d: 0 if d < 0 else -inf,
    "others": lambda d: 0 if d != 0 else -inf,
    "others+past": lambda d: 0 if d > 0 else -inf,
    "window:1": lambda d: 0 if abs(d) == 1 else -inf,
    "window:2": lambda d: 0 if abs(d) in (1, 2) else -inf,
    "distance": lambda d: -abs(d),
    "scaled_distance": lambda d: -log(max(abs(d), 1)),
    "past+scaled_distance": lambda d: -log(d) if d > 0 else -inf,
    "scaled_distance + past": lambda d: -log(d) if d > 0 else -inf,
    "future+distance": lambda d: d if d < 0 else -inf,
    "window:2+past": lambda d: 0 if d in (1, 2) else -inf,
}


def by_hand(name, length):
    rows = [[BY_DISTANCE[name](i - j) for j in range(length)] for i in range(length)]
    return torch.tensor(rows, dtype=torch.float64)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("name", BY_DISTANCE)
def test_names_and_sums_equal_masks_by_hand(name, dtype):
    for length in (1, 4):
        mask = mask_by_name(name, length, dtype=dtype)
        assert mask.dtype == dtype
        # Rounded once, to the nearest number of that precision.
        assert torch.equal(mask, by_hand(name, length).to(dtype))
    assert looks_ahead(name) == any(BY_DISTANCE[name](-later) > -inf for later in range(1, 5))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "sideways",
            "mask 'sideways': unknown part 'sideways'; known: past, future, others, distance, "
            r"scaled_distance, window:RADIUS, joined by '\+'",
        ),
        ("past+", r"mask 'past\+': unknown part ''; known: past, "),
        ("past:2", "mask 'past:2': unknown part 'past:2'; known: past, "),
        ("window", "mask 'window': window needs a radius of 1 or more, as in 'window:2'"),
        ("past+window:0", r"mask 'past\+window:0': window needs a radius of 1 or more"),
        ("window:1.5", "mask 'window:1.5': window needs a radius of 1 or more"),
        ("past+future", r"mask 'past\+future' allows no key"),
    ],
)
def test_bad_names_are_refused_in_one_line(name, message):
    for call in (mask_by_name, lambda name, _: looks_ahead(name), lambda name, _: MaskBank([name])):
        with pytest.raises(ValueError, match=message) as error:
            call(name, 4)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("heads", "names", "causal", "message"),
    [
        (3, ["past", "future"], False, "3 heads cannot .* 2 masks: past, .*; choose as many"),
        (4, [], False, "4 heads cannot be divided evenly among 0 masks"),
        (2, ["past", "future"], True, "mask 'future' looks ahead, .* choose 'past' or a sum with"),
        (2, ["window:2"], True, "mask 'window:2' looks ahead, .* as in 'past.window:3'"),
    ],
)
def test_masks_that_do_not_fit_the_heads_are_refused_in_one_line(heads, names, causal, message):
    with pytest.raises(ValueError, match=message) as error:
        MaskedDotProductAttention(heads, names, causal=causal)
    assert "\n" not in str(error.value)


def test_a_bank_equals_the_masks_of_any_lengths():
    names = ["past", " window:2", "future+distance"]
    bank = MaskBank(names)
    # Shorter and longer sentences, in any order, and fewer queries than keys.
    for query_length, key_length in ((4, 4), (1, 4), (1, 1), (2, 9), (33, 33), (4, 4), (7, 31)):
        whole = torch.stack([by_hand(name.strip(), key_length) for name in names])
        masks = bank.of_distance(query_length, key_length, **CPU).matrix(torch.float64)
        assert torch.equal(masks, whole[:, -query_length:])
    copies = bank, copy.deepcopy(bank), pickle.loads(pickle.dumps(bank))
    first, *others = (each.of_distance(4, 4, **CPU).vector for each in copies)
    assert all(torch.equal(other, first) for other in others)


def test_threads_share_a_bank():
    """A sentence longer than all before replaces the cache while others read it."""
    lengths = range(1, 130)
    expected = [MaskBank(["past", "window:2"]).of_distance(n, n, **CPU) for n in lengths]
    for _ in range(20):
        bank = MaskBank(["past", "window:2"])
        with ThreadPoolExecutor(8) as threads:
            masks = list(threads.map(partial(bank.of_distance, **CPU), lengths, lengths))
        for mask, right in zip(masks, expected, strict=True):
            assert torch.equal(mask.vector, right.vector)


def test_masks_of_shorter_sentences_stay_in_memory():
    """CUDA graphs of earlier batches read them."""
    bank = MaskBank(["past"])
    shorter = weakref.ref(bank.of_distance(4, 4, **CPU))
    bank.of_distance(400, 400, **CPU)
    assert shorter() is not None


def test_a_cuda_graph_shares_no_arguments_of_kernels(monkeypatch):
    """Other graphs would write to their memory."""
    require_kernels()
    from fairseq_posattn.attention.kernels.masks import mask_arguments

    on_gpu = type("Tensor", (torch.Tensor,), {"is_cuda": True})
    mask = MaskBank(["past"]).of_distance(4, 4, **CPU)
    mask = replace(mask, vector=mask.vector.as_subclass(on_gpu))
    for captures in (True, False):
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda now=captures: now)
        mask_arguments(mask, (1, 1, 4), 4, multiplies=False)
        assert bool(mask.prepared) != captures


def test_a_bank_first_used_in_inference_mode_serves_training_after():
    bank = MaskBank(["scaled_distance"])
    scores = torch.zeros(1, 3, 3, dtype=torch.float64, requires_grad=True)
    with torch.inference_mode():
        bank.of_distance(3, 3, **CPU).matrix(scores.dtype)
    mask = bank.of_distance(3, 3, **CPU)
    assert not mask.reach.is_inference()  # kernels save it for the backward pass
    weighted = scores * mask.matrix(scores.dtype)
    (gradient,) = torch.autograd.grad(weighted.sum(), scores)
    torch.testing.assert_close(gradient[0], by_hand("scaled_distance", 3))


def test_a_bank_first_used_under_a_functional_transform_can_be_copied():
    bank = MaskBank(["scaled_distance"])
    mask = by_hand("scaled_distance", 3)
    penalized = torch.func.grad(
        lambda scores: (scores * bank.of_distance(3, 3, **CPU).matrix(scores.dtype)).sum()
    )
    torch.testing.assert_close(penalized(torch.zeros_like(mask)), mask)
    assert torch.equal(copy.deepcopy(bank).of_distance(3, 3, **CPU).matrix(mask.dtype)[0], mask)


def test_a_mask_by_distance_has_its_reach():
    """Queries 2 and 3 of four positions: keys before them, and at most one away."""
    bank = MaskBank(["past", "window:1", "distance"])
    bank.of_distance(9, 9, **CPU).matrix(torch.float32)  # longer sentences are cached
    mask = bank.of_distance(2, 4, **CPU)
    assert mask.reach[:2].tolist() == [[1, mask.reach[0, 1]], [-1, 1]]
    assert mask.reach[0, 1] >= 3 and mask.reach[2, 0] <= -1 and mask.reach[2, 1] >= 3
    assert mask.matrix()[0].tolist() == [[0, 0, -inf, -inf], [0, 0, 0, -inf]]
    assert mask.matrix()[1].tolist() == [[-inf, 0, -inf, 0], [-inf, -inf, 0, -inf]]
    with_self = mask.with_self()
    assert with_self.reach[:2].tolist() == [[0, mask.reach[0, 1]], [-1, 1]]
    assert with_self.matrix()[0].tolist() == [[0, 0, 0, -inf], [0, 0, 0, 0]]
    assert mask.matrix()[0].tolist() == [[0, 0, -inf, -inf], [0, 0, 0, -inf]]  # as it was


@pytest.mark.parametrize("known", [1, 9])
def test_more_queries_than_keys_are_the_last_positions_too(known):
    """Four queries of two keys: the first two are before the first key."""
    bank = MaskBank(["past", "window:1"])
    bank.of_distance(known, known, **CPU).matrix(torch.float32)
    past, window = bank.of_distance(4, 2, **CPU).matrix(torch.float32)
    assert past.tolist() == [[-inf, -inf], [-inf, -inf], [-inf, -inf], [0, -inf]]
    assert window.tolist() == [[-inf, -inf], [0, -inf], [-inf, 0], [0, -inf]]


def test_a_penalty_too_large_for_the_precision_blocks_the_key():
    mask = torch.tensor([[-1e30, 0.0], [-1e30, -1e30]])
    value = torch.tensor([[[1.0], [2.0]]], dtype=torch.float16)
    context = masked_softmax_attention(Call(), value.new_zeros(1, 2, 2), value, mask)
    assert context.flatten().tolist() == [2, 0]
