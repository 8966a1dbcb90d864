"""``--task sequence_tagging``: semantic roles, a tag per word given one predicate."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import torch
from fairseq import data
from fairseq.dataclass import FairseqDataclass
from fairseq.tasks import FairseqTask
from omegaconf import II, MISSING
from torch import Tensor

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.flags import flag
from fairseq_posattn.compat.data import list_symbols, read_column, read_dictionary

COLUMNS = ("words", "predicate", "tags")
MARKED = "1"  # flag of the predicate
IGNORED = -1  # target where padded


@dataclass
class TaskConfig(FairseqDataclass):
    data: str = flag(MISSING, "folder of binarized data with words, predicate and tags")
    max_positions: int = flag(256, "maximal words of a sentence")
    constrained_decoding: bool = flag(
        False,
        "decode with the Viterbi algorithm so that I-Y follows B-Y or I-Y alone; otherwise take "
        "each word's best tag, as published",
    )
    seed: int = II("common.seed")


class SequenceTaggingTask(FairseqTask):
    """Semantic roles: one example per sentence and predicate.

    ``src_tokens``, ``predicate`` (1 there, else 0) and ``target`` are [B, T], padded on the right;
    ``src_lengths`` is [B]. Targets number tags from 0, without the dictionary's special symbols.
    """

    of_plugin = True

    def __init__(
        self, cfg: Any, words: data.Dictionary, flags: data.Dictionary, tags: data.Dictionary
    ) -> None:
        super().__init__(cfg)
        self.words, self.flags, self.tags = words, flags, tags
        self.tag_names = list_symbols(tags)
        self.forbidden: Tensor | None = None
        if cfg.constrained_decoding:
            self.constrain()

    @classmethod
    def setup_task(cls, cfg: Any, **unused: Any) -> "SequenceTaggingTask":
        """Load the dictionaries; raise UsageError if any is missing."""
        return cls(cfg, *(read_dictionary(cfg.data, name, "tagging") for name in COLUMNS))

    def load_dataset(self, split: str, combine: bool = False, **unused: Any) -> Any:
        """Load a split; raise UsageError if it is missing or a row is malformed."""
        named = zip(COLUMNS, (self.words, self.flags, self.tags), strict=True)
        columns = [read_column(self.cfg.data, name, split, vocab, combine) for name, vocab in named]
        check_rows(split, columns, self.flags.index(MARKED), self.tags.unk())
        lengths, eos = columns[0].sizes, self.words.eos()
        words, flags, tags = (data.StripTokenDataset(column, eos) for column in columns)
        flags = data.OffsetTokensDataset(flags, -self.flags.index("0"))
        tags = data.OffsetTokensDataset(tags, -self.tags.nspecial)
        parts = {
            "id": data.IdDataset(),
            "net_input": {
                "src_tokens": data.RightPadDataset(words, self.words.pad()),
                "src_lengths": data.NumelDataset(words),
                "predicate": data.RightPadDataset(flags, 0),
            },
            "target": data.RightPadDataset(tags, IGNORED),
            "nsentences": data.NumSamplesDataset(),
            "ntokens": data.NumelDataset(words, reduce=True),
        }
        examples = data.NestedDictionaryDataset(parts, sizes=[lengths - 1])
        with data.data_utils.numpy_seed(self.cfg.seed):
            shuffled = numpy.random.permutation(len(examples))
        # batches have sentences of equal length in random order
        self.datasets[split] = data.SortDataset(examples, [shuffled, lengths])
        return self.datasets[split]

    def constrain(self) -> None:
        """Decode with ``--constrained-decoding`` from now on."""
        self.forbidden = forbidden_pairs(self.tag_names)

    def decode(self, scores: Tensor, lengths: Tensor) -> list[list[str]]:
        """Return the best tags by name, a list per sentence, from scores ``[B, T, K]``."""
        sentences = best_tags(scores, lengths, self.forbidden)
        return [[self.tag_names[tag] for tag in tags] for tags in sentences]

    def max_positions(self) -> int:
        return self.cfg.max_positions

    source_dictionary = property(lambda self: self.words)
    target_dictionary = property(lambda self: self.tags)


def best_tags(scores: Tensor, lengths: Tensor, forbidden: Tensor | None = None) -> list[list[int]]:
    """Return the best tags of ``scores [B, T, K]``, without ``forbidden`` pairs (Viterbi).

    The last row of ``forbidden`` is that of the sentence's start.
    """
    if forbidden is None:
        best = scores.argmax(-1)
        return [row[:length] for row, length in zip(best.tolist(), lengths.tolist(), strict=True)]
    penalty = torch.zeros(forbidden.shape, device=scores.device).masked_fill(forbidden, -torch.inf)
    paths = []
    for row, length in zip(scores.float(), lengths.tolist(), strict=True):
        best, came_from = row[0] + penalty[-1], []
        for step in row[1:length]:
            best, previous = (best[:, None] + penalty[:-1]).max(0)
            best = best + step
            came_from.append(previous)
        path = [int(best.argmax())]
        for previous in reversed(came_from):
            path.append(int(previous[path[-1]]))
        paths.append(path[::-1])
    return paths


def forbidden_pairs(tags: Sequence[str]) -> Tensor:
    """Return where ``I-Y`` would follow neither ``B-Y`` nor ``I-Y``: bool ``[K + 1, K]``.

    Rows are the tag before, the last one the sentence's start.
    """
    labels = [tag[2:] if tag[:2] in ("B-", "I-") else None for tag in (*tags, "O")]
    return torch.tensor(
        [[after.startswith("I-") and label != after[2:] for after in tags] for label in labels]
    )


def check_rows(split: str, rows: Sequence[Any], marked: int, unknown: int) -> None:
    """Raise UsageError for a row without exactly one ``marked`` predicate, or with wrong tags."""
    for row in range(max(map(len, rows))):
        columns: list[Any] = [column[row] if row < len(column) else () for column in rows]
        if len({*map(len, columns)}) > 1 or (columns[1] == marked).sum() != 1:
            reason = "needs a flag and a tag per word, and exactly one predicate"
        elif (columns[2] == unknown).any():
            reason = "has a tag that tags/dict.txt lacks"
        else:
            continue
        raise UsageError(f"{split}, row {row + 1}: {reason}; prepare the data again")
