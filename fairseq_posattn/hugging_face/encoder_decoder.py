"""``posattn_transformer`` for ``transformers``, with the end condition of fairseq's beam search."""

from argparse import Namespace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import GenerationMixin, LogitsProcessor, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput

from fairseq_posattn.common.errors import UsageError, counted
from fairseq_posattn.hugging_face.configuration import PosAttnSeq2SeqConfig, check_arguments, nested
from fairseq_posattn.model.caches import IncrementalState, PositionCache
from fairseq_posattn.model.seq2seq import Decoder, Encoder, find_padding

NO_LABEL = -100


class SourceEncoder(Encoder):
    """Encoder with the call signature of ``generate``."""

    main_input_name = "input_ids"

    def __init__(self, cfg: Namespace, embed_tokens: nn.Embedding):
        super().__init__(cfg, embed_tokens)
        self.longest: int = cfg.max_source_positions

    def forward(  # type: ignore[override]
        self, input_ids: Tensor, attention_mask: Tensor | None = None, **unused: Any
    ) -> BaseModelOutput:
        """Encode ``[B, S]``, padded on either side, to ``last_hidden_state`` ``[B, S, C]``."""
        if input_ids.size(1) > self.longest:
            long = f"a text of {input_ids.size(1)} tokens is longer than the model's {self.longest}"
            raise UsageError(f"{long}; cut it with the tokenizer's truncation=True")
        if attention_mask is not None:
            pad: int = self.padding_idx
            input_ids = input_ids.masked_fill(attention_mask.eq(0), pad)
        encoded = super().forward(input_ids)["encoder_out"][0]
        return BaseModelOutput(last_hidden_state=encoded.transpose(0, 1))


class EndAtMaxLength(LogitsProcessor):
    """Force ``</s>`` at the maximal length, of all tokens, and add its score, as in fairseq."""

    def __init__(self, longest: int, eos: int):
        self.longest, self.eos = longest, eos

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        if input_ids.size(1) < self.longest - 1:
            return scores
        ended = torch.full_like(scores, -torch.inf)
        ended[:, self.eos] = scores[:, self.eos]
        return ended


