"""``config.json`` of exported models; ``options`` are those of fairseq's flags."""

from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from transformers import PreTrainedConfig

from fairseq_posattn.common.errors import UsageError

# Arguments of other models of transformers that would change the output, with what to do instead.
UNSUPPORTED = {
    "output_attentions": "posattn look shows attention weights",
    "output_hidden_states": "a forward hook of a layer reads them",
    **dict.fromkeys(("inputs_embeds", "decoder_inputs_embeds"), "give tokens"),
    **dict.fromkeys(("position_ids", "decoder_attention_mask"), "leave it out"),
    **dict.fromkeys(("head_mask", "decoder_head_mask", "cross_attn_head_mask"), "leave it out"),
}


def check_arguments(config: PreTrainedConfig, arguments: Mapping[str, Any]) -> None:
    """Raise UsageError for a further argument of a call, or a setting, that has no effect."""
    for name, fix in UNSUPPORTED.items():
        value = arguments.get(name, getattr(config, name, None))
        if value is not None and value is not False:
            raise UsageError(f"{name}: exported models do not support it; {fix}")


class PosAttnTextConfig(PreTrainedConfig):
    """Configuration of ``PosAttnForSequenceClassification``.

    Attributes:
        options: of ``posattn_classifier``, with ``max_positions``.
        separator_id: index of the token between a document's sentences; -1 for none.
        sentence_end_ids: indices of the tokens that end a sentence of a document.
        encodes_pairs: whether inputs are sentence pairs, marked by ``token_type_ids``.
        predicts_numbers: whether the prediction is a number, the only output or, with several, the
            mean of the classes' numbers.
    """

    model_type = "posattn_classifier"
    options: dict[str, Any] | None = None
    vocab_size: int = 4
    pad_token_id: int | None = 1
    eos_token_id: int | list[int] | None = 2
    separator_id: int = -1
    sentence_end_ids: list[int] | None = None
    encodes_pairs: bool = False
    predicts_numbers: bool = False


class PosAttnSeq2SeqConfig(PreTrainedConfig):
    """Configuration of ``PosAttnForSeq2SeqLM``, with the ``options`` of ``posattn_transformer``."""

    model_type = "posattn_transformer"
    keys_to_ignore_at_inference = ["past_key_values"]
    options: dict[str, Any] | None = None
    vocab_size: int = 4
    target_vocab_size: int = 4
    is_encoder_decoder: bool = True
    tie_word_embeddings: bool = True  # the options define which
    bos_token_id: int | None = 0
    pad_token_id: int | None = 1
    eos_token_id: int | list[int] | None = 2
    decoder_start_token_id: int | None = 2


def nested(options: dict[str, Any]) -> Namespace:
    """Return the options, with those of each side also under ``encoder`` and ``decoder``."""
    sides = {"encoder": Namespace(), "decoder": Namespace()}
    for name, value in options.items():
        side, _, rest = name.partition("_")
        if side in sides:
            setattr(sides[side], rest, value)
    return Namespace(**options, **sides)
