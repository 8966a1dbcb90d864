"""fairseq models and their named architectures; importing this package registers them."""

from fairseq_posattn.training.architectures import ARCHITECTURES
from fairseq_posattn.training.models.classifier import PosAttnClassifier, PosAttnClassifierConfig
from fairseq_posattn.training.models.recommender import PosAttnRecommender, PosAttnRecommenderConfig
from fairseq_posattn.training.models.registration import register_architectures
from fairseq_posattn.training.models.seq2seq import PosAttnTransformer
from fairseq_posattn.training.models.seq2seq_config import PosAttnTransformerConfig
from fairseq_posattn.training.models.tagger import PosAttnTagger, PosAttnTaggerConfig

for name, model, config in (
    ("posattn_transformer", PosAttnTransformer, PosAttnTransformerConfig),
    ("posattn_classifier", PosAttnClassifier, PosAttnClassifierConfig),
    ("posattn_recommender", PosAttnRecommender, PosAttnRecommenderConfig),
    ("posattn_tagger", PosAttnTagger, PosAttnTaggerConfig),
):
    register_architectures(model, config, ARCHITECTURES[name])

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
