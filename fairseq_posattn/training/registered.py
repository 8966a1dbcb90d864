"""fairseq with the plugin registered, for packages that use trained models.

Import its names from here instead of fairseq: its first import is quiet, and its functions are
patched, because this module registers the plugin first.
"""

# ruff: noqa: E402, F401
from fairseq_posattn.training.plugin import register

register()

from fairseq import checkpoint_utils, options, tasks, utils
from fairseq.checkpoint_utils import load_checkpoint_to_cpu
from fairseq.data import Dictionary, FairseqDataset, data_utils
from fairseq.dataclass.configs import GenerationConfig
from fairseq.models import (
    ARCH_MODEL_NAME_REGISTRY,
    MODEL_DATACLASS_REGISTRY,
    BaseFairseqModel,
    FairseqEncoder,
)
from fairseq.models.bart import BARTModel
from fairseq.models.transformer import TransformerConfig, TransformerModel
from fairseq.search import BeamSearch
from fairseq.sequence_generator import SequenceGenerator
from fairseq.tasks import FairseqTask
from fairseq.tasks.sentence_prediction import SentencePredictionTask
from fairseq.tasks.translation import TranslationTask
from fairseq.token_generation_constraints import pack_constraints

from fairseq_posattn.training.models.registration import has_logits
