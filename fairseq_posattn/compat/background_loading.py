"""The thread that prepares batches is at work while the program ends: "terminate called", SIGABRT.

It is a daemon of Python's in fairseq 0.12.2 and fairseq-fixed 0.12.3.1, and not waited for. The
interpreter ends such a thread where it next asks for the lock, and if it comes from PyTorch, from
C++, the whole process is aborted with exit status 134: after a training that stops in the middle of
an epoch, and after an error.
"""

import atexit
import contextlib
import queue
import threading
import time
import weakref

from fairseq.data.iterators import BackgroundConsumer

from fairseq_posattn.compat.patching import around

PATIENCE = 10  # seconds that the program's end may wait for a batch that is being made
_running = weakref.WeakSet()
_ending = threading.Event()


@around(BackgroundConsumer, "run")
def _until_the_program_ends(run, self):
    self._source = _items(self._source)
    _running.add(self)
    run(self)


def _items(source):
    for item in source:
        if _ending.is_set():
            return
        yield item


@atexit.register
def _end_all():
    _ending.set()
    until = time.monotonic() + PATIENCE
    for thread in list(_running):
        while thread.is_alive() and time.monotonic() < until:
            with contextlib.suppress(queue.Empty):
                thread._queue.get_nowait()  # it may be waiting for room
            thread.join(0.02)
