"""Registration of named architectures, and the complete options of a model.

fairseq applies named architectures to parsed command lines only, not to YAML files and config
objects. So each architecture is registered with a dataclass of its defaults, which ``--arch``,
``fairseq-hydra-train``, Python and checkpoints all read.
"""

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import field, fields, make_dataclass
from types import MappingProxyType

import torch.nn.functional as F
from fairseq.dataclass import FairseqDataclass
from fairseq.models import MODEL_REGISTRY, BaseFairseqModel, register_model
from omegaconf import OmegaConf
from torch import Tensor


class LogitsModel(BaseFairseqModel):
    """Base of models whose first output is logits ``[..., K]``."""

    def get_normalized_probs(self, net_output, log_probs: bool, sample=None) -> Tensor:
        """Return probabilities or log-probabilities in float32, ``[..., K]``."""
        normalize = F.log_softmax if log_probs else F.softmax
        return normalize(net_output[0].float(), dim=-1)


def show_defaults(config: type[FairseqDataclass]) -> None:
    """Append the default to the help text of each flag of a config."""
    for option in fields(config):
        text, default = option.metadata.get("help", ""), option.default
        shown = isinstance(default, (int, float, str)) and not isinstance(default, bool)
        if text and shown and "default" not in text and str(default)[:1] not in ("", "$", "?"):
            help_text = f"{text} (default: {default})".replace("%", "%%")
            option.metadata = MappingProxyType({**option.metadata, "help": help_text})


def register_architectures(
    model: type[BaseFairseqModel],
    config: type[FairseqDataclass],
    presets: Mapping[str, Mapping[str, object]],
):
    """Register architectures; a second call has no effect.

    Args:
        model: class of the model.
        config: its options.
        presets: options whose defaults an architecture changes, by its name.
    """
    for name, preset in presets.items():
        if name not in MODEL_REGISTRY:
            # fairseq looks defaults up by the model's class. Flags stay the model's, since a bool
            # with default True would become a flag that sets it to False.
            members = {"__module__": model.__module__, "add_args": staticmethod(model.add_args)}
            variant = type(model.__name__, (model,), members)
            register_model(name, dataclass=_with_defaults(config, name, preset))(variant)


def _with_defaults(config, name, preset):
    options = {option.name: option for option in fields(config)}
    changed = [
        (option, options[option].type, field(default=value, metadata=options[option].metadata))
        for option, value in preset.items()
    ]
    # preset_of marks the defaults of options that older checkpoints lack, see compat.matching.
    return make_dataclass(name, changed, bases=(config,), namespace={"preset_of": config})


def all_options(cfg, config: type[FairseqDataclass]) -> Namespace:
    """Return all options of a model, missing ones at their defaults.

    Args:
        cfg: a ``config``, or a namespace of some of its options. ``${model.NAME}`` is resolved;
            an interpolation of the task's options stays unresolved without a config of the task.
    """
    options = {option.name: option.default for option in fields(config)}
    options.update(_resolve(cfg) if OmegaConf.is_config(cfg) else vars(cfg))
    for name, value in options.items():
        if isinstance(value, str) and value.startswith("${model."):
            options[name] = options[value.removeprefix("${model.").removesuffix("}")]
    return Namespace(**options)


def _resolve(cfg) -> dict:
    given = OmegaConf.to_container(cfg, resolve=False)
    for name in given:
        value = OmegaConf.select(cfg, name, throw_on_resolution_failure=False)
        given[name] = given[name] if value is None else value
    return given
