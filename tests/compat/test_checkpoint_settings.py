"""Settings of a checkpoint are plain, and the files that they name are ignored."""

import argparse
import inspect
import logging
import re
from dataclasses import fields
from unittest.mock import Mock

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.logging import meters
from fairseq.tasks.language_modeling import LanguageModelingConfig
from omegaconf import OmegaConf
from small_trainings import save_checkpoint

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.checkpoints.settings import FILES, IN_DATA, UNUSED
from fairseq_posattn.compat.loading import TooLarge, no_larger_than


def settings(tmp_path, overrides=None, **sections):
    path = save_checkpoint(tmp_path / "checkpoint.pt", cfg=sections)
    return checkpoint_utils.load_checkpoint_to_cpu(path, overrides)["cfg"]


def test_plain_settings_are_unchanged(tmp_path):
    task = {"_name": "translation", "data": "a:b", "lr": [0.1, 1], "x": {"y": None}, "z": False}
    flags = argparse.Namespace(arch="fconv", tiny=(1, 2), lr="${optimization.lr}")
    cfg = settings(tmp_path, task=task, model=flags)
    assert cfg.task == task
    assert cfg.model == flags


REFUSED = ["${oc.env:HOME}", "a ${task.data}", "${oc.decode:'1'}", ["${task.data}"], b"bytes"]
REFUSED += [{"_target_": "os.system"}, {"a": {"${oc.env:HOME}": 1}}, torch.zeros(1), 1 << 70]
REFUSED += ["x" * 1_000_001]


@pytest.mark.parametrize("value", REFUSED, ids=lambda value: str(value)[:20])
@pytest.mark.parametrize("kind", [dict, argparse.Namespace])
def test_other_values_are_refused(tmp_path, value, kind):
    with pytest.raises(UsageError, match=r"checkpoint\.pt is refused: its settings, [^\n]*$"):
        settings(tmp_path, task=kind(setting=value))
    path = save_checkpoint(tmp_path / "checkpoint.pt", args=argparse.Namespace(setting=value))
    with pytest.raises(UsageError, match=r"checkpoint\.pt is refused: its settings, [^\n]*$"):
        checkpoint_utils.load_checkpoint_to_cpu(path)


@pytest.mark.parametrize("name", ["task", "_name", "arch", "bpe", "optimizer"])
def test_names_of_classes_are_not_paths(tmp_path, name):
    with pytest.raises(UsageError, match="are not a name: '../x'"):
        settings(tmp_path, model=argparse.Namespace(**{name: "../x"}))


NAMED = ["w2v_path", "sentencepiece_model", "bpe_codes", "save_predictions", "post_save_script"]


@pytest.mark.parametrize("name", NAMED)
def test_a_file_is_ignored_unless_the_user_names_it(tmp_path, caplog, name):
    with caplog.at_level(logging.WARNING):
        cfg = settings(tmp_path, task={name: "/theirs"}, model=argparse.Namespace(**{name: "/t"}))
    assert name not in cfg.task
    assert getattr(cfg.model, name) is None
    assert f"--model-overrides \"{{'{name}': FILE}}\"" in caplog.text
    caplog.clear()
    cfg = settings(tmp_path, {name: "/mine"}, task={name: "/theirs"})
    assert cfg.task[name] == "/mine"
    assert not caplog.text


@pytest.mark.parametrize(
    "name", ["encoder_embed_path", "user_dir", "use_plasma_view", "dataset_impl"]
)
def test_settings_of_training_are_removed_silently(tmp_path, caplog, name):
    cfg = settings(tmp_path, common={name: "/theirs"}, model={name: "/theirs", "a": 1})
    assert cfg.common[name] is None
    assert cfg.model == {"a": 1}
    assert not caplog.text


def test_language_models_keep_the_path_that_their_task_reads(tmp_path):
    cfg = settings(tmp_path, common={"plasma_path": "/tmp/plasma"}, task={})
    task = OmegaConf.create({"common": cfg.common, "task": LanguageModelingConfig()}).task
    assert task.plasma_path == "/tmp/plasma"


