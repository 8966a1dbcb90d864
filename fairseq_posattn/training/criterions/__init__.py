"""Criterions for fairseq, registered by :func:`fairseq_posattn.training.plugin.register`.

Metrics are those of the whole validation set: batches log counts and sums, so that the result does
not depend on batches and processes.
"""

from fairseq.criterions import label_smoothed_cross_entropy as smoothed
from fairseq.dataclass import FairseqDataclass

from fairseq_posattn.training.criterions import fused_cross_entropy as fused
from fairseq_posattn.training.criterions import news_recommendation as news
from fairseq_posattn.training.criterions import sentences
from fairseq_posattn.training.criterions import sequence_tagging as tagging

CRITERIONS = {
    "label_smoothed_cross_entropy_fused": (
        fused.LabelSmoothedCrossEntropyFused,
        smoothed.LabelSmoothedCrossEntropyCriterionConfig,
    ),
    "news_recommendation": (news.NewsRecommendation, FairseqDataclass),
    "rating_regression": (sentences.RatingRegression, sentences.ScoreCriterionConfig),
    "relatedness": (sentences.Relatedness, sentences.ScoreCriterionConfig),
    "sentence_classification": (sentences.SentenceClassification, sentences.ClassificationConfig),
    "sequence_tagging": (tagging.SequenceTagging, tagging.TaggingConfig),
}
