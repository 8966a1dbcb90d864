from types import SimpleNamespace

import pytest
from fairseq import checkpoint_utils
from fairseq_cli import train

from fairseq_posattn.compat.several_trainings import _forget_the_last_training
from fairseq_posattn.training.plugin import register

register()


def validate(loss):
    """What fairseq keeps of a validation, though nothing is saved."""
    checkpoint = SimpleNamespace(
        no_save=True, maximize_best_checkpoint_metric=False, patience=1, save_dir="."
    )
    trainer = SimpleNamespace(data_parallel_rank=0, get_num_updates=lambda: 1)
    checkpoint_utils.save_checkpoint(checkpoint, trainer, None, loss)
    return train.should_stop_early(SimpleNamespace(checkpoint=checkpoint), loss)


def test_the_best_loss_is_this_trainings():
    assert not validate(1.0)
    assert validate(2.0)  # worse: it has had its patience
    assert checkpoint_utils.save_checkpoint.best == 1.0
    _forget_the_last_training(lambda cfg, trainer: None, None, None)
    assert not validate(2.0)  # of the next training, whose first and best it is
    assert checkpoint_utils.save_checkpoint.best == 2.0
    _forget_the_last_training(lambda cfg, trainer: None, None, None)


def test_what_a_checkpoint_has_stays():
    def load(cfg, trainer):
        checkpoint_utils.save_checkpoint.best = 3.0

    _forget_the_last_training(load, None, None)
    assert checkpoint_utils.save_checkpoint.best == 3.0
    _forget_the_last_training(lambda cfg, trainer: None, None, None)
    assert not hasattr(checkpoint_utils.save_checkpoint, "best")


def test_the_mend_is_in_place():
    checkpoint_utils.save_checkpoint.best = 1.0
    with pytest.raises(AttributeError):  # there are no settings
        checkpoint_utils.load_checkpoint(None, SimpleNamespace(checkpoint_suffix=""))
    assert not hasattr(checkpoint_utils.save_checkpoint, "best")
