"""Training by fairseq-hydra-train, and training tracked by TensorBoard and wandb."""

import forked_commands
import pytest
from test_mistakes import YAML

from fairseq_posattn.compat.checkpoints import read_checkpoint


def test_fairseq_hydra_train_reads_a_yaml_file(run, corpus, user_dir, tmp_path):
    """``test_yaml_recipes.py`` compares the model with that of the same flags."""
    saved = tmp_path / "saved"
    config = YAML.format(user_dir=user_dir, corpus=corpus, save_dir=saved)
    (tmp_path / "tiny.yaml").write_text(config)
    run("fairseq-hydra-train", "--config-dir", tmp_path, "--config-name", "tiny", cwd=tmp_path)
    state = read_checkpoint(saved / "checkpoint_last.pt")
    assert state["optimizer_history"][-1]["num_updates"] == 2


def test_tensorboard_and_wandb_receive_the_metrics(train_arguments, tmp_path, monkeypatch):
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    pytest.importorskip("wandb")
    for name, value in (("MODE", "offline"), ("DIR", tmp_path), ("SILENT", "true")):
        monkeypatch.setenv(f"WANDB_{name}", str(value))
    options = ["--max-update", "30", "--no-epoch-checkpoints", "--save-dir", tmp_path / "saved"]
    options += ["--tensorboard-logdir", tmp_path / "events", "--wandb-project", "tests"]
    log = tmp_path / "log"
    assert forked_commands.run("train", [*train_arguments, *options], log) == 0, log.read_text()
    for part, name in (("train_inner", "lr"), ("train", "loss"), ("valid", "ppl")):
        events = reader.EventAccumulator(str(tmp_path / "events" / part)).Reload()
        steps = [event.step for event in events.Scalars(name)]
        assert steps[-1] == 30 and len(steps) > 1, part
    (run,) = tmp_path.glob("wandb/offline-run-*")
    assert b"train_inner/loss" in next(run.glob("*.wandb")).read_bytes()
