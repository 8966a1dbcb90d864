"""A score of some text, with its signature."""

from types import SimpleNamespace

from fairseq_posattn.scoring.bleu import bleu_metric, group_of, text_of


def score_of(metric, pairs):
    return SimpleNamespace(
        score=group_of(metric, [pairs]).mean, signature=str(metric.get_signature())
    )


def bleu(pairs, form, language=None):
    return score_of(bleu_metric(form, language), text_of(form, pairs, pairs))
