"""Attention layers of a model, the weights to show of each, and their calls in a run."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

from torch import Tensor, nn

import fairseq_posattn.attention as mechanisms
from fairseq_posattn.attention.masks import MaskBank
from fairseq_posattn.attention.mechanism import AttentionFunction, Mechanism
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.inference.trained_model import TrainedModel
from fairseq_posattn.model.classifier import SentenceEncoder
from fairseq_posattn.model.multihead import MultiheadCrossAttention, MultiheadSelfAttention
from fairseq_posattn.model.pooling import MultiQueryPooling
from fairseq_posattn.model.transformer_layer import DecoderLayer, EncoderLayer, parse_sublayers

# Rows of tokens on the page.
SOURCE, TARGET, WRITTEN = "source", "target", "written"
WORDS, FIRST, SECOND = "words", "first", "second"


@dataclass(frozen=True)
class AttentionLayer:
    """An attention module of a model."""

    layer: int  # counted from 1
    # As in --encoder-sublayers; numbered if a layer has several, san.2; after a level, clicks.da.
    name: str
    module: nn.Module  # to watch, see watching
    owner: Any  # module with the parameters or masks, often the same
    part: str = ""  # of the model: encoder, decoder, cross attention, words or pooling
    query: str | None = None  # row of tokens that attend; pooling has none
    key: str = ""  # row of tokens that are attended to
    call: int = 0  # number of the module's call; the second sentence of a pair is the second

    @property
    def labels(self) -> dict[str, Any]:
        """Return the names in tables and figures."""
        return {"layer": self.layer, "sublayer": self.name}

    def _feature_axis(self, result: Tensor) -> int | None:
        if isinstance(self.owner, mechanisms.Source2TokenPooling):
            return 2  # of [B, T, C]
        if isinstance(self.owner, mechanisms.DirectionalBlock):
            return 1  # of [B, C, T, T]
        return 2 if result.dim() == 5 else None  # of MPSAN's [B, K, S, T, T]

    def weights(self, result: Tensor) -> Tensor:
        """Return weights to show, means over features: ``[B, H, T, T]``; pooling ``[B, H, T]``."""
        axis = self._feature_axis(result)
        if axis is None:
            return result
        return result.mean(axis) if result.dim() == 5 else result.mean(axis).unsqueeze(1)

    def note(self, result: Tensor) -> str:
        """Return how several weights of a pair of tokens are combined; may be empty."""
        if isinstance(self.owner, mechanisms.TensorizedAttention) and self.owner.source.layers:
            note = "Weights of pairs of words (token2token). For each feature the model multiplies "
            return note + "them by a weight of the word attended to (source2token)."
        axis = self._feature_axis(result)
        if axis is None or result.size(axis) == 1:
            return ""
        whom = "word" if isinstance(self.owner, mechanisms.Source2TokenPooling) else "pair of words"
        each = f"each {whom} and each of {result.size(axis)} features"
        return f"The model has a weight for {each}: shown is the mean over the features."

    def head_note(self, head: int) -> str:
        """Return a note on a head's parameter or mask; may be empty."""
        if isinstance(self.owner, mechanisms.DistanceAwareAttention):
            return f"w = {self.owner.distance_weight[head]:+.2f}"
        masks = getattr(self.owner, "masks", None)
        return f"mask {masks.names[head]}" if isinstance(masks, MaskBank) else ""


def of_stack(
    layers: Sequence[Any], names: list[str], kind: type[Any] = MultiheadSelfAttention, **page: Any
) -> list[AttentionLayer]:
    """Return the attention layers among sublayers of these names; ``page`` are their attributes."""
    numbered = [
        f"{name}.{names[: index + 1].count(name)}" if names.count(name) > 1 else name
        for index, name in enumerate(names)
    ]
    return [
        AttentionLayer(number, name, branch.sublayer.mechanism, branch.sublayer.mechanism, **page)
        for number, layer in enumerate(layers, start=1)
        for name, branch in zip(numbered, layer.sublayers, strict=True)
        if isinstance(branch.sublayer, kind)
    ]


def of_side(trained: TrainedModel, side: str, **page: Any) -> list[AttentionLayer]:
    """Return a side's attention layers; a recommender's names begin with the level."""
    levels = getattr(trained.model, "levels", None) if side == "encoder" else None
    shown = []
    for level, stack in (levels or {"": getattr(trained.model, side, None)}).items():
        layers = getattr(stack, "layers", [])
        if not layers or not all(isinstance(item, EncoderLayer | DecoderLayer) for item in layers):
            why = trained.unread and f": {trained.unread}"
            lacks = f"the {side} of {type(trained.model).__name__} has no layers of sublayers{why}"
            raise UsageError(f"{trained.path}: {lacks}; choose a posattn_transformer")
        flag, decoder = f"{side}_sublayers", side == "decoder"
        text = getattr(trained.config, flag)
        names = parse_sublayers(text, flag=flag, cross=decoder, ffn_last=decoder)
        shown += of_stack(layers, [f"{level}.{name}".lstrip(".") for name in names], **page)
    return shown


def of_encoder(trained: TrainedModel) -> list[AttentionLayer]:
    """Return the layers of an encoder in which tokens attend to tokens."""
    if isinstance(getattr(trained.model, "encoder", None), SentenceEncoder):
        shown = of_classifier(trained)  # of pairs the first sentences
        return [layer for layer in shown if layer.query and not layer.call] or _refuse(trained)
    return of_side(trained, "encoder")


