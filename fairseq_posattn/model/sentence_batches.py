"""fairseq's batches for the encoders: without ``</s>``, padded on the right, documents split."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_posattn.common.errors import UsageError

# Features of padded positions that take a CPU longer than a further call of an encoder.
WORTH_A_CALL = 1 << 16


def strip_eos(tokens: Tensor, pad: int, eos: int) -> Tensor:
    """Remove the ``</s>`` that ends each row of ``[B, T]``, and pad on the right.

    A ``</s>`` within a row, as between two sentences joined by fairseq, stays. The result
    ``[B, T']`` has T' tokens in the longest row. Raise UsageError if a row has no tokens.
    """
    tokens = pad_right(tokens, pad)
    lengths = tokens.ne(pad).sum(1)  # [B]
    last = (lengths - 1).clamp(min=0)
    ends = tokens.gather(1, last[:, None]).squeeze(1).eq(eos)  # [B]
    lengths = lengths - ends.long()
    if torch.compiler.is_exporting():  # a graph has a fixed length: padding stays
        beyond = torch.arange(tokens.size(1), device=tokens.device) >= lengths[:, None]
        return tokens.masked_fill(beyond, pad)
    shortest, longest = torch.stack(lengths.aminmax()).tolist()
    if shortest == 0:
        which = f"sentence {(lengths == 0).nonzero()[0].item() + 1} of a batch of {len(lengths)}"
        fix = "remove empty lines from the text, with their labels, and prepare the data again"
        raise UsageError(f"{which} has no tokens; {fix}")
    beyond = torch.arange(longest, device=tokens.device) >= lengths[:, None]
    return tokens[:, :longest].masked_fill(beyond, pad)


def pad_right(tokens: Tensor, pad: int) -> Tensor:
    """Move the padding of rows ``[B, T]`` from the left to the right."""
    before = tokens.ne(pad).long().argmax(1)  # [B], padding before the first token
    length = tokens.size(1)
    source = torch.arange(length, device=tokens.device) + before[:, None]
    return tokens.gather(1, torch.where(source < length, source, source - length))


@dataclass(frozen=True)
class SplitDocuments:
    """Sentences of a batch of documents."""

    sentences: Tensor  # [N, L], of all documents in order, padded on the right
    document: Tensor  # [N], row of the batch that contains the sentence
    number: Tensor  # [N], index of the sentence within the document
    documents: int  # B

    def gather(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Arrange vectors ``[N, C]`` by document: ``[B, S, C]``, and padding ``[B, S]``."""
        longest = cast(int, self.number.max().item()) + 1  # symbolic in a graph
        shape = (self.documents, longest)
        padding = torch.ones(shape, dtype=torch.bool, device=vectors.device)
        padding[self.document, self.number] = False
        rows = vectors.new_zeros(*shape, vectors.size(-1))
        return rows.index_put((self.document, self.number), vectors), padding


def split_documents(
    tokens: Tensor, pad: int, separator: int, ends: Tensor | None = None
) -> SplitDocuments:
    """Split documents ``[B, T]``, padded on the right, into sentences, without empty ones.

    ``separator`` is the symbol between sentences, which belongs to none; ``ends`` are indices of
    tokens that end a sentence and belong to it. Raise UsageError if a document has no tokens.
    """
    separates = tokens.eq(separator)
    is_token = tokens.ne(pad) & ~separates  # [B, T]
    if not torch.compiler.is_exporting() and not is_token.any(1).all():
        raise UsageError("a document has nothing but sentence separators; remove it from the data")
    closes = separates if ends is None else separates | tokens[..., None].eq(ends).any(-1)
    begins = is_token & F.pad(closes, (1, 0), value=True)[:, :-1]  # [B, T], first tokens
    document, first = begins.nonzero(as_tuple=True)  # [N], in order of reading
    number = begins.cumsum(1)[document, first] - 1
    sentence = begins.flatten().cumsum(0)[is_token.flatten()] - 1  # of each token
    lengths = torch.zeros_like(first).index_add(0, sentence, torch.ones_like(sentence))  # [N]
    within = torch.arange(lengths.max().item(), device=tokens.device)  # [L]
    beyond = within >= lengths[:, None]  # [N, L]
    position = (first[:, None] + within).masked_fill(beyond, 0)
    sentences = tokens[document[:, None], position].masked_fill(beyond, pad)
    return SplitDocuments(sentences, document, number, tokens.size(0))


def group_by_length(tokens: Tensor, pad: int) -> list[tuple[Tensor, Tensor]]:
    """Group sentences ``[N, L]`` by length: up to 16 tokens, up to 32, up to 64, and so on.

    A group is its rows ``[G]`` and their tokens ``[G, L']``, padded to the group's longest.
    """
    lengths = tokens.ne(pad).sum(1)  # [N]
    doublings = lengths.clamp(min=16).log2().ceil()  # [N]
    groups = []
    for size in doublings.unique().tolist():
        rows = (doublings == size).nonzero().squeeze(1)
        longest = max(1, int(lengths[rows].max()))  # a title may have no tokens
        groups.append((rows, tokens[rows, :longest]))
    return groups


def encode_groups(
    encode: Callable[[Tensor], Tensor], tokens: Tensor, pad: int, dim: int | None = None
) -> Tensor:
    """Encode ``[N, L]`` to ``[N, D]`` by groups, so that one long sentence does not pad all others.

    Encode all together if a CPU gains nothing by groups of vectors of ``dim`` features.
    """
    if torch.compiler.is_exporting():  # a graph has a fixed number of groups
        return encode(tokens)
    rows, groups = zip(*group_by_length(tokens, pad), strict=True)
    left_out = tokens.numel() - sum(group.numel() for group in groups)
    if dim is not None and left_out * dim < WORTH_A_CALL:
        return encode(tokens)
    return torch.cat([encode(group) for group in groups])[torch.cat(rows).argsort()]
