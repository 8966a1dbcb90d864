"""Named architectures: a model's settings with defaults of their own.

fairseq applies a named architecture only where the command line was parsed: a YAML file and a
config object have a model's defaults already when the architecture is asked for what they lack. So
each architecture here is registered with a dataclass whose defaults are the architecture's, and
``--arch``, ``fairseq-hydra-train``, Python and checkpoints all read that.
"""

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import field, fields, make_dataclass
from functools import cached_property

from fairseq.dataclass import FairseqDataclass
from fairseq.models import (
    MODEL_DATACLASS_REGISTRY,
    MODEL_REGISTRY,
    BaseFairseqModel,
    register_model,
    register_model_architecture,
)
from hydra.core.config_store import ConfigNode, ConfigStore
from omegaconf import OmegaConf


def register_architectures(
    model: type[BaseFairseqModel],
    config: type[FairseqDataclass],
    presets: Mapping[str, Mapping[str, object]],
):
    """Make architectures known by name; calling it again changes nothing.

    Args:
        model: what they are settings of.
        config: its options.
        presets: for each architecture the options whose defaults it changes.
    """
    for name, preset in presets.items():
        if name not in MODEL_REGISTRY:
            # fairseq finds the defaults by the class of the model. The flags stay the model's: a
            # bool that is true by default would become a flag that makes it false.
            members = {"__module__": model.__module__, "add_args": staticmethod(model.add_args)}
            variant = type(model.__name__, (model,), members)
            _register(name, variant, _with_defaults(config, name, preset))


def _register(name, model, options):
    """As ``register_model(name, options)(model)``, but for what Hydra has of it."""
    register_model(name)(model)
    MODEL_DATACLASS_REGISTRY[name] = model.__dataclass = options
    ConfigStore.instance().repo["model"][f"{name}.yaml"] = _Later(name, options)
    register_model_architecture(name, name)(lambda _: None)


class _Later(ConfigNode):
    """A model's options for Hydra, made when it asks: all would take a third of a second."""

    def __init__(self, name, options):
        self.name, self.group = f"{name}.yaml", "model"
        self.package, self.provider = None, "fairseq"
        self.options = options

    @cached_property
    def node(self):
        return OmegaConf.structured(self.options(_name=self.name.removesuffix(".yaml")))


def _with_defaults(config, name, preset):
    options = {option.name: option for option in fields(config)}
    changed = [
        (option, options[option].type, field(default=value, metadata=options[option].metadata))
        for option, value in preset.items()
    ]
    # What an option is in checkpoints from before there was one: see compat/matching.py.
    return make_dataclass(name, changed, bases=(config,), namespace={"preset_of": config})


def all_options(cfg, config: type[FairseqDataclass]) -> Namespace:
    """All options of a model, those missing at their defaults.

    Args:
        cfg: a ``config``, or a namespace or mapping of some of its options. An option may stand for
            another, as ``${model.NAME}``; one of the task's, where there is no whole config that
            has a task, stays as it is written.
    """
    options = {option.name: option.default for option in fields(config)}
    options.update(_given(cfg) if OmegaConf.is_config(cfg) else vars(cfg))
    for name, value in options.items():
        if isinstance(value, str) and value.startswith("${model."):
            options[name] = options[value.removeprefix("${model.").removesuffix("}")]
    return Namespace(**options)


def _given(cfg) -> dict:
    given = OmegaConf.to_container(cfg, resolve=False)
    for name in given:
        value = OmegaConf.select(cfg, name, throw_on_resolution_failure=False)
        given[name] = given[name] if value is None else value
    return given
