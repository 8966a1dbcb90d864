"""Tasks for fairseq, registered by :func:`fairseq_posattn.training.plugin.register`."""

from fairseq_posattn.training.tasks.news_recommendation import (
    NewsRecommendationConfig,
    NewsRecommendationTask,
)
from fairseq_posattn.training.tasks.sentence_pair_prediction import (
    SentencePairPredictionConfig,
    SentencePairPredictionTask,
)
from fairseq_posattn.training.tasks.sequence_tagging import (
    SequenceTaggingConfig,
    SequenceTaggingTask,
)

TASKS = {
    "news_recommendation": (NewsRecommendationTask, NewsRecommendationConfig),
    "sentence_pair_prediction": (SentencePairPredictionTask, SentencePairPredictionConfig),
    "sequence_tagging": (SequenceTaggingTask, SequenceTaggingConfig),
}

__all__ = ["TASKS", "NewsRecommendationTask", "SentencePairPredictionTask", "SequenceTaggingTask"]