@pytest.mark.parametrize("name, stays", [("config_st.yaml", True), ("../config.yaml", False)])
def test_a_file_name_within_the_data_stays(tmp_path, name, stays):
    assert ("config_yaml" in settings(tmp_path, task={"config_yaml": name}).task) is stays


@pytest.mark.parametrize("name", ["function", "time", "OrderedDict", "safe_round", "Nothing", 3])
def test_metrics_are_meters(name, monkeypatch):
    loaded, state = meters.MetersDict(), [(0, "loss", name, {})]
    loaded.load_state_dict([(0, "loss", "AverageMeter", {"val": 1, "sum": 2, "count": 2})])
    assert loaded["loss"].avg == 1
    monkeypatch.setattr(meters, "function", Mock(), raising=False)
    with pytest.raises(UsageError, match="there is no meter"):
        loaded.load_state_dict(state)
    if name == "function":  # fairseq calls it
        inspect.unwrap(meters.MetersDict.load_state_dict)(meters.MetersDict(), state)
        meters.function.assert_called_once()


@pytest.mark.parametrize(
    "build",
    [
        lambda: torch.nn.Embedding(1 << 30, 1),
        lambda: torch.nn.ModuleList(torch.nn.Linear(512, 512) for _ in range(10**3)),
        lambda: torch.nn.Sequential(*(torch.nn.ReLU() for _ in range(20_000))),
    ],
)
def test_a_model_that_is_too_large_is_not_built(build):
    with pytest.raises(TooLarge), no_larger_than(100 << 20, 10_000):
        build()
    torch.nn.Linear(1 << 13, 1 << 12)  # afterwards all is as before


def test_tables_are_no_larger_than_the_file_allows(tmp_path):
    model = {"max_source_positions": 1024, "encoder_embed_dim": 512}
    assert settings(tmp_path, model=model).model == model
    with pytest.raises(UsageError, match=r"checkpoint\.pt is refused: .* larger than the file"):
        settings(tmp_path, model=model | {"max_source_positions": 10**9})


# --- every setting of fairseq's and ours that could name a file ----------------------------------

SOUNDS_LIKE_A_FILE = re.compile(
    "path|file|dir|codes|vocab|yaml|json|tsv|script|lexicon|manifest|vocoder|pretrained|"
    "checkpoint|ckpt|merges|(_from|_dict|dictionary|_model|_predictions|stats|root|log)$"
)
NO_FILES = {"checkpoint_activations", "offload_activations", "pretrained"}  # but switches
NO_FILES |= {"plasma_path"}  # unused without use_plasma_view


def flags():
    """Return the names of all flags of models, tasks, criterions and tokenizers, except numbers."""
    from fairseq import models, tasks
    from fairseq.registry import REGISTRIES

    classes = [*models.MODEL_REGISTRY.values(), *tasks.TASK_REGISTRY.values()]
    configs = (models.MODEL_DATACLASS_REGISTRY, tasks.TASK_DATACLASS_REGISTRY)
    dataclasses = [config for registry in configs for config in registry.values()]
    for name in ("criterion", "bpe", "tokenizer", "scoring"):
        classes += REGISTRIES[name]["registry"].values()
        dataclasses += REGISTRIES[name]["dataclass_registry"].values()
    names = set()
    for kind in filter(None, dataclasses):
        names |= {field.name for field in fields(kind) if re.search("str|Any", str(field.type))}
    for kind in classes:
        parser = argparse.ArgumentParser(conflict_handler="resolve")
        if hasattr(kind, "add_args"):
            kind.add_args(parser)
        texts = (arg for arg in parser._actions if arg.type in (None, str) and arg.nargs != 0)
        names |= {action.dest for action in texts}
    return names


def test_every_flag_that_could_name_a_file_is_known():
    known = FILES | UNUSED | IN_DATA | NO_FILES | {"data"}
    names = {name for name in flags() if SOUNDS_LIKE_A_FILE.search(name)}
    assert len(names) > 20
    assert names - known == set()
