"""Exported models in ``transformers``: importing this lets its Auto classes load them.

    import fairseq_posattn.hugging_face
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    model = AutoModelForSeq2SeqLM.from_pretrained("my-model")

``posattn export`` makes such a folder of a checkpoint. Nothing here needs fairseq.
"""

import sys

# fairseq brings a torchaudio, which may be made for another PyTorch; transformers loads one that is
# there, so one that does not load must not be there.
try:
    import torchaudio  # noqa: F401
except ImportError:
    pass
except (OSError, RuntimeError):  # of another ABI, or of another CUDA
    sys.modules["torchaudio"] = None

try:
    from transformers import (
        AutoConfig,
        AutoModelForSeq2SeqLM,
        AutoModelForSequenceClassification,
        AutoTokenizer,
    )
    from transformers.utils.import_utils import is_torchaudio_available

    is_torchaudio_available.cache_clear()  # it may have been asked before
except ImportError as error:
    raise ImportError(
        "fairseq_posattn.hugging_face needs transformers 5: pip install 'fairseq-posattn[export]'"
    ) from error

from fairseq_posattn.hugging_face.configuration import PosAttnSeq2SeqConfig, PosAttnTextConfig
from fairseq_posattn.hugging_face.encoder_decoder import PosAttnForSeq2SeqLM
from fairseq_posattn.hugging_face.sequence_classifier import PosAttnForSequenceClassification
from fairseq_posattn.hugging_face.tokenizers import (
    PosAttnClassifierTokenizer,
    PosAttnSeq2SeqTokenizer,
)

for _model, _auto, _tokenizer in (
    (PosAttnForSeq2SeqLM, AutoModelForSeq2SeqLM, PosAttnSeq2SeqTokenizer),
    (
        PosAttnForSequenceClassification,
        AutoModelForSequenceClassification,
        PosAttnClassifierTokenizer,
    ),
):
    _config = _model.config_class
    AutoConfig.register(_config.model_type, _config, exist_ok=True)
    _auto.register(_config, _model, exist_ok=True)
    AutoTokenizer.register(_config, tokenizer_class=_tokenizer, exist_ok=True)

__all__ = [
    "PosAttnTextConfig",
    "PosAttnClassifierTokenizer",
    "PosAttnForSeq2SeqLM",
    "PosAttnForSequenceClassification",
    "PosAttnSeq2SeqConfig",
    "PosAttnSeq2SeqTokenizer",
]
