"""Metrics of ``--best-checkpoint-metric``, as far as they are known before training.

fairseq reports an unknown one after the first epoch. For accuracy it keeps the worst checkpoint
unless ``--maximize-best-checkpoint-metric`` is given. Only the criterions and tasks listed here are
checked; others may log anything.
"""

from collections.abc import Mapping

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.flags import flag

COUNTS = ("num_updates", "bsz", "wpb", "wps")  # logged by fairseq's tasks
SMOOTHED = {
    "nll_loss": "",
    "ppl": "",
    **dict.fromkeys(("accuracy", "n_correct", "total"), "report_accuracy"),
}
# Metrics that a criterion logs in validation, with the flag that enables one.
METRICS = {
    "cross_entropy": {"nll_loss": "", "ppl": ""},
    "label_smoothed_cross_entropy": SMOOTHED,
    "label_smoothed_cross_entropy_fused": SMOOTHED,
    "label_smoothed_cross_entropy_with_alignment": {
        "nll_loss": "",
        "ppl": "",
        "alignment_loss": "",
    },
    "adaptive_loss": {"nll_loss": "", "ppl": ""},
    "sentence_prediction": {
        **dict.fromkeys(("nll_loss", "accuracy", "mha_reg_loss", "ffn_reg_loss"), ""),
        "mcc": "report_mcc",
        **dict.fromkeys(("f1", "acc_and_f1"), "report_acc_and_f1"),
        **dict.fromkeys(
            ("pearson", "spearman", "pearson_and_spearman"), "report_pearson_and_spearman"
        ),
    },
    "sentence_classification": {"accuracy": "", "macro_f1": ""},
    "relatedness": {"pearson": "", "spearman": "", "mse": ""},
    "rating_regression": {"rmse": "", "mae": ""},
    "sequence_tagging": dict.fromkeys(("f1", "precision", "recall", "complete", "accuracy"), ""),
    "news_recommendation": dict.fromkeys(("auc", "mrr", "ndcg5", "ndcg10", "skipped"), ""),
}
# Metrics that tasks add.
TASKS = {
    "translation": {"bleu": "eval_bleu"},
    "language_modeling": {},
    "sentence_prediction": {},
    "sentence_pair_prediction": {},
    "sequence_tagging": {},
    "news_recommendation": {},
}
# Metrics to minimize; the others are to maximize.
LOWER = {"loss", "nll_loss", "ppl", "alignment_loss", "mha_reg_loss", "ffn_reg_loss"}
LOWER |= {"mse", "rmse", "mae", "skipped"}


def check_metric(settings: Mapping):
    """Raise a :class:`UsageError` for a metric that validation lacks, or in the wrong direction."""
    wanted = settings.get("best_checkpoint_metric")
    criterion, task = settings.get("criterion"), settings.get("task")
    if wanted in (None, *COUNTS) or criterion not in METRICS or task not in TASKS:
        return
    known = {"loss": "", **METRICS[criterion], **TASKS[task]}
    if wanted not in known:
        had = (name for name, option in known.items() if not option or settings.get(option))
        raise UsageError(
            f"--best-checkpoint-metric {wanted}: with --criterion {criterion} validation has "
            f"{', '.join(had)}"
        )
    if known[wanted] and not settings.get(known[wanted]):
        raise UsageError(f"--best-checkpoint-metric {wanted}: give {flag(known[wanted])}, too")
    highest = bool(settings.get("maximize_best_checkpoint_metric"))
    if highest == (wanted in LOWER):
        better, action = ("lower", "leave out") if highest else ("higher", "give")
        raise UsageError(
            f"--best-checkpoint-metric {wanted}: the {better}, the better: {action} "
            "--maximize-best-checkpoint-metric"
        )
