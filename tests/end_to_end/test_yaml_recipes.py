"""The papers' YAML files train just what their recipes train, with the same settings."""

import re
from argparse import Namespace
from pathlib import Path

import forked_commands
import pytest
import torch
from forked_recipes import run_python

import fairseq_posattn
from fairseq_posattn.compat.checkpoints.reading import read_checkpoint
from fairseq_posattn.recipes.commands.recipe import ask, find
from fairseq_posattn.training.plugin import register

register()

EXAMPLES = Path(__file__).parents[2] / "examples"

# By file: the row of a recipe, and settings of the model that make it small.
SMALL = {"encoder_layers": 1, "decoder_layers": 1}
FILES = {
    "dman/iwslt14": (
        ["dman/iwslt14", "--rows", "DMAN (paper)", "--gpus", "0"],
        {"encoder_embed_dim": 32, "decoder_embed_dim": 32, "activation_dropout": 0.0, **SMALL},
    ),
    "mpsan/sst5": (
        ["mpsan/table1_sst", "--rows", "MPSAN", "--datasets", "sst5", "--cpu"],
        {"head_dim": 12},
    ),
    "mtsa/snli": (
        ["mtsa/table1_snli", "--rows", "MTSA", "--datasets", "snli", "--cpu"],
        {"encoder_hidden_dim": 24},
    ),
    "da_transformer/sst2": (
        ["da_transformer/table4_sst_snli", "--rows", "DA-Transformer", "--datasets", "sst2"]
        + ["--cpu"],
        {"encoder_ffn_embed_dim": 24},
    ),
    "cspan/ag_news": (
        ["cspan/table2_documents", "--rows", "CSPAN (base)", "--datasets", "ag_news", "--cpu"],
        {"pooling_queries": 3},
    ),
}
# What may differ: names and the log, and what the test itself sets for this machine.
MAY_DIFFER = {"log_format", "save_dir", "user_dir", "cpu", "fp16", "num_workers"}


def test_every_paper_has_a_file_that_its_page_names():
    files = {str(path.relative_to(EXAMPLES).with_suffix("")) for path in EXAMPLES.glob("*/*.yaml")}
    assert files == set(FILES)
    for name in files:
        folder, config = name.split("/")
        page = (EXAMPLES / folder / "README.md").read_text()
        assert f"--config-dir examples/{folder} --config-name {config} " in page


@pytest.fixture
def sentences(write_sentence_data, tmp_path):
    """Pairs of sentences in five classes, and vectors of some of their words."""
    lines = [f"word{number} and word{number % 3}" for number in range(10)]
    columns = {"input0": lines, "input1": lines[::-1]}
    columns["label"] = [str(number % 5) for number in range(10)]
    data = write_sentence_data(tmp_path / "data", dict.fromkeys(("train", "valid"), columns))
    (data / "glove.txt").write_text("".join(f"word{n}" + f" 0.{n}" * 300 + "\n" for n in range(3)))
    return data


def flags_of(recipe, *arguments):
    """Of the fairseq-train of a recipe's first run, behind the data."""
    (run, *_) = ask(find(recipe), [*arguments, "--dry-run"], recipe, Path()).runs()
    return list(run.steps[0].command[2:])


@pytest.mark.parametrize("name", FILES)
def test_a_papers_file_trains_as_its_recipe_does(name, sentences, corpus, user_dir, tmp_path):
    recipe, settings = FILES[name]
    folder, config = name.split("/")
    translates = folder == "dman"
    data, flags = (corpus if translates else sentences), flags_of(*recipe)
    if not translates:
        flags += [f"--encoder-embed-path={data / 'glove.txt'}", "--num-classes=5"]
    saved = {way: tmp_path / way for way in ("yaml", "flags")}
    overrides = {
        **{"common.user_dir": user_dir, "common.cpu": "true", "common.fp16": "false"},
        **{"task.data": data, "dataset.num_workers": 0, "optimization.max_update": 2},
        **{"checkpoint.save_dir": saved["yaml"]},
        **{f"++model.{option}": value for option, value in settings.items()},
        **({} if translates else {"task.num_classes": 5}),
    }
    yaml = ["--config-dir", EXAMPLES / folder, "--config-name", config]
    yaml += [f"{setting}={value}" for setting, value in overrides.items()]
    flags += [f"--{option.replace('_', '-')}={value}" for option, value in settings.items()]
    flags += ["--num-workers=0", "--max-update=2", "--user-dir", user_dir]
    commands = {"hydra_train": yaml, "train": [data, *flags, "--save-dir", saved["flags"]]}
    for command, arguments in commands.items():
        log = tmp_path / f"{command}.log"
        assert forked_commands.run(command, arguments, log) == 0, log.read_text()
    one, other = (read_checkpoint(saved[way] / "checkpoint_last.pt") for way in saved)
    assert list(one["model"]) == list(other["model"])
    for parameter, weight in one["model"].items():
        assert torch.equal(weight, other["model"][parameter]), parameter
    by_yaml, by_flags = (settings_of(state["cfg"]) for state in (one, other))
    sections = {setting.partition(".")[0] for setting in by_yaml.keys() & by_flags.keys()}
    assert sections > {"model", "task", "criterion", "optimizer", "lr_scheduler", "optimization"}
    different = {
        setting: (by_yaml[setting], by_flags[setting])
        for setting in by_yaml.keys() & by_flags.keys()
        if by_yaml[setting] != by_flags[setting]
    }
    assert different == {}


def settings_of(config):
    """All that a training was given, but for what may differ, as text and by section."""
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


def test_posattn_trains_by_a_file_as_hydra_does_without_its_warnings(sentences, tmp_path):
    settings = ["common.cpu=true", f"task.data={sentences}", "task.num_classes=5"]
    settings += ["dataset.num_workers=0", "optimization.max_update=2", "++model.head_dim=12"]
    logs = {way: tmp_path / f"{way}.log" for way in ("posattn", "hydra")}
    saved = {way: f"checkpoint.save_dir={tmp_path / way}" for way in logs}

    words = ["-m", "fairseq_posattn.cli", "hydra-train", str(EXAMPLES / "mpsan/sst5.yaml")]
    arguments = ([*words, *settings, saved["posattn"]], str(logs["posattn"]))
    process = forked_commands.FORKSERVER.Process(target=run_python, args=arguments)
    process.start()
    process.join()
    said = logs["posattn"].read_text()
    assert process.exitcode == 0, said
    assert re.match(r"\[20.*?\]\[fairseq\S*\]\[INFO\] ", said)
    assert not re.search("Warning|DEBUG:|version_base|deprecated", said)

    yaml = ["--config-dir", EXAMPLES / "mpsan", "--config-name", "sst5", *settings]
    yaml += [f"common.user_dir={Path(fairseq_posattn.__file__).parent}", saved["hydra"]]
    assert forked_commands.run("hydra_train", yaml, logs["hydra"]) == 0, logs["hydra"].read_text()
    assert "version_base" in logs["hydra"].read_text()  # which cannot be kept from it
    one, other = (
        read_checkpoint(tmp_path / way / "checkpoint_last.pt")["model"]
        for way in ("posattn", "hydra")
    )
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
