"""``--store-ema`` with ``--ema-update-freq``, whose count of updates is lost on resuming.

fairseq 0.12 then averages the weights of other updates than a run left alone does.
"""

from fairseq.trainer import Trainer

from fairseq_posattn.compat.patching import around

COUNTER = "ema_update_freq_counter"


@around(Trainer, "state_dict")
def _save_count(state_dict, self):
    state = state_dict(self)
    if self.cfg.ema.store_ema:
        state["extra_state"][COUNTER] = self.ema.update_freq_counter
    return state


@around(Trainer, "load_checkpoint")
def _load_count(load_checkpoint, self, *args, **kwargs):
    extra_state = load_checkpoint(self, *args, **kwargs)
    if extra_state and self.cfg.ema.store_ema:
        self.ema.update_freq_counter = extra_state.get(COUNTER, 0)
    return extra_state
