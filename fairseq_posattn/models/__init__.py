"""fairseq models and their named architectures; importing this package registers them."""

from fairseq_posattn.models import (
    classifier_architectures,
    recommender_architectures,
    seq2seq_architectures,
    tagger_architectures,
)
from fairseq_posattn.models.architectures import register_architectures
from fairseq_posattn.models.classifier import PosAttnClassifier, PosAttnClassifierConfig
from fairseq_posattn.models.recommender import PosAttnRecommender, PosAttnRecommenderConfig
from fairseq_posattn.models.seq2seq import PosAttnTransformer
from fairseq_posattn.models.seq2seq_config import PosAttnTransformerConfig
from fairseq_posattn.models.tagger import PosAttnTagger, PosAttnTaggerConfig

register_architectures(
    PosAttnTransformer, PosAttnTransformerConfig, seq2seq_architectures.ARCHITECTURES
)
register_architectures(
    PosAttnClassifier, PosAttnClassifierConfig, classifier_architectures.ARCHITECTURES
)
register_architectures(
    PosAttnRecommender, PosAttnRecommenderConfig, recommender_architectures.ARCHITECTURES
)
register_architectures(PosAttnTagger, PosAttnTaggerConfig, tagger_architectures.ARCHITECTURES)

__all__ = [
    "PosAttnClassifier",
    "PosAttnClassifierConfig",
    "PosAttnRecommender",
    "PosAttnRecommenderConfig",
    "PosAttnTagger",
    "PosAttnTaggerConfig",
    "PosAttnTransformer",
    "PosAttnTransformerConfig",
]
