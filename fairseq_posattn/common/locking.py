"""One run at a time: a second one waits until the first ends, however that ends."""

from contextlib import contextmanager

from filelock import FileLock, Timeout

from fairseq_posattn.common.files import NO_LOCKS
from fairseq_posattn.common.progress import say

PATIENCE = 1  # seconds between two calls of ``meanwhile``


@contextmanager
def locked(path, work, tell=None, meanwhile=lambda: None):
    """Hold the lock file ``path``; where the file system has no locks, go without.

    Args:
        work: what the other run is at work on, to say so while this one waits.
        tell: says it; None: as preparation does.
        meanwhile: called again and again while this one waits; may raise to give up.
    """
    lock, waiting = FileLock(path), False
    while not lock.is_locked:
        try:
            lock.acquire(timeout=PATIENCE)
        except Timeout:
            meanwhile()
            if not waiting:
                (tell or say)(f"waiting for another run that is at work on {work}")
            waiting = True
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            break
    try:
        yield
    finally:
        lock.release()
