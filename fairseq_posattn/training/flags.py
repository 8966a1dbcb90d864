"""Flags of attention mechanisms, token embeddings and encoders, shared by several models."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, make_dataclass
from typing import Any, Optional

import torch
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.utils import get_available_activation_fns
from omegaconf import II

from fairseq_posattn.attention.dman import RELU_IN_DMAN
from fairseq_posattn.attention.kernels.support import device_reason
from fairseq_posattn.attention.mpsan import FUSIONS as MPSAN_FUSIONS
from fairseq_posattn.attention.mpsan import MPSAN_MASKS
from fairseq_posattn.common.flags import flag
from fairseq_posattn.compat import checks
from fairseq_posattn.model import mechanisms
from fairseq_posattn.model.encoders import ENCODERS
from fairseq_posattn.model.encoders.cspan import FUSIONS as CSPAN_FUSIONS
from fairseq_posattn.model.encoders.cspan import WITH_LSTM
from fairseq_posattn.model.transformer_layer import FEED_FORWARD, split_sublayers
from fairseq_posattn.training import presets

WITHOUT_LSTM = tuple(f"--cspan-fusion {name}" for name in CSPAN_FUSIONS if name not in WITH_LSTM)


def unread(config: type, settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each option that the model does not read, unless it has its default.

    The metadata of a config's field declare its ``readers`` and with what these do not read it
    (``common/flags.py``): the latter only where it is not the architecture's.
    """
    known = {option.name: option for option in fields(config)}
    options = {name: option.default for name, option in known.items()} | dict(settings)
    parts, preset = parts_of(options), presets.preset(str(settings.get("arch")))
    for name, option in known.items():
        if str(options[name]) == str(option.default):
            continue
        nothing = f"{checks.flag(name)} {options[name]} changes nothing"
        readers = option.metadata.get("readers", ())
        if readers and not parts.intersection(readers):
            others = {reader.split()[0] for reader in readers}
            shown = [part for part in parts if part[0] != "-" or part.split()[0] in others]
            has = ", ".join(sorted(shown))
            yield f"{nothing}: it is for {', '.join(readers)}, and this model has {has}"
        elif str(options[name]) != str(preset.get(name)):
            for unused in parts.intersection(option.metadata.get("unread_with", ())):
                yield f"{nothing}: there is {unused}"
        if name.endswith("_learned_pos") or name == "embedding_scale":
            side = "decoder" if name.startswith("decoder") else "encoder"
            sublayers = split_sublayers(str(options[f"{side}_sublayers"]))
            named = ", ".join(sorted({*mechanisms.replace_positions(sublayers)}))
            reason = f"--{side}-sublayers has {named}" if named else ""
            if options.get("no_token_positional_embeddings"):
                reason = "there is --no-token-positional-embeddings"
            if reason:
                yield f"{nothing}: {reason}, and no position embeddings are added"


# Options with a value that decides what else is read, and the part that reads each.
DECIDING = {"encoder": "", "pooling": "", "hierarchical": "", "word_ngrams": "none"}
DECIDING |= {"da_mapping": "da", "cspan_fusion": "cspan", "mtsa_scores": "--encoder mtsa"}
DECIDING |= dict.fromkeys(("mtsa_source_layers", "mtsa_source_scale"), "mtsa")
HEAD = ("head_dim", "head_highway_layers")  # 0 for none


def parts_of(options: Mapping[str, Any]) -> set[str]:
    """Return the parts of a model, as ``readers`` name them."""
    encoder = str(options.get("encoder") or "transformer")  # that of translation has no name
    parts = {encoder}
    if encoder == "transformer":
        for side in ("encoder_sublayers", "decoder_sublayers"):
            parts.update(split_sublayers(str(options[side])) if side in options else [])
    for name, reader in DECIDING.items():
        if options.get(name) not in (None, "") and (not reader or reader in parts):
            parts.add(f"{checks.flag(name)} {options[name]}".removesuffix(" True"))
    parts.update(checks.flag(name) for name in HEAD if options.get(name))
    return parts


