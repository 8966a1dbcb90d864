"""Batches of tokens as fairseq makes them, brought into the form that the encoders expect.

Rows of words without the final ``</s>``, padded on the right; and documents taken apart into their
sentences.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_posattn.errors import UsageError


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
        longest = int(self.number.max()) + 1
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
    batch, length = tokens.shape
    separates = tokens.eq(separator)
    is_word = tokens.ne(pad) & ~separates  # [B, T]
    if not is_word.any(1).all():
        raise UsageError("a document consists of sentence separators only: take it out of the data")
    closes = separates if ends is None else separates | torch.isin(tokens, ends)
    number = closes.cumsum(1) - closes.long()  # [B, T], of the sentence that a token stands in
    position = torch.arange(length, device=tokens.device)
    behind = F.pad(torch.where(closes, position + 1, 0), (1, 0))[:, :-1]
    start = behind.cummax(1).values  # [B, T], of that sentence
    word_document, word_position = is_word.nonzero(as_tuple=True)  # [W], in order of reading
    key = word_document * (length + 1) + number[is_word]  # [W], the same for words of one sentence
    keys, word_sentence = key.unique_consecutive(return_inverse=True)  # [N], [W]
    document = keys // (length + 1)  # [N]
    within = word_position - start[is_word]  # [W]
    sentences = tokens.new_full((len(keys), int(within.max()) + 1), pad)
    sentences[word_sentence, within] = tokens[is_word]
    first = torch.searchsorted(document, torch.arange(batch, device=tokens.device))  # [B]
    number_within = torch.arange(len(keys), device=tokens.device) - first[document]
    return SplitDocuments(sentences, document, number_within, batch)


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
