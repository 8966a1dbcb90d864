"""Checkpoints: validation in several processes, averaging, and those of an older version."""

import argparse
import functools
import itertools
import os
import re
import resource
import shutil

import forked_commands
import pytest
import torch
from fairseq import checkpoint_utils
from kill_and_resume import FIXTURES, MAKE, ends_of

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.checkpoints import form, read_checkpoint
from fairseq_posattn.inference import averaging, prediction
from fairseq_posattn.inference.commands import average as command
from fairseq_posattn.training.plugin import register


@pytest.fixture(scope="module")
def trained(train_arguments, tmp_path_factory):
    """Return a --save-dir of 12 updates, 10 of them in the first epoch."""
    folder = tmp_path_factory.mktemp("trained")
    options = ["--max-update", "12", "--save-interval-updates", "4", "--save-dir", folder]
    forked_commands.output_of("train", *train_arguments, *options)
    return folder


def test_validation_is_in_one_process(corpus, user_dir, trained, tmp_path):
    """fairseq takes as many processes as there are GPUs, and a process without a batch fails."""
    path, logs = trained / "checkpoint_last.pt", [tmp_path / "0.log", tmp_path / "1.log"]
    options = [corpus, "--user-dir", user_dir, "--path", path, "--cpu", "--batch-size", "12"]
    options += ["--required-batch-size-multiple", "1", "--task", "translation"]
    options += ["--distributed-world-size", "2"]
    loss = read_checkpoint(path)["extra_state"]["val_loss"]
    assert f"| loss {loss:g} |" in forked_commands.output_of("validate", *options)
    options += ["--distributed-no-spawn", "--distributed-backend", "gloo"]
    options += ["--distributed-init-method", f"file://{tmp_path / 'meeting'}"]
    without = functools.partial(forked_commands.leave_out, "evaluate_in_one_process")
    start = functools.partial(forked_commands.start, "validate", before=without)
    ranks = [["--distributed-rank", rank] for rank in range(2)]
    assert all(ends_of([start(options + rank, log) for rank, log in zip(ranks, logs, strict=True)]))
    assert "KeyError: 'net_input'" in logs[1].read_text()


def test_the_perplexity_of_a_language_model_is_that_of_all_processes(corpus, user_dir, tmp_path):
    """fairseq prints that of the first process, of as many as there are GPUs."""
    data, saved = tmp_path / "data", tmp_path / "saved"
    data.mkdir()
    for split in ("train", "valid"):
        for end in ("bin", "idx"):
            shutil.copy(corpus / f"{split}.de-en.en.{end}", data / f"{split}.{end}")
    shutil.copy(corpus / "dict.en.txt", data / "dict.txt")
    words = [data, "--user-dir", user_dir, "--task", "language_modeling", "--cpu"]
    words += ["--max-tokens", "100", "--tokens-per-sample", "20"]
    model = ["--arch", "transformer_lm", "--decoder-layers", "1", "--decoder-embed-dim", "16"]
    model += ["--decoder-attention-heads", "2", "--optimizer", "sgd", "--lr", "0.1"]
    forked_commands.output_of("train", *words, *model, "--max-update", "2", "--save-dir", saved)
    path = saved / "checkpoint_last.pt"
    loss = read_checkpoint(path)["extra_state"]["val_loss"]
    words += ["--path", path, "--gen-subset", "valid", "--distributed-world-size", "2"]
    printed = forked_commands.output_of("eval_lm", *words)
    (measured,) = re.findall(r"Loss \(base 2\): ([\d.]+)", printed)
    assert float(measured) == pytest.approx(loss, abs=1e-3)


def average(*arguments):
    return command.main([*map(str, arguments)], prog="average")


def test_average(trained, tmp_path):
    averaged = tmp_path / "average.pt"
    options = ["--num-update-checkpoints", "2", "--checkpoint-upper-bound", "8"]
    assert average("--inputs", trained, *options, "--output", averaged) == 0
    first, second = (read_checkpoint(trained / f"checkpoint_1_{update}.pt") for update in (4, 8))
    result = read_checkpoint(averaged)
    for name, weight in result["model"].items():
        mean = (first["model"][name].double() + second["model"][name].double()) / 2
        assert torch.equal(weight, mean.float()), name
    assert "val_loss" in second["extra_state"].keys() - result["extra_state"].keys()
    register()
    models, *_ = checkpoint_utils.load_model_ensemble_and_task([str(averaged)])
    assert type(models[0]).__name__ == "PosAttnTransformer"


@pytest.mark.parametrize(
    "options, chosen",
    [
        ("--num-epoch-checkpoints 1", ["checkpoint1"]),
        ("--num-update-checkpoints 2", ["checkpoint_1_8", "checkpoint_2_12"]),
    ],
)
def test_average_takes_the_last_checkpoints(trained, tmp_path, capsys, options, chosen):
    assert average("--inputs", trained, *options.split(), "--output", tmp_path / "average.pt") == 0
    *reading, wrote = capsys.readouterr().out.splitlines()
    assert reading == [f"reading {trained}/{name}.pt" for name in chosen]
    alone = f"the weights of {trained}/{chosen[0]}"
    what = f"the mean of {len(chosen)} checkpoints" if chosen[1:] else alone
    assert wrote.startswith(f"wrote {tmp_path}/average.pt: {what}")


