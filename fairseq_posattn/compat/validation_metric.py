"""``--best-checkpoint-metric`` that validation does not have: a KeyError after the first epoch."""

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.command_loops import training_loop
from fairseq_posattn.compat.patching import around


@around(training_loop, "get_valid_stats")
def _name_the_metrics(get_valid_stats, cfg, *args, **kwargs):
    try:
        stats = get_valid_stats(cfg, *args, **kwargs)
    except KeyError:  # when it compares with the best so far
        raise _missing(cfg, args[1]) from None
    if cfg.checkpoint.best_checkpoint_metric not in stats:
        raise _missing(cfg, stats)
    return stats


def _missing(cfg, stats):
    wanted = cfg.checkpoint.best_checkpoint_metric
    return UsageError(
        f"--best-checkpoint-metric {wanted}: validation has {', '.join(map(str, stats))}"
    )
