"""A resumed model keeps the options that it was trained with."""

import argparse
from pathlib import Path
from types import SimpleNamespace

import fairseq_cli.train
import pytest
import torch
from fairseq import checkpoint_utils, models, options
from fairseq.data import Dictionary
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import OmegaConf

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat import matching
from fairseq_posattn.compat.checkpoints.reading import read_checkpoint
from fairseq_posattn.compat.matching import file_to_train_on
from fairseq_posattn.model.multihead import OutputLinear

# It has attention_dropout 0.1 and dropout 0.3; the model without a preset has 0 and 0.1.
ARCH = "dman_iwslt_de_en"
DATA = Path(__file__).parents[1] / "fixtures" / "translation" / "data"
TASK = SimpleNamespace(source_dictionary=Dictionary(), target_dictionary=Dictionary())


def config(*flags, arch=ARCH):
    """What ``fairseq-train`` has of a command line."""
    arguments = [str(DATA), "--arch", arch, "--encoder-layers", "1", "--decoder-layers", "1"]
    arguments += ["--max-tokens", "64", "--optimizer", "adam", "--cpu", *flags]
    args = options.parse_args_and_arch(options.get_training_parser(), arguments)
    return convert_namespace_to_omegaconf(args)


def saved(path, *without, kind=dict, arch=ARCH, **changed):
    """A checkpoint's file whose settings lack some options, and have others changed."""
    settings = OmegaConf.to_container(config(arch=arch).model, resolve=True, enum_to_str=True)
    settings = {name: value for name, value in settings.items() if name not in without} | changed
    state = {"model": {"weight": torch.zeros(2)}, "optimizer_history": [{"optimizer_name": "a"}]}
    state["optimizer_history"][0] |= {"lr_scheduler_state": {}, "num_updates": 1}
    state["extra_state"] = {"train_iterator": {"epoch": 1}}
    if kind is dict:
        state["cfg"] = {"model": settings, "task": {"_name": "translation", "data": "data"}}
    else:  # as fairseq wrote them before it had groups
        del settings["_name"]
        flags = {"task": "translation", "data": "data", "criterion": "cross_entropy"}
        state["args"] = kind(arch=arch, optimizer="adam", lr_scheduler="fixed", **settings, **flags)
    torch.save(state, path)
    return str(path)


def read(path, **overrides):
    return checkpoint_utils.load_checkpoint_to_cpu(path, overrides)["cfg"].model


def test_fairseq_takes_the_presets():
    """By itself, in a model of a checkpoint, too."""
    cfg = OmegaConf.create(OmegaConf.to_container(config().model, resolve=True))
    del cfg["attention_dropout"]
    assert models.build_model(cfg, TASK, from_checkpoint=True).cfg.attention_dropout == 0.1


@pytest.mark.parametrize("kind", [dict, argparse.Namespace])
def test_a_checkpoint_has_what_the_model_had_without_the_option(tmp_path, kind):
    path = saved(tmp_path / "old.pt", "attention_dropout", kind=kind)
    cfg = read(path)
    built = models.build_model(cfg, TASK, from_checkpoint=True)
    assert built.cfg.attention_dropout == 0
    assert built.cfg.dropout == 0.3


def test_what_the_user_overrides_goes_first(tmp_path):
    path = saved(tmp_path / "old.pt", "attention_dropout")
    assert read(path, attention_dropout=0.2).attention_dropout == 0.2


def test_a_model_without_a_preset_is_left_alone(tmp_path):
    path = saved(tmp_path / "old.pt", "attention_dropout", arch="posattn_transformer")
    assert "attention_dropout" not in read(path)


def trained_on(tmp_path, path, *flags, arch=ARCH):
    """The model's settings once ``fairseq-train`` has its defaults."""
    cfg = config("--save-dir", str(tmp_path / "saved"), *flags, arch=arch)
    fairseq_cli.train.add_defaults(cfg)
    return cfg.model


@pytest.mark.slow
@pytest.mark.parametrize("flag", ["--restore-file", "--finetune-from-model", "--continue-once"])
def test_training_on_keeps_it_too(tmp_path, caplog, flag):
    path = saved(tmp_path / "old.pt", "attention_dropout")
    with caplog.at_level("INFO"):
        cfg = trained_on(tmp_path, path, flag, path)
    assert (cfg.attention_dropout, cfg.dropout) == (0, 0.3)
    assert f"{path} lacks attention_dropout, which stays 0.0" in caplog.text
    cfg = trained_on(tmp_path, path, flag, path, "--attention-dropout=0.2")
    assert cfg.attention_dropout == 0.2
    assert trained_on(tmp_path, path).attention_dropout == 0.1