@dataclass
class SharedConfig(FairseqDataclass):
    """Flags of all models; a mechanism's are beside its module."""

    of_plugin = True
    # Values in presets of older versions, before DMAN's took the paper form and summarization
    # shared its embeddings; checkpoints keep them (compat/matching.py).
    earlier_presets = {
        "heads_activation": ("relu", "gelu"),
        "heads_dropout": (0.1,),
        "share_all_embeddings": (False,),
    }

    @classmethod
    def warnings(cls, settings: Mapping[str, Any]) -> Iterator[str]:
        """Yield a line for each option that the model does not read."""
        return unread(cls, settings)

    @staticmethod
    def mistakes(settings: checks.Settings) -> Iterator[str]:
        """Yield what is wrong with the settings of a training."""
        kind = "cuda" if torch.cuda.is_available() and not settings.cpu else "cpu"
        if str(settings.attention_impl) == "triton" and (
            reason := device_reason(torch.device(kind))
        ):
            yield f"--attention-impl triton: it {reason}; give auto or reference"

    attention_impl: ChoiceEnum(["auto", "reference", "sdpa", "triton"]) = flag(
        "auto",
        "implementation of attention: 'auto' selects one per call; 'reference' follows the "
        "equations; 'sdpa' is PyTorch's fused attention; 'triton' are the GPU kernels of dman, "
        "da, mtsa, mpsan, alibi, t5 and kerple. A mechanism uses the named one if it has it, else "
        "'auto'; a call that it does not support is an error",
        free=True,
    )
    heads_activation: ChoiceEnum([RELU_IN_DMAN, *mechanisms.HEADS_ACTIVATIONS]) = flag(
        RELU_IN_DMAN,
        "activation of the concatenated heads: 'relu_in_dman' in dman and sman only, F in Mask "
        "Attention Networks' eq. 5; any other in every attention sublayer: 'relu' in the released "
        "translation code, 'gelu' in the released summarization code",
        "transformer",
    )
    heads_dropout: float = flag(
        0.0,
        "dropout probability of the heads after their activation; 0.1 in Mask Attention "
        "Networks' released summarization code",
        "transformer",
    )


def _field_of(option: Any) -> tuple[str, Any, Any]:
    """Return a mechanism's flag as a field of a fairseq config: name, type and field."""
    choices = option.metadata.get("choices")
    kind = option.type if choices is None else ChoiceEnum(list(choices))
    return option.name, kind, field(default=option.default, metadata=option.metadata)


_flags = [option for b in mechanisms.MECHANISMS.values() for option in fields(b.mechanism.flags)]
MechanismConfig: Any = make_dataclass(
    "MechanismConfig",
    {option.name: _field_of(option) for option in _flags}.values(),
    bases=(SharedConfig,),
    namespace={"__module__": __name__},
)


