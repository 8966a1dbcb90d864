"""fairseq's beam search, where some translations begin with given words, or must have them."""

import math

from fairseq.sequence_generator import SequenceGenerator


class ForcedSearch(SequenceGenerator):
    """fairseq's, but that no sentence is in the way of those beside it in a batch.

    There, one for which no translation can be ended in time stops the search of all with an
    assertion; here it is found none. And while the longest prefix goes on, the minimal length does
    not hold for the others, which may end before they have begun; here it does.
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
