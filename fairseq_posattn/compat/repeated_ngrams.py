"""``fairseq-generate --no-repeat-ngram-size``, which fairseq ignores without its CUDA extension.

Without that extension, which has to be compiled for the GPU, fairseq looks for repetitions of the
last tokens of a buffer that is as long as the longest possible output: as a rule, of padding.
"""

import math

from fairseq.ngram_repeat_block import NGramRepeatBlock

from fairseq_posattn.compat.patching import instead


@instead(NGramRepeatBlock, "_no_repeat_ngram")
def forbid_repetition(self, tokens, lprobs, bsz, beam_size, step):
    """Make tokens impossible that would repeat an n-gram of their hypothesis.

    Args:
        tokens: [bsz * beam_size, longest]; the first is no part of the output, then come ``step``
            tokens that were chosen.
        lprobs: [bsz * beam_size, vocabulary], of the next token; changed in place.

    Returns:
        ``lprobs``.
    """
    size = self.no_repeat_ngram_size
    chosen = tokens[:, 1 : step + 1]
    if step < size:
        return lprobs
    ngrams = chosen.unfold(1, size, 1)  # [rows, places, size]
    begun = chosen[:, None, step - size + 1 :]  # [rows, 1, size - 1]
    rows, places = (ngrams[..., :-1] == begun).all(dim=-1).nonzero(as_tuple=True)
    lprobs[rows, ngrams[rows, places, -1]] = -math.inf
    return lprobs
