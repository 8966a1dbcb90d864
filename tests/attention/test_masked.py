import pytest
import torch
from reference import (
    PADDING,
    assert_same_with_gradients,
    attention_by_position,
    gradients,
    leaves,
)

from fairseq_posattn.attention.masked import (
    MaskedDotProductAttention,
    masked_dot_product_attention,
)
from fairseq_posattn.attention.masks import mask_by_name
from fairseq_posattn.attention.san import dot_product_attention

IMPLEMENTATIONS = ["reference", "sdpa"]


def inputs(batch=4, heads=3, queries=5, keys=5, features=3, dtype=torch.float64):
    shapes = ((batch, heads, queries, features), *[(batch, heads, keys, features)] * 2)
    return leaves(*shapes, dtype=dtype)


def log_factor(name, distance):
    """What a mask adds where the query is ``distance`` positions after the key."""
    blocked = {"past": distance <= 0, "future": distance >= 0}.get(name.split("+")[0])
    if name == "window:2":
        blocked = distance == 0 or abs(distance) > 2
    if blocked:
        return None
    return -abs(distance) if name.endswith("distance") else 0.0


def by_position(query, key, value, names, padding):
    offset = key.size(2) - query.size(2)

    def allowed(b, h, i, j):
        return None if padding[b, j] else log_factor(names[h], i + offset - j)

    return attention_by_position(query, key, value, allowed)


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
@pytest.mark.parametrize("queries", [1, 3, 5])
@pytest.mark.parametrize(
    "names", [["past"], ["future", "past+distance"], ["past", "window:2", "distance"]]
)
def test_equals_the_equation(impl, queries, names):
    tensors = inputs(heads=2 * len(names), queries=queries)
    heads = [name for name in names for _ in range(2)]
    module = MaskedDotProductAttention(len(heads), names, impl=impl)
    output = module(None, *tensors, key_padding_mask=PADDING)
    assert_same_with_gradients(output, by_position(*tensors, heads, PADDING), tensors)


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_a_query_that_sees_nothing_gets_zero_and_gives_no_gradient(impl, dtype):
    tensors = inputs(heads=2, dtype=dtype)
    module = MaskedDotProductAttention(2, ["past", "future"], impl=impl)
    output = module(None, *tensors, key_padding_mask=PADDING)
    dead = torch.zeros(4, 2, 5, dtype=torch.bool)
    dead[:, 0, 0] = dead[:, 1, -1] = dead[3] = True
    dead[1, 1, 2:] = True  # padded on the right: no future
    dead[2, 0, 1] = True  # padded on the left: no past
    assert output[dead].eq(0).all() and output[~dead].ne(0).all()
    assert all(gradient.eq(0).all() for gradient in gradients(output[dead], tensors))
    assert all(gradient.isfinite().all() for gradient in gradients(output, tensors))


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
def test_a_mask_of_zeros_is_plain_attention(impl):
    tensors = inputs()
    mask = torch.zeros(5, 5)
    output = masked_dot_product_attention(*tensors, mask, key_padding_mask=PADDING, impl=impl)
    plain = dot_product_attention(*tensors, key_padding_mask=PADDING, impl=impl)
    torch.testing.assert_close(output, plain)


def test_weights_are_those_of_the_context():
    tensors = inputs(heads=2)
    module = MaskedDotProductAttention(2, ["past", "window:2"], dropout=0.5).eval()
    context, weights = module(None, *tensors, key_padding_mask=PADDING, need_weights=True)
    torch.testing.assert_close(torch.matmul(weights, tensors[2]), context)
    assert weights.masked_select(PADDING[:, None, None, :]).eq(0).all()
    for head, name in enumerate(("past", "window:2")):
        assert weights[:, head][:, mask_by_name(name, 5).isinf()].eq(0).all()


@pytest.mark.parametrize(
    ("heads", "names", "causal", "message"),
    [
        (3, ["past", "future"], False, "3 heads cannot be shared out evenly among 2 masks: past, "),
        (4, [], False, "4 heads cannot be shared out evenly among 0 masks"),
        (2, ["past", "later"], False, "mask 'later': unknown part 'later'; known: past, future, "),
        (2, ["past", "future"], True, "mask 'future' looks ahead, .* choose 'past' or a sum with"),
        (2, ["window:2"], True, "mask 'window:2' looks ahead, .* as in 'past.window:3'"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(heads, names, causal, message):
    with pytest.raises(ValueError, match=message) as error:
        MaskedDotProductAttention(heads, names, causal=causal)
    assert "\n" not in str(error.value)
