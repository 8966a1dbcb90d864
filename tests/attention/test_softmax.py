"""Dropped weights and the sum of values under them."""

import torch
import torch.nn.functional as F

from fairseq_posattn.attention.softmax import softmax_attention

SHAPE = (2, 3, 5, 7)


def drop(attend):
    """Context and both gradients of an attention that drops from one seed, in float64."""
    torch.manual_seed(0)
    scores = torch.randn(SHAPE, dtype=torch.float64, requires_grad=True)
    value = torch.randn(*SHAPE[:2], SHAPE[3], 4, dtype=torch.float64, requires_grad=True)
    context = attend(scores + 0, value)
    upstream = torch.arange(context.numel(), dtype=torch.float64).view_as(context)
    return context, *torch.autograd.grad(context, (scores, value), upstream)


def test_dropping_equals_pytorchs_dropout_from_the_same_seed():
    ours = drop(lambda scores, value: softmax_attention(scores, value, dropout_p=0.3))
    theirs = drop(lambda scores, value: F.dropout(scores.softmax(-1), 0.3) @ value)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other)


def test_what_is_kept_of_a_dropout_is_a_byte_a_weight():
    """And the weights once, which the softmax keeps, too."""
    kept = {}

    def keep(tensor):
        if tensor.shape[-2:] == SHAPE[-2:]:
            kept[tensor.untyped_storage().data_ptr()] = tensor.dtype
        return tensor

    scores = torch.randn(SHAPE, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        softmax_attention(scores + 0, torch.randn(2, 3, 7, 4), dropout_p=0.3)
    assert sorted(map(str, kept.values())) == ["torch.bool", "torch.float32"]
