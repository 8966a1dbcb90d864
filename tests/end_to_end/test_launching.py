"""Training from a YAML file, in bfloat16, and tracked by TensorBoard and wandb."""

import forked_commands
import pytest
import torch

from fairseq_posattn.compat.checkpoints.reading import read_checkpoint

CONFIG = """
common: {{user_dir: {user_dir}, cpu: true, seed: 1, no_progress_bar: true}}
task: {{_name: translation, data: {corpus}, source_lang: de, target_lang: en}}
model:
  _name: posattn_transformer
  encoder_sublayers: dman,san,ffn
  decoder_sublayers: dman,san,cross,ffn
  encoder_layers: 1
  decoder_layers: 1
  encoder_embed_dim: 16
  decoder_embed_dim: 16
  encoder_ffn_embed_dim: 16
  decoder_ffn_embed_dim: 16
  encoder_attention_heads: 2
  decoder_attention_heads: 2
criterion: {{_name: label_smoothed_cross_entropy, label_smoothing: 0.1}}
optimizer: {{_name: adam}}
lr_scheduler: {{_name: inverse_sqrt, warmup_updates: 4}}
optimization: {{lr: [0.01], max_update: 3}}
dataset: {{max_tokens: 100, num_workers: 0, update_epoch_batch_itr: true}}
checkpoint: {{save_dir: {save_dir}, no_epoch_checkpoints: true}}
"""


def test_yaml_and_flags_train_the_same_model(run, corpus, user_dir, train_arguments, tmp_path):
    by_yaml, by_flags = tmp_path / "yaml", tmp_path / "flags"
    config = CONFIG.format(user_dir=user_dir, corpus=corpus, save_dir=by_yaml)
    (tmp_path / "tiny.yaml").write_text(config)
    options = ["--config-dir", tmp_path, "--config-name", "tiny"]
    run("fairseq-hydra-train", *options, cwd=tmp_path)
    options = ["--max-update", "3", "--no-epoch-checkpoints", "--save-dir", by_flags]
    log = tmp_path / "log"
    assert forked_commands.run("train", [*train_arguments, *options], log) == 0, log.read_text()
    one, other = (read_checkpoint(path / "checkpoint_last.pt") for path in (by_yaml, by_flags))
    assert list(one["model"]) == list(other["model"])
    for name, weight in one["model"].items():
        assert torch.equal(weight, other["model"][name]), name


@pytest.mark.parametrize("precision", ["--bf16", "--memory-efficient-bf16"])
def test_bf16_trains_on_a_cpu(train_arguments, tmp_path, precision):
    options = [precision, "--max-update", "2", "--save-dir", tmp_path / "saved"]
    log = tmp_path / "log"
    assert forked_commands.run("train", [*train_arguments, *options], log) == 0, log.read_text()
    assert "FP16Optimizer" in str(
        read_checkpoint(tmp_path / "saved" / "checkpoint_last.pt")["optimizer_history"]
    )


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
