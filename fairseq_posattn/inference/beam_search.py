"""Beam search with prefixes and constraints for some sentences of a batch."""

import contextlib
import ctypes
import math
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from fairseq_posattn.model.projections import pack_linear_layers
from fairseq_posattn.model.seq2seq import DecoderPass
from fairseq_posattn.training.registered import (
    BaseFairseqModel,
    BeamSearch,
    SequenceGenerator,
    has_logits,
)

CHUNK = 64  # logits of which the greatest is found first
# Rows of logits that a processor's cache holds; with more types than these, matmuls of few rows are
# slower than what the cache saves.
ROWS, TYPES = 320, 16_000
# Parameters of glibc's malloc: M_MMAP_THRESHOLD and M_TRIM_THRESHOLD, in bytes.
MALLOC = {-3: 2**25, -1: 2**29}


class ForcedSearch(SequenceGenerator):
    """fairseq's search, in which no sentence affects the others of its batch.

    A sentence that cannot be completed in time has no hypothesis, where fairseq's stops with an
    assertion. The minimum length holds while the longest prefix lasts. Plain beam search has a loop
    of its own, with the same results, that reads the whole vocabulary's logits fewer times.
    """

    def __init__(self, models: list[BaseFairseqModel], *args: Any, **kwargs: Any):
        super().__init__(models, *args, **kwargs)
        self.search.stop_on_max_len = True
        # The others store constraints, lengths or totals of a batch: threads take turns.
        is_plain = type(self.search) is BeamSearch
        self.turn = contextlib.nullcontext() if is_plain else threading.Lock()
        # Else the caches' memory is given back after each batch, and the system clears new pages.
        with contextlib.suppress(AttributeError, OSError):  # another C library
            for parameter, size in MALLOC.items():
                ctypes.CDLL(None).mallopt(parameter, size)
        for model in models:
            pack_linear_layers(model)
        # Modules of fairseq, such as fconv's BeamableMM, that read rows as so many hypotheses each.
        sizes = (getattr(module, "beam_size", None) for module in self.model.modules())
        self.groups_rows = any((size or 1) > 1 for size in sizes)

    @torch.inference_mode()  # small operations take less time than under no_grad
    def generate(
        self, models: list[BaseFairseqModel], sample: dict[str, Any], **kwargs: Any
    ) -> list[list[dict[str, Tensor]]]:
        """Translate a batch, as fairseq's search."""
        with self.turn:
            return list(super().generate(models, sample, **kwargs))

    def _prefix_tokens(self, step: int, *args: Any) -> tuple[Tensor, Tensor, Tensor]:
        *_, prefix_tokens, beam_size = args
        lprobs, tokens, scores = super()._prefix_tokens(step, *args)
        if step < self.min_len:
            free = prefix_tokens[:, step].eq(self.pad).repeat_interleave(beam_size)
            lprobs[free, self.eos] = -math.inf
        return lprobs, tokens, scores

    def _generate(
        self,
        sample: dict[str, Any],
        prefix_tokens: Tensor | None = None,
        constraints: Tensor | None = None,
        bos_token: int | None = None,
    ) -> Any:
        plain = (
            type(self.search) is BeamSearch
            and not self.groups_rows
            and prefix_tokens is None
            and constraints is None
            and self.lm_model is None
            and self.token_indices_to_suppress is None
            and not self.match_source_len
            and self.vocab_size > 2 * CHUNK * self.beam_size
        )
        if not plain:
            return super()._generate(sample, prefix_tokens, constraints, bos_token)
        return self._search(sample["net_input"], self.eos if bos_token is None else bos_token)

    def _search(self, net_input: dict[str, Tensor], start: int) -> list[list[dict[str, Tensor]]]:
        source, beam = net_input["src_tokens"], self.beam_size
        sentences, length = source.shape
        max_len = min(int(self.max_len_a * length + self.max_len_b), self.max_len - 1)
        encoded = self.model.forward_encoder(net_input)
        states: list[dict[Any, Any]] = [{} for _ in self.model.models]
        # The first step has one hypothesis for each sentence.
        tokens = source.new_full((sentences, max_len + 2), self.pad)
        tokens[:, 0] = start
        scores = torch.zeros(sentences, max_len + 1, device=source.device)  # cumulative
        weights = None  # [B*N, S, T]
        left = list(range(sentences))
        results: list[list[dict[str, Tensor]]] = [[] for _ in left]
        for step in range(max_len + 1):
            log_probs_of, newest = self._decode(tokens[:, : step + 1], encoded, states)
            if newest is not None:
                if weights is None:
                    weights = newest.new_empty(*newest.shape, max_len + 2)
                weights[..., step + 1] = newest
            candidates = self._candidates(log_probs_of, tokens, scores, len(left), step, max_len)
            totals, parents, ids = candidates  # [B, 2N]
            ends = ids.eq(self.eos) & totals.ne(-math.inf)
            kept = self._finish(ends, candidates, tokens, scores, weights, left, results, step)
            if step == max_len or not kept:
                break
            left = [left[index] for index in kept]
            # The best candidates that do not end; there are N at least. Sorted by their parents, so
            # that fewer rows of the caches move.
            active = ends[kept].byte().argsort(dim=1, stable=True)[:, :beam]
            active = active.gather(1, parents[kept].gather(1, active).argsort(dim=1, stable=True))
            order, ids, totals = (
                tensor[kept].gather(1, active).flatten() for tensor in (parents, ids, totals)
            )
            tokens, scores = tokens[order], scores[order]
            tokens[:, step + 1], scores[:, step] = ids, totals
            weights = None if weights is None else weights[order]
            self.model.reorder_incremental_state(states, order)
            encoded = self.model.reorder_encoder_out(encoded, order)
        return [sorted(hypotheses, key=lambda h: -h["score"].item()) for hypotheses in results]

    def _decode(
        self, tokens: Tensor, encoded: list[Any], states: list[dict[Any, Any]]
    ) -> tuple[Callable[[slice], Tensor], Tensor | None]:
        """Return a function from rows to log-probabilities ``[R, V]``, and attention.

        Attention is ``[B*N, S]``, of the newest position, or None.
        """
        model = self.model.single_model
        decoder = model.decoder
        simple = isinstance(decoder, DecoderPass) and has_logits(decoder)
        if not simple or self.model.models_size > 1 or tokens.device.type != "cpu":
            whole, attention = self.model.forward_decoder(tokens, encoded, states, self.temperature)
            return whole.__getitem__, attention
        features, extra = decoder.extract_features(
            tokens, encoder_out=encoded[0], incremental_state=states[0]
        )
        attention = extra["attn"][0]

        def log_probs_of(rows: slice) -> Tensor:
            logits: Tensor = decoder.output_layer(features[rows, -1]).float()
            if self.temperature != 1:
                logits.div_(self.temperature)
            return torch.log_softmax(logits, -1, out=logits)  # in place

        return log_probs_of, None if attention is None else attention[:, -1]

    def _candidates(
        self,
        log_probs_of: Callable[[slice], Tensor],
        tokens: Tensor,
        scores: Tensor,
        sentences: int,
        step: int,
        max_len: int,
    ) -> tuple[Tensor, ...]:
        """Return scores, rows of hypotheses and tokens of the best 2N candidates, ``[B, 2N]``."""
        hypotheses, size = len(tokens) // sentences, sentences
        if scores.is_cpu and self.vocab_size <= TYPES:  # logits of few sentences stay in the cache
            size = max(1, ROWS // hypotheses)
        parts = []
        for start in range(0, len(tokens), size * hypotheses):
            rows = slice(start, start + size * hypotheses)
            log_probs = log_probs_of(rows)
            self._forbid(log_probs, tokens[rows], hypotheses, step, max_len)
            totals, parents, ids = self._best(log_probs, scores[rows], hypotheses, step)
            parts.append((totals, parents + start, ids))
        return tuple(map(torch.cat, zip(*parts, strict=True)))

    def _forbid(self, log_probs: Tensor, tokens: Tensor, beam: int, step: int, last: int) -> None:
        """Set the log-probabilities of tokens that may not come next to -inf."""
        log_probs[:, self.pad] = -math.inf
        log_probs[:, self.unk] -= self.unk_penalty
        if step >= last:
            log_probs[:, : self.eos] = -math.inf
            log_probs[:, self.eos + 1 :] = -math.inf
        if step < self.min_len:
            log_probs[:, self.eos] = -math.inf
        if self.repeat_ngram_blocker is not None:
            self.repeat_ngram_blocker(tokens, log_probs, len(tokens) // beam, beam, step)

    def _best(self, log_probs: Tensor, scores: Tensor, beam: int, step: int) -> tuple[Tensor, ...]:
        """Return the best candidates of each ``beam`` rows, within their 2N best chunks."""
        count, vocabulary = 2 * self.beam_size, log_probs.size(1)
        before = scores.new_zeros(len(scores), 1) if step == 0 else scores[:, step - 1, None]
        whole = (vocabulary - 1) // CHUNK * CHUNK
        chunks = log_probs[:, :whole].unflatten(1, (-1, CHUNK))
        rest = log_probs[:, whole:].amax(1, keepdim=True)  # the last chunk may be shorter
        best = torch.cat([chunks.amax(-1), rest], dim=1) + before  # [B*N, chunks]
        best = best.masked_fill_(best.isnan(), -math.inf)
        indices = best.view(len(best) // beam, -1).topk(count).indices  # [B, 2N]
        first = torch.arange(0, len(best), beam, device=best.device)
        parents = first[:, None] + indices // best.size(1)
        offsets = torch.arange(CHUNK, device=best.device)
        ids = (indices % best.size(1))[..., None] * CHUNK + offsets  # [B, 2N, 64]
        inside = ids.clamp(max=vocabulary - 1)
        values = log_probs[parents[..., None], inside].masked_fill_(ids != inside, -math.inf)
        values = values.masked_fill_(values.isnan(), -math.inf) + before[parents]
        totals, indices = values.flatten(1).topk(count)
        ids = inside.flatten(1).gather(1, indices)
        return totals, parents.gather(1, indices // CHUNK), ids

    def _finish(
        self,
        ends: Tensor,
        candidates: tuple[Tensor, ...],
        tokens: Tensor,
        scores: Tensor,
        weights: Tensor | None,
        left: list[int],
        results: list[list[dict[str, Tensor]]],
        step: int,
    ) -> list[int]:
        """Store the hypotheses that end; return the indices of the sentences that go on."""
        totals, parents, _ = candidates
        ending = ends[:, : self.beam_size].nonzero()  # indices and ranks
        rows, total = (tensor[tuple(ending.t())] for tensor in (parents, totals))
        positional = torch.cat([scores[rows, :step], total[:, None]], dim=1)
        positional[:, 1:] -= positional[:, :-1].clone()
        written = tokens[rows, 1 : step + 2]
        written[:, step] = self.eos
        norm = (step + 1) ** self.len_penalty if self.normalize_scores else 1
        none = torch.empty(0)
        attention = [none] * len(rows) if weights is None else weights[rows, :, 1 : step + 2]
        names = "tokens", "score", "attention", "positional_scores"
        columns = zip(written, total / norm, attention, positional, strict=True)
        for (index, _), values in zip(ending.tolist(), columns, strict=True):
            if len(hypotheses := results[left[index]]) < self.beam_size:
                hypotheses.append({**dict(zip(names, values, strict=True)), "alignment": none})
        return [index for index, row in enumerate(left) if len(results[row]) < self.beam_size]