def test_average_of_half_precision_is_float32_and_keeps_integers(tmp_path):
    for number in (1, 2):
        half = torch.tensor([number / 3], dtype=torch.bfloat16)
        model = {"half": half, "double": half.double(), "count": torch.tensor([number])}
        state = {"model": model, "last_optimizer_state": {}, "cfg": {"seed": number}}
        torch.save(state, tmp_path / f"{number}.pt")
    paths = [tmp_path / "1.pt", tmp_path / "2.pt"]
    assert average("--inputs", *paths, "--output", tmp_path / "mean.pt") == 0
    mean = read_checkpoint(tmp_path / "mean.pt")
    assert mean["cfg"] == {"seed": 2}
    assert "last_optimizer_state" not in mean
    dtypes = {name: weight.dtype for name, weight in mean["model"].items()}
    assert dtypes == {"half": torch.float32, "double": torch.float64, "count": torch.int64}
    rounded = [torch.tensor(number / 3, dtype=torch.bfloat16).item() for number in (1, 2)]
    assert mean["model"]["half"].item() == sum(rounded) / 2
    assert mean["model"]["count"].item() == 2


def test_errors_of_average_are_one_line(trained, tmp_path, capsys):
    for name, shape in (("one", (2, 3)), ("other", (3, 2))):
        torch.save({"model": {"weight": torch.ones(shape)}}, tmp_path / f"{name}.pt")
    last, other = trained / "checkpoint_last.pt", tmp_path / "other.pt"
    for inputs, message, output in [
        (f"{trained} --num-epoch-checkpoints 5", "train with --keep-last-epochs 5", "average.pt"),
        (f"{trained} --num-epoch-checkpoints 0", "'0' is not a positive", "average.pt"),
        (f"{last} --num-epoch-checkpoints 1", "name one existing folder", "average.pt"),
        (f"{last} --checkpoint-upper-bound 1", "--num-epoch-checkpoints", "average.pt"),
        (f"{tmp_path}/nowhere.pt", "nowhere.pt: No such file", "average.pt"),
        (f"{tmp_path}/one.pt {other}", f"{other}: shape of weight is .* in .*one.pt", "average.pt"),
        (str(last), "no such folder", "no/x.pt"),
        (str(last), f"{tmp_path}/? is a folder", ""),
    ]:
        try:
            assert average("--inputs", *inputs.split(), "--output", tmp_path / output) == 1
        except SystemExit as stopped:  # by argparse, which shows the usage first
            assert stopped.code == 2
        [line] = [line for line in capsys.readouterr().err.splitlines() if "error: " in line]
        assert re.search(message, line)
    assert not (tmp_path / "average.pt").exists()


@pytest.mark.parametrize(
    ("weight", "reason"),
    [
        (torch.tensor([1.0, torch.nan]), "the weight weight is not finite: its training has"),
        (torch.tensor([1, 2]), "the weight weight .* is of type int64, not floating-point; use"),
        (torch.tensor([1j, 2]), "the weight weight .* is of type complex64, not floating-point;"),
    ],
)
def test_average_refuses_the_weights_that_loading_refuses(weight, reason, tmp_path):
    path = tmp_path / "one.pt"
    unset = torch.tensor([torch.nan])
    torch.save({"model": {"weight": weight, "positions._float_tensor": unset}}, path)
    with pytest.raises(UsageError, match=f"{path}.*") as error:
        averaging.average_checkpoints([path])
    assert re.search(reason, str(error.value))
    torch.save({"model": {"weight": torch.ones(2), "positions._float_tensor": unset}}, path)
    assert averaging.average_checkpoints([path])["model"]["weight"].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("group", "name", "value", "message"),
    [
        ("model", "encoder_normalize_before", True, "--encoder-normalize-before is True, but"),
        ("model", "activation_fn", "gelu", "--activation-fn is gelu, but relu"),
        ("task", "source_lang", "en", "--source-lang is en, but "),
        ("dictionaries", "target_dictionary", "0" * 64, "the dictionary of target words is 0000"),
        ("common", "seed", 77, "--seed is 77, but"),
        ("model", "dropout", 0.7, None),
        ("model", "attention_impl", "reference", None),
    ],
)
def test_only_checkpoints_of_one_model_are_averaged(
    trained, tmp_path, capsys, group, name, value, message
):
    first, other, output = trained / "checkpoint1.pt", tmp_path / "other.pt", tmp_path / "mean.pt"
    state = read_checkpoint(first)
    groups = {**state["cfg"], "dictionaries": state["extra_state"]["dictionaries"]}
    assert groups[group][name] != value
    groups[group][name] = value
    torch.save(state, other)
    status = average("--inputs", first, other, "--output", output)
    errors = capsys.readouterr().err.splitlines()
    assert (status, output.exists()) == ((1, False) if message else (0, True))
    assert len(errors) == bool(message)
    assert not message or f"error: {other}: {message}" in errors[0] and str(first) in errors[0]