@pytest.mark.slow
def test_a_run_that_goes_on_keeps_it(tmp_path):
    (tmp_path / "saved").mkdir()
    path = saved(tmp_path / "saved" / "checkpoint_last.pt", "attention_dropout")
    assert trained_on(tmp_path, path).attention_dropout == 0
    other = saved(tmp_path / "new.pt")  # what would be restored counts, and nothing else
    assert trained_on(tmp_path, path, "--restore-file", other).attention_dropout == 0.1


RELEASED = {
    ARCH: {"heads_activation": "relu"},
    "dman_summarization": {
        "heads_activation": "gelu",
        "heads_dropout": 0.1,
        "share_all_embeddings": False,
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("arch", RELEASED)
def test_training_on_keeps_what_an_earlier_preset_had(tmp_path, caplog, arch):
    """The released form, and the embeddings of each side."""
    caplog.set_level("INFO")
    path = saved(tmp_path / "old.pt", arch=arch, **RELEASED[arch])
    cfg = trained_on(tmp_path, path, "--restore-file", path, arch=arch)
    assert {name: cfg[name] for name in RELEASED[arch]} == RELEASED[arch]
    for name, value in RELEASED[arch].items():
        assert f"{path} has an earlier default of {name}, which stays {value!r}" in caplog.text
    assert "was trained with" not in caplog.text
    cfg = trained_on(tmp_path, path, arch=arch)  # without it, as the architecture has it today
    assert not {name: cfg[name] for name in RELEASED[arch]}.items() & RELEASED[arch].items()


@pytest.mark.parametrize(
    "options, activations",
    [
        ({"heads_activation": "relu", "start": "mans"}, {torch.nn.functional.relu}),
        ({"heads_activation": "gelu", "heads_dropout": 0.1}, {torch.nn.functional.gelu}),
        ({}, {None}),  # the fixture is of before there was the option
    ],
)
def test_a_trained_model_has_the_form_that_it_was_trained_with(tmp_path, options, activations):
    """Of the concatenated heads of all attention, whatever the architecture has today."""
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
def test_a_checkpoint_with_all_options_changes_nothing(tmp_path):
    path = saved(tmp_path / "new.pt")
    assert trained_on(tmp_path, path, "--restore-file", path) == trained_on(tmp_path, path)


@pytest.mark.slow
@pytest.mark.parametrize("arch", [ARCH, "posattn_transformer"])
def test_another_option_is_reported(tmp_path, caplog, arch):
    """The weights do not tell: their shapes are the same."""
    caplog.set_level("WARNING")  # commands of other tests leave another, or none
    path = saved(tmp_path / "new.pt", arch=arch)
    trained_on(tmp_path, path, "--restore-file", path, "--attention-impl=reference", arch=arch)
    assert not caplog.records
    trained_on(tmp_path, path, "--restore-file", path, "--activation-fn=gelu", arch=arch)
    (message,) = caplog.messages
    assert message == f"{path} was trained with --activation-fn relu; training continues with gelu"


@pytest.mark.parametrize("name", ["checkpoint_last.pt", "checkpoint_last-shard0.pt"])
def test_shards_are_found(tmp_path, name):
    cfg = config("--save-dir", str(tmp_path)).checkpoint
    assert file_to_train_on(cfg) is None
    (tmp_path / name).touch()
    assert file_to_train_on(cfg) == str(tmp_path / name)


@pytest.mark.parametrize("inside", [False, True])
def test_another_folder_is_proposed_for_a_checkpoint_in_save_dir(tmp_path, inside):
    """Not for a checkpoint that --restore-file or --finetune-from-model names."""

    def load(trainer, path):
        try:
            raise RuntimeError('Missing key(s) in state_dict: "weight"')
        except RuntimeError:
            raise Exception("Cannot load model parameters from checkpoint") from None

    path = tmp_path / "checkpoint_last.pt"
    torch.save({"args": argparse.Namespace(task="t", arch="a"), "model": {}}, path)
    settings = SimpleNamespace(save_dir=str(tmp_path if inside else tmp_path / "other"))
    trainer = SimpleNamespace(
        task=SimpleNamespace(cfg={}), cfg=SimpleNamespace(model={}, checkpoint=settings)
    )
    with pytest.raises(UsageError, match="weight among them; train with its settings") as caught:
        matching.report_difference_in_training(load, trainer, str(path))
    assert str(caught.value).endswith(", or give another --save-dir") == inside
