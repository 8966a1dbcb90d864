"""Progress lines and remaining time of trainings and generations."""

import json
import os
import subprocess
import sys
from pathlib import Path

from fairseq_posattn.recipes.progress import GenerationProgress, Progress, TrainingProgress
from fairseq_posattn.recipes.runs import Run


class Clock:
    """Seconds that pass when the test sets them."""

    now = 100.0

    def __call__(self):
        return self.now


def line(tag, **numbers):
    return f"2026-01-02 03:04:05 | INFO | {tag} | {json.dumps(numbers)}\n"


def training_of(runs=1, **length):
    clock = Clock()
    progress = Progress(runs, clock)
    return clock, progress, TrainingProgress(Run("A", Path(), (), (), **length), progress)


def test_a_training_by_updates_prints_position_and_time():
    clock, _, training = training_of(updates=1000)
    news = training.read(line("train_inner", epoch=1, update=0.4, loss="9.5", num_updates="100"))
    assert news == "update 100 of 1,000: loss 9.5"
    clock.now += 60
    news = training.read(line("valid", epoch=1, valid_loss="8", valid_num_updates="250"))
    # 150 updates in a minute, 750 to go
    assert news == "update 250 of 1,000: validation loss 8; done in about 5 min"


def test_a_training_by_epochs_prints_position_and_time():
    clock, _, training = training_of(epochs=4)
    numbers = {"valid_loss": "8", "valid_accuracy": "50", "valid_best_accuracy": "60"}
    news = training.read(line("valid", epoch=1, valid_num_updates="25", **numbers))
    assert news == "epoch 1 of 4, update 25: validation loss 8, accuracy 50"
    clock.now += 7200
    news = training.read(line("train_inner", epoch=3, update=2.0, loss="1", num_updates="50"))
    assert news.endswith("loss 1; done in about 4 h 0 min")


def test_the_time_of_all_runs_counts_resumed_and_skipped_runs():
    """Half a run took a minute: the other half and two more take five."""
    clock, progress, training = training_of(4, updates=100)
    progress.advance(took_time=False)
    training.read(line("train_inner", epoch=1, update=0.1, loss="1", num_updates="0"))
    assert progress.left() == ""
    clock.now += 60
    news = training.read(line("train_inner", epoch=1, update=0.1, loss="1", num_updates="50"))
    assert news.endswith("; done in about 1 min, all 4 runs in about 5 min")
    training.finish()
    clock.now += 60
    assert progress.left() == ", all 4 runs in about 4 min"


def test_a_generation_prints_a_line_every_ten_seconds():
    clock = Clock()
    generation, news = GenerationProgress(clock), []
    for number in range(2, 301):  # a batch a second
        batch = f"x | INFO | fairseq.logging.progress_bar | :  {number:5d} / 300 wps=1234\n"
        news.append(generation.read(batch))
        clock.now += 1
    assert news[0] == "batch 2 of 300"
    assert news[1:10] == [None] * 9
    assert news[10] == "batch 12 of 300; done in about 5 min"
    assert news[-1] == "batch 300 of 300"
    assert generation.read("S-1\ta sentence | : 2 / 3\n") is None


def test_runs_without_a_reader_go_on(tmp_path):
    """Also steps that print, since they have the same output."""
    code = """
import sys
from fairseq_posattn.recipes.runner import Runner
from fairseq_posattn.recipes.runs import Step
runner = Runner("table", (), False, {})
words = "import sys; print('read', flush=True); open(sys.argv[1], 'w').close()"
runner.run_step(Step("average", ("python", "-c", words, sys.argv[1])), {})
"""
    reader, writer = os.pipe()
    os.close(reader)
    words = [sys.executable, "-c", code, tmp_path / "average.pt"]
    assert subprocess.run(words, stdout=writer, stderr=writer).returncode == 0
    os.close(writer)
    assert os.listdir(tmp_path) == ["average.pt"]
