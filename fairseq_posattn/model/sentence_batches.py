"""Batches of tokens as fairseq makes them, brought into the form that the encoders expect.

Rows of words without the final ``</s>``, padded on the right; and documents taken apart into their
sentences.
"""

from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_posattn.common.errors import UsageError


def words_only(tokens: Tensor, pad: int, eos: int) -> Tensor:
    """Take away the ``</s>`` that ends each row, and pad on the right.

    A ``</s>`` within a row, as between two sentences that fairseq put into one, stays.

    Args:
        tokens: ``[B, T]``, padded on either side.
        pad, eos: the symbols' indices.

    Returns:
        ``[B, T']``, T' words in the longest row.

    Raises:
        UsageError: a row has no words.
    """
    tokens = pad_right(tokens, pad)
    lengths = tokens.ne(pad).sum(1)  # [B]
    last = (lengths - 1).clamp(min=0)
    ends = tokens.gather(1, last[:, None]).squeeze(1).eq(eos)  # [B]
    lengths = lengths - ends.long()
    if torch.compiler.is_exporting():  # a graph asks no lengths: what is padding stays, masked
        beyond = torch.arange(tokens.size(1), device=tokens.device) >= lengths[:, None]
        return tokens.masked_fill(beyond, pad)
    shortest, longest = torch.stack(lengths.aminmax()).tolist()
    if shortest == 0:
        empty = (lengths == 0).nonzero()[0].item()
        raise UsageError(
            f"sentence {empty + 1} of a batch of {len(lengths)} has no words: take empty lines out "
            "of the text, with their labels, and prepare it again"
        )
    beyond = torch.arange(longest, device=tokens.device) >= lengths[:, None]
    return tokens[:, :longest].masked_fill(beyond, pad)


def pad_right(tokens: Tensor, pad: int) -> Tensor:
    """Rows ``[B, T]`` that are padded on the left, padded on the right."""
    before = tokens.ne(pad).long().argmax(1)  # [B], padding before the first token
    length = tokens.size(1)
    source = torch.arange(length, device=tokens.device) + before[:, None]
    return tokens.gather(1, torch.where(source < length, source, source - length))


@dataclass(frozen=True)
class SplitDocuments:
    """The sentences of a batch of documents.

    Attributes:
        sentences: ``[N, L]``, those of all documents one after another, padded on the right.
        document: ``[N]``, the row of the batch that a sentence came from.
        number: ``[N]``, that of the sentence within the document, from 0 on.
        documents: B.
    """

    sentences: Tensor
    document: Tensor
    number: Tensor
    documents: int

    def gather(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Put a vector for each sentence where the sentence stood.

        Args:
            vectors: ``[N, C]``.

        Returns:
            ``[B, S, C]``, S sentences in the longest document, and bool ``[B, S]``, True where
            padded.
        """
        longest = cast(int, self.number.max().item()) + 1  # of a graph no int, but its symbol
        shape = (self.documents, longest)
        padding = torch.ones(shape, dtype=torch.bool, device=vectors.device)
        padding[self.document, self.number] = False
        rows = vectors.new_zeros(*shape, vectors.size(-1))
        return rows.index_put((self.document, self.number), vectors), padding


def split_documents(
    tokens: Tensor, pad: int, separator: int, ends: Tensor | None = None
) -> SplitDocuments:
    """Take documents apart: at the separator, which belongs to no sentence, and after some words.

    Sentences without words are left out.

    Args:
        tokens: ``[B, T]``, padded on the right.
        pad, separator: the symbols' indices.
        ends: those of the words that end a sentence and belong to it.

    Raises:
        UsageError: a document has no words.
    """
    separates = tokens.eq(separator)
    is_word = tokens.ne(pad) & ~separates  # [B, T]
    if not torch.compiler.is_exporting() and not is_word.any(1).all():
        raise UsageError("a document consists of sentence separators only: take it out of the data")
    closes = separates if ends is None else separates | tokens[..., None].eq(ends).any(-1)
    begins = is_word & F.pad(closes, (1, 0), value=True)[:, :-1]  # [B, T], a sentence's first word
    document, first = begins.nonzero(as_tuple=True)  # [N], in order of reading
    number = begins.cumsum(1)[document, first] - 1
    sentence = begins.flatten().cumsum(0)[is_word.flatten()] - 1  # [W], that a word stands in
    lengths = torch.zeros_like(first).index_add(0, sentence, torch.ones_like(sentence))  # [N]
    within = torch.arange(lengths.max().item(), device=tokens.device)  # [L]
    beyond = within >= lengths[:, None]  # [N, L]
    position = (first[:, None] + within).masked_fill(beyond, 0)
    sentences = tokens[document[:, None], position].masked_fill(beyond, pad)
    return SplitDocuments(sentences, document, number, tokens.size(0))


def groups_of_like_length(tokens: Tensor, pad: int) -> list[tuple[Tensor, Tensor]]:
    """Sentences in groups, each padded to its own longest only.

    Those of 16 words or fewer are one group, those of up to 32 the next, of up to 64, and so on.

    Args:
        tokens: ``[N, L]``, padded on the right.

    Returns:
        for each group its rows of ``tokens``, ``[G]``, and their tokens, ``[G, L']``.
    """
    lengths = tokens.ne(pad).sum(1)  # [N]
    doublings = lengths.clamp(min=16).log2().ceil()  # [N]
    groups = []
    for size in doublings.unique().tolist():
        rows = (doublings == size).nonzero().squeeze(1)
        groups.append((rows, tokens[rows, : int(lengths[rows].max())]))
    return groups
