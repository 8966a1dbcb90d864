"""``--lr-scheduler reduce_lr_on_plateau``, which forgets on resuming how far it has come.

fairseq 0.12 does not save the number of epochs without progress. And whatever the schedule, it
writes an epoch's checkpoint before the schedule learns of the epoch's validation, which a run
resumed from there never does.
"""

from fairseq import checkpoint_utils
from fairseq.optim.lr_scheduler.reduce_lr_on_plateau import ReduceLROnPlateauLRSchedule

from fairseq_posattn.compat.patching import around

COUNTERS = ("num_bad_epochs", "cooldown_counter")


@around(ReduceLROnPlateauLRSchedule, "state_dict")
def _save_counters(state_dict, self):
    counters = {name: getattr(self.lr_scheduler, name) for name in COUNTERS}
    return {**state_dict(self), **counters}


@around(ReduceLROnPlateauLRSchedule, "load_state_dict")
def _load_counters(load_state_dict, self, state):
    load_state_dict(self, state)
    for name in COUNTERS:
        setattr(self.lr_scheduler, name, state.get(name, 0))


@around(ReduceLROnPlateauLRSchedule, "step")
def _only_with_a_loss(step, self, epoch, val_loss=None):
    """fairseq also calls it on resuming, where no epoch has ended, and counts one."""
    if val_loss is not None:
        step(self, epoch, val_loss)
    return self.optimizer.get_lr()


@around(checkpoint_utils, "load_checkpoint")
def _end_the_epoch(load_checkpoint, cfg, trainer, **kwargs):
    extra_state, epoch_itr = load_checkpoint(cfg, trainer, **kwargs)
    place = (extra_state or {}).get("train_iterator", {})
    is_ours = place.get("epoch") == epoch_itr.epoch > 1  # not so if all was reset
    resets = cfg.reset_optimizer or cfg.reset_lr_scheduler or cfg.reset_dataloader
    if is_ours and not resets and place.get("iterations_in_epoch") == 0:
        trainer.lr_step(epoch_itr.epoch - 1, extra_state.get("val_loss"))
    return extra_state, epoch_itr
