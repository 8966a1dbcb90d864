"""compat knows no flag, architecture, criterion or task of the plugin by its name."""

import ast
import re
from argparse import ArgumentParser
from contextlib import suppress
from dataclasses import fields
from pathlib import Path

from fairseq.dataclass.configs import FairseqConfig
from fairseq.models import MODEL_REGISTRY
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_REGISTRY

from fairseq_posattn import compat
from fairseq_posattn.training.criterions import CRITERIONS
from fairseq_posattn.training.models import MODELS
from fairseq_posattn.training.presets import ARCHITECTURES
from fairseq_posattn.training.tasks import TASKS

COMMON_WORDS = {"encoder", "start"}  # a side of fairseq's models, a method of threads
CONFIGS = [config for group in (MODELS, TASKS, CRITERIONS) for _, config in group.values()]


def names_of_fairseq():
    """Return the names of fairseq's settings, without the plugin's."""
    parser = ArgumentParser(conflict_handler="resolve")
    for registered in (*MODEL_REGISTRY.values(), *TASK_REGISTRY.values()):
        if registered.__module__.startswith("fairseq."):
            with suppress(Exception):  # some need packages that are not installed
                registered.add_args(parser)
    configs = [*vars(FairseqConfig()).values()]
    for registry in REGISTRIES.values():
        configs += registry["dataclass_registry"].values()
    configs = [config for config in configs if hasattr(config, "__dataclass_fields__")]
    known = {field.name for config in configs if config not in CONFIGS for field in fields(config)}
    return known | {action.dest for action in parser._actions}


def words_of(path):
    """Yield the words of a module's strings that may be names; docstrings may name anything."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        text = getattr(node, "value", None)
        if isinstance(node, ast.Constant) and isinstance(text, str) and id(node) not in docstrings:
            yield text
            yield from (flag.replace("-", "_") for flag in re.findall(r"--([a-z][\w-]*)", text))
            yield from (word for word in re.findall(r"\w+", text) if "_" in word)


def test_compat_does_not_name_what_the_plugin_declares():
    options = {field.name for config in CONFIGS for field in fields(config)}
    assert {"dman_max_distance", "encoder_sublayers", "title_length"} <= options
    names = options - names_of_fairseq() - COMMON_WORDS
    names |= {*MODELS, *TASKS, *CRITERIONS}.union(*ARCHITECTURES.values())
    assert {"cuda_graphs", "relatedness", "dman_iwslt_de_en", "posattn_tagger"} <= names
    named = {
        f"{path.name}: {word}"
        for path in Path(compat.__file__).parent.glob("[!_]*.py")
        for word in words_of(path)
        if word in names
    }
    assert not named
