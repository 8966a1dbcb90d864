"""A resumed model keeps the options that it was trained with."""

import argparse
import copy
import functools
from pathlib import Path
from types import SimpleNamespace

import fairseq_cli.train
import pytest
import torch
from fairseq import checkpoint_utils, models, options
from fairseq.data import Dictionary
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import OmegaConf
from small_trainings import save_checkpoint

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.checkpoints import read_checkpoint
from fairseq_posattn.compat.matching import (
    file_to_train_on,
    report_difference_in_training,
    report_difference_in_use,
)
from fairseq_posattn.model.multihead import OutputLinear

# It has attention_dropout 0.1 and dropout 0.3; the model without a preset has 0 and 0.1.
ARCH = "dman_iwslt_de_en"
DATA = Path(__file__).parents[1] / "fixtures" / "translation" / "data"
TASK = SimpleNamespace(source_dictionary=Dictionary(), target_dictionary=Dictionary())


@functools.cache
def config(*flags, arch=ARCH):
    """Return the config of a command line of fairseq-train; a copy of it may be changed."""
    arguments = [str(DATA), "--arch", arch, "--encoder-layers", "1", "--decoder-layers", "1"]
    arguments += ["--max-tokens", "64", "--optimizer", "adam", "--cpu", *flags]
    args = options.parse_args_and_arch(options.get_training_parser(), arguments)
    return convert_namespace_to_omegaconf(args)


def saved(path, *without, kind=dict, arch=ARCH, **changed):
    """Save a checkpoint whose settings lack options or have others changed; return its path."""
    settings = OmegaConf.to_container(config(arch=arch).model, resolve=True, enum_to_str=True)
    settings = {name: value for name, value in settings.items() if name not in without} | changed
    if kind is dict:
        task = {"_name": "translation", "data": "data"}
        return save_checkpoint(path, cfg={"model": settings, "task": task})
    del settings["_name"]  # as fairseq wrote them before it had groups
    flags = {"task": "translation", "data": "data", "criterion": "cross_entropy"}
    args = kind(arch=arch, optimizer="adam", lr_scheduler="fixed", **settings, **flags)
    return save_checkpoint(path, args=args)


def read(path, **overrides):
    return checkpoint_utils.load_checkpoint_to_cpu(path, overrides)["cfg"].model


@pytest.mark.parametrize("kind", [dict, argparse.Namespace])
def test_a_missing_option_has_its_default_without_preset(tmp_path, kind):
    path = saved(tmp_path / "old.pt", "attention_dropout", kind=kind)
    cfg = read(path)
    built = models.build_model(cfg, TASK, from_checkpoint=True)
    assert (built.cfg.attention_dropout, built.cfg.dropout) == (0, 0.3)
    fairseqs = OmegaConf.create(OmegaConf.to_container(config().model, resolve=True))
    del fairseqs["attention_dropout"]
    built = models.build_model(fairseqs, TASK, from_checkpoint=True)
    assert built.cfg.attention_dropout == 0.1  # the preset's


def test_overrides_have_precedence_and_models_without_a_preset_are_unchanged(tmp_path):
    path = saved(tmp_path / "old.pt", "attention_dropout")
    assert read(path, attention_dropout=0.2).attention_dropout == 0.2
    path = saved(tmp_path / "old.pt", "attention_dropout", arch="posattn_transformer")
    assert "attention_dropout" not in read(path)


def test_layers_that_a_model_cannot_leave_out_are_refused(tmp_path):
    path = saved(tmp_path / "old.pt")
    with pytest.raises(UsageError, match="'encoder_layers_to_keep': .*old.pt lacks this option"):
        read(path, encoder_layers_to_keep="0")
    model = argparse.Namespace(arch="transformer", encoder_layers_to_keep=None)
    cfg = {"model": model, "task": {"_name": "translation", "data": "data"}}
    path = save_checkpoint(tmp_path / "stock.pt", cfg=cfg)
    assert read(path, encoder_layers_to_keep="0").encoder_layers_to_keep == "0"


def trained_on(tmp_path, *flags, arch=ARCH, **files):
    """Return the model's settings after fairseq-train has added defaults."""
    cfg = copy.deepcopy(config(*flags, arch=arch))
    cfg.checkpoint.update({"save_dir": str(tmp_path / "saved"), **files})
    fairseq_cli.train.add_defaults(cfg)
    return cfg.model


@pytest.mark.slow
@pytest.mark.parametrize("flag", ["restore_file", "finetune_from_model", "continue_once"])
def test_restored_files_keep_missing_options(tmp_path, caplog, flag):
    path = saved(tmp_path / "old.pt", "attention_dropout")
    with caplog.at_level("INFO"):
        cfg = trained_on(tmp_path, **{flag: path})
    assert (cfg.attention_dropout, cfg.dropout) == (0, 0.3)
    assert f"{path} lacks attention_dropout, which stays 0.0" in caplog.text
    cfg = trained_on(tmp_path, "--attention-dropout=0.2", **{flag: path})
    assert cfg.attention_dropout == 0.2


