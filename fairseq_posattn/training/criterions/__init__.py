"""Criterions for fairseq, registered by :func:`fairseq_posattn.training.plugin.register`.

Metrics are those of the whole validation set: batches log counts and sums, or the predictions
themselves, so that the result does not depend on batches and processes.
"""

from fairseq_posattn.training.criterions.fused_cross_entropy import (
    FusedConfig,
    LabelSmoothedCrossEntropyFused,
)
from fairseq_posattn.training.criterions.news_recommendation import (
    NewsRecommendation,
    NewsRecommendationCriterionConfig,
)
from fairseq_posattn.training.criterions.score_criterions import (
    RatingRegression,
    Relatedness,
    ScoreCriterionConfig,
)
from fairseq_posattn.training.criterions.sentence_classification import (
    SentenceClassification,
    SentenceClassificationConfig,
)
from fairseq_posattn.training.criterions.sequence_tagging import (
    SequenceTagging,
    SequenceTaggingCriterionConfig,
)

CRITERIONS = {
    "label_smoothed_cross_entropy_fused": (LabelSmoothedCrossEntropyFused, FusedConfig),
    "news_recommendation": (NewsRecommendation, NewsRecommendationCriterionConfig),
    "rating_regression": (RatingRegression, ScoreCriterionConfig),
    "relatedness": (Relatedness, ScoreCriterionConfig),
    "sentence_classification": (SentenceClassification, SentenceClassificationConfig),
    "sequence_tagging": (SequenceTagging, SequenceTaggingCriterionConfig),
}
