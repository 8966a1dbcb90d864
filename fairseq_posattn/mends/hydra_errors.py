"""``fairseq-hydra-train`` shows a user's mistake in one line, too.

Hydra (from 1.1 on) prints the errors of its programs by itself, with their settings and traceback,
and leaves.
"""

import inspect
import sys

from hydra.core.utils import JobReturn

from fairseq_posattn.errors import UsageError
from fairseq_posattn.mends.patching import around
from fairseq_posattn.mistakes.explanations import explain


def apply():
    if isinstance(inspect.getattr_static(JobReturn, "return_value", None), property):
        around(JobReturn, "return_value", _leave_mistakes_to_the_hook)


def _leave_mistakes_to_the_hook(return_value, self):
    """Where Hydra raises what its program has raised, with much before it."""
    error = self._return_value
    if isinstance(error, UsageError) or (
        isinstance(error, Exception) and explain(error, error.__traceback__)
    ):
        sys.excepthook(type(error), error, error.__traceback__)
        sys.exit(1)
    return return_value(self)
