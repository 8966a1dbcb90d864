"""Numbers that settings may have."""

import contextlib
import dataclasses
import math
from argparse import Namespace

import pytest
from fairseq.dataclass.configs import FairseqConfig
from fairseq.models import ARCH_CONFIG_REGISTRY, MODEL_DATACLASS_REGISTRY
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_DATACLASS_REGISTRY

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.flags.ranges import RANGES, check_ranges


@pytest.mark.parametrize(
    "name, value, line",
    [
        ("dropout", 1.5, "--dropout 1.5: it must be from 0 to 1"),
        ("relu_dropout", -0.1, "--relu-dropout -0.1: it must be from 0 to 1"),
        ("encoder_layerdrop", math.nan, "--encoder-layerdrop nan: it must be from 0 to 1"),
        ("encoder_layers", 0, "--encoder-layers 0: it must be 1 or more"),
        ("lr", [0.1, -1.0], "--lr -1.0: it must be 0 or more"),
        ("update_freq", [2, 0], "--update-freq 0: it must be 1 or more"),
        ("patience", -2, "--patience -2: it must be 0 or more, or -1 for none"),
        (
            "sampling_topp",
            0.0,
            "--sampling-topp 0.0: it must be more than 0 and up to 1, or -1 for",
        ),
        ("temperature", 0.0, "--temperature 0.0: it must be more than 0"),
    ],
)
def test_a_number_out_of_range(name, value, line):
    with pytest.raises(UsageError) as error:
        check_ranges({"seed": 1, name: value})
    assert str(error.value).startswith(line)


def test_what_is_no_number_is_left_to_others():
    """fconv's --encoder-layers is a list of pairs, as text; --retain-dropout is true or false."""
    check_ranges(
        {"encoder_layers": "[(512, 3)] * 20", "retain_dropout": True, "max_tokens": None, "lr": []}
    )


def test_no_default_of_fairseq_is_refused():
    """Nor of the plugin: of settings, tasks, models, optimizers, schedules and criterions."""
    configs = [field.default for field in dataclasses.fields(FairseqConfig)]
    registries = [MODEL_DATACLASS_REGISTRY, TASK_DATACLASS_REGISTRY]
    registries += [registry["dataclass_registry"] for registry in REGISTRIES.values()]
    configs += [config for registry in registries for config in registry.values()]
    checked = set()
    for config in configs:
        if dataclasses.is_dataclass(config):
            for field in dataclasses.fields(config):
                if field.default_factory is not dataclasses.MISSING:
                    value = field.default_factory()
                else:
                    value = field.default
                check_ranges({field.name: value})
                checked.add(field.name)
    assert {"dropout", "encoder_layers", "lr", "beam", "label_smoothing"} <= checked


def test_no_named_architecture_is_refused():
    for configure in ARCH_CONFIG_REGISTRY.values():
        settings = Namespace()
        with contextlib.suppress(AttributeError):  # some want a flag that has no default
            configure(settings)
        check_ranges(vars(settings))


def test_each_name_is_in_one_range():
    names = [name for _, patterns in RANGES.values() for name in patterns]
    assert len(names) == len(set(names))
