"""``--adaptive-softmax-cutoff`` with shared embeddings: no checkpoint could be loaded again.

fairseq 0.12.2 and fairseq-fixed 0.12.3.1 take a decoder that shares its embeddings for one with a
matrix of scores, which it has not where the softmax is adaptive, and add that to what they load.
"""

from fairseq.models.transformer import TransformerDecoderBase

from fairseq_posattn.compat.patching import around


@around(TransformerDecoderBase, "upgrade_state_dict_named")
def _without_scores(upgrade, self, state_dict, name):
    upgrade(self, state_dict, name)
    if self.adaptive_softmax is not None:
        state_dict.pop(f"{name}.output_projection.weight", None)
    return state_dict
