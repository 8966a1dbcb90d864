"""fairseq models and their named architectures; importing this package registers them."""

from fairseq_posattn.architectures import ARCHITECTURES
from fairseq_posattn.models.classifier import PosAttnClassifier, PosAttnClassifierConfig
from fairseq_posattn.models.recommender import PosAttnRecommender, PosAttnRecommenderConfig
from fairseq_posattn.models.registration import register_architectures
from fairseq_posattn.models.seq2seq import PosAttnTransformer
from fairseq_posattn.models.seq2seq_config import PosAttnTransformerConfig
from fairseq_posattn.models.tagger import PosAttnTagger, PosAttnTaggerConfig

register_architectures(
    PosAttnTransformer, PosAttnTransformerConfig, ARCHITECTURES["posattn_transformer"]
)
register_architectures(
    PosAttnClassifier, PosAttnClassifierConfig, ARCHITECTURES["posattn_classifier"]
)
register_architectures(
    PosAttnRecommender, PosAttnRecommenderConfig, ARCHITECTURES["posattn_recommender"]
)
register_architectures(PosAttnTagger, PosAttnTaggerConfig, ARCHITECTURES["posattn_tagger"])

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
