"""``posattn_classifier`` for ``transformers``."""

from argparse import Namespace
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput

from fairseq_posattn.hugging_face.configuration import PosAttnTextConfig, check_arguments
from fairseq_posattn.model.classifier import ClassificationHead, Marks, SentenceEncoder
from fairseq_posattn.model.sentence_batches import pad_right

# By ``problem_type``; others have cross entropy.
LOSSES: dict[Any, Callable[..., Tensor]] = {
    "regression": F.mse_loss,
    "multi_label_classification": F.binary_cross_entropy_with_logits,
}


class PosAttnForSequenceClassification(PreTrainedModel):
    """Classifier of sentences, documents or pairs."""

    config_class = PosAttnTextConfig
    base_model_prefix = "encoder"

    def __init__(self, config: PosAttnTextConfig):
        if config.num_labels == 1:  # else pipelines apply a sigmoid to the score
            config.problem_type = config.problem_type or "regression"
        super().__init__(config)
        cfg = Namespace(**(config.options or {}))
        words = nn.Embedding(config.vocab_size, cfg.encoder_embed_dim, config.pad_token_id)
        ends = config.sentence_end_ids or ()
        marks = Marks(config.pad_token_id, config.eos_token_id, config.separator_id, ends)
        self.encoder = SentenceEncoder(cfg, words, marks)
        dim = self.encoder.pair_dim if config.encodes_pairs else self.encoder.output_dim
        self.head = ClassificationHead(cfg, dim, config.num_labels)
        self.post_init()

    def tie_weights(self, *args: Any, **kwargs: Any) -> None:
        """Freeze the embeddings as in training: ``from_pretrained`` replaces them before this."""
        super().tie_weights(*args, **kwargs)
        frozen = self.config.options["freeze_embeddings"]
        self.get_input_embeddings().weight.requires_grad = not frozen

    def get_input_embeddings(self) -> nn.Embedding:
        return self.encoder.embed_tokens

    def set_input_embeddings(self, value: nn.Module) -> None:
        self.encoder.embed_tokens = value  # type: ignore[assignment]

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        return_dict: bool | None = None,
        **others: Any,
    ) -> SequenceClassifierOutput | tuple[Any, ...]:
        """Classify sentences, documents or pairs: logits ``[B, classes]``, and ``loss`` by labels.

        Args:
            input_ids: ``[B, T]``, padded on either side, with ``</s>`` after each sentence.
            attention_mask: ``[B, T]``, 0 where padded; default: where tokens are padding.
            token_type_ids: ``[B, T]``, 1 in the second sentence of pairs.
            labels: ``[B]``, classes, or scores if the model has one output; ``[B, outputs]`` by
                the configuration's ``problem_type``.
            num_items_in_batch: labels of all batches of an update, to divide the loss by.
        """
        check_arguments(self.config, others)
        pad = self.config.pad_token_id
        if attention_mask is not None:
            input_ids = input_ids.masked_fill(attention_mask.eq(0), pad)
        pairs = None
        if self.config.encodes_pairs:
            if token_type_ids is None:
                missing = "missing for a model of pairs; give 1 in the second sentence"
                raise ValueError(f"token_type_ids: {missing}")
            is_second = token_type_ids.eq(1)
            pairs = _narrow(input_ids.masked_fill(~is_second, pad), pad)
            input_ids = _narrow(input_ids.masked_fill(is_second, pad), pad)
        logits = self.head(self.encoder.features(input_ids, pairs))
        loss: Tensor | None = None
        if labels is not None:
            kind = self.config.problem_type
            if kind in LOSSES:
                loss = LOSSES[kind](logits.view_as(labels), labels.to(logits))
            else:
                loss = F.cross_entropy(logits, labels)
            if num_items_in_batch is not None:  # Trainer accumulates gradients
                loss = loss * labels.numel() / num_items_in_batch
        output = SequenceClassifierOutput(loss=loss, logits=logits)
        return output.to_tuple() if return_dict is False else output


def _narrow(tokens: Tensor, pad: int) -> Tensor:
    """Pad rows ``[B, T]`` on the right, to the length of the longest."""
    tokens = pad_right(tokens, pad)
    if torch.compiler.is_exporting():
        return tokens
    return tokens[:, : int(tokens.ne(pad).sum(1).max())]