def of_translator(trained: TrainedModel) -> list[AttentionLayer]:
    """Return the layers of a generation model: encoder, decoder, and decoder to encoder."""
    cross = {"kind": MultiheadCrossAttention, "part": "cross attention"}
    return [
        *of_side(trained, "encoder", part="encoder", query=SOURCE, key=SOURCE),
        *of_side(trained, "decoder", part="decoder", query=TARGET, key=WRITTEN),
        *of_side(trained, "decoder", **cross, query=TARGET, key=SOURCE),
    ]


def of_classifier(trained: TrainedModel) -> list[AttentionLayer]:
    """Return a classifier's layers: encoder and pooling, of each sentence encoded apart."""
    encoder: Any = getattr(trained.model, "encoder", None)
    cfg: Any = trained.config
    if not isinstance(encoder, SentenceEncoder):
        none = f"there is no page for a {type(trained.model).__name__}"
        raise UsageError(f"{trained.path}: {none}; choose a translator or a classifier")
    if encoder.sentences is not None:
        raise UsageError(f"{trained.path}: reads documents a sentence at a time; choose another")
    rows = [(WORDS, "")]
    if trained.encodes_pairs:
        rows = [(FIRST, "first sentence, "), (SECOND, "second sentence, ")]
    shown: list[AttentionLayer] = []
    for call, (row, prefix) in enumerate(rows):
        within = {"part": f"{prefix}words", "query": row, "key": row, "call": call}
        if encoder.layers:
            shown += of_side(trained, "encoder", **within)
        else:
            shown += _attending(encoder.words.encoder, str(cfg.encoder), within)
        pooling = encoder.words.pooling
        if isinstance(pooling, MultiQueryPooling | mechanisms.Source2TokenPooling):
            watched, name = getattr(pooling, "attend", pooling), str(cfg.pooling)
            part = f"{prefix}pooling"
            shown.append(AttentionLayer(1, name, watched, pooling, part, None, row, call))
    return shown if shown and encoder.ngrams is None else _refuse(trained)


def _refuse(trained: TrainedModel) -> NoReturn:
    cfg: Any = trained.config
    flags = f"--encoder {cfg.encoder} with --pooling {cfg.pooling}"
    raise UsageError(f"{trained.path}: {flags} has no attention between words to show")


def _attending(
    encoder: nn.Module, encoder_name: str, within: dict[str, Any]
) -> Iterator[AttentionLayer]:
    """Yield the layers of an encoder without sublayers; a single layer has the encoder's name."""
    modules = dict(encoder.named_modules())
    owners: dict[str, tuple[nn.Module, Any]] = {}
    for path, module in modules.items():
        if isinstance(module, Mechanism):
            owners[path] = (module, module)
        elif isinstance(module, AttentionFunction):
            owner = modules[path.rpartition(".")[0]]
            is_block = isinstance(owner, mechanisms.DirectionalBlock)
            owners[owner.masks.names[0] if is_block else path.replace("_", " ")] = (module, owner)
    for name, (module, owner) in owners.items():
        yield AttentionLayer(1, encoder_name if len(owners) == 1 else name, module, owner, **within)


def choose(
    attention_layers: Sequence[AttentionLayer],
    layers: Sequence[int] | None = None,
    names: Sequence[str] | None = None,
) -> list[AttentionLayer]:
    """Return the attention layers with these layer numbers and names; None for all."""
    numbers = range(1, 1 + max(attention.layer for attention in attention_layers))
    known = dict.fromkeys(attention.name for attention in attention_layers)
    for flag, wanted, choices in (("layers", layers, numbers), ("sublayers", names, known)):
        for value in wanted or ():
            if value not in choices:
                choose_from = ", ".join(map(str, choices))
                raise UsageError(f"--{flag} {value}: choose from {choose_from}")
    chosen = [
        attention
        for attention in attention_layers
        if (not layers or attention.layer in layers) and (not names or attention.name in names)
    ]
    if not chosen:
        wanted, named = ",".join(map(str, layers or ())), ",".join(names or ())
        raise UsageError(f"--layers {wanted} --sublayers {named}: there is none of these")
    return chosen


@dataclass(frozen=True)
class AttentionCall:
    """A call of an attention layer's module.

    Its positional arguments are, of a mechanism, ``hidden [B, T, C]`` (normalized), and query, key
    and value ``[B, H, T, D]``; its result are the weights that the module returned.
    """

    layer: AttentionLayer
    args: tuple[Tensor, ...]
    result: Tensor


@contextmanager
def watching(
    layers: Sequence[AttentionLayer], observe: Callable[[int, AttentionCall], None]
) -> Iterator[None]:
    """Observe calls of layers' ``forward``, which takes ``need_weights``; results stay the same."""
    needed: list[bool] = []  # whether the model itself needs the weights, of the calls under way
    calls: Counter[nn.Module] = Counter()

    def before(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> Any:
        needed.append(kwargs.get("need_weights", False))
        return args, {**kwargs, "need_weights": True}

    def after(module: nn.Module, args: Any, output: Any) -> Any:
        result, weights = output
        for index, layer in enumerate(layers):
            if layer.module is module and layer.call == calls[module]:
                observe(index, AttentionCall(layer, args, weights))
        calls[module] += 1
        return output if needed.pop() else result

    with ExitStack() as hooks:
        for module in dict.fromkeys(layer.module for layer in layers):
            hooks.enter_context(module.register_forward_pre_hook(before, with_kwargs=True))
            hooks.enter_context(module.register_forward_hook(after))
        yield
