"""Biases as more features of queries and keys, for one call of PyTorch's fused attention.

A bias that is a sum of products of a function of the query and a function of the key needs no
tensor of all pairs: ``Q K' + sum_r f_r g_r' = [Q, f] [K, g]'`` (FlashBias: Wu et al., 2025).
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_posattn.attention.call import Call
from fairseq_posattn.attention.positions import waves
from fairseq_posattn.attention.pytorch import is_traced, is_transformed
from fairseq_posattn.attention.softmax import sdpa_attention

# Fused attention on a GPU takes multiples of so many features.
MULTIPLE = 8
# A bias is a sum of so many numbers of half precision, which hold the digits of float32.
PARTS = {torch.float16: 2, torch.bfloat16: 3}
# Features of queries beside a bias: float16 ends at 65,504, and biases at 16 times that.
UNIT = 16.0
# Bias of padded keys, a power of two: exact in every type.
BLOCKED = -(2.0**19)
# Error of a score with a Gaussian bias.
LARGEST_ERROR = 2e-4


def attend_by_features(
    call: Call, query: Tensor, key: Tensor, value: Tensor, key_bias: Tensor | None = None
) -> Tensor:
    """Return ``softmax(Q K' + b) V``, with the call's padding, causality and dropout.

    Args:
        query, key: ``[B, H, T, F]``, with the features of biases; their products are not scaled.
        key_bias: ``b``, the same for all queries, ``[B or 1, H, Tk]`` in float32 at least.
    """
    device = query.device.type
    if device != "meta" and torch.is_autocast_enabled(device) and query.dtype != torch.float64:
        # PyTorch's fused attention would do this later, and round the biases.
        query, key, value = (x.to(torch.get_autocast_dtype(device)) for x in (query, key, value))
    queries, keys, padding = query.size(-2), key.size(-2), call.key_padding_mask
    causal, blocked = call.causal and queries > 1, None
    if padding is not None and causal:  # PyTorch takes no mask beside causality
        key_bias = torch.where(padding[:, None], BLOCKED, 0.0 if key_bias is None else key_bias)
    elif padding is not None:
        blocked = padding[:, None, None]
    # PyTorch's causality is that of the first positions, so that others go before.
    vectors = widen(query, key, value, key_bias, keys - queries if causal else 0)
    context = sdpa_attention(*vectors, call.dropout_p, blocked=blocked, causal=causal, scale=1.0)
    context = context[..., : value.size(-1)]
    if causal and padding is not None:
        unseeing = padding.cumprod(-1).bool()[:, None, :, None]
        context = context.masked_fill(unseeing, 0.0)
    return F.pad(context, (0, 0, queries - keys, 0)) if causal and queries != keys else context


def widen(
    query: Tensor, key: Tensor, value: Tensor, key_bias: Tensor | None, before: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return vectors ``[B, H, T, F]`` of one size, with products of queries and keys plus a bias.

    PyTorch's fused attention on a CPU and FlashAttention need values of that size, too. ``before``
    is the number of queries to add before the others; if negative, to leave out.
    """
    if key_bias is not None:
        parts = split_digits(key_bias / UNIT, key.dtype)
        key = torch.cat([key, parts.expand(*key.shape[:-1], -1)], dim=-1)
    width = -(-max(key.size(-1), value.size(-1)) // MULTIPLE) * MULTIPLE
    query = F.pad(query, (0, width - query.size(-1), before, 0), value=UNIT)
    key, value = (F.pad(x, (0, width - x.size(-1))) for x in (key, value))
    return query, key, value


def split_digits(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Return numbers of a lower precision that add up to x, ``[..., parts]``."""
    parts = [x.to(dtype)]
    with torch.no_grad():  # the first has the gradient of the sum
        for _ in range(1, PARTS.get(dtype, 1)):
            x = x - parts[-1]
            parts.append(x.to(dtype))
    return torch.stack(parts, dim=-1)


def expand_waves(content: Tensor, position: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    """Return queries and keys ``[B, H, T, 2D]`` with the products ``q_t k_j + x_t R_{t-j}``.

    ``content`` is q and ``position`` x, ``[B, H, Tq, D]``.
    """
    keys, (queries, features) = key.size(-2), position.shape[-2:]
    x = position.to(torch.promote_types(key.dtype, torch.float32))
    of_sine, of_cosine = x[..., 0::2], F.pad(x[..., 1::2], (0, features % 2))  # of t - j
    options = features, key.device, x.dtype, torch.float64
    sine, cosine = waves(keys - queries, queries, *options)  # [Tq, D/2]
    waved = of_sine * sine + of_cosine * cosine, of_cosine * sine - of_sine * cosine
    sine, cosine = waves(0, keys, *options)  # [Tk, D/2]
    more = [wave.to(key).expand(*key.shape[:-1], -1) for wave in (cosine, sine)]
    query = torch.cat([content, *(wave.to(content) for wave in waved)], dim=-1)
    return query, torch.cat([key, *more], dim=-1)


def add_squares(
    query: Tensor, key: Tensor, position: Tensor, center: Tensor, deviation: Tensor
) -> tuple[Tensor, Tensor] | None:
    """Return queries and keys ``[B, H, T, D+2]`` of the products ``q k / sqrt(D) + G``, or None.

    ``G = -(x - c)^2 / (2 sigma^2)``, but for the number ``c^2 / (2 sigma^2)`` of each query. None
    where products may err by more than ``LARGEST_ERROR``: in half precision, and in float32 with a
    deviation that is small beside the center. Unknown on a GPU, to avoid a device sync.

    Args:
        position: x of the keys, ``[B or 1, Tk]``. center, deviation: c and sigma, ``[B, H, Tq]``.
    """
    if is_traced() or is_transformed() or key.device.type != "cpu" or key.element_size() < 4:
        return None
    if torch.is_autocast_enabled("cpu"):  # to half precision
        return None
    error = (center.detach() / deviation.detach()).square() * torch.finfo(key.dtype).eps
    if not (error < LARGEST_ERROR).all():
        return None
    x = position.to(key)[:, None, :, None].expand(*key.shape[:-1], 1)
    factors = torch.stack([torch.full_like(center, -0.5), center], -1)
    factors = factors / deviation.square()[..., None]
    query = torch.cat([query * query.size(-1) ** -0.5, factors.to(query)], dim=-1)
    return query, torch.cat([key, x.square(), x], dim=-1)