@pytest.mark.slow
def test_only_restored_files_keep_missing_options(tmp_path):
    assert trained_on(tmp_path).attention_dropout == 0.1
    (tmp_path / "saved").mkdir()  # what would be restored counts, and nothing else
    saved(tmp_path / "saved" / "checkpoint_last.pt", "attention_dropout")
    assert trained_on(tmp_path).attention_dropout == 0
    other = saved(tmp_path / "new.pt")
    assert trained_on(tmp_path, restore_file=other).attention_dropout == 0.1


RELEASED = {ARCH: {"heads_activation": "relu"}}
RELEASED["dman_summarization"] = {"heads_activation": "gelu", "heads_dropout": 0.1}
RELEASED["dman_summarization"]["share_all_embeddings"] = False


@pytest.mark.slow
@pytest.mark.parametrize("arch", RELEASED)
def test_training_keeps_values_of_earlier_presets(tmp_path, caplog, arch):
    caplog.set_level("INFO")
    path = saved(tmp_path / "old.pt", arch=arch, **RELEASED[arch])
    cfg = trained_on(tmp_path, restore_file=path, arch=arch)
    assert {name: cfg[name] for name in RELEASED[arch]} == RELEASED[arch]
    for name, value in RELEASED[arch].items():
        assert f"{path} has an earlier default of {name}, which stays {value!r}" in caplog.text
    assert "was trained with" not in caplog.text
    cfg = trained_on(tmp_path, arch=arch)  # without it, as the architecture has it today
    assert not {name: cfg[name] for name in RELEASED[arch]}.items() & RELEASED[arch].items()


@pytest.mark.parametrize(
    "options, activations",
    [
        ({"heads_activation": "relu", "start": "mans"}, {torch.nn.functional.relu}),
        ({"heads_activation": "gelu", "heads_dropout": 0.1}, {torch.nn.functional.gelu}),
        ({}, {None}),  # the fixture is of before there was the option
    ],
)
def test_a_trained_model_keeps_its_form(tmp_path, options, activations):
    state = read_checkpoint(DATA.parent / "checkpoint.pt")
    assert "heads_activation" not in state["cfg"]["model"]
    state["cfg"]["model"] |= {"_name": ARCH, **options}
    path = str(tmp_path / "checkpoint.pt")
    torch.save(state, path)
    models_, _ = checkpoint_utils.load_model_ensemble([path], {"data": str(DATA)})
    projections = [part for part in models_[0].modules() if isinstance(part, OutputLinear)]
    assert len(projections) == 5
    assert {part.activation for part in projections} == activations
    assert {part.dropout.p for part in projections} == {options.get("heads_dropout", 0.0)}


@pytest.mark.slow
@pytest.mark.parametrize("arch", [ARCH, "posattn_transformer"])
def test_another_option_is_reported(tmp_path, caplog, arch):
    caplog.set_level("WARNING")  # commands of other tests leave another, or none
    path = saved(tmp_path / "new.pt", arch=arch)
    trained_on(tmp_path, "--attention-impl=reference", restore_file=path, arch=arch)
    assert not caplog.records
    trained_on(tmp_path, "--activation-fn=gelu", restore_file=path, arch=arch)
    (message,) = caplog.messages
    assert message == f"{path} was trained with --activation-fn relu; training continues with gelu"


@pytest.mark.parametrize("name", ["checkpoint_last.pt", "checkpoint_last-shard0.pt"])
def test_shards_are_loaded(tmp_path, name):
    cfg = config("--save-dir", str(tmp_path)).checkpoint
    assert file_to_train_on(cfg) is None
    (tmp_path / name).touch()
    assert file_to_train_on(cfg) == str(tmp_path / name)


def test_a_model_that_does_not_fit_is_reported_with_what_helps(tmp_path):
    path, cfg = saved(tmp_path / "old.pt"), config("--encoder-sublayers=rope,ffn")
    trainer = SimpleNamespace(cfg=cfg, task=SimpleNamespace(cfg=cfg.task))
    message = "was trained with .*; train with its settings, or give another checkpoint or --save-d"
    with pytest.raises(UsageError, match=message), report_difference_in_training(trainer, path):
        try:
            raise RuntimeError('Missing key(s) in state_dict: "a.weight"')
        except RuntimeError:
            raise Exception("Cannot load model parameters from checkpoint") from None


def test_another_optimizer_is_reported_with_what_helps():
    message = "^old.pt cannot .* give --finetune-from-model and an empty --save-dir$"
    with pytest.raises(UsageError, match=message), report_difference_in_training(None, "old.pt"):
        raise AssertionError("Optimizer does not match")


def test_tokens_that_the_task_of_a_command_leaves_out_are_reported(caplog):
    caplog.set_level("WARNING")
    trained = SimpleNamespace(task={"_name": "language_modeling", "add_bos_token": True})

    def warnings(task):
        caplog.clear()
        loaded = ([], trained, task)
        assert report_difference_in_use(lambda *_: loaded, ["model.pt"], None, task) is loaded
        return caplog.messages

    assert not warnings(None)
    assert not warnings(SimpleNamespace(cfg={"add_bos_token": True}))
    old_task = SimpleNamespace(cfg=None, args=argparse.Namespace(add_bos_token=False))
    (message,) = warnings(old_task)
    assert message.startswith("model.pt was trained with --add-bos-token True, not False:")
    old_task.args.add_bos_token = True
    assert not warnings(old_task)
