"""What the weights of layers and embeddings start from, by the names of ``--start``.

Beside what is here, queries, keys and values always start as in fairseq: Xavier uniform with gain
1/sqrt 2 for each, which is Xavier uniform of the joined ``[3C, C]`` matrix. Learned masks and
distances, and layer norms, start as their modules say.
"""

from collections.abc import Callable

from torch import nn

from fairseq_posattn.attention import DynamicMaskAttention
from fairseq_posattn.model.feed_forward import FeedForward
from fairseq_posattn.model.multihead import OutputLinear, PackedLinear

BERT_STD = 0.02


def start_as_fairseq(module: nn.Module) -> None:
    """As the modules are made: output projections Xavier uniform, other maps as PyTorch's."""


def start_as_mans(module: nn.Module) -> None:
    """Mask Attention Networks (Fan et al., 2021), the published code for translation.

    Output projections of attention start as Kaiming uniform, for ReLU; the maps of feed-forward
    sublayers as Xavier uniform; all their biases, and those of queries, keys and values, as zero.
    """
    for part in module.modules():
        if isinstance(part, OutputLinear):
            nn.init.kaiming_uniform_(part.weight)
            nn.init.zeros_(part.bias)
        elif isinstance(part, PackedLinear):
            nn.init.zeros_(part.bias)
        elif isinstance(part, FeedForward):
            for linear in (part.fc1, part.fc2):
                nn.init.xavier_uniform_(linear.weight)
                nn.init.zeros_(linear.bias)


def start_as_bert(module: nn.Module) -> None:
    """As BERT (Devlin et al., 2019), and Mask Attention Networks' published code for summarization.

    All maps, DMAN's among them, and embeddings start as N(0, 0.02**2) with biases of zero, but
    queries, keys and values have zero biases alone.
    """
    for part in module.modules():
        if isinstance(part, nn.Linear):
            if not isinstance(part, PackedLinear):
                nn.init.normal_(part.weight, std=BERT_STD)
            nn.init.zeros_(part.bias)
        elif isinstance(part, nn.Embedding):
            nn.init.normal_(part.weight, std=BERT_STD)
            if part.padding_idx is not None:
                nn.init.zeros_(part.weight[part.padding_idx])
        elif isinstance(part, DynamicMaskAttention):
            nn.init.normal_(part.query_weight, std=BERT_STD)


STARTS: dict[str, Callable[[nn.Module], None]] = {
    "fairseq": start_as_fairseq,
    "mans": start_as_mans,
    "bert": start_as_bert,
}
