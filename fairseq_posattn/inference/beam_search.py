"""Beam search with prefixes and constraints for some sentences of a batch."""

import contextlib
import ctypes
import math
from typing import Any

import torch
from torch import Tensor

from fairseq_posattn.model.projections import pack_linear_layers
from fairseq_posattn.training.registered import BaseFairseqModel, BeamSearch, SequenceGenerator

CHUNK = 64  # logits of which the greatest is found first
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
        # Else the caches' memory is given back after each batch, and the system clears new pages.
        with contextlib.suppress(AttributeError, OSError):  # another C library
            for parameter, size in MALLOC.items():
                ctypes.CDLL(None).mallopt(parameter, size)
        for model in models:
            pack_linear_layers(model)

    @torch.inference_mode()  # small operations take less time than under no_grad
    def generate(
        self, models: list[BaseFairseqModel], sample: dict[str, Any], **kwargs: Any
    ) -> list[list[dict[str, Tensor]]]:
        """Translate a batch, as fairseq's search."""
        results: list[list[dict[str, Tensor]]] = super().generate(models, sample, **kwargs)
        return results

    def _prefix_tokens(
        self,
        step: int,
        lprobs: Tensor,
        scores: Tensor,
        tokens: Tensor,
        prefix_tokens: Tensor,
        beam_size: int,
    ) -> tuple[Tensor, Tensor, Tensor]:
        lprobs, tokens, scores = super()._prefix_tokens(
            step, lprobs, scores, tokens, prefix_tokens, beam_size
        )
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
        order = torch.arange(sentences, device=source.device).repeat_interleave(beam)
        states: list[dict[Any, Any]] = [{} for _ in self.model.models]
        tokens = source.new_full((sentences * beam, max_len + 2), self.pad)
        tokens[:, 0] = start
        scores = torch.zeros(sentences * beam, max_len + 1, device=source.device)  # cumulative
        weights = None  # [B*N, S, T]
        left = list(range(sentences))
        results: list[list[dict[str, Tensor]]] = [[] for _ in left]
        for step in range(max_len + 1):
            if step > 0:
                self.model.reorder_incremental_state(states, order)
            encoded = self.model.reorder_encoder_out(encoded, order)
            log_probs, newest = self.model.forward_decoder(
                tokens[:, : step + 1], encoded, states, self.temperature
            )
            if newest is not None:
                if weights is None:
                    weights = newest.new_empty(*newest.shape, max_len + 2)
                weights[..., step + 1] = newest
            self._forbid(log_probs, tokens, len(left), step, max_len)
            candidates = self._candidates(log_probs, scores, len(left), step)
            totals, parents, ids = candidates  # [B, 2N]
            ends = ids.eq(self.eos) & totals.ne(-math.inf)
            finished = self._finish(ends, candidates, tokens, scores, weights, left, results, step)
            if step == max_len or len(finished) == len(left):
                break
            kept = [place for place in range(len(left)) if place not in finished]
            left = [left[place] for place in kept]
            # The best candidates that do not end; there are N at least. Sorted by their parents, so
            # that fewer rows of the caches move.
            active = ends[kept].byte().argsort(dim=1, stable=True)[:, :beam]
            active = active.gather(1, parents[kept].gather(1, active).argsort(dim=1, stable=True))
            order, ids, totals = (
                one[kept].gather(1, active).flatten() for one in (parents, ids, totals)
            )
            tokens, scores = tokens[order], scores[order]
            tokens[:, step + 1], scores[:, step] = ids, totals
            weights = None if weights is None else weights[order]
        return [sorted(one, key=lambda each: -each["score"].item()) for one in results]

    def _forbid(
        self, log_probs: Tensor, tokens: Tensor, sentences: int, step: int, max_len: int
    ) -> None:
        """Set the log-probabilities of tokens that may not come next to -inf."""
        log_probs[:, self.pad] = -math.inf
        log_probs[:, self.unk] -= self.unk_penalty
        if step >= max_len:
            log_probs[:, : self.eos] = -math.inf
            log_probs[:, self.eos + 1 :] = -math.inf
        if step < self.min_len:
            log_probs[:, self.eos] = -math.inf
        if self.repeat_ngram_blocker is not None:
            self.repeat_ngram_blocker(tokens, log_probs, sentences, self.beam_size, step)

    def _candidates(
        self, log_probs: Tensor, scores: Tensor, sentences: int, step: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return scores, rows of the hypotheses and tokens of the best 2N candidates, ``[B, 2N]``.

        The best of each hypothesis lie in the chunks with the greatest logits.
        """
        beam, count = self.beam_size, 2 * self.beam_size
        if step == 0:
            log_probs = log_probs[::beam]
        rows, vocabulary = log_probs.shape
        whole = vocabulary // CHUNK * CHUNK
        chunks = log_probs[:, :whole].unflatten(1, (-1, CHUNK))
        places = chunks.amax(-1).topk(count).indices  # [rows, 2N]
        ids = (places[..., None] * CHUNK + torch.arange(CHUNK, device=places.device)).flatten(1)
        rest = torch.arange(whole, vocabulary, device=places.device).expand(rows, -1)
        ids = torch.cat([ids, rest], dim=1)
        best = log_probs.gather(1, ids).nan_to_num_(nan=-math.inf).topk(count)
        ids = ids.gather(1, best.indices)
        totals = best.values if step == 0 else best.values + scores[:, step - 1, None]
        totals, places = totals.view(sentences, -1).topk(count)
        ids = ids.view(sentences, -1).gather(1, places)
        first = torch.arange(0, sentences * beam, beam, device=places.device)
        return totals, places // count + first[:, None], ids

    def _finish(
        self,
        ends: Tensor,
        candidates: tuple[Tensor, Tensor, Tensor],
        tokens: Tensor,
        scores: Tensor,
        weights: Tensor | None,
        left: list[int],
        results: list[list[dict[str, Tensor]]],
        step: int,
    ) -> set[int]:
        """Store the hypotheses that end; return the places of the sentences that are finished."""
        beam = self.beam_size
        totals, parents, _ = candidates
        finished = set()
        for place, rank in ends[:, :beam].nonzero().tolist():
            hypotheses = results[left[place]]
            if len(hypotheses) == beam:
                continue
            row, total = parents[place, rank], totals[place, rank]
            positional = torch.cat([scores[row, :step], total[None]])
            positional[1:] -= positional[:-1].clone()
            written = tokens[row, 1 : step + 2].clone()
            written[step] = self.eos
            norm = (step + 1) ** self.len_penalty if self.normalize_scores else 1
            none = torch.empty(0)
            attention = none if weights is None else weights[row, :, 1 : step + 2].clone()
            result = {"tokens": written, "score": total / norm, "attention": attention}
            hypotheses.append({**result, "alignment": none, "positional_scores": positional})
            if len(hypotheses) == beam:
                finished.add(place)
        return finished
