"""Two runs in one ``--save-dir``, which mix their checkpoints: fairseq 0.12 lets them.

The lock is the kernel's, of a file in the folder: it ends with the process, however that ends, and
processes that load data do not inherit it. Where the file system has no locks, none is taken.
"""

import errno
import fcntl
import os
import socket
from pathlib import Path

from fairseq.distributed.utils import is_master
from fairseq.trainer import Trainer

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.patching import around

NAME = ".lock"
_held = {}  # closing a file, even another of the same name, would give up the lock


@around(Trainer, "__init__")
def _lock_first(init, self, cfg, *args, **kwargs):
    init(self, cfg, *args, **kwargs)
    if is_master(self.cfg.distributed_training) and not self.cfg.checkpoint.no_save:
        lock(self.cfg.checkpoint.save_dir)


def lock(folder):
    """Lock a folder for this process, and remove halves of checkpoints that a killed one left.

    Raises:
        UsageError: another process has locked it, or a link is where the lock should be.
    """
    folder = os.path.realpath(folder)
    if folder in _held:
        return
    os.makedirs(folder, exist_ok=True)
    file = _opened(os.path.join(folder, NAME))
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EAGAIN):
            return
        file.seek(0)
        raise UsageError(
            f"--save-dir {folder} is in use by {file.read() or 'another process'}: wait for its "
            "end, or give another --save-dir"
        ) from None
    file.truncate(0)
    file.write(f"process {os.getpid()} on {socket.gethostname()}")
    file.flush()
    _held[folder] = file
    for half in Path(folder).glob("*.pt.tmp"):
        half.unlink(missing_ok=True)


def _opened(path):
    """The lock's file; what a link in a folder from elsewhere leads to is not written over."""
    try:
        return open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666), "r+")
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise UsageError(f"{path} is a link, which no training makes: remove it") from None
