"""Tasks for fairseq, registered by :func:`fairseq_posattn.training.plugin.register`."""

from fairseq_posattn.training.tasks import news_recommendation as news
from fairseq_posattn.training.tasks import sentence_pair_prediction as pairs
from fairseq_posattn.training.tasks import sequence_tagging as tagging

TASKS = {
    "news_recommendation": (news.NewsRecommendationTask, news.TaskConfig),
    "sentence_pair_prediction": (pairs.SentencePairPredictionTask, pairs.TaskConfig),
    "sequence_tagging": (tagging.SequenceTaggingTask, tagging.TaskConfig),
}