class PosAttnForSeq2SeqLM(PreTrainedModel, GenerationMixin):
    """Translation or summarization model."""

    config_class = PosAttnSeq2SeqConfig
    main_input_name = "input_ids"

    def __init__(self, config: PosAttnSeq2SeqConfig):
        super().__init__(config)
        cfg, pad = nested(config.options or {}), config.pad_token_id
        words = nn.Embedding(config.vocab_size, cfg.encoder.embed_dim, pad)
        targets = words
        if not cfg.share_all_embeddings:
            targets = nn.Embedding(config.target_vocab_size, cfg.decoder.embed_dim, pad)
        self.encoder = SourceEncoder(cfg, words)
        self.decoder = Decoder(cfg, targets)
        tied = self._tied_weights_keys = {}
        if cfg.share_all_embeddings:
            tied["decoder.embed_tokens.weight"] = "encoder.embed_tokens.weight"
        if cfg.share_decoder_input_output_embed:
            source = "encoder" if cfg.share_all_embeddings else "decoder"
            tied["decoder.output_projection.weight"] = f"{source}.embed_tokens.weight"
        self.post_init()

    def get_input_embeddings(self) -> nn.Embedding:
        return self.encoder.embed_tokens  # type: ignore[return-value]

    def get_output_embeddings(self) -> nn.Linear:
        return self.decoder.output_projection

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        encoder_outputs: BaseModelOutput | None = None,
        past_key_values: IncrementalState | None = None,
        labels: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        use_cache: bool | None = None,
        return_dict: bool | None = None,
        **others: Any,
    ) -> Seq2SeqLMOutput | tuple[Any, ...]:
        """Compute logits of the next tokens, ``[B, T, V]``, and ``loss`` if there are labels.

        Args:
            input_ids: ``[B, S]``, padded on either side, with ``</s>`` at the end.
            attention_mask: ``[B, S]``, 0 where padded; default: where tokens are padding.
            decoder_input_ids: ``[B, T]``, ``</s>`` and all tokens so far; default: shifted labels.
            past_key_values: cache of an earlier call; logits are those of the last position.
            labels: ``[B, T]``, -100 or the padding symbol where ignored.
            num_items_in_batch: labels of all batches of an update, to divide the loss by.
        """
        check_arguments(self.config, others)
        pad = self.config.pad_token_id
        if attention_mask is None and input_ids is not None:
            attention_mask = input_ids.ne(pad)
        if encoder_outputs is None:
            encoder_outputs = self.encoder(input_ids, attention_mask)
        if decoder_input_ids is None:
            if labels is None:
                raise ValueError("decoder_input_ids, labels: give one of them, or call generate()")
            decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        encoded = encoder_outputs[0]
        padding = None if attention_mask is None else find_padding(attention_mask, 0)
        masks = [] if padding is None else [padding]
        encoder_out = {"encoder_out": [encoded.transpose(0, 1)], "encoder_padding_mask": masks}
        past: Any = None
        if use_cache or past_key_values:
            past = {} if past_key_values is None else past_key_values
            length = decoder_input_ids.size(1)
            stored = (len(cache) for cache in past.values() if isinstance(cache, PositionCache))
            first = 1 + max(stored, default=length - 1 if past else 0)
            if first > length:
                problem = f"{counted(length, 'token')}, and past_key_values has {first - 1} already"
                fix = "give all tokens so far and at least a new one"
                raise ValueError(f"decoder_input_ids: {problem}; {fix}")
            for end in range(first, length):  # of a given prefix
                self.decoder(decoder_input_ids[:, :end], encoder_out, past)
        logits = self.decoder(decoder_input_ids, encoder_out, past)
        loss = None
        if labels is not None:
            targets = labels.masked_fill(labels.eq(pad), NO_LABEL)
            loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=NO_LABEL)
            if num_items_in_batch is not None:  # Trainer's, if it accumulates gradients
                loss = loss * targets.ne(NO_LABEL).sum() / num_items_in_batch
        output = Seq2SeqLMOutput(
            loss=loss, logits=logits, past_key_values=past, encoder_last_hidden_state=encoded
        )
        return output.to_tuple() if return_dict is False else output

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Tensor:
        """Shift labels right, with ``</s>`` first: ``[B, T]``."""
        pad = self.config.pad_token_id
        start = labels.new_full((len(labels), 1), self.config.decoder_start_token_id)
        return torch.cat([start, labels[:, :-1].masked_fill(labels[:, :-1].eq(NO_LABEL), pad)], 1)

    def generate(self, inputs: Tensor | None = None, *args: Any, **kwargs: Any) -> Any:
        """Generate as ``transformers``; the attention mask defaults to where tokens are padding."""
        tokens = kwargs.get("input_ids") if inputs is None else inputs
        if tokens is not None and kwargs.get("attention_mask") is None:
            kwargs["attention_mask"] = tokens.ne(self.config.pad_token_id).long()
        return super().generate(inputs, *args, **kwargs)

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        return False  # the mechanisms have their own cache, see past_key_values

    def prepare_inputs_for_generation(  # type: ignore[override]
        self, input_ids: Tensor, next_sequence_length: int | None = None, **kwargs: Any
    ) -> Any:
        """Pass all tokens so far: the decoder counts positions by them."""
        return super().prepare_inputs_for_generation(input_ids, **kwargs)

    def _get_logits_processor(self, generation_config: Any, *args: Any, **kwargs: Any) -> Any:
        processors = super()._get_logits_processor(generation_config, *args, **kwargs)
        ending = EndAtMaxLength(generation_config.max_length, self.config.eos_token_id)
        processors.insert(0, ending)  # sampling may leave </s> out
        return processors

    def _reorder_cache(self, past: IncrementalState, order: Tensor) -> IncrementalState:
        """Reorder hypotheses within sentences, whose cross-attention cache stays the same."""
        for cache in past.values():
            if isinstance(cache, PositionCache):
                cache.reorder(order)
        return past
