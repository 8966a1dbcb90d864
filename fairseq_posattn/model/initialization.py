"""Initialization of layers and embeddings, by the names of ``--start``.

Queries, keys and values are always Xavier uniform with gain 1/sqrt 2 for each, as in fairseq.
Learned masks, distances and layer norms are initialized by their modules.
"""

from collections.abc import Callable

from torch import nn

from fairseq_posattn.attention import DynamicMaskAttention
from fairseq_posattn.model.feed_forward import FeedForward
from fairseq_posattn.model.multihead import OutputLinear, PackedLinear

BERT_STD = 0.02


def initialize_as_mans(module: nn.Module) -> None:
    """Initialize as the released translation code of Mask Attention Networks (Fan et al., 2021).

    Output projections of attention are Kaiming uniform for ReLU, feed-forward weights are Xavier
    uniform, and all biases, those of queries, keys and values among them, are zero.
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


def initialize_as_bert(module: nn.Module) -> None:
    """Initialize as BERT (Devlin et al., 2019) and the released summarization code of MANs.

    Weights of output projections, feed-forward layers and embeddings and DMAN's query weights are
    N(0, 0.02**2), biases zero. Queries, keys and values only have their biases set to zero.
    """
    for part in module.modules():
        if isinstance(part, PackedLinear):
            nn.init.zeros_(part.bias)
        elif isinstance(part, OutputLinear | FeedForward):
            for linear in (part,) if isinstance(part, OutputLinear) else (part.fc1, part.fc2):
                nn.init.normal_(linear.weight, std=BERT_STD)
                nn.init.zeros_(linear.bias)
        elif isinstance(part, nn.Embedding):
            nn.init.normal_(part.weight, std=BERT_STD)
            if part.padding_idx is not None:
                nn.init.zeros_(part.weight[part.padding_idx])
        elif isinstance(part, DynamicMaskAttention):
            nn.init.normal_(part.query_weight, std=BERT_STD)


INITIALIZATIONS: dict[str, Callable[[nn.Module], None]] = {
    "fairseq": lambda module: None,  # Xavier uniform output projections, PyTorch's elsewhere
    "mans": initialize_as_mans,
    "bert": initialize_as_bert,
}
