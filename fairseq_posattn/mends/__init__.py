"""What fairseq needs on today's PyTorch, and what it gets wrong: one file a defect.

Each file says what it mends and has ``apply()``, which goes through :mod:`~.patching` and so may be
called again. :data:`MENDS` is the whole list.
"""

from fairseq_posattn.mends.quiet import quietly

with quietly():
    import fairseq.checkpoint_utils  # noqa: F401, the first import of fairseq warns

from fairseq_posattn.mends import (
    bfloat16,
    binarised_data,
    checkpoint_broadcast,
    checkpoint_copies,
    checkpoint_models,
    checkpoint_reading,
    checkpoint_training,
    data_parallel,
    dictionary_fingerprints,
    finished_runs,
    finite_weights,
    last_batch,
    literal_settings,
    model_archives,
    repeated_ngrams,
    sentence_rows,
    settings_objects,
    text_files,
)

MENDS = (
    literal_settings,
    checkpoint_reading,
    checkpoint_models,
    checkpoint_training,
    model_archives,
    binarised_data,
    text_files,
    checkpoint_broadcast,
    checkpoint_copies,
    dictionary_fingerprints,
    finite_weights,
    finished_runs,
    last_batch,
    bfloat16,
    data_parallel,
    repeated_ngrams,
    sentence_rows,
    settings_objects,
)


def apply():
    """Mend fairseq; calling it again changes nothing."""
    for mend in MENDS:
        mend.apply()
