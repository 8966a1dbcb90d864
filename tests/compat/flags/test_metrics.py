"""--best-checkpoint-metric is judged before training, and rightly."""

from types import SimpleNamespace

import fairseq_cli.train
import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.logging import metrics

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat import validation
from fairseq_posattn.compat.flags.metrics import COUNTS, METRICS, check_metric

# All that a criterion may have seen in a batch.
LOGGED = {
    **dict.fromkeys(("loss", "nll_loss", "alignment_loss"), 3.0),
    **dict.fromkeys(("mha_reg_loss", "ffn_reg_loss", "n_correct", "ncorrect"), 3.0),
    **{"ntokens": 7, "nsentences": 4, "sample_size": 4, "total": 7},
    **{"pred": [1, 0], "targ": [1, 0]},
    **dict.fromkeys(("report_mcc", "report_acc_and_f1", "report_pearson_and_spearman"), True),
    "class_counts": torch.ones(3, 2),
    "scores": torch.ones(3, 4),
    "error_sums": torch.ones(3),
    "words_right": torch.ones(2),
    "arguments": torch.ones(5),
    "rankings": torch.ones(6),
}


@pytest.mark.parametrize("name", METRICS)
def test_the_list_is_what_a_criterion_logs(name):
    with metrics.aggregate(new_root=True) as logged:
        CRITERION_REGISTRY[name].reduce_metrics([LOGGED])
    found = {metric for metric in logged if metric[0] != "_" and metric not in ("pred", "targ")}
    assert found == {"loss", *METRICS[name]}


def settings(metric, criterion="label_smoothed_cross_entropy", task="translation", **more):
    return {"best_checkpoint_metric": metric, "criterion": criterion, "task": task, **more}


def highest(*arguments, **more):
    return settings(*arguments, maximize_best_checkpoint_metric=True, **more)


@pytest.mark.parametrize(
    "good",
    [
        settings("ppl"),
        settings("rmse", "rating_regression", "sentence_prediction"),
        highest("bleu", eval_bleu=True),
        highest("accuracy", report_accuracy=True),
        highest("accuracy", "sentence_prediction", "sentence_prediction"),
        highest("ndcg5", "news_recommendation", "news_recommendation"),
        settings("anything", "somebody's own"),
        settings("anything", task="somebody's own"),
        *(settings(metric) for metric in ("loss", *COUNTS)),
    ],
    ids=lambda good: f"{good['best_checkpoint_metric']}-{good['criterion']}",
)
def test_what_validation_has_or_may_have(good):
    check_metric(good)


@pytest.mark.parametrize(
    "bad, words",
    [
        (settings("f1"), "f1: with --criterion label_smoothed_cross_entropy validation has loss, "),
        (settings("bleu"), "bleu: give --eval-bleu, too"),
        (settings("accuracy"), "accuracy: give --report-accuracy, too"),
        (settings("acuracy", "sentence_classification", "sentence_prediction"), "macro_f1$"),
        (settings("bleu", "relatedness", "sentence_prediction"), "loss, pearson, spearman, mse$"),
        (settings("f1", "sequence_tagging", "sequence_tagging"), "higher, the better: give --max"),
        (highest("loss"), "loss: the lower, the better: leave out --maximize-best-checkpoint-"),
        (highest("mse", "relatedness", "sentence_pair_prediction"), "mse: the lower, the better"),
    ],
)
def test_what_validation_cannot_have(bad, words):
    with pytest.raises(UsageError, match=f"^--best-checkpoint-metric .*{words}"):
        check_metric(bad)


def test_a_metric_that_validation_lacks(monkeypatch):
    monkeypatch.delattr(checkpoint_utils.save_checkpoint, "best", raising=False)
    cfg = SimpleNamespace(checkpoint=SimpleNamespace(best_checkpoint_metric="f1"))
    trainer = SimpleNamespace(get_num_updates=lambda: 3)
    original = fairseq_cli.train.get_valid_stats
    original = getattr(original, "__wrapped__", original)
    assert "f1" not in original(cfg, trainer, {"loss": 1}, True)
    with pytest.raises(UsageError, match="^--best-checkpoint-metric f1: validation has loss, num_"):
        validation.name_metrics(original, cfg, trainer, {"loss": 1}, True)
