"""--keep-best-checkpoints keeps as many as it says, of whatever scores."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from fairseq import checkpoint_utils

from fairseq_posattn.compat.several_trainings import _forget_the_last_training
from fairseq_posattn.training.plugin import register

register()


class Trainer:
    """Saves nothing but its files' names."""

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
    """The scores, in order, whose checkpoints are left, two being asked for."""
    cfg = SimpleNamespace(
        save_dir=str(save_dir),
        keep_best_checkpoints=2,
        best_checkpoint_metric="pearson",
        maximize_best_checkpoint_metric=highest,
        write_checkpoints_asynchronously=False,
        **dict.fromkeys(("no_save", "no_last_checkpoints"), False),
        no_epoch_checkpoints=True,
        **dict.fromkeys(("save_interval_updates", "keep_interval_updates", "keep_last_epochs"), 0),
    )
    place = SimpleNamespace(epoch=1, end_of_epoch=lambda: True, state_dict=dict)
    trainer = Trainer()
    trainer.checkpoint_suffix = suffix
    trainer.task = None
    for trainer.updates, score in enumerate(scores):
        checkpoint_utils.save_checkpoint(cfg, trainer, place, score)
    _forget_the_last_training(lambda cfg, trainer: None, None, None)
    names = [path.name for path in Path(save_dir).glob("checkpoint.best_pearson_*")]
    found = [name.removeprefix("checkpoint.best_pearson_") for name in names]
    # the last digit only tells apart what is equal
    return sorted(float(name.removesuffix(f"{suffix}.pt")[:-1]) for name in found)


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
@pytest.mark.parametrize("suffix", ["", "-rank-0"])
def test_the_best_two(scores, highest, left, suffix, tmp_path):
    assert kept(tmp_path, scores, highest=highest, suffix=suffix) == left


def test_other_checkpoints_are_found_as_ever(tmp_path):
    for name in ("checkpoint3.pt", "checkpoint12.pt", "checkpoint_best.pt"):
        (tmp_path / name).touch()
    found = checkpoint_utils.checkpoint_paths(tmp_path)
    assert [Path(path).name for path in found] == ["checkpoint12.pt", "checkpoint3.pt"]
