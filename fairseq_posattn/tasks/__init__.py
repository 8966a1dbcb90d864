"""Tasks that fairseq lacks; importing this package registers them."""

from fairseq_posattn.tasks.sentence_pair_prediction import SentencePairPredictionTask

__all__ = ["SentencePairPredictionTask"]
