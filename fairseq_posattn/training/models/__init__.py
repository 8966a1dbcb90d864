"""Models for fairseq, registered by :func:`fairseq_posattn.training.plugin.register`."""

from fairseq_posattn.training.models.classifier import PosAttnClassifier, PosAttnClassifierConfig
from fairseq_posattn.training.models.recommender import PosAttnRecommender, PosAttnRecommenderConfig
from fairseq_posattn.training.models.seq2seq import PosAttnTransformer, PosAttnTransformerConfig
from fairseq_posattn.training.models.tagger import PosAttnTagger, PosAttnTaggerConfig

MODELS = {
    "posattn_transformer": (PosAttnTransformer, PosAttnTransformerConfig),
    "posattn_classifier": (PosAttnClassifier, PosAttnClassifierConfig),
    "posattn_recommender": (PosAttnRecommender, PosAttnRecommenderConfig),
    "posattn_tagger": (PosAttnTagger, PosAttnTaggerConfig),
}
