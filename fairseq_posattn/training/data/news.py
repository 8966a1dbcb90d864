"""Clicks on news: what a recommender is trained on and evaluated on."""

import zlib
from array import array

import numpy
import torch
from fairseq.data import FairseqDataset
from torch import Tensor

NO_NEWS = 0  # the number of no article: news are counted from 1


def title_table(titles, length: int, padding: int) -> Tensor:
    """The words of all titles: ``[1 + N, length]``, padded on the right; row 0 is of no news.

    Args:
        titles: rows of word numbers, each ending with ``</s>``, which is left out.
    """
    table = torch.full((1 + len(titles), length), padding, dtype=torch.int32)
    for number in range(len(titles)):
        words = titles[number][:-1][:length]
        table[1 + number, : len(words)] = words
    return table


class Impressions:
    """The columns of a split, by impression.

    Args:
        history, candidates: rows of news by their dictionary's numbers, each ending with ``</s>``.
        labels: rows of labels by theirs.
        first_news, clicked: the dictionary's numbers of the first news and of a click.
        longest: clicks that are kept of a history, the last ones.
    """

    def __init__(self, history, candidates, labels, first_news, clicked, longest):
        self.columns = history, candidates, labels
        self.first_news = first_news
        self.clicked = clicked
        self.longest = longest

    def __len__(self):
        return len(self.columns[0])

    @property
    def shown(self) -> numpy.ndarray:
        """How many candidates each impression has."""
        return self.columns[1].sizes.astype(numpy.int64) - 1

    def history(self, index: int) -> numpy.ndarray:
        """The news that the user clicked before, counted from 1, the last one last."""
        return self._news(0, index)[-self.longest :]

    def candidates(self, index: int) -> numpy.ndarray:
        """The news that were shown."""
        return self._news(1, index)

    def labels(self, index: int) -> numpy.ndarray:
        """For each candidate whether it was clicked, bool."""
        return self.columns[2][index][:-1].numpy() == self.clicked

    def _news(self, column, index):
        return self.columns[column][index][:-1].numpy() - self.first_news + 1


class OneEach(FairseqDataset):
    """Examples that count alike, whatever their length."""

    def num_tokens(self, index):
        return 1

    def size(self, index):
        return 1

    def num_tokens_vec(self, indices):
        return numpy.ones(len(indices), dtype=numpy.int64)


class ClickDataset(OneEach):
    """For training: each click with news of its impression that were not clicked.

    These are drawn anew in each epoch, from the seed, the epoch and the click's number. Clicks of
    impressions in which all was clicked are left out.

    Args:
        impressions: :class:`Impressions`.
        titles: as :func:`title_table` gives them.
        negatives: news that were not clicked, for each click.
        seed: of what is drawn.
    """

    def __init__(self, impressions: Impressions, titles: Tensor, negatives: int, seed: int):
        self.impressions, self.titles = impressions, titles
        self.negatives, self.seed, self.epoch = negatives, seed, 1
        # of each click its impression and its place there; millions of them
        self.clicks = array("q")
        for index in range(len(impressions)):
            labels = impressions.labels(index)
            for place in labels.nonzero()[0] if not labels.all() else ():
                self.clicks.extend((index, place))

    def __len__(self):
        return len(self.clicks) // 2

    def __getitem__(self, number: int) -> dict:
        index, place = self.clicks[2 * number : 2 * number + 2]
        candidates = self.impressions.candidates(index)
        others = candidates[~self.impressions.labels(index)]
        generator = numpy.random.default_rng((self.seed, self.epoch, number))
        times = -(-self.negatives // len(others))  # fewer than that: drawn from the list repeated
        drawn = generator.permutation(numpy.tile(others, times))[: self.negatives]
        return {
            "history": self.impressions.history(index),
            "candidates": numpy.concatenate([candidates[place : place + 1], drawn]),
        }

    def collater(self, examples: list[dict]) -> dict:
        """A batch whose titles are each there once.

        ``titles`` [U, L] has no news in row 0; ``history`` [B, T] and ``candidates`` [B, 1 + N] are
        rows of it; the click is the first candidate.
        """
        if not examples:
            return {}
        history = padded([example["history"] for example in examples])
        candidates = padded([example["candidates"] for example in examples])
        news, rows = torch.cat(
            [torch.tensor([NO_NEWS]), history.flatten(), candidates.flatten()]
        ).unique(return_inverse=True)
        rows = rows[1:]
        return {
            "net_input": {
                "titles": self.titles[news].long(),
                "history": rows[: history.numel()].view_as(history),
                "candidates": rows[history.numel() :].view_as(candidates),
            },
            "target": torch.zeros(len(examples), dtype=torch.long),
            "nsentences": len(examples),
            "ntokens": len(examples),
        }

    def set_epoch(self, epoch):
        self.epoch = epoch


class RankingDataset(OneEach):
    """For evaluation: impressions whole, those of equal histories one after the other.

    Args:
        impressions: :class:`Impressions`.
    """

    def __init__(self, impressions: Impressions):
        self.impressions = impressions

    def __len__(self):
        return len(self.impressions)

    def __getitem__(self, index: int) -> dict:
        return {
            "id": index,
            "history": self.impressions.history(index),
            "candidates": self.impressions.candidates(index),
            "labels": self.impressions.labels(index),
        }

    def collater(self, examples: list[dict]) -> dict:
        """A batch whose users are each there once.

        News are by their numbers. ``history`` [U, T] are the users', ``users`` [B] is which of them
        an impression is of; ``candidates`` [B, C]; ``target`` [B, C] is 1 for a click, 0 for none
        and -1 where there is no candidate.
        """
        if not examples:
            return {}
        histories, users = {}, []
        for example in examples:
            history = example["history"]
            users.append(histories.setdefault(history.tobytes(), (len(histories), history))[0])
        labels = [example["labels"].astype(numpy.int64) for example in examples]
        return {
            "id": torch.tensor([example["id"] for example in examples]),
            "net_input": {
                "history": padded([history for _, history in histories.values()]),
                "users": torch.tensor(users),
                "candidates": padded([example["candidates"] for example in examples]),
            },
            "target": padded(labels, -1),
            "nsentences": len(examples),
            "ntokens": len(examples),
        }

    def ordered_indices(self):
        """Sorted by a checksum of their histories, of which millions would not fit into memory."""
        histories = (self.impressions.history(index) for index in range(len(self)))
        checksums = (zlib.crc32(history.tobytes()) for history in histories)
        return numpy.fromiter(checksums, numpy.uint32, len(self)).argsort(kind="stable")


def padded(rows: list[numpy.ndarray], value: int = NO_NEWS) -> Tensor:
    """Rows of numbers as ``[B, T]``, T at least 1, padded on the right."""
    table = torch.full((len(rows), max(1, *map(len, rows))), value)
    for row, numbers in zip(table, rows, strict=True):
        row[: len(numbers)] = torch.from_numpy(numbers)
    return table
