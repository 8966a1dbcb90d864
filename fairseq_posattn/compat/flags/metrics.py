"""Which metrics ``--best-checkpoint-metric`` may name, where that is known before training.

fairseq finds out after the first epoch. That the higher is the better it does not know at all: of
accuracy it keeps the worst checkpoint, unless ``--maximize-best-checkpoint-metric`` is given. Only
criterions and tasks that are listed here are judged: others may log what they like.
"""

from collections.abc import Mapping

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.flags.ranges import flag

COUNTS = ("num_updates", "bsz", "wpb", "wps")  # where fairseq's tasks count words
SMOOTHED = {
    "nll_loss": "",
    "ppl": "",
    **dict.fromkeys(("accuracy", "n_correct", "total"), "report_accuracy"),
}
# By the criterion, what it logs in validation; where a flag must be given for it, its name.
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
# What tasks add to them.
TASKS = {
    "translation": {"bleu": "eval_bleu"},
    "language_modeling": {},
    "sentence_prediction": {},
    "sentence_pair_prediction": {},
    "sequence_tagging": {},
    "news_recommendation": {},
}
# Of these the lower is the better, of the others above the higher.
LOWER = {"loss", "nll_loss", "ppl", "alignment_loss", "mha_reg_loss", "ffn_reg_loss"}
LOWER |= {"mse", "rmse", "mae", "skipped"}


def check_metric(settings: Mapping):
    """Raise a :class:`UsageError` for a metric that validation will not have, or upside down."""
    wanted = settings.get("best_checkpoint_metric")
    criterion, task = settings.get("criterion"), settings.get("task")
    if wanted in (None, *COUNTS) or criterion not in METRICS or task not in TASKS:
        return
    known = {"loss": "", **METRICS[criterion], **TASKS[task]}
    if wanted not in known:
        had = (name for name, needed in known.items() if _given(settings, needed))
        raise UsageError(
            f"--best-checkpoint-metric {wanted}: with --criterion {criterion} validation has "
            f"{', '.join(had)}"
        )
    if not _given(settings, known[wanted]):
        raise UsageError(f"--best-checkpoint-metric {wanted}: give {flag(known[wanted])}, too")
    highest = bool(settings.get("maximize_best_checkpoint_metric"))
    if highest == (wanted in LOWER):
        better, mend = ("lower", "leave out") if highest else ("higher", "give")
        raise UsageError(
            f"--best-checkpoint-metric {wanted}: the {better}, the better: {mend} "
            "--maximize-best-checkpoint-metric"
        )


def _given(settings, name):
    return not name or bool(settings.get(name))
