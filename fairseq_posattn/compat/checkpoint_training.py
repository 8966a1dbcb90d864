"""What training takes up of a checkpoint beside the weights: checked, and if it fails, one line.

fairseq makes a meter of whatever name in its own module a checkpoint gives, and shows where it
stopped where anything else does not fit.
"""

from fairseq.logging import meters
from fairseq.trainer import Trainer

from fairseq_posattn.common.errors import UsageError, in_one_line
from fairseq_posattn.compat.patching import around


@around(meters.MetersDict, "load_state_dict")
def _meters_only(load_state_dict, self, state_dict):
    for _, _, name, _ in state_dict:
        kind = vars(meters).get(name)
        if not (isinstance(kind, type) and issubclass(kind, meters.Meter)):
            raise UsageError(f"there is no meter {str(name)[:80]!r}")
    return load_state_dict(self, state_dict)


@around(Trainer, "load_checkpoint")
def _name_the_checkpoint(load_checkpoint, self, filename, *args, **kwargs):
    try:
        return load_checkpoint(self, filename, *args, **kwargs)
    except OSError:
        raise
    except Exception as error:
        if isinstance(error, UsageError) and str(filename) in str(error):
            raise
        raise UsageError(
            f"{filename} cannot be trained on: its weights or the state of its training do not "
            f"fit these flags ({in_one_line(error)}); to start from its weights alone, name it "
            "with --finetune-from-model"
        ) from error
