"""Patches that make fairseq safe and correct on today's PyTorch, grouped by subject.

Each patched function says what is wrong in fairseq 0.12.2 and fairseq-fixed 0.12.3.1, unless it
names other versions. :mod:`~.patching` applies them.
"""

from importlib import import_module

from fairseq_posattn.compat import patching

with patching.quietly():
    import fairseq.checkpoint_utils  # noqa: F401, the first import of fairseq warns

# In the order of application: of two patches of one function the later one is called first.
NAMES = (
    "matching",
    "loading",
    "data",
    "lines",
    "validation",
    "resuming",
    "saving",
    "updates",
    "cuda_graphs",
    "generation",
    "console",
    "command_line",
)
with patching.quietly():  # some import fairseq's commands, which log to standard output
    MODULES = [import_module(f"{__name__}.{name}") for name in NAMES]


def apply():
    """Patch fairseq; calling it again changes nothing."""
    for module in MODULES:
        patching.apply(module.__name__)
