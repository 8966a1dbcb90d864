"""Tasks for fairseq, registered by :func:`fairseq_posattn.training.plugin.register`."""

from fairseq_posattn.training.tasks import (
    news_recommendation,
    sentence_pair_prediction,
    sequence_tagging,
)
from fairseq_posattn.training.tasks.news_recommendation import NewsRecommendationTask
from fairseq_posattn.training.tasks.sentence_pair_prediction import SentencePairPredictionTask
from fairseq_posattn.training.tasks.sequence_tagging import SequenceTaggingTask

__all__ = ["TASKS", "NewsRecommendationTask", "SentencePairPredictionTask", "SequenceTaggingTask"]

TASKS = {
    "news_recommendation": (NewsRecommendationTask, news_recommendation.TaskConfig),
    "sentence_pair_prediction": (SentencePairPredictionTask, sentence_pair_prediction.TaskConfig),
    "sequence_tagging": (SequenceTaggingTask, sequence_tagging.TaskConfig),
}
