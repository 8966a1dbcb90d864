"""What fairseq needs on today's PyTorch, and what it gets wrong: one file a defect.

Each file says what it mends and has ``apply()``, which goes through :mod:`~.patching` and so may be
called again. :data:`MENDS` is the whole list.
"""

from fairseq_posattn.mends.quiet import quietly

with quietly():
    import fairseq.checkpoint_utils  # noqa: F401, the first import of fairseq warns

from fairseq_posattn.mends import (
    asynchronous_writing,
    average_weights,
    background_loading,
    bfloat16,
    binarised_data,
    checked_settings,
    checkpoint_broadcast,
    checkpoint_companions,
    checkpoint_models,
    checkpoint_reading,
    checkpoint_training,
    checkpoint_writing,
    command_help,
    crash_checkpoints,
    data_parallel,
    dictionary_fingerprints,
    diverse_beams,
    empty_save_dir,
    epoch_batches,
    finished_runs,
    finite_weights,
    hydra_errors,
    last_batch,
    literal_settings,
    lost_processes,
    master_weights,
    model_archives,
    older_options,
    patience,
    plateau,
    repeated_ngrams,
    restored_file,
    save_dir_lock,
    sentence_rows,
    settings_objects,
    spawned_processes,
    stale_warnings,
    stopping,
    text_files,
    unknown_input,
    unknown_words,
    unlike_checkpoints,
    validation_metric,
    validation_results,
    wordpiece_marks,
)

MENDS = (
    literal_settings,
    checkpoint_reading,
    unlike_checkpoints,
    checkpoint_models,
    checkpoint_training,
    model_archives,
    binarised_data,
    text_files,
    checkpoint_broadcast,
    checkpoint_writing,
    checkpoint_companions,
    dictionary_fingerprints,
    finite_weights,
    restored_file,
    older_options,
    asynchronous_writing,
    save_dir_lock,
    master_weights,
    average_weights,
    plateau,
    patience,
    epoch_batches,
    finished_runs,
    stopping,
    crash_checkpoints,
    spawned_processes,
    lost_processes,
    background_loading,
    last_batch,
    bfloat16,
    data_parallel,
    repeated_ngrams,
    diverse_beams,
    sentence_rows,
    settings_objects,
    unknown_input,
    unknown_words,
    wordpiece_marks,
    validation_metric,
    validation_results,
    empty_save_dir,
    stale_warnings,
    hydra_errors,
    command_help,
    checked_settings,
)


def apply():
    """Mend fairseq; calling it again changes nothing."""
    for mend in MENDS:
        mend.apply()
