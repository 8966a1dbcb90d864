"""Recurrent networks over sentences of different lengths, for the encoders that are one."""

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

# ONNX has the gates in another order: input, output, forget, cell; and update, reset, new.
ONNX_GATES = {"LSTM": [0, 3, 1, 2], "GRU": [1, 0, 2]}


def run_over_words(
    network: nn.RNNBase, words: Tensor, key_padding_mask: Tensor | None = None
) -> Tensor:
    """The states of a network at each word; what looks back begins at the last real one.

    Args:
        network: with ``batch_first``.
        words: ``[B, T, input_dim]``, padded on the right if at all.
        key_padding_mask: bool ``[B, T]``, True where padded.

    Returns:
        ``[B, T, output_dim]``. Padded positions come out as zero, but for the first one of a row of
        nothing but padding.
    """
    if key_padding_mask is None:
        return network(words)[0]
    lengths = (~key_padding_mask).sum(1).clamp(min=1)
    if torch.onnx.is_in_onnx_export():  # where nothing can be packed
        return _onnx_states(network, words, lengths)
    packed = pack_padded_sequence(words, lengths.cpu(), batch_first=True, enforce_sorted=False)
    states, _ = network(packed)
    return pad_packed_sequence(states, batch_first=True, total_length=words.size(1))[0]


def _onnx_states(network: nn.RNNBase, words: Tensor, lengths: Tensor) -> Tensor:
    """The same as a node of a graph: ONNX' own LSTM or GRU, which is told the lengths, ``[B]``."""
    directions = 1 + network.bidirectional
    attributes = {
        "hidden_size": network.hidden_size,
        "direction": "bidirectional" if network.bidirectional else "forward",
        **({"linear_before_reset": 1} if network.mode == "GRU" else {}),
    }
    states = words.transpose(0, 1)  # [T, B, C]
    for layer in range(network.num_layers):
        weights = network.all_weights[layer * directions : (layer + 1) * directions]
        stacked = [torch.stack(kind) for kind in zip(*weights, strict=True)]
        of_input, of_state, *biases = (_in_onnx_order(network, each) for each in stacked)
        states = torch.onnx.ops.symbolic(
            network.mode,
            (states, of_input, of_state, torch.cat(biases, 1), lengths.int()),
            attributes,
            dtype=states.dtype,
            shape=(states.size(0), directions, states.size(1), network.hidden_size),
        )
        states = states.transpose(1, 2).flatten(2)
    return states.transpose(0, 1)


def _in_onnx_order(network: nn.RNNBase, weights: Tensor) -> Tensor:
    """``[directions, gates H, ...]`` to the same."""
    gates = weights.unflatten(1, (-1, network.hidden_size))
    return gates[:, ONNX_GATES[network.mode]].flatten(1, 2)


def half_of(output_dim: int) -> int:
    """The features of each of two directions.

    Raises:
        ValueError: ``output_dim`` is odd.
    """
    if output_dim % 2:
        raise ValueError(f"{output_dim} features cannot be halved between two directions")
    return output_dim // 2


class Recurrent(nn.Module):
    """The states of a recurrent network at each word, of both directions side by side.

    Args:
        kind: :class:`torch.nn.LSTM` or :class:`torch.nn.GRU`.
        input_dim: features of the input.
        output_dim: features of the result, of all directions together.
        layers: one upon another.
        dropout: probability of dropping a feature between layers.
        bidirectional: whether it looks back, too.

    Attributes:
        output_dim: as given.

    Raises:
        ValueError: ``output_dim`` is odd and there are two directions.
    """

    def __init__(
        self,
        kind: type[nn.RNNBase],
        input_dim: int,
        output_dim: int,
        layers: int = 1,
        dropout: float = 0.0,
        bidirectional: bool = False,
    ):
        super().__init__()
        self.network = kind(
            input_dim,
            half_of(output_dim) if bidirectional else output_dim,
            layers,
            batch_first=True,
            bidirectional=bidirectional,
            dropout=dropout if layers > 1 else 0.0,
        )
        self.output_dim = output_dim

    def forward(self, words: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        """``[B, T, input_dim]`` to ``[B, T, output_dim]``: see :func:`run_over_words`."""
        return run_over_words(self.network, words, key_padding_mask)
