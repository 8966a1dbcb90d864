"""``--task news_recommendation``: predict which of the news shown a user will click."""

import zlib
from array import array
from dataclasses import dataclass
from typing import Any

import numpy
import torch
from fairseq.data import Dictionary, FairseqDataset
from fairseq.dataclass import FairseqDataclass
from fairseq.tasks import FairseqTask
from omegaconf import II, MISSING
from torch import Tensor

from fairseq_posattn.common.flags import flag
from fairseq_posattn.compat.data import read_column, read_dictionary

CLICKED = "1"
NO_NEWS = 0  # index of no article: news are numbered from 1


def title_table(titles: Any, length: int, padding: int) -> Tensor:
    """Return titles without ``</s>``, ``[1 + N, length]``, padded on the right; row 0 is none."""
    table = torch.full((1 + len(titles), length), padding, dtype=torch.int32)
    for number in range(len(titles)):
        words = titles[number][:-1][:length]
        table[1 + number, : len(words)] = words
    return table


@dataclass
class Impressions:
    """Columns of a split, by impression; news are numbered from 1."""

    columns: Any  # rows of dictionary indices and ``</s>``: history, candidates, labels
    first_news: int  # dictionary index
    clicked: int  # dictionary index of a click
    longest: int  # number of the last clicks of a history to use

    def __len__(self) -> int:
        return len(self.columns[0])

    @property
    def shown(self) -> numpy.ndarray:
        """Return the number of candidates per impression."""
        return self.columns[1].sizes.astype(numpy.int64) - 1

    def history(self, index: int) -> numpy.ndarray:
        """Return the news that the user clicked before, in order."""
        return (self.columns[0][index][:-1].numpy() - self.first_news + 1)[-self.longest :]

    def candidates(self, index: int) -> numpy.ndarray:
        """Return the news shown."""
        return self.columns[1][index][:-1].numpy() - self.first_news + 1

    def labels(self, index: int) -> numpy.ndarray:
        """Return for each candidate whether it was clicked, bool."""
        return self.columns[2][index][:-1].numpy() == self.clicked


class UnitSizeDataset(FairseqDataset):
    """Base of data sets whose examples have size 1."""

    def num_tokens(self, index: int) -> int:
        return 1

    size = num_tokens

    def num_tokens_vec(self, indices: Any) -> Any:
        return numpy.ones(len(indices), dtype=numpy.int64)


