"""Patches that make fairseq safe and correct on today's PyTorch, grouped by subject.

Each patched function states the defect in fairseq 0.12.2 and fairseq-fixed 0.12.3.1, unless it
names other versions. A function of fairseq has one patch. :mod:`~.patching` applies them.
"""

# ruff: noqa: F401, I001
from fairseq_posattn.compat import patching

with patching.quietly():  # the first import of fairseq warns, and its commands log to stdout
    import fairseq.checkpoint_utils

    from fairseq_posattn.compat import command_line, console, data, fingerprints, generation
    from fairseq_posattn.compat import labelled_rows, lines, loading, losses, models, resuming
    from fairseq_posattn.compat import saving, updates, validation

apply = patching.apply
