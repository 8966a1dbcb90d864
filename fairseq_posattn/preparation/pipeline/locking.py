"""One run at a time: a second one waits until the first ends, however that ends."""

import errno
from contextlib import contextmanager

from filelock import FileLock, Timeout

from fairseq_posattn.preparation.pipeline.progress import say

NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP)  # as some network file systems have it


@contextmanager
def locked(path, work):
    """Hold the lock file ``path``.

    Args:
        work: what the other run is at work on, to say so while this one waits.
    """
    lock = FileLock(path)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        say(f"waiting for the run that is at work on {work}")
        lock.acquire()
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
    try:
        yield
    finally:
        lock.release()