class ClickDataset(UnitSizeDataset):
    """Training data: each click with ``negatives`` sampled by seed, epoch and the click's index."""

    def __init__(self, impressions: Impressions, titles: Tensor, negatives: int, seed: int) -> None:
        self.impressions, self.titles = impressions, titles
        self.negatives, self.seed, self.epoch = negatives, seed, 1
        # pairs of impression and position, flat: there are millions of clicks
        self.clicks = array("q")
        for index in range(len(impressions)):
            labels = impressions.labels(index)
            for position in labels.nonzero()[0] if not labels.all() else ():
                self.clicks.extend((index, int(position)))

    def __len__(self) -> int:
        return len(self.clicks) // 2

    def __getitem__(self, number: int) -> dict[str, Any]:
        index, position = self.clicks[2 * number : 2 * number + 2]
        candidates = self.impressions.candidates(index)
        others = candidates[~self.impressions.labels(index)]
        generator = numpy.random.default_rng((self.seed, self.epoch, number))
        times = -(-self.negatives // len(others))  # repeat a list that is too short
        drawn = generator.permutation(numpy.tile(others, times))[: self.negatives]
        return {
            "history": self.impressions.history(index),
            "candidates": numpy.concatenate([candidates[position : position + 1], drawn]),
        }

    def collater(self, examples: list[dict[str, Any]]) -> dict[str, Any]:
        """Collate a batch; ``history`` [B, T] and ``candidates`` [B, 1 + N] index unique titles.

        Row 0 of ``titles`` [U, L] is no news; the click is the first candidate.
        """
        if not examples:
            return {}
        history = pad_rows([example["history"] for example in examples])
        candidates = pad_rows([example["candidates"] for example in examples])
        all_news = torch.cat([torch.tensor([NO_NEWS]), history.flatten(), candidates.flatten()])
        news, rows = all_news.unique(return_inverse=True)
        _, in_history, in_candidates = rows.split([1, history.numel(), candidates.numel()])
        inputs = {
            "titles": self.titles[news].long(),
            "history": in_history.view_as(history),
            "candidates": in_candidates.view_as(candidates),
        }
        return make_batch(examples, inputs, torch.zeros(len(examples), dtype=torch.long))

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def ordered_indices(self) -> Any:
        """Return a random order, since logs have the clicks of an impression or user together."""
        return numpy.random.default_rng(self.seed).permutation(len(self))


class RankingDataset(UnitSizeDataset):
    """Evaluation data: whole impressions, ordered so that equal histories are adjacent."""

    def __init__(self, impressions: Impressions) -> None:
        self.impressions = impressions

    def __len__(self) -> int:
        return len(self.impressions)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {
            "id": index,
            "history": self.impressions.history(index),
            "candidates": self.impressions.candidates(index),
            "labels": self.impressions.labels(index),
        }

    def collater(self, examples: list[dict[str, Any]]) -> dict[str, Any]:
        """Collate a batch with unique users.

        ``history`` [U, T] and ``candidates`` [B, C] are indices of news, ``users`` [B] indices of
        rows of ``history``; ``target`` [B, C] is 1 for a click, 0 for none and -1 for padding.
        """
        if not examples:
            return {}
        histories: dict[bytes, tuple[int, Any]] = {}
        users = []
        for example in examples:
            history = example["history"]
            users.append(histories.setdefault(history.tobytes(), (len(histories), history))[0])
        labels = [example["labels"].astype(numpy.int64) for example in examples]
        inputs = {
            "history": pad_rows([history for _, history in histories.values()]),
            "users": torch.tensor(users),
            "candidates": pad_rows([example["candidates"] for example in examples]),
        }
        batch = make_batch(examples, inputs, pad_rows(labels, -1))
        return {"id": torch.tensor([example["id"] for example in examples]), **batch}

    def ordered_indices(self) -> Any:
        """Return the order by checksum of the histories, since millions do not fit into memory."""
        histories = (self.impressions.history(index) for index in range(len(self)))
        checksums = (zlib.crc32(history.tobytes()) for history in histories)
        return numpy.fromiter(checksums, numpy.uint32, len(self)).argsort(kind="stable")


def make_batch(
    examples: list[dict[str, Any]], inputs: dict[str, Any], target: Tensor
) -> dict[str, Any]:
    """Return a batch that counts each example as one token."""
    count = len(examples)
    return {"net_input": inputs, "target": target, "nsentences": count, "ntokens": count}


def pad_rows(rows: list[numpy.ndarray], value: int = NO_NEWS) -> Tensor:
    """Pad rows on the right to ``[B, T]``, T at least 1."""
    table = torch.full((len(rows), max(1, *map(len, rows))), value)
    for row, numbers in zip(table, rows, strict=True):
        row[: len(numbers)] = torch.from_numpy(numbers)
    return table


@dataclass
class TaskConfig(FairseqDataclass):
    data: str = flag(MISSING, "folder of binarized data, made by `posattn prepare recommendation`")
    title_length: int = flag(30, "tokens of a title to use, the first ones", at_least=1)
    max_history: int = flag(50, "clicks of a user to use, the last ones", at_least=1)
    negatives: int = flag(4, "sampled news without a click per click, in training", at_least=1)
    train_subset: str = II("dataset.train_subset")
    seed: int = II("common.seed")


class NewsRecommendationTask(FairseqTask):
    """News and clicks, see :class:`ClickDataset` and :class:`RankingDataset`."""

    of_plugin = True

    def __init__(self, cfg: Any, words: Dictionary, news: Dictionary, labels: Dictionary) -> None:
        super().__init__(cfg)
        self.words, self.news, self.labels = words, news, labels
        titles = read_column(cfg.data, "titles", "all", words)
        self.titles = title_table(titles, cfg.title_length, words.pad())

    @classmethod
    def setup_task(cls, cfg: Any, **unused: Any) -> "NewsRecommendationTask":
        """Load dictionaries and titles; raise UsageError if any is missing."""
        columns = ("titles", "history", "labels")
        return cls(cfg, *(read_dictionary(cfg.data, n, "recommendation") for n in columns))

    def load_dataset(self, split: str, combine: bool = False, **unused: Any) -> FairseqDataset:
        """Load a split, the training split by clicks; raise UsageError if it is missing."""
        cfg, clicked = self.cfg, self.labels.index(CLICKED)
        named = {"history": self.news, "candidates": self.news, "labels": self.labels}
        columns = [read_column(cfg.data, name, split, named[name], combine) for name in named]
        impressions = Impressions(columns, self.news.nspecial, clicked, cfg.max_history)
        if split == cfg.train_subset:
            dataset = ClickDataset(impressions, self.titles, cfg.negatives, cfg.seed)
        else:
            dataset = RankingDataset(impressions)
        self.datasets[split] = dataset
        return dataset

    source_dictionary = property(lambda self: self.words)
    target_dictionary = None
