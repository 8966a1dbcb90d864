"""Exported models for ``transformers``; importing this registers them with its Auto classes.

    import fairseq_posattn.hugging_face
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    model = AutoModelForSeq2SeqLM.from_pretrained("my-model")

``posattn export`` writes such a folder from a checkpoint. fairseq is not needed.
"""

import copy
import sys
from typing import TypeVar

# fairseq requires torchaudio, which may be built for another PyTorch. transformers imports it if it
# is installed, so hide a torchaudio that fails to load.
try:
    import torchaudio  # noqa: F401
except ImportError:
    pass
except (OSError, RuntimeError):  # another ABI or CUDA version
    sys.modules["torchaudio"] = None  # type: ignore[assignment]

try:
    import transformers
    from transformers import AutoModelForSeq2SeqLM, AutoModelForSequenceClassification
    from transformers.utils.import_utils import is_torchaudio_available

    is_torchaudio_available.cache_clear()  # transformers may have cached True
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
from fairseq_posattn.model.projections import quantize_linear_layers

AutoModelForSeq2SeqLM.register(PosAttnSeq2SeqConfig, PosAttnForSeq2SeqLM, exist_ok=True)
AutoModelForSequenceClassification.register(
    PosAttnTextConfig, PosAttnForSequenceClassification, exist_ok=True
)
for _config, _tokenizer in {
    PosAttnSeq2SeqConfig: PosAttnSeq2SeqTokenizer,
    PosAttnTextConfig: PosAttnClassifierTokenizer,
}.items():
    _kind: str = _config.model_type  # type: ignore[attr-defined]
    transformers.AutoConfig.register(_kind, _config, exist_ok=True)
    transformers.AutoTokenizer.register(_config, tokenizer_class=_tokenizer, exist_ok=True)

__all__ = ["PosAttnForSeq2SeqLM", "PosAttnSeq2SeqConfig", "PosAttnSeq2SeqTokenizer", "in_int8"]
__all__ += ["PosAttnForSequenceClassification", "PosAttnTextConfig", "PosAttnClassifierTokenizer"]

Model = TypeVar("Model", bound=transformers.PreTrainedModel)


def in_int8(model: Model) -> Model:
    """Return a copy for inference on a CPU; embeddings, attention and layer norms stay float32."""
    copied = copy.deepcopy(model)
    copied.eval()
    quantize_linear_layers(copied)
    return copied
