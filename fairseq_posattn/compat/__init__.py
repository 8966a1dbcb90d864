"""What fairseq needs on today's PyTorch, and what it gets wrong: one file a defect.

Each file says what is wrong, and above each function what in fairseq it mends
(:mod:`~.patching`). :data:`NAMES` is the whole list.
"""

from importlib import import_module

from fairseq_posattn.compat import patching
from fairseq_posattn.compat.quiet import quietly

with quietly():
    import fairseq.checkpoint_utils  # noqa: F401, the first import of fairseq warns

# In the order in which they are applied: of two around one function the later lies on top.
NAMES = (
    "literal_settings",
    "checkpoint_reading",
    "adaptive_softmax",
    "unlike_checkpoints",
    "checkpoint_models",
    "checkpoint_training",
    "model_archives",
    "hub_text",
    "languages",
    "binarised_data",
    "text_files",
    "checkpoint_broadcast",
    "checkpoint_writing",
    "checkpoint_companions",
    "dictionary_fingerprints",
    "finite_weights",
    "restored_file",
    "older_options",
    "asynchronous_writing",
    "save_dir_lock",
    "master_weights",
    "average_weights",
    "plateau",
    "patience",
    "best_checkpoints",
    "several_trainings",
    "epoch_batches",
    "finished_runs",
    "stopping",
    "crash_checkpoints",
    "spawned_processes",
    "lost_processes",
    "background_loading",
    "last_batch",
    "bfloat16",
    "fused_adam",
    "gradient_norm",
    "half_precision_copies",
    "data_parallel",
    "device_waits",
    "repeated_ngrams",
    "diverse_beams",
    "generated_shards",
    "unmet_constraints",
    "sentence_rows",
    "settings_objects",
    "unknown_input",
    "unknown_words",
    "wordpiece_marks",
    "validation_metric",
    "validation_results",
    "validation_processes",
    "empty_save_dir",
    "wandb_runs",
    "log_format",
    "stale_warnings",
    "hydra_errors",
    "command_help",
    "checked_settings",
)
MENDS = [import_module(f"{__name__}.{name}") for name in NAMES]


def apply():
    """Mend fairseq; calling it again changes nothing."""
    for mend in MENDS:
        patching.apply(mend.__name__)
