"""Criterions for fairseq, registered by :func:`fairseq_posattn.training.plugin.register`.

Metrics are those of the whole validation set: batches log counts and sums, or the predictions
themselves, so that the result does not depend on batches and processes.
"""

from fairseq_posattn.training.criterions import (
    fused_cross_entropy,
    news_recommendation,
    sentences,
    sequence_tagging,
)

__all__ = ["CRITERIONS"]

CRITERIONS = {
    "label_smoothed_cross_entropy_fused": (
        fused_cross_entropy.LabelSmoothedCrossEntropyFused,
        fused_cross_entropy.FusedConfig,
    ),
    "news_recommendation": (news_recommendation.NewsRecommendation, news_recommendation.NewsConfig),
    "rating_regression": (sentences.RatingRegression, sentences.ScoreCriterionConfig),
    "relatedness": (sentences.Relatedness, sentences.ScoreCriterionConfig),
    "sentence_classification": (
        sentences.SentenceClassification,
        sentences.SentenceClassificationConfig,
    ),
    "sequence_tagging": (sequence_tagging.SequenceTagging, sequence_tagging.TaggingConfig),
}
