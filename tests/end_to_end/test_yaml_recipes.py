"""Training by YAML files, and training tracked by TensorBoard and wandb."""

import functools
import os
import re
from argparse import Namespace
from pathlib import Path

import forked_commands
import pytest
import torch
from forked_recipes import run_python
from test_mistakes import YAML

from fairseq_posattn.compat.checkpoints import read_checkpoint
from fairseq_posattn.recipes.commands.recipe import find, make_plan
from fairseq_posattn.training.plugin import register

register()

EXAMPLES = Path(__file__).parents[2] / "examples"

# For each file the options of its recipe, and settings that make the model small.
FILES = {
    "dman/iwslt14": (
        "dman/iwslt14|--rows|DMAN (paper form)|--gpus|0",
        {f"{side}_layers": 1 for side in ("encoder", "decoder")}
        | {"encoder_embed_dim": 32, "decoder_embed_dim": 32, "activation_dropout": 0.0},
    ),
    "mpsan/sst5": ("mpsan/table1_sst|--rows|MPSAN|--datasets|sst5|--cpu", {"head_dim": 12}),
    "mtsa/snli": ("mtsa/table1_snli|--rows|MTSA|--cpu", {"encoder_hidden_dim": 24}),
    "da_transformer/sst2": (
        "da_transformer/table4_sst_snli|--rows|DA-Transformer|--datasets|sst2|--cpu",
        {"encoder_ffn_embed_dim": 24},
    ),
    "cspan/ag_news": (
        "cspan/table2_documents|--rows|CSPAN (base)|--datasets|ag_news|--cpu",
        {"pooling_queries": 3},
    ),
}
# Settings that may differ: names and the log, and those of this machine.
MAY_DIFFER = {"log_format", "save_dir", "user_dir", "cpu", "num_workers"}


def test_every_paper_has_a_file_that_its_page_names():
    files = {str(path.relative_to(EXAMPLES).with_suffix("")) for path in EXAMPLES.glob("*/*.yaml")}
    assert files == set(FILES)
    for name in files:
        page = (EXAMPLES / name.partition("/")[0] / "README.md").read_text()
        assert f"posattn hydra-train {name}\n" in page


@pytest.fixture
def sentences(write_sentence_data, tmp_path):
    """Pairs of sentences in five classes, and vectors of some of their words."""
    lines = [f"word{number} and word{number % 3}" for number in range(10)]
    columns = {"input0": lines, "input1": lines[::-1]}
    columns["label"] = [str(number % 5) for number in range(10)]
    data = write_sentence_data(tmp_path / "data", dict.fromkeys(("train", "valid"), columns))
    (data / "glove.txt").write_text("".join(f"word{n}" + f" 0.{n}" * 300 + "\n" for n in range(3)))
    return data


def flags_of(name, *arguments):
    """Return the flags of fairseq-train in a recipe's first run."""
    (run, *_) = make_plan(find(name), [*arguments, "--dry-run"], name, Path()).runs()
    return list(run.steps[0].command[2:])


@pytest.mark.parametrize("name", FILES)
def test_a_papers_file_trains_as_its_recipe_does(name, sentences, corpus, user_dir, tmp_path):
    recipe, settings = FILES[name]
    translates = name.startswith("dman/")
    data, flags = (corpus if translates else sentences), flags_of(*recipe.split("|"))
    if not translates:
        flags += [f"--encoder-embed-path={data / 'glove.txt'}", "--num-classes=5"]
    saved, log = {way: tmp_path / way for way in ("yaml", "flags")}, tmp_path / "log"
    overrides = {
        **{"common.cpu": "true", "task.data": data},
        **{"dataset.num_workers": 0, "optimization.max_update": 2},
        **{"checkpoint.save_dir": saved["yaml"]},
        **{f"++model.{option}": value for option, value in settings.items()},
        **({} if translates else {"task.num_classes": 5}),
    }
    words = ["-m", "fairseq_posattn.cli", "hydra-train", str(EXAMPLES / f"{name}.yaml")]
    words += [f"{setting}={value}" for setting, value in overrides.items()]
    process = forked_commands.fork(run_python, words, str(log))
    process.join()
    printed = log.read_text()
    assert process.exitcode == 0, printed
    assert re.match(r"\[20.*?\]\[fairseq\S*\]\[INFO\] ", printed)
    assert not re.search("Warning|DEBUG:|version_base|deprecated", printed)

    flags += [f"--{option.replace('_', '-')}={value}" for option, value in settings.items()]
    flags += ["--num-workers=0", "--max-update=2", "--user-dir", user_dir]
    forked_commands.output_of("train", data, *flags, "--save-dir", saved["flags"])
    first, second = (read_checkpoint(saved[way] / "checkpoint_last.pt") for way in saved)
    assert list(first["model"]) == list(second["model"])
    for parameter, weight in first["model"].items():
        assert torch.equal(weight, second["model"][parameter]), parameter
    by_yaml, by_flags = (settings_of(state["cfg"]) for state in (first, second))
    shared = by_yaml.keys() & by_flags.keys()
    sections = {setting.partition(".")[0] for setting in shared}
    assert sections > {"model", "task", "criterion", "optimizer", "lr_scheduler", "optimization"}
    different = [setting for setting in shared if by_yaml[setting] != by_flags[setting]]
    assert different == []


def settings_of(config):
    """Return the settings of a training as text, by section, without those that may differ."""
    sections = {
        section: vars(options) if isinstance(options, Namespace) else options  # as of Adadelta
        for section, options in config.items()
    }
    return {
        f"{section}.{name}": str(value)
        for section, options in sections.items()
        if hasattr(options, "items")
        for name, value in options.items()
        if name not in MAY_DIFFER
    }


def test_fairseq_hydra_train_reads_a_yaml_file(corpus, user_dir, tmp_path):
    saved = tmp_path / "saved"
    config = YAML.format(user_dir=user_dir, corpus=corpus, save_dir=saved)
    (tmp_path / "tiny.yaml").write_text(config)
    words = ["--config-dir", tmp_path, "--config-name", "tiny"]
    forked_commands.output_of("hydra_train", *words, before=functools.partial(os.chdir, tmp_path))
    state = read_checkpoint(saved / "checkpoint_last.pt")
    assert state["optimizer_history"][-1]["num_updates"] == 2


def test_tensorboard_and_wandb_receive_the_metrics(train_arguments, tmp_path):
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    pytest.importorskip("wandb")
    offline = {"WANDB_MODE": "offline", "WANDB_DIR": str(tmp_path), "WANDB_SILENT": "true"}
    before = functools.partial(forked_commands.set_variables, offline)
    options = ["--max-update", "30", "--no-epoch-checkpoints", "--save-dir", tmp_path / "saved"]
    options += ["--tensorboard-logdir", tmp_path / "events", "--wandb-project", "tests"]
    forked_commands.output_of("train", *train_arguments, *options, before=before)
    for part, name in (("train_inner", "lr"), ("train", "loss"), ("valid", "ppl")):
        events = reader.EventAccumulator(str(tmp_path / "events" / part)).Reload()
        steps = [event.step for event in events.Scalars(name)]
        assert steps[-1] == 30 and len(steps) > 1, part
    (run,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    assert b"train_inner/loss" in run.read_bytes()
