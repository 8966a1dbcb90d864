"""Warnings about how fairseq uses Hydra and PyTorch, which whoever runs a command cannot mend.

On today's versions each command of fairseq's prints some 30 lines of them on standard error, above
all that concerns the user. What ``python -W`` and ``PYTHONWARNINGS`` ask for goes before.
"""

import warnings

from fairseq_posattn.compat.patching import when_applied

STALE = (
    {"category": UserWarning, "module": r"hydra\."},
    {"category": UserWarning, "message": r"\s*'\S+' is validated against ConfigStore schema"},
    {"category": FutureWarning, "module": r"fairseq\."},
    {"category": UserWarning, "message": r"'pin_memory' argument is set as true"},
)


@when_applied
def ignore():
    for warning in STALE:
        warnings.filterwarnings("ignore", **warning, append=True)
