"""Checkpoints are complete, the best ones are kept, and a folder has one run."""

import errno
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.distributed import utils as distributed_utils
from fairseq.file_io import PathManager

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat import saving
from fairseq_posattn.compat.resuming import forget_previous_training


class FileTrainer:
    """A trainer that creates empty files."""

    checkpoint_suffix, data_parallel_rank = "", 0
    should_save_checkpoint_on_current_rank = True
    updates = 0

    def consolidate_optimizer(self):
        pass

    def get_num_updates(self):
        return self.updates

    def save_checkpoint(self, path, extra_state):
        Path(path).touch()


def kept(save_dir, scores, *, highest=True, suffix=""):
    """Return the scores of the checkpoints kept with ``--keep-best-checkpoints 2``."""
    save_dir.mkdir(exist_ok=True)
    off = ("no_save", "no_last_checkpoints", "write_checkpoints_asynchronously")
    off += ("save_interval_updates", "keep_interval_updates", "keep_last_epochs")
    cfg = SimpleNamespace(**dict.fromkeys(off, 0), save_dir=str(save_dir), keep_best_checkpoints=2)
    cfg.best_checkpoint_metric, cfg.maximize_best_checkpoint_metric = "pearson", highest
    cfg.no_epoch_checkpoints = True
    epoch_itr = SimpleNamespace(epoch=1, end_of_epoch=lambda: True, state_dict=dict)
    trainer = FileTrainer()
    trainer.checkpoint_suffix = suffix
    trainer.task = None
    for trainer.updates, score in enumerate(scores):
        checkpoint_utils.save_checkpoint(cfg, trainer, epoch_itr, score)
    forget_previous_training()
    names = [path.name for path in Path(save_dir).glob("checkpoint.best_pearson_*")]
    endings = [name.removeprefix("checkpoint.best_pearson_") for name in names]
    # the last digit only tells apart what is equal
    return sorted(float(name.removesuffix(f"{suffix}.pt")[:-1]) for name in endings)


@pytest.mark.parametrize(
    "scores, highest, left",
    [
        ((0.1, 0.2, 0.3), True, [0.2, 0.3]),
        ((0.3, 0.2, 0.1), True, [0.2, 0.3]),
        ((0.1, 0.2, 0.3), False, [0.1, 0.2]),
        ((-0.3, -0.2, -0.1), True, [-0.2, -0.1]),
        ((-0.1, -0.2, 0.1, -0.3), True, [-0.1, 0.1]),
        ((-0.1, -0.2, 0.1, -0.3), False, [-0.3, -0.2]),
    ],
)
def test_the_best_two_are_kept(scores, highest, left, tmp_path, restore):
    for suffix in ("", "-rank-0"):
        assert kept(tmp_path / suffix, scores, highest=highest, suffix=suffix) == left
    restore(checkpoint_utils, "checkpoint_paths")
    assert len(kept(tmp_path / "fairseq", (0.3, 0.2, 0.1))) == 1


def test_a_copy_that_fails_leaves_the_old_checkpoint(tmp_path, monkeypatch, restore):
    new, old = tmp_path / "checkpoint_1_2.pt", tmp_path / "checkpoint_last.pt"
    new.write_bytes(b"new" * 100)
    old.write_bytes(b"old" * 100)

    def full_disk(source, destination):
        Path(destination).write_bytes(Path(source).read_bytes()[:10])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(destination))

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "copyfile", full_disk)
        message = f"^{old} cannot be written: No space left on device; earlier checkpoints are unch"
        with pytest.raises(UsageError, match=message):
            PathManager.copy(str(new), str(old), overwrite=True)
    assert old.read_bytes() == b"old" * 100
    assert sorted(path.name for path in tmp_path.iterdir()) == [new.name, old.name]

    assert PathManager.copy(str(new), str(old), overwrite=True)
    assert old.read_bytes() == b"new" * 100
    assert sorted(path.name for path in tmp_path.iterdir()) == [new.name, old.name]
    restore(PathManager, "copy")
    monkeypatch.setattr(shutil, "copyfile", full_disk)
    with pytest.raises(OSError):
        PathManager.copy(str(new), str(old), overwrite=True)
    assert old.read_bytes() == b"new" * 3 + b"n"


def test_a_stop_saves_an_update_once(tmp_path):
    cfg = SimpleNamespace(no_save=False, no_last_checkpoints=False, save_dir=str(tmp_path))
    cfg.restore_file = saving.LAST
    trainer, epoch_itr, last = FileTrainer(), SimpleNamespace(state_dict=dict), "checkpoint_last.pt"
    trainer.task, trainer.updates, trainer.updates_saved = None, 3, 3
    assert saving._save(cfg, trainer, epoch_itr, 0.5).endswith(f"resumes from {tmp_path / last}")
    assert not (tmp_path / last).exists()  # at this update it was saved already
    trainer.updates = 4
    saving._save(cfg, trainer, epoch_itr, 0.5)
    assert (tmp_path / last).exists()


def test_a_stop_before_the_first_checkpoint_copies_its_companions(
    make_trainer, tmp_path, monkeypatch, data
):
    copied = []
    monkeypatch.setattr(saving, "copy_companions", lambda *folders: copied.append(folders))
    trainer = make_trainer(no_save=False, save_dir=str(tmp_path))
    saving._save(trainer.cfg.checkpoint, trainer, SimpleNamespace(state_dict=dict), 0.5)
    assert copied == [(data, tmp_path)]
    path = str(tmp_path / "checkpoint1.pt")
    assert trainer.save_checkpoint(path, {}) == path  # fairseq gives it to the task's post_save


def test_a_message_without_a_reader_stops_no_saving():
    """The other end of ``2>&1 | tee`` gets Ctrl-C, too."""
    (read, write), stderr = os.pipe(), os.dup(2)
    os.close(read)
    os.dup2(write, 2)
    try:
        saving._print("Ctrl-C")
    finally:
        os.dup2(stderr, 2)


def test_the_target_of_a_link_is_not_overwritten(tmp_path):
    (tmp_path / "saved").mkdir()
    (tmp_path / "thesis.txt").write_text("mine")
    (tmp_path / "saved" / ".lock").symlink_to("../thesis.txt")
    with pytest.raises(OSError, match="symbolic links"):
        saving.lock(tmp_path / "saved")
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_processes_without_a_gpu_are_an_error_and_not_none(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    method = {"distributed_init_method": "tcp://localhost:1", "distributed_no_spawn": False}
    settings = SimpleNamespace(distributed_world_size=2, distributed_rank=0, **method)
    with pytest.raises(UsageError, match="--distributed-init-method: there is no GPU to train on"):
        distributed_utils.call_main(SimpleNamespace(distributed_training=settings), print)