@pytest.mark.parametrize("flag", ["finetune_from_model", "restore_file", "continue_once"])
def test_fine_tuned_models_with_other_seeds_are_averaged(flag, tmp_path):
    for seed in (1, 2):
        cfg = {"common": {"seed": seed}, "checkpoint": {flag: "start.pt"}}
        state = {"cfg": cfg, "model": {"weight": torch.tensor([float(seed)])}}
        torch.save(state, tmp_path / f"{seed}.pt")
    mean = averaging.average_checkpoints([tmp_path / "1.pt", tmp_path / "2.pt"])
    assert mean["model"]["weight"].item() == 1.5


def test_options_of_fairseqs_older_models_are_compared(tmp_path):
    for name, layers, rate in (("one", 6, 0.1), ("two", 6, 0.2), ("three", 3, 0.1)):
        args = argparse.Namespace(arch="transformer", encoder_layers=layers, lr=[rate])
        torch.save({"args": args, "model": {"weight": torch.ones(1)}}, tmp_path / f"{name}.pt")
    first, second, third = (tmp_path / f"{name}.pt" for name in ("one", "two", "three"))
    assert averaging.average_checkpoints([first, second])["model"]["weight"].item() == 1
    with pytest.raises(UsageError, match="three.pt: --encoder-layers is 3, but 6 in .*one.pt"):
        averaging.average_checkpoints([first, third])


def test_average_on_a_full_disk_keeps_the_existing_file(trained, tmp_path, capsys):
    output = tmp_path / "average.pt"
    output.write_text("before")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        assert average("--inputs", trained / "checkpoint_last.pt", "--output", output) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert f"error: {output} cannot be written: File too large" in capsys.readouterr().err
    assert output.read_text() == "before"
    assert os.listdir(tmp_path) == ["average.pt"]


def test_ctrl_c_during_the_reading_does_not_blame_the_file(monkeypatch):
    """PyTorch replaces the exception of a read by another."""
    reads, read = itertools.count(), form._Indexed._read

    def interrupted(self, buffer):
        if next(reads) == 10:
            raise KeyboardInterrupt
        return read(self, buffer)

    monkeypatch.setattr(form._Indexed, "_read", interrupted)
    with pytest.raises(KeyboardInterrupt):
        read_checkpoint(FIXTURES / "translation" / "checkpoint.pt")


def translations(path, user_dir):
    options = ["--path", path, "--user-dir", user_dir, "--cpu", "--batch-size", "8"]
    data = FIXTURES / "translation" / "data"
    return MAKE["hypotheses"](forked_commands.output_of("generate", data, *options))


def labels(path, data):
    sentences = (FIXTURES / "classification" / "sentences.txt").read_text().splitlines()
    predictions = prediction.load(path, data, device="cpu")(sentences)
    return [predicted.label for predicted in predictions]


def check_outputs(name, path, user_dir):
    folder = FIXTURES / name
    if name == "translation":
        expected = (folder / "translations.txt").read_text()
        assert translations(path, user_dir) == expected
    else:
        assert labels(path, folder / "data") == (folder / "labels.txt").read_text().split()


@pytest.mark.parametrize("name", ["translation", "classification"])
def test_outputs_of_older_checkpoints_are_unchanged(name, user_dir):
    """make_checkpoints.py made them."""
    check_outputs(name, FIXTURES / name / "checkpoint.pt", user_dir)


@pytest.mark.parametrize(
    "name, flags, epoch, updates, started",
    [
        ("translation", "TRANSLATION", 55, 600, "--restore-file"),
        ("classification", "CLASSIFICATION", 38, 300, "--save-dir"),
    ],
)
def test_training_of_older_checkpoints_continues(
    user_dir, tmp_path, name, flags, epoch, updates, started
):
    """Training resumes optimizer and position in the data; small steps keep the outputs."""
    folder = FIXTURES / name
    path, save_dir = folder / "checkpoint.pt", tmp_path / "saved"
    options = ["--save-dir", save_dir, "--max-update", updates + 9, "--lr", "1e-5"]
    if started == "--restore-file":
        options += ["--restore-file", path]
    else:
        save_dir.mkdir()
        shutil.copy(path, save_dir / "checkpoint_last.pt")
    arguments = [folder / "data", "--user-dir", user_dir, *MAKE[flags], *options]
    log = forked_commands.output_of("train", *arguments)
    assert f"(epoch {epoch} @ {updates} updates)" in log

    old, new = read_checkpoint(path), read_checkpoint(save_dir / "checkpoint_last.pt")
    assert new["optimizer_history"][-1]["num_updates"] == updates + 9
    assert new["last_optimizer_state"]["state"][0]["step"] == updates + 9
    assert new["extra_state"]["train_iterator"]["epoch"] == epoch + 1
    changes = [(new["model"][key] - weight).abs().max() for key, weight in old["model"].items()]
    assert 0 < max(changes) < 1e-3
    check_outputs(name, save_dir / "checkpoint_last.pt", user_dir)
