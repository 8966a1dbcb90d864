"""``--patience``, whose count is lost on resuming: the run goes on for longer.

fairseq 0.12 keeps the best loss and the number of validations since then in attributes of a
function, and saves neither. A run that has ended so goes on when it is started again.
"""

from fairseq import checkpoint_utils
from fairseq.trainer import Trainer

from fairseq_posattn.compat.command_loops import training_loop
from fairseq_posattn.compat.patching import around

COUNTERS = ("best", "num_runs")


def validations_without_progress():
    return getattr(early_stopping(), "num_runs", 0)


def early_stopping():
    """The function with the attributes; None where no training runs."""
    return getattr(training_loop(), "should_stop_early", None)


@around(Trainer, "save_checkpoint")
def _save_count(save_checkpoint, self, filename, extra_state):
    counters = {
        name: getattr(early_stopping(), name)
        for name in COUNTERS
        if hasattr(early_stopping(), name)
    }
    return save_checkpoint(self, filename, {**extra_state, "early_stopping": counters})


@around(checkpoint_utils, "load_checkpoint")
def _load_count(load_checkpoint, cfg, trainer, **kwargs):
    extra_state, epoch_itr = load_checkpoint(cfg, trainer, **kwargs)
    if extra_state and not (cfg.reset_optimizer or cfg.reset_meters):  # as for the best loss
        for name, value in extra_state.get("early_stopping", {}).items():
            setattr(early_stopping(), name, value)
    return extra_state, epoch_itr
