"""fairseq's own Transformer as the plugin's, for search, export, inspection and quantization."""

from argparse import Namespace
from collections.abc import Mapping
from inspect import signature
from itertools import product

import torch
from torch import Tensor

from fairseq_posattn.compat.checks import flag
from fairseq_posattn.compat.matching import FREE
from fairseq_posattn.training import registered as fairseq
from fairseq_posattn.training.models import seq2seq
from fairseq_posattn.training.models.registration import all_options

# Options that change fairseq's model and that posattn_transformer lacks.
UNSUPPORTED = (
    *("cross_self_attention", "no_cross_attention", "base_layers", "quant_noise_pq"),
    *("quant_noise_scalar", "tie_adaptive_weights", "tie_adaptive_proj"),
    *("encoder_xformers_att_config", "decoder_xformers_att_config"),
)

# Modules of a layer's sublayers, and those of fairseq whose weights they concatenate.
SELF_ATTENTION = {
    "sublayer.qkv_proj": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "sublayer.out_proj": ("self_attn.out_proj",),
    "layer_norm": ("self_attn_layer_norm",),
}
CROSS_ATTENTION = {
    "sublayer.query_proj": ("encoder_attn.q_proj",),
    "sublayer.kv_proj": ("encoder_attn.k_proj", "encoder_attn.v_proj"),
    "sublayer.out_proj": ("encoder_attn.out_proj",),
    "layer_norm": ("encoder_attn_layer_norm",),
}
FEED_FORWARD = {"sublayer.fc1": ("fc1",), "sublayer.fc2": ("fc2",)}
FEED_FORWARD |= {"layer_norm": ("final_layer_norm",)}
LAYERS = {
    "encoder": (SELF_ATTENTION, FEED_FORWARD),
    "decoder": (SELF_ATTENTION, CROSS_ATTENTION, FEED_FORWARD),
}


class UnsupportedModelError(ValueError):
    """fairseq's model has a part that the plugin's model lacks; the message is a clause."""


def translates(task: fairseq.FairseqTask) -> bool:
    """Return whether a task translates or summarizes, by a search from left to right.

    mBART's task adds symbols of languages, which its search begins and ends with. So does online
    back-translation, whose settings name no pair of languages.
    """
    if not isinstance(task, fairseq.TranslationTask) or not hasattr(task.cfg, "source_lang"):
        return False
    return "seq_gen_cls" in signature(task.build_generator).parameters


def convert_options(cfg: fairseq.TransformerConfig) -> Namespace:
    """Return the options of ``posattn_transformer`` for fairseq's; refuse those it lacks."""
    for name in UNSUPPORTED:
        if getattr(cfg, name):
            raise UnsupportedModelError(f"it has {flag(name)}, which posattn_transformer lacks")
    read = (name for name in seq2seq.STOCK_OPTIONS.split() if name not in FREE)
    options = {name: getattr(cfg, name) for name in read}
    options["activation_dropout"] = cfg.activation_dropout or cfg.relu_dropout or 0.0
    # After it was loaded, the dictionaries of its task are merged.
    options["share_all_embeddings"] = cfg.share_all_embeddings or cfg.merge_src_tgt_embed
    options["merge_src_tgt_embed"] = False
    return all_options(Namespace(**options), seq2seq.PosAttnTransformerConfig)


def rename_weights(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return weights, or their gradients, by the names and in the shapes of the plugin's model."""
    weights = dict(state)
    layers = {tuple(name.split(".")[:3]) for name in state if ".layers." in name}
    for side, _, number in layers:
        prefix = f"{side}.layers.{number}"
        for index, sublayer in enumerate(LAYERS[side]):
            for (module, parts), kind in product(sublayer.items(), ("weight", "bias")):
                names = [f"{prefix}.{part}.{kind}" for part in parts]
                if missing := [name for name in names if name not in weights]:
                    raise UnsupportedModelError(f"it has no weight {missing[0]}")
                joined = torch.cat([weights.pop(name) for name in names])
                weights[f"{prefix}.sublayers.{index}.{module}.{kind}"] = joined
    return weights


def read_as_posattn(
    model: fairseq.BaseFairseqModel, task: fairseq.FairseqTask
) -> tuple[seq2seq.PosAttnTransformer, Namespace]:
    """Return fairseq's model, loaded and in evaluation mode, as the plugin's, and its options.

    Raises:
        UnsupportedModelError: it has another class or task, an option without counterpart, or
            other weights.
    """
    if type(model) not in (fairseq.TransformerModel, fairseq.BARTModel):
        raise UnsupportedModelError("its class is not fairseq's plain Transformer")
    if not translates(task):
        raise UnsupportedModelError("its task is not translation")
    options, weights = convert_options(model.cfg), rename_weights(model.state_dict())
    converted = seq2seq.PosAttnTransformer.build_model(options, task)
    if different := sorted(converted.state_dict().keys() ^ weights.keys()):
        name = different[0]
        has = "has a" if name in weights else "has no"
        raise UnsupportedModelError(f"it {has} weight {name}, unlike posattn_transformer")
    converted.load_state_dict(weights)
    return converted.eval(), options
