"""A named architecture is the same model by flag, YAML, namespace or dataclass."""

import argparse
import contextlib
import copy
import itertools
from dataclasses import fields
from types import SimpleNamespace

import pytest
import torch
from classifier_builder import dictionary
from fairseq import models, options
from fairseq.dataclass import FairseqDataclass
from fairseq.dataclass.initialize import add_defaults
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import MODEL_DATACLASS_REGISTRY
from omegaconf import MISSING, OmegaConf

from fairseq_posattn.training.criterions import CRITERIONS
from fairseq_posattn.training.models import MODELS
from fairseq_posattn.training.models.seq2seq import STOCK_OPTIONS
from fairseq_posattn.training.presets import ARCHITECTURES
from fairseq_posattn.training.tasks import TASKS

WORDS = dictionary()
CLASSIFIERS = ARCHITECTURES["posattn_classifier"]
TRANSFORMERS = ARCHITECTURES["posattn_transformer"]
LARGE = {*TRANSFORMERS, "fasttext_classifier"}


def task():
    return SimpleNamespace(
        source_dictionary=WORDS, target_dictionary=WORDS, max_positions=lambda: 512
    )


def task_and_criterion(arch):
    if arch in CLASSIFIERS:
        return "sentence_prediction", "sentence_classification"
    return "translation", "cross_entropy"


def from_arch_flag(arch, **values):
    """Return the options of ``fairseq-train --arch NAME``."""
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in values.items()]
    task, criterion = task_and_criterion(arch)
    flags = ["data", "--task", task, "--criterion", criterion, "--arch", arch, *flags]
    args = options.parse_args_and_arch(options.get_training_parser(), flags)
    return convert_namespace_to_omegaconf(args).model


def from_yaml(arch, **values):
    """Return the options of ``fairseq-hydra-train`` with ``model: {_name: NAME}``."""
    task, criterion = ({"_name": name} for name in task_and_criterion(arch))
    settings = {"task": {**task, "data": "data"}, "criterion": criterion}
    cfg = OmegaConf.create({"model": {"_name": arch, **values}, **settings})
    add_defaults(cfg)
    return OmegaConf.create(OmegaConf.to_container(cfg.model, resolve=True, enum_to_str=True))


WAYS = {
    "flag": from_arch_flag,
    "yaml": from_yaml,
    "mapping": lambda arch, **values: OmegaConf.create({"_name": arch, **values}),
    "namespace": lambda arch, **values: argparse.Namespace(arch=arch, **values),
    "object": lambda arch, **values: MODEL_DATACLASS_REGISTRY[arch](_name=arch, **values),
}


def build(cfg, from_checkpoint=False):
    """Build a model; a large model has no contents."""
    name = getattr(cfg, "_name", None) or cfg.arch
    with contextlib.nullcontext() if name not in LARGE else torch.device("meta"):
        return models.build_model(cfg, task(), from_checkpoint)


def described(model):
    """Return descriptions of modules and shapes of parameters by name, and the options."""
    parameters = {name: tuple(p.shape) for name, p in model.named_parameters()}
    modules = {name: module.extra_repr() for name, module in model.named_modules()}
    return modules, parameters, settings(model.cfg)


def settings(cfg):
    """Return the options of a model except its name."""
    return {
        name: settings(value) if isinstance(value, FairseqDataclass) else value
        for name, value in vars(cfg).items()
        if name not in ("arch", "_name")
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "arch, way", [*zip([*TRANSFORMERS, *CLASSIFIERS], itertools.cycle([*WAYS][:-1]), strict=False)]
)
def test_every_way_of_naming_and_a_checkpoint_build_the_same_model(arch, way):
    """Each architecture is named in one way beside its object: presets apply to all alike."""
    cfg, expected = WAYS[way](arch), described(build(WAYS["object"](arch)))
    saved = copy.deepcopy(cfg)
    assert described(build(cfg)) == expected
    if way == "flag":
        assert described(build(saved, from_checkpoint=True)) == expected


def test_older_checkpoints_still_share_embeddings():
    """Presets shared embeddings, and saved settings contain it."""
    saved = OmegaConf.merge(from_arch_flag("dman_wmt_en_de"), {"share_all_embeddings": True})
    model = build(saved, from_checkpoint=True)
    assert model.encoder.embed_tokens is model.decoder.embed_tokens


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("arch", ["dman_iwslt_de_en", "dman_classifier"])
def test_explicit_options_override_the_preset(arch, way):
    """So do options that equal the default of the model without a preset."""
    values = {"encoder_sublayers": "san,ffn", "dropout": 0.1, "encoder_ffn_embed_dim": 24}
    model = build(WAYS[way](arch, **values))
    layers = model.encoder.layers
    assert [len(layer.sublayers) for layer in layers] == [2] * len(layers)
    assert layers[0].sublayers[0].dropout.p == 0.1
    assert layers[0].sublayers[1].sublayer.fc1.out_features == 24


@pytest.mark.slow
def test_a_flag_equal_to_the_preset_changes_nothing():
    flags = ["--encoder-normalize-before", "--decoder-normalize-before"]
    flags = ["data", "--arch", "dman_iwslt_de_en", *flags]
    args = options.parse_args_and_arch(options.get_training_parser(), flags)
    model = build(convert_namespace_to_omegaconf(args).model)
    assert described(model) == described(build(from_arch_flag("dman_iwslt_de_en")))


@pytest.mark.parametrize("name", [*MODELS, *TASKS, *CRITERIONS])
def test_every_flag_of_the_plugin_has_help_with_its_default(name):
    _, config = {**MODELS, **TASKS, **CRITERIONS}[name]
    for option in fields(config):
        written_by_us = name != "posattn_transformer" or option.name not in STOCK_OPTIONS
        if written_by_us and option.name != "_name" and "${" not in str(option.default):
            assert option.metadata.get("help"), option.name
            if type(option.default) is not bool and option.default != MISSING:
                assert "(default: " in option.metadata["help"], option.name
