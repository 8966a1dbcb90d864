"""``--task sequence_tagging``: a tag for each word of a sentence, given one of its predicates."""

from dataclasses import dataclass, field

import numpy
from fairseq.data import (
    Dictionary,
    IdDataset,
    NestedDictionaryDataset,
    NumelDataset,
    NumSamplesDataset,
    OffsetTokensDataset,
    RightPadDataset,
    SortDataset,
    StripTokenDataset,
    data_utils,
)
from fairseq.dataclass import FairseqDataclass
from fairseq.tasks import FairseqTask, register_task
from omegaconf import II, MISSING

from fairseq_posattn.compat.columns import list_symbols, read_column, read_dictionary
from fairseq_posattn.training.data.tag_sequences import (
    IGNORED,
    best_tags,
    check_rows,
    forbidden_pairs,
)

WORDS, PREDICATE, TAGS = "words", "predicate", "tags"
MARKED = "1"  # the flag of the predicate's word


@dataclass
class SequenceTaggingConfig(FairseqDataclass):
    data: str = field(
        default=MISSING,
        metadata={"help": "folder of the binarised data, with words, predicate and tags in it"},
    )
    max_positions: int = field(
        default=256,
        metadata={"help": "words that a sentence may have"},
    )
    constrained_decoding: bool = field(
        default=False,
        metadata={
            "help": "find the best tags in which no I-Y goes on with a piece of another label, and "
            "not each word's best tag, as published"
        },
    )
    seed: int = II("common.seed")


@register_task("sequence_tagging", dataclass=SequenceTaggingConfig)
class SequenceTaggingTask(FairseqTask):
    """Semantic roles: each sentence is there once for each of its predicates.

    A model gets ``src_tokens`` and ``predicate`` [B, T], the latter 1 at the predicate and 0
    elsewhere, padded on the right, and ``src_lengths`` [B]; no symbol ends a sentence. ``target``
    [B, T] counts tags from 0, the dictionary's special symbols left out.

    Args:
        cfg: a :class:`SequenceTaggingConfig`.
        words, flags, tags: dictionaries.
    """

    def __init__(self, cfg, words: Dictionary, flags: Dictionary, tags: Dictionary):
        super().__init__(cfg)
        self.words, self.flags, self.tags = words, flags, tags
        self.tag_names = list_symbols(tags)
        self.forbidden = None
        if cfg.constrained_decoding:
            self.constrain()

    @classmethod
    def setup_task(cls, cfg, **unused):
        """Read the dictionaries.

        Raises:
            UsageError: one is not there.
        """
        dictionaries = (
            read_dictionary(cfg.data, column, cls.load_dictionary, "tagging")
            for column in (WORDS, PREDICATE, TAGS)
        )
        return cls(cfg, *dictionaries)

    def load_dataset(self, split, combine=False, **unused):
        """Load a split (``train``, ``valid``, ``test``).

        Raises:
            UsageError: it is not there, or a row of it cannot be used.
        """
        dictionaries = {WORDS: self.words, PREDICATE: self.flags, TAGS: self.tags}
        columns = [
            read_column(self.cfg.data, column, split, dictionary, combine)
            for column, dictionary in dictionaries.items()
        ]
        check_rows(split, *columns, marked=self.flags.index(MARKED), unknown=self.tags.unk())
        lengths = columns[0].sizes
        words, flags, tags = (
            StripTokenDataset(column, dictionary.eos())
            for column, dictionary in zip(columns, dictionaries.values(), strict=True)
        )
        flags = OffsetTokensDataset(flags, -self.flags.index("0"))
        tags = OffsetTokensDataset(tags, -self.tags.nspecial)
        examples = NestedDictionaryDataset(
            {
                "id": IdDataset(),
                "net_input": {
                    "src_tokens": RightPadDataset(words, self.words.pad()),
                    "src_lengths": NumelDataset(words),
                    "predicate": RightPadDataset(flags, 0),
                },
                "target": RightPadDataset(tags, IGNORED),
                "nsentences": NumSamplesDataset(),
                "ntokens": NumelDataset(words, reduce=True),
            },
            sizes=[lengths - 1],
        )
        with data_utils.numpy_seed(self.cfg.seed):
            shuffled = numpy.random.permutation(len(examples))
        # sentences of like length, in random order, share a batch
        self.datasets[split] = SortDataset(examples, [shuffled, lengths])
        return self.datasets[split]

    def constrain(self):
        """Decode as ``--constrained-decoding`` has it from now on."""
        self.forbidden = forbidden_pairs(self.tag_names)

    def decode(self, scores, lengths):
        """The tags, by name, that a model's scores ``[B, T, K]`` prefer: a list a sentence."""
        found = best_tags(scores, lengths, self.forbidden)
        return [[self.tag_names[tag] for tag in tags] for tags in found]

    def max_positions(self):
        return self.cfg.max_positions

    @property
    def source_dictionary(self):
        return self.words

    @property
    def target_dictionary(self):
        return self.tags
