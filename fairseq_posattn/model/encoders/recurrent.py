"""``--encoder lstm``, ``bilstm`` and ``bigru``: recurrent networks over padded sentences.

A Bi-GRU pooled by one attention query, over tokens and over sentences, is a hierarchical attention
network (HAN, Yang et al., 2016).
"""

from argparse import Namespace
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

# ONNX orders the gates as input, output, forget, cell, and as update, reset, new.
ONNX_GATES = {"LSTM": [0, 3, 1, 2], "GRU": [1, 0, 2]}


def _run_in_onnx(network: nn.RNNBase, tokens: Tensor, lengths: Tensor) -> Tensor:
    """Return the states as a graph node: the LSTM or GRU of ONNX, which takes lengths ``[B]``."""
    directions = 1 + network.bidirectional
    attributes: dict[str, Any] = {
        "hidden_size": network.hidden_size,
        "direction": "bidirectional" if network.bidirectional else "forward",
        **({"linear_before_reset": 1} if network.mode == "GRU" else {}),
    }
    states = tokens.transpose(0, 1)  # [T, B, C]
    for layer in range(network.num_layers):
        weights = network.all_weights[layer * directions : (layer + 1) * directions]
        stacked = [torch.stack(kind) for kind in zip(*weights, strict=True)]
        by_gate = (x.unflatten(1, (-1, network.hidden_size)) for x in stacked)
        ordered = (x[:, ONNX_GATES[network.mode]].flatten(1, 2) for x in by_gate)
        input_weight, state_weight, *biases = ordered
        states = torch.onnx.ops.symbolic(
            network.mode,
            (states, input_weight, state_weight, torch.cat(biases, 1), lengths.int()),
            attributes,
            dtype=states.dtype,
            shape=(states.size(0), directions, states.size(1), network.hidden_size),
        )
        states = states.transpose(1, 2).flatten(2)
    return states.transpose(0, 1)


def halve_features(output_dim: int) -> int:
    """Return the features of each of two directions; raise ValueError if they are odd."""
    if output_dim % 2:
        fix = "change --encoder-hidden-dim, without it --encoder-embed-dim"
        raise ValueError(f"{output_dim} features: two directions need an even number; {fix}")
    return output_dim // 2


class Recurrent(nn.Module):
    """Hidden states of an LSTM or GRU, the directions concatenated to ``output_dim`` features.

    They are ``[B, T, output_dim]``, zero where padded, but for the first position of a row of
    padding alone. Tokens are padded on the right; the backward direction starts at the last token.
    ``dropout`` acts between layers; ``name`` is the network's in the state dictionary.
    """

    def __init__(
        self,
        kind: Callable[..., nn.RNNBase],
        input_dim: int,
        output_dim: int,
        layers: int = 1,
        dropout: float = 0.0,
        bidirectional: bool = False,
        name: str = "network",
    ):
        super().__init__()
        self.output_dim = output_dim
        size = halve_features(output_dim) if bidirectional else output_dim
        options = {"bidirectional": bidirectional, "dropout": dropout if layers > 1 else 0.0}
        self.add_module(name, kind(input_dim, size, layers, batch_first=True, **options))

    def forward(self, tokens: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        network: Any = next(self.children())
        if key_padding_mask is None:
            result: Tensor = network(tokens)[0]
            return result
        lengths = (~key_padding_mask).sum(1).clamp(min=1)
        if torch.onnx.is_in_onnx_export():  # ONNX has no packed sequences
            return _run_in_onnx(network, tokens, lengths)
        packed = pack_padded_sequence(tokens, lengths.cpu(), batch_first=True, enforce_sorted=False)
        states, _ = network(packed)
        return pad_packed_sequence(states, batch_first=True, total_length=tokens.size(1))[0]


build_bilstm = partial(Recurrent, nn.LSTM, bidirectional=True, name="lstm")  # of CSPAN, too

NETWORKS: dict[str, Callable[..., Recurrent]] = {
    "lstm": partial(Recurrent, nn.LSTM),
    "bilstm": build_bilstm,
    "bigru": partial(Recurrent, nn.GRU, bidirectional=True),
}


def build(cfg: Namespace, dim: int) -> Recurrent:
    network = NETWORKS[str(cfg.encoder)]
    return network(dim, cfg.encoder_hidden_dim or dim, cfg.lstm_layers, cfg.dropout)
