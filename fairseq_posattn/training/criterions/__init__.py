"""Criterions for fairseq, registered by :func:`fairseq_posattn.training.plugin.register`.

Metrics are those of the whole validation set: batches log counts and sums, or the predictions
themselves, so that the result does not depend on batches and processes.
"""

from fairseq_posattn.training.criterions.fused_cross_entropy import (
    FusedConfig,
    LabelSmoothedCrossEntropyFused,
)
from fairseq_posattn.training.criterions.news_recommendation import NewsConfig, NewsRecommendation
from fairseq_posattn.training.criterions.sentences import (
    RatingRegression,
    Relatedness,
    ScoreCriterionConfig,
    SentenceClassification,
    SentenceClassificationConfig,
)
from fairseq_posattn.training.criterions.sequence_tagging import SequenceTagging, TaggingConfig

CRITERIONS = {
    "label_smoothed_cross_entropy_fused": (LabelSmoothedCrossEntropyFused, FusedConfig),
    "news_recommendation": (NewsRecommendation, NewsConfig),
    "rating_regression": (RatingRegression, ScoreCriterionConfig),
    "relatedness": (Relatedness, ScoreCriterionConfig),
    "sentence_classification": (SentenceClassification, SentenceClassificationConfig),
    "sequence_tagging": (SequenceTagging, TaggingConfig),
}
