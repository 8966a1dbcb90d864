"""``crash.pt``, which fairseq writes into ``--save-dir`` where an error ends an update.

In fairseq 0.12.2 and fairseq-fixed 0.12.3.1 nothing can be trained from it, as it has no place in
the data, and it is written, too, with ``--no-save`` and where no update has been made since the
last checkpoint: a mistake in the data leaves a file as large as the model. Here it keeps what would
be lost, and ``--restore-file`` goes on from it, after the batch at fault.
"""

import logging
import os

from fairseq.trainer import Trainer

from fairseq_posattn.compat.patching import around
from fairseq_posattn.compat.stopping import place_in_training

logger = logging.getLogger(__name__)


@around(Trainer, "get_train_iterator")
def _remember(get_train_iterator, self, *args, **kwargs):
    self.epoch_itr = get_train_iterator(self, *args, **kwargs)
    return self.epoch_itr


@around(Trainer, "load_checkpoint")
def _note_updates(load_or_save, self, *args, **kwargs):
    result = load_or_save(self, *args, **kwargs)
    self.updates_in_a_checkpoint = self.get_num_updates()
    return result


@around(Trainer, "save_checkpoint")
def _only_what_would_be_lost(save_checkpoint, self, filename, extra_state):
    if os.path.basename(filename) != "crash.pt":
        return _note_updates(save_checkpoint, self, filename, extra_state)
    lost = self.get_num_updates() - getattr(self, "updates_in_a_checkpoint", 0)
    if lost > 0 and not self.cfg.checkpoint.no_save:
        save_checkpoint(self, filename, place_in_training(self, self.epoch_itr, None))
        if self.should_save_checkpoint_on_current_rank:
            logger.warning(
                f"{lost} updates are in no other checkpoint: --restore-file {filename} goes "
                "on from there, after the batch at fault"
            )
    return None
