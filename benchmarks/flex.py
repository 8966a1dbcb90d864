"""DMAN and DA by PyTorch's FlexAttention, which compiles a change of the scores into a kernel."""

import functools
import math

import torch
import torch.nn.functional as F
from torch.nn.attention.flex_attention import flex_attention

from fairseq_posattn.attention.distance import signed_distances
from fairseq_posattn.attention.dman import MASK_FLOOR
from fairseq_posattn.attention.rescaling import rescaled_coefficients


@functools.cache
def _attention(device):
    return torch.compile(flex_attention, dynamic=False) if device == "cuda" else flex_attention


def dman(query, key, value, query_bias, distance_bias, head_bias):
    """Dynamic mask attention, as the kernels compute it but for dropout."""
    furthest = distance_bias.size(0) // 2

    def masked(score, b, h, t, s):
        distance = (t - s).clamp(-furthest, furthest) + furthest
        logit = (query_bias[b, t] + head_bias[h] + distance_bias[distance]).float()
        return score + F.logsigmoid(logit).clamp(min=math.log(MASK_FLOOR))

    return _attention(query.device.type)(query, key, value, score_mod=masked)


def da(query, key, value, distance_weight, sigmoid_shift):
    """Distance-aware attention with the mapping of eq. 5."""
    length = query.size(2)
    distances = signed_distances(length, length, query.device).abs()
    line = rescaled_coefficients(distances, distance_weight, sigmoid_shift)

    def rescaled(score, b, h, t, s):
        return torch.relu(score) * line[h, t - s + length - 1]

    return _attention(query.device.type)(query, key, value, score_mod=rescaled)


FLEX = {"dman": dman, "da": da}


def attend(name, impl, dropout_p=0.0, **tensors):
    """The context of a mechanism.

    Raises:
        ValueError: FlexAttention cannot do it.
    """
    if name not in FLEX:
        raise ValueError(f"{name} is no change of dot products")
    if dropout_p:
        raise ValueError("FlexAttention drops no weights")
    if torch.is_grad_enabled() and not tensors["query"].is_cuda:
        raise ValueError("FlexAttention needs a GPU to train")
    return FLEX[name](**tensors)
