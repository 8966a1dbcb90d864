"""Position-aware and locality-aware attention for fairseq.

This is the module that ``--user-dir`` imports. It first makes fairseq work on today's PyTorch
(:mod:`fairseq_posattn.compat`), mends it (:mod:`~fairseq_posattn.data_parallel`,
:mod:`~fairseq_posattn.repeated_ngrams`) and then registers what the plugin adds. Where fairseq is
not installed, :mod:`fairseq_posattn.attention` works all the same.
"""

from importlib.util import find_spec

if find_spec("fairseq") is not None:
    from fairseq_posattn import compat, data_parallel, errors, repeated_ngrams

    compat.apply()
    data_parallel.apply()
    repeated_ngrams.apply()
    errors.install_hook()

    import fairseq_posattn.criterions
    import fairseq_posattn.models
    import fairseq_posattn.tasks  # noqa: F401, these register
