"""Beam search with prefixes and constraints for some sentences of a batch."""

import math

from fairseq.sequence_generator import SequenceGenerator


class ForcedSearch(SequenceGenerator):
    """fairseq's search, in which no sentence affects the others of its batch.

    fairseq's stops with an assertion if one sentence cannot be completed in time; here that
    sentence has no hypothesis. fairseq's ignores the minimum length of all sentences while the
    longest prefix lasts; here it holds.
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.search.stop_on_max_len = True

    def _prefix_tokens(self, step, lprobs, scores, tokens, prefix_tokens, beam_size):
        lprobs, tokens, scores = super()._prefix_tokens(
            step, lprobs, scores, tokens, prefix_tokens, beam_size
        )
        if step < self.min_len:
            free = prefix_tokens[:, step].eq(self.pad).repeat_interleave(beam_size)
            lprobs[free, self.eos] = -math.inf
        return lprobs, tokens, scores