@dataclass
class SentenceEncoderConfig(MechanismConfig):
    """Flags of token embeddings and of ``--encoder``."""

    @staticmethod
    def mistakes(settings: checks.Settings) -> Iterator[str]:
        """Yield what is wrong with the settings of a training."""
        yield from MechanismConfig.mistakes(settings)
        scores = tuple(map(str, (settings.encoder, settings.mtsa_scores, settings.mtsa_source)))
        if scores == ("mtsa", "source2token", "key") and settings.mtsa_source_layers:
            yield "--mtsa-source key: --mtsa-scores source2token has no keys; give value or input"

    encoder: ChoiceEnum(list(ENCODERS)) = flag(
        "transformer", "encoder of the token embeddings", structural=True
    )
    encoder_embed_path: Optional[str] = flag(  # noqa: UP045, fairseq reads no other form
        None,
        "text file of embeddings such as GloVe's: a token and its numbers per line; a first line "
        "with count and dimension is optional",
    )
    encoder_embed_dim: int = flag(300, "features of a token embedding")
    freeze_embeddings: bool = flag(False, "do not train the token embeddings")
    encoder_hidden_dim: int = flag(
        0,
        "features of the encoder's output, all heads or directions; 0 for those of a token "
        "embedding (disan, bi_blosan: twice as many)",
        at_least=0,
        unread_with=("--encoder none",),
    )
    encoder_sublayers: str = flag(
        "san,ffn",
        "sublayers of a layer in order, separated by commas, from "
        f"{', '.join(mechanisms.ENCODER_MECHANISMS)}, {FEED_FORWARD}",
        "transformer",
        structural=True,
    )
    encoder_layers: int = flag(1, "number of layers", "transformer")
    encoder_attention_heads: int = flag(16, "attention heads", "transformer", "attention", "mtsa")
    encoder_ffn_embed_dim: int = flag(
        1024, "hidden features of a feed-forward sublayer", "transformer"
    )
    encoder_normalize_before: bool = flag(
        False, "layer norm before each sublayer instead of after it", "transformer"
    )
    no_token_positional_embeddings: bool = flag(
        False, "no sinusoidal position embeddings", "transformer", "attention"
    )
    embedding_scale: ChoiceEnum(["none", "sqrt"]) = flag(
        "none",
        "'sqrt': embeddings times the square root of their features, before positions are added "
        "(Vaswani et al., 2017, section 3.4)",
        "transformer",
    )
    attention_positions: bool = flag(False, "add sinusoidal position embeddings", "attention")
    activation_fn: ChoiceEnum(get_available_activation_fns()) = flag(
        "relu", "activation of feed-forward sublayers", "transformer"
    )
    dropout: float = flag(0.1, "dropout probability of embeddings and features")
    dropout_places: ChoiceEnum(["layers", "maps"]) = flag(
        "layers",
        "where --dropout applies: 'layers' between layers; 'maps' before every linear layer of "
        "these, drawn for each, as in MTSA's and DiSAN's released code; other encoders drop "
        "features of their input",
        *("--encoder mtsa", "mpsan", "disan", "bi_blosan", "attention", "none"),
        *("--pooling source2token", "--head-highway-layers"),
    )
    map_activation: ChoiceEnum(list(mechanisms.ACTIVATIONS)) = flag(
        "elu",
        "activation in mtsa, mpsan, disan, bi_blosan, source2token pooling and the head",
        *("--encoder mtsa", "mpsan", "disan", "bi_blosan", "--pooling source2token"),
        *map(checks.flag, HEAD),
    )
    attention_dropout: float = flag(
        0.0, "dropout probability of attention weights", "transformer", "attention", "mtsa"
    )
    no_attention_bias: bool = flag(
        False,
        "no bias of query and key, in attention also of the value",
        "attention",
        "--encoder mtsa",
    )
    activation_dropout: float = flag(
        0.0, "dropout probability after the feed-forward activation", "transformer"
    )
    mpsan_masks: str = flag(
        ",".join(MPSAN_MASKS),
        "mask of each unit, separated by commas: past, future, others, window:RADIUS, distance, "
        "scaled_distance, or sums such as past+scaled_distance",
        "mpsan",
        structural=True,
    )
    mpsan_fusion: ChoiceEnum(list(MPSAN_FUSIONS)) = flag(
        "position",
        "softmax over units and token, DiSAN's gate in each unit, or a sum",
        "mpsan",
        structural=True,
    )
    mpsan_multi_dimensional: bool = flag(
        False, "a score per feature and pair of tokens", "mpsan", structural=True
    )
    mtsa_scores: ChoiceEnum(["both", "token2token", "source2token", "none"]) = flag(
        "both",
        "scores of the attention; 'none': only values, no attention and no gate",
        "--encoder mtsa",
    )
    cspan_fusion: ChoiceEnum(list(CSPAN_FUSIONS)) = flag(
        "cascaded",
        "fusion of semantics and positions, (a) to (e) of Table 5, plus 'parallel', which is (d) "
        "with self attention over the Bi-LSTM",
        "cspan",
        structural=True,
    )
    cspan_no_residual: bool = flag(
        False, "do not add semantic attention to the result", "cspan", unread_with=WITHOUT_LSTM
    )
    lstm_layers: int = flag(
        1,
        "number of recurrent layers",
        *("cspan", "lstm", "bilstm", "bigru"),
        at_least=1,
        unread_with=WITHOUT_LSTM,
    )
    cnn_widths: str = flag("3,4,5", "tokens of each convolution", "cnn", "hierarchical_cnn")
    block_length: int = flag(
        0,
        "tokens of a block; 0 for the cube root of twice a sentence's tokens",
        "bi_blosan",
        at_least=0,
    )
    max_positions: int = II("task.max_positions")
