"""Registration of named architectures, and the complete options of a model.

fairseq applies named architectures to parsed command lines only, not to YAML files and config
objects. So each architecture is registered with a dataclass of its defaults, which ``--arch``,
``fairseq-hydra-train``, Python and checkpoints all read.
"""

import re
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import field, fields, make_dataclass
from types import MappingProxyType
from typing import Any

import torch.nn.functional as F
from fairseq.dataclass import FairseqDataclass
from fairseq.models import MODEL_REGISTRY, BaseFairseqModel, FairseqDecoder, register_model
from omegaconf import MISSING, OmegaConf
from torch import Tensor

OPTION = re.compile(r"\$\{model\.(\w+)\}")  # value that refers to another option


class LogitsModel(BaseFairseqModel):
    """Base of models whose first output is logits ``[..., K]``."""

    def get_normalized_probs(self, net_output: Any, log_probs: bool, sample: Any = None) -> Tensor:
        """Return probabilities or log-probabilities in float32, ``[..., K]``."""
        normalize = F.log_softmax if log_probs else F.softmax
        return normalize(net_output[0].float(), dim=-1)


def has_logits(decoder: Any) -> bool:
    """Return whether a decoder's probabilities are the softmax of its output."""
    names = "get_normalized_probs", "get_normalized_probs_scriptable"
    is_stock = all(getattr(type(decoder), n, None) is getattr(FairseqDecoder, n) for n in names)
    return is_stock and getattr(decoder, "adaptive_softmax", None) is None


def show_defaults(config: type[FairseqDataclass]) -> None:
    """Append the default to the help text of each flag that takes a value."""
    for option in fields(config):
        text, default = option.metadata.get("help"), option.default
        takes_value = default is None or type(default) in (int, float, str)
        if text and "(default" not in text and takes_value and default != MISSING:
            other = OPTION.fullmatch(str(default))
            shown = f"that of --{other[1].replace('_', '-')}" if other else default
            text = f"{text} (default: {'none' if shown in (None, '') else shown})"
            text = text.replace("%", "%%")
            option.metadata = MappingProxyType({**option.metadata, "help": text})


def register_architectures(
    model: Any, config: type[FairseqDataclass], presets: Mapping[str, Mapping[str, object]]
) -> None:
    """Register architectures by name with the defaults they change; again, it has no effect."""
    for name, preset in presets.items():
        if name not in MODEL_REGISTRY:
            # fairseq looks defaults up by the model's class. Flags stay the model's, since a bool
            # with default True would become a flag that sets it to False.
            members = {"__module__": model.__module__, "add_args": _flags_of(model, preset)}
            variant = type(model.__name__, (model,), members)
            register_model(name, dataclass=_with_defaults(config, name, preset))(variant)


def _flags_of(model: Any, preset: Mapping[str, object]) -> Any:
    """Return an ``add_args`` of the model's flags, with an architecture's defaults in the help."""

    def add_args(parser: Any) -> None:
        model.add_args(parser)
        for flag in parser._actions:
            if flag.dest in preset and flag.help:
                text = re.sub(r" \(default: .*\)$", "", flag.help)
                flag.help = f"{text} (default: {preset[flag.dest]})"

    return staticmethod(add_args)


def _with_defaults(config: type[FairseqDataclass], name: str, preset: Mapping[str, object]) -> type:
    known = config.__dataclass_fields__
    changed = [
        (option, known[option].type, field(default=value, metadata=known[option].metadata))
        for option, value in preset.items()
    ]

    def __init__(self: Any, **options: object) -> None:
        config.__init__(self, **{**preset, **options})

    members = {
        "preset_of": config,  # defaults of options that older checkpoints lack, see compat.matching
        "__doc__": f"Options of {name}.",
        "__init__": __init__,
    }
    # To generate these methods for each architecture would be half of the plugin's import.
    made: dict[str, Any] = {"init": False, "repr": False, "eq": False}
    return make_dataclass(name, changed, bases=(config,), namespace=members, **made)


def all_options(cfg: Any, config: type[FairseqDataclass]) -> Namespace:
    """Return all options of a model, missing options at their defaults, references resolved."""
    options = {option.name: option.default for option in fields(config)}
    if OmegaConf.is_config(cfg):
        values: Any = OmegaConf.to_container(cfg, resolve=False)
        for name, value in values.items():
            resolved = OmegaConf.select(cfg, name, throw_on_resolution_failure=False)
            options[name] = value if resolved is None else resolved
    else:
        options.update(vars(cfg))
    for name, value in options.items():
        if other := OPTION.fullmatch(str(value)):
            options[name] = options[other[1]]
    return Namespace(**options)
