"""A training that fails before its first checkpoint leaves an empty folder, of ``--save-dir``."""

import atexit
import contextlib
import os

from fairseq import checkpoint_utils

from fairseq_posattn.compat import save_dir_lock
from fairseq_posattn.compat.patching import around


@around(checkpoint_utils, "verify_checkpoint_directory")
def _leave_no_empty_folder(verify_checkpoint_directory, save_dir):
    if not os.path.exists(save_dir):
        atexit.register(_remove_if_empty, os.path.abspath(save_dir))
    verify_checkpoint_directory(save_dir)


def _remove_if_empty(folder):
    with contextlib.suppress(OSError):
        if os.listdir(folder) == [save_dir_lock.NAME]:
            os.remove(os.path.join(folder, save_dir_lock.NAME))
        os.rmdir(folder)
