"""fairseq's own models: a sentence has the same output in each batch, search and training."""

from functools import partial
from typing import Any

import torch
from fairseq.models.bart import BARTModel
from fairseq.models.lstm import LSTMEncoder
from fairseq.models.nat.nonautoregressive_transformer import NATransformerDecoder
from fairseq.models.transformer_align import TransformerAlignModel
from fairseq.modules.dynamic_convolution import DynamicConv_scripatable
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor
from torch.nn import functional as F

from fairseq_posattn.compat.patching import Function, around


@around(BARTModel, "forward")
def read_all_sources(forward: Function, self: Any, *args: Any, **kwargs: Any) -> Any:
    """Attend to the source of each sentence outside a search.

    Once fairseq's BART has a search, as that of ``--eval-bleu``, it trains, validates and
    classifies with the source of one sentence for as many as the search has beams.
    """
    self.set_beam_size(1)
    return forward(self, *args, **kwargs)


@around(SequenceGenerator, "_generate")
def share_sources(generate: Function, self: Any, *args: Any, **kwargs: Any) -> Any:
    """Let the beams of this search share a source, where the model can: another call undid it."""
    for model in self.model.models:
        if hasattr(model, "set_beam_size"):
            model.set_beam_size(self.beam_size)
    return generate(self, *args, **kwargs)


@around(LSTMEncoder, "forward")
def pad_as_the_source(
    forward: Function, self: Any, src_tokens: Tensor, *args: Any, **kwargs: Any
) -> Any:
    """Pad outputs on the side of the source's padding, as all other encoders.

    fairseq pads them on the right, so that attention weights and alignments are of other words.
    """
    outputs, hiddens, cells, padding = forward(self, src_tokens, *args, **kwargs)
    is_padding = src_tokens.eq(self.padding_idx).t()  # [T, B]
    if self.training or padding.equal(is_padding):
        return outputs, hiddens, cells, padding
    length = len(is_padding)
    positions = torch.arange(length, device=padding.device)[:, None] - is_padding.sum(dim=0)
    outputs = outputs.take_along_dim((positions % length)[..., None], dim=0)
    return outputs, hiddens, cells, is_padding


@around(TransformerAlignModel, "__init__")
def align_by_trained_heads(
    init: Function, self: Any, encoder: Any, decoder: Any, args: Any
) -> None:
    """Return the weights of ``--alignment-layer`` and its heads from a search, too.

    fairseq's search does not name them to the decoder, which returns the mean of its last layer.
    """
    init(self, encoder, decoder, args)
    if args.alignment_layer in range(decoder.num_layers):
        heads = {"alignment_layer": args.alignment_layer, "alignment_heads": args.alignment_heads}
        decoder.forward = partial(decoder.forward, **heads)


@around(NATransformerDecoder, "forward_copying_source")
def copy_behind_padding(
    copy: Function, self: Any, src_embeds: Tensor, src_masks: Tensor, tgt_masks: Tensor
) -> Any:
    """Copy the source's tokens (``--src-embedding-copy``), not the padding on their left."""
    length = src_masks.size(1)
    first = src_masks.int().argmax(dim=1, keepdim=True)
    positions = (torch.arange(length, device=first.device) + first) % length
    source = src_embeds.take_along_dim(positions[..., None], dim=1)
    return copy(self, source, src_masks, tgt_masks)


@around(DynamicConv_scripatable, "forward")
def normalize_whole_kernels(
    forward: Function, self: Any, x: Tensor, incremental_state: Any = None, query: Any = None
) -> Any:
    """Normalize a decoder's kernels before they are cut, as in generation and in the paper.

    fairseq trains and scores batches that are shorter than a kernel with other weights.
    """
    missing = self.kernel_size - len(x)
    if incremental_state is not None or missing <= 0:
        return forward(self, x, incremental_state, query)
    longer = [t if t is None else F.pad(t, (0, 0, 0, 0, 0, missing)) for t in (x, query)]
    return forward(self, longer[0], None, longer[1])[: len(x)]


@around(DynamicConv_scripatable, "__init__")
def clear_unused_bias(init: Function, self: Any, *args: Any, **kwargs: Any) -> None:
    """Set a bias without use to zero: fairseq stores what its memory held, which may be NaN."""
    init(self, *args, **kwargs)
    if not self.has_conv_bias:
        _clear_bias(self, None)
        self.register_load_state_dict_post_hook(_clear_bias)


def _clear_bias(layer: Any, incompatible_keys: Any) -> None:
    torch.nn.init.zeros_(layer.conv_bias)
