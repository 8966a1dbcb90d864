"""Validation names missing metrics; fairseq-validate runs in one process and writes predictions."""

import logging
from pathlib import Path

from fairseq.distributed import utils as distributed_utils
from fairseq_cli import validate

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import write_text
from fairseq_posattn.compat.patching import around, training_loop

logger = logging.getLogger(__name__)


@around(training_loop, "get_valid_stats")
def name_metrics(get_valid_stats, cfg, *args, **kwargs):
    """Report an unknown ``--best-checkpoint-metric`` in one line: fairseq raises a KeyError."""
    try:
        stats = get_valid_stats(cfg, *args, **kwargs)
    except KeyError:  # when it is compared with the best one
        raise _missing_metric(cfg, args[1]) from None
    if cfg.checkpoint.best_checkpoint_metric not in stats:
        raise _missing_metric(cfg, stats)
    return stats


def _missing_metric(cfg, stats):
    metric = cfg.checkpoint.best_checkpoint_metric
    return UsageError(
        f"--best-checkpoint-metric {metric}: validation has {', '.join(map(str, stats))}"
    )


@around(distributed_utils, "call_main")
def validate_in_one_process(call_main, cfg, main, *args, **kwargs):
    """Run ``fairseq-validate`` in one process.

    fairseq starts one for each GPU, and fails if one has fewer batches than another.
    """
    settings = cfg.distributed_training
    if main is validate.main and settings.distributed_world_size > 1:
        logger.info(f"validating in one process instead of {settings.distributed_world_size}")
        settings.distributed_world_size = 1
        settings.distributed_init_method = None
    return call_main(cfg, main, *args, **kwargs)


# Lines by subset and number of the example; None if predictions are not written.
_predictions: dict[str, dict[int, str]] | None = None


def writes_predictions() -> bool:
    """Return whether predictions are written."""
    return _predictions is not None


def add_predictions(task, ids, predicted, expected):
    """Add the predictions for a batch; called by a criterion.

    Args:
        task: the subset that it loaded last is being validated.
        ids, predicted, expected: lists of equal length.
    """
    lines = _predictions.setdefault(next(reversed(task.datasets)), {})
    for number, one, other in zip(ids, predicted, expected, strict=True):
        lines[number] = f"{one}\t{other}\n"


@around(validate, "main")
def write_predictions(main, cfg, *args, **kwargs):
    """Write predictions to ``--results-path FOLDER``, which fairseq-validate ignores.

    ``predictions-test.txt`` of the subset "test" has a line for each example in the order of the
    data: the prediction, a tab, the expected answer. Criterions of the plugin add them.
    """
    global _predictions
    folder = cfg.common_eval.results_path
    if folder is None:
        return main(cfg, *args, **kwargs)
    Path(folder).mkdir(parents=True, exist_ok=True)
    _predictions = {}
    try:
        main(cfg, *args, **kwargs)
        for subset, lines in _predictions.items():
            text = "".join(lines[number] for number in sorted(lines))
            write_text(Path(folder) / f"predictions-{subset}.txt", text)
    finally:
        _predictions = None
