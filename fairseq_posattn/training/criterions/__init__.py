"""Criterions for sentences and pairs of them; importing this package registers them.

Their metrics are those of the whole validation set, however it is cut into batches and shared
among processes: what is logged for a batch are counts and sums, or the predictions themselves.
"""

from fairseq_posattn.training.criterions.label_smoothed_cross_entropy_fused import (
    LabelSmoothedCrossEntropyFused,
)
from fairseq_posattn.training.criterions.news_recommendation import NewsRecommendation
from fairseq_posattn.training.criterions.rating_regression import RatingRegression
from fairseq_posattn.training.criterions.relatedness import Relatedness
from fairseq_posattn.training.criterions.sentence_classification import SentenceClassification
from fairseq_posattn.training.criterions.sequence_tagging import SequenceTagging

__all__ = [
    "LabelSmoothedCrossEntropyFused",
    "NewsRecommendation",
    "RatingRegression",
    "Relatedness",
    "SentenceClassification",
    "SequenceTagging",
]
