"""``fairseq-generate --diverse-beam-groups``: an IndexError on data of more than one batch.

fairseq 0.12.2 and fairseq-fixed 0.12.3.1 keep what the groups have in common by the sentence's
place in the batch, and look it up by its number in the data.
"""

import torch
from fairseq.search import DiverseBeamSearch

from fairseq_posattn.compat.patching import around


@around(DiverseBeamSearch, "step")
def _by_place_in_the_batch(
    step_of_search, self, step, lprobs, scores, prev_output_tokens=None, original_batch_idxs=None
):
    if original_batch_idxs is None:
        original_batch_idxs = torch.arange(len(lprobs), device=lprobs.device)
    if step == 0:
        self.numbers = original_batch_idxs  # some sentences will have ended later
    places = (original_batch_idxs[:, None] == self.numbers).int().argmax(dim=1)
    return step_of_search(self, step, lprobs, scores, prev_output_tokens, places)
