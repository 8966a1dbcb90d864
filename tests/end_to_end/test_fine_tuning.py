"""A model goes on with a corpus in another script, by the commands that a user types."""

import os
import re
import subprocess
import tempfile
from itertools import product
from pathlib import Path

import forked_commands
import pytest
from forked_recipes import run_python

from fairseq_posattn.text import manifest
from fairseq_posattn.text.manifest import NAME

WORDS = {"eins": "one", "zwei": "two", "drei": "three", "vier": "four"}
RUSSIAN = {"врач": "doctor", "☤": "symbol", "дом": "house", "病": "ill"}
FEW = ["--max-update", "2", "--save-interval-updates", "1", "--keep-interval-updates", "1"]


class Training:
    """A forked fairseq-train, with what ``posattn train`` uses of ``subprocess.Popen``."""

    def __init__(self, words, **unused):
        reading, writing = os.pipe()
        self.process = forked_commands.fork_here("train", words[1:], os.devnull, writing, writing)
        os.close(writing)
        self.stdout = os.fdopen(reading, encoding="utf-8")

    def wait(self):
        _, status = os.waitpid(self.process, 0)
        return os.waitstatus_to_exitcode(status)


def run_cli(words, *outputs):
    """``posattn WORDS`` in this process."""
    if words[0] == "train":
        subprocess.Popen = Training
    run_python(["-m", "fairseq_posattn.cli", *words], *outputs)


@pytest.fixture
def posattn(tmp_path, monkeypatch):
    """Run a command in the folder; return its output and its errors."""
    monkeypatch.chdir(tmp_path)

    def posattn(*words, status=0):
        outputs = [Path(tempfile.mkstemp(dir=tmp_path)[1]) for _ in range(2)]
        process = forked_commands.fork(run_cli, [*map(str, words)], *map(str, outputs))
        process.join()
        printed, errors = (output.read_text() for output in outputs)
        assert process.exitcode == status, printed + errors
        return printed, errors

    return posattn


def corpus(folder, name, words, length=3):
    for side, text in (("de", str), ("en", words.get)):
        lines = [" ".join(map(text, names)) for names in product(words, repeat=length)]
        (folder / f"{name}.{side}").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return ["--train", f"{name}.de", f"{name}.en", "--dest", f"data/{name}"]


def test_prepare_train_fine_tune_distill_translate(posattn, tmp_path):
    size = ["--vocabulary-size", "330"]
    posattn("prepare", "translation", "own", *corpus(tmp_path, "general", WORDS), *size)
    posattn("train", "data/general", "--cpu", "--", *FEW)
    words = corpus(tmp_path, "medical", RUSSIAN, length=2)
    like = ["--like", "checkpoints/general"]
    printed, _ = posattn("prepare", "translation", "own", *words, *like)
    assert "de: 0 of " in printed  # bytes
    assert "posattn train data/medical --from checkpoints/general\n" in printed
    command = ["train", "data/medical", "--from", "checkpoints/general", "--cpu", "--"]
    printed, _ = posattn(*command, *FEW, "--lr", "0.001")
    assert "\nstarts from checkpoints/general/checkpoint_best.pt: its weights" in printed
    assert "Loaded checkpoint checkpoints/general/checkpoint_best.pt" in printed
    (tmp_path / "checkpoints/general").rename(tmp_path / "checkpoints/moved")
    printed, _ = posattn(*command, "--max-update", "3", "--lr", "0.001")
    resumed = r"Loaded checkpoint checkpoints/medical/checkpoint_last\.pt \(epoch \d+ @ 2 updates"
    assert re.search(resumed, printed)
    posattn("translate", "checkpoints/medical", "--input", "medical.de", "--output", "out", "--cpu")
    assert len((tmp_path / "out").read_text("utf-8").splitlines()) == len(RUSSIAN) ** 2
    teachers = ["checkpoints/moved", "checkpoints/medical"]
    words = ["--data", "data/medical", "--dest", "data/distilled", "--beam", "2", "--cpu"]
    posattn("distill", *teachers, *words)
    assert (tmp_path / "data/distilled" / NAME).exists()
    posattn("prepare", "translation", "own", *corpus(tmp_path, "other", RUSSIAN))
    command = ["train", "data/other", "--from", "checkpoints/moved", "--cpu"]
    _, error = posattn(*command, "--", "--max-update", "1", status=1)
    assert error.splitlines()[-1].startswith("posattn train: error: ")
    assert "posattn prepare ... own --like" in error.splitlines()[-1]
    assert manifest.read(tmp_path / "data/medical").languages == ("de", "en")
