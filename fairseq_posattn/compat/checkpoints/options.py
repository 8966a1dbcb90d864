"""Options that a checkpoint lacks, because it was written before they existed.

A named architecture has defaults of its own, and may turn on an option that older versions had not.
What the file of an older version holds must stay the model that it was: such options have in it the
default of the model without a preset, which is how versions behaved that did not know them.
"""

import argparse
from dataclasses import fields

from fairseq.models import MODEL_DATACLASS_REGISTRY

# Values that presets had until DMAN's took the paper form, and summarization shared its embeddings.
EARLIER_PRESETS = {
    "heads_activation": ("relu", "gelu"),
    "heads_dropout": (0.1,),
    "share_all_embeddings": (False,),
}


def defaults_before(arch):
    """The options that a named architecture of this plugin changes, as the model has them without.

    Args:
        arch (str): any model's name.

    Returns:
        dict: empty if it is no named architecture of the plugin's.
    """
    preset = MODEL_DATACLASS_REGISTRY.get(arch)
    config = getattr(preset, "preset_of", None)
    if config is None:
        return {}
    before = {option.name: option.default for option in fields(config)}
    return {
        option.name: before[option.name]
        for option in fields(preset)
        if option.default != before[option.name]
    }


def model_options(state):
    """The options of the model in a checkpoint.

    Args:
        state (dict): as read.

    Returns:
        a dictionary or a namespace, of the checkpoint itself; None if there are none.
    """
    saved = state.get("cfg")
    return saved.get("model") if isinstance(saved, dict) else state.get("args")


def missing(arch, options):
    """What options of a model lack, and must have for the model to be what it was.

    Args:
        arch (str): the name of the model that is to be built.
        options: a dictionary or a namespace, as in a checkpoint.

    Returns:
        dict: values by name.
    """
    return {name: value for name, value in defaults_before(arch).items() if name not in options}


def earlier_presets(arch, options):
    """Return the options of a checkpoint that have a value of an earlier preset.

    Args:
        arch (str): the name of the model that is to be built.
        options (dict): those of the checkpoint.

    Returns:
        dict: values by name; empty for other models than the plugin's named architectures.
    """
    if not defaults_before(arch):
        return {}
    return {
        name: options[name]
        for name, values in EARLIER_PRESETS.items()
        if options.get(name) in values
    }


def complete(state):
    """Add to a checkpoint, as read, what it is :func:`missing`."""
    options = model_options(state)
    if isinstance(options, argparse.Namespace):
        options = vars(options)
    if options:
        options.update(missing(options.get("_name") or options.get("arch"), options))
