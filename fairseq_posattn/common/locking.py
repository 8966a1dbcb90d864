"""A file lock, so that one run at a time works on something."""

from contextlib import contextmanager

from filelock import FileLock, Timeout

from fairseq_posattn.common.progress import say

PATIENCE = 1  # seconds between two calls of ``meanwhile``


@contextmanager
def locked(path, work, tell=None, meanwhile=lambda: None):
    """Hold the lock file ``path``; a second run waits until the first one ends.

    Args:
        work: what the other run works on, for the message while this one waits.
        tell: prints that message, default :func:`say`.
        meanwhile: called every second of waiting; may raise to give up.
    """
    lock, is_waiting = FileLock(path), False
    while not lock.is_locked:
        try:
            lock.acquire(timeout=PATIENCE)
        except Timeout:
            meanwhile()
            if not is_waiting:
                (tell or say)(f"waiting for another run that is at work on {work}")
            is_waiting = True
    try:
        yield
    finally:
        lock.release()
