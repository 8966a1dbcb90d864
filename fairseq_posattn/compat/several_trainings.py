"""Several trainings in one process, a sweep of Hydra's: each is held to the best loss before it.

fairseq 0.12 keeps the best loss, and what ``--patience`` counts, in attributes of functions, which
outlive a training. The next one then writes no best checkpoint unless it is better than all before,
and ends too early.
"""

from fairseq import checkpoint_utils

from fairseq_posattn.compat.patching import around
from fairseq_posattn.compat.patience import COUNTERS, early_stopping


@around(checkpoint_utils, "load_checkpoint")
def _forget_the_last_training(load_checkpoint, cfg, trainer, **kwargs):
    """Each training loads once, before all else, though there be nothing to load."""
    for function in (checkpoint_utils.save_checkpoint, early_stopping()):
        for name in COUNTERS:
            if hasattr(function, name):
                delattr(function, name)
    return load_checkpoint(cfg, trainer, **kwargs)
