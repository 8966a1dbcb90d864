"""Tasks that fairseq lacks; importing this package registers them."""

from fairseq_posattn.training.tasks.news_recommendation import NewsRecommendationTask
from fairseq_posattn.training.tasks.sentence_pair_prediction import SentencePairPredictionTask
from fairseq_posattn.training.tasks.sequence_tagging import SequenceTaggingTask

__all__ = ["NewsRecommendationTask", "SentencePairPredictionTask", "SequenceTaggingTask"]
