import pytest
import torch
from reference import PADDING, attention_by_position, gradients, leaves

from fairseq_posattn.attention import (
    DynamicMaskAttention,
    StaticMaskAttention,
    dot_product_attention,
    dynamic_mask_attention,
    mask_attention,
    static_mask,
)

IMPLEMENTATIONS = ["reference", "sdpa"]


def inputs(batch=4, heads=3, queries=5, keys=5, features=3, reach=2, dtype=torch.float64):
    """query, key, value, query_bias, distance_bias, head_bias."""
    shapes = (
        (batch, heads, queries, features),
        (batch, heads, keys, features),
        (batch, heads, keys, features),
        (batch, queries),
        (2 * reach + 1,),
        (heads,),
    )
    return leaves(*shapes, dtype=dtype)


def dynamic_mask_by_position(
    query, key, value, query_bias, distance_bias, head_bias, padding, causal
):
    """Eq. 4 and 12, the mask kept at 1e-10 or above."""
    reach = (len(distance_bias) - 1) // 2
    offset = key.size(2) - query.size(2)

    def log_mask(b, h, i, j):
        distance = i + offset - j
        if padding[b, j] or (causal and distance < 0):
            return None
        bias = distance_bias[max(-reach, min(reach, distance)) + reach]
        mask = torch.sigmoid(query_bias[b, i] + bias + head_bias[h])
        return torch.log(torch.clamp(mask, min=1e-10))

    return attention_by_position(query, key, value, log_mask)


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
def test_the_mask_never_falls_below_its_floor(impl):
    tensors = inputs(batch=1)
    with torch.no_grad():
        tensors[4][0] = -1000.0  # keys two or more positions after the query
    expected = dynamic_mask_by_position(*tensors, PADDING[:1], causal=False)
    output = dynamic_mask_attention(*tensors, impl=impl)
    torch.testing.assert_close(output, expected)
    for ours, theirs in zip(gradients(output, tensors), gradients(expected, tensors), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_scores_that_overflow_half_precision_before_scaling():
    vectors = torch.full((1, 1, 2, 64), 50.0, dtype=torch.float16)
    assert torch.matmul(vectors, vectors.transpose(-2, -1)).isinf().all()
    assert dot_product_attention(vectors, vectors, vectors, impl="reference").isfinite().all()


def test_a_table_of_even_length_is_refused():
    query, key, value, query_bias, distance_bias, head_bias = inputs()
    with pytest.raises(ValueError, match="distance_bias has 4 entries; it needs 2N-1"):
        dynamic_mask_attention(query, key, value, query_bias, distance_bias[1:], head_bias)


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
def test_mask_attention_equals_the_equation(impl):
    query, key, value = inputs()[:3]
    (logits,) = leaves((4, 3, 5, 5), seed=3)
    mask = torch.sigmoid(logits)
    mask = mask * torch.tensor([1.0, 1.0, 0.0, 1.0, 1.0])  # one key closed to all
    expected = attention_by_position(
        query,
        key,
        value,
        lambda b, h, i, j: None if j == 2 else torch.log(mask[b, h, i, j]),
    )
    output = mask_attention(query, key, value, mask, impl=impl)
    torch.testing.assert_close(output, expected)
    tensors = [query, key, value, logits]
    for ours, theirs in zip(gradients(output, tensors), gradients(expected, tensors), strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
def test_special_cases_of_mask_attention(impl):
    """MANs section 2.2: the mask of ones is SAN (eq. 6), the identity gives the values (eq. 8)."""
    query, key, value = inputs()[:3]
    ones, identity = torch.ones(5, 5), torch.eye(5)
    san = dot_product_attention(query, key, value, impl=impl)
    torch.testing.assert_close(mask_attention(query, key, value, ones, impl=impl), san)
    torch.testing.assert_close(mask_attention(query, key, value, identity, impl=impl), value)
    closed = mask_attention(query, key, value, torch.zeros(5, 5), impl=impl)
    assert closed.eq(0).all()
    assert all(gradient.eq(0).all() for gradient in gradients(closed, [query, key, value]))


def test_static_mask_by_hand():
    assert static_mask(4, 4, 1)[0, 0].tolist() == [
        [1, 1, 0, 0],
        [1, 1, 1, 0],
        [0, 1, 1, 1],
        [0, 0, 1, 1],
    ]
    assert static_mask(3, 3, 1, causal=True)[0, 0].tolist() == [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
    assert static_mask(1, 4, 1, causal=True)[0, 0].tolist() == [[0, 0, 1, 1]]


def test_the_square_root_radius_grows_with_the_sentence_not_its_padding():
    """The square root of half of 2, 7 and 8 tokens is 1, 1.87 and 2."""
    for length, radius in ((2, 1), (7, 1), (8, 2)):
        expected = static_mask(length, length, radius)
        torch.testing.assert_close(static_mask(length, length, None), expected)
        padding = torch.tensor([[False] * length + [True] * 9])
        padded = static_mask(length + 9, length + 9, None, key_padding_mask=padding)
        torch.testing.assert_close(padded[:, :, :length, :length], expected)
        assert padded[:, :, :, length:].eq(0).all()


def test_the_causal_square_root_radius_knows_only_the_past():
    whole = static_mask(9, 9, None, causal=True)
    for length in range(1, 10):
        newest = static_mask(1, length, None, causal=True)
        torch.testing.assert_close(newest[0, 0, 0], whole[0, 0, length - 1, :length])


def test_module_gives_the_equation_its_learned_parameters():
    torch.manual_seed(0)
    module = DynamicMaskAttention(embed_dim=6, num_heads=3, max_distance=2).double().eval()
    query, key, value = inputs()[:3]
    (hidden,) = leaves((4, 5, 6), seed=5)
    distance_bias = torch.cat([module.future_bias.flip(0), torch.zeros(1), module.past_bias])
    expected = dynamic_mask_by_position(
        query,
        key,
        value,
        (hidden * module.query_weight[:, 0]).sum(-1),
        distance_bias,
        module.head_bias,
        PADDING,
        causal=False,
    ).relu()
    output = module(hidden, query, key, value, key_padding_mask=PADDING)
    torch.testing.assert_close(output, expected)
    tensors = [query, key, value, hidden, *module.parameters()]
    for ours, theirs in zip(gradients(output, tensors), gradients(expected, tensors), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_every_parameter_of_a_causal_module_is_used():
    module = DynamicMaskAttention(embed_dim=6, num_heads=3, max_distance=2, causal=True).double()
    query, key, value = inputs()[:3]
    (hidden,) = leaves((4, 5, 6), seed=5)
    module(hidden, query, key, value).sum().backward()
    for name, parameter in module.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name


def test_static_module_is_relu_of_windowed_attention():
    module = StaticMaskAttention(radius=1).double()
    query, key, value = inputs()[:3]
    expected = attention_by_position(
        query,
        key,
        value,
        lambda b, h, i, j: None if PADDING[b, j] or abs(i - j) > 1 else 0.0,
    )
    output = module(None, query, key, value, key_padding_mask=PADDING)
    torch.testing.assert_close(output, expected.relu())


class _LargestSaved:
    """Counts what autograd keeps of a given number of elements."""

    def __init__(self, elements):
        self.elements = elements
        self.storages = set()

    def __enter__(self):
        self.hooks = torch.autograd.graph.saved_tensors_hooks(self.pack, lambda tensor: tensor)
        self.hooks.__enter__()
        return self

    def __exit__(self, *error):
        self.hooks.__exit__(*error)

    def pack(self, tensor):
        if tensor.numel() == self.elements and tensor.is_floating_point():
            self.storages.add(tensor.untyped_storage().data_ptr())
        return tensor


def test_the_reference_keeps_no_avoidable_copy():
    """Of the size [B, H, T, T] one tensor, for the softmax's gradient."""
    tensors = inputs(batch=2, heads=3, queries=16, keys=16)
    padding = torch.zeros(2, 16, dtype=torch.bool)
    with _LargestSaved(2 * 3 * 16 * 16) as saved:
        output = dynamic_mask_attention(*tensors, key_padding_mask=padding, impl="reference")
    output.sum().backward()
    assert len(saved.storages) == 1
