"""``--task sentence_pair_prediction``: sentence pairs, encoded separately."""

from dataclasses import dataclass
from typing import Any

import numpy
from fairseq import data
from fairseq.data.shorten_dataset import maybe_shorten_dataset
from fairseq.dataclass import FairseqDataclass
from fairseq.tasks.sentence_prediction import SHORTEN_METHOD_CHOICES, SentencePredictionTask
from omegaconf import II, MISSING

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.flags import flag
from fairseq_posattn.compat.data import read_column
from fairseq_posattn.compat.labelled_rows import check_split

SENTENCE_TASKS = ("sentence_prediction", "sentence_pair_prediction")


@dataclass
class TaskConfig(FairseqDataclass):
    """Flags of fairseq's ``sentence_prediction`` that apply to separate sentences."""

    data: str = flag(MISSING, "folder of binarized data with input0, input1 and label")
    num_classes: int = flag(
        -1,
        "number of classes; for scores 1, or K for a distribution over the scores 1 to K "
        "(--criterion relatedness)",
    )
    max_positions: int = flag(512, "maximal tokens of a sentence, its </s> included")
    shorten_method: SHORTEN_METHOD_CHOICES = flag(
        "none", "how to shorten sentences longer than --max-positions"
    )
    shorten_data_split_list: str = flag("", "splits to shorten, separated by commas; empty for all")
    no_shuffle: bool = flag(False, "keep the examples in the order of the data")
    regression_target: bool = II("criterion.regression_target")
    classification_head_name: str = II("criterion.classification_head_name")
    seed: int = II("common.seed")


class SentencePairPredictionTask(SentencePredictionTask):
    """Class or score of sentence pairs.

    The data folder is that of fairseq's ``sentence_prediction``, which concatenates the sentences.
    Here the model gets ``src_tokens`` [B, T0] and ``src_lengths`` [B] of the first, ``pair_tokens``
    [B, T1] and ``pair_lengths`` [B] of the second, padded on the right. Scores are the lines of
    ``label/{split}.label``. ``--max-tokens`` counts the longer sentence of each pair.
    """

    of_plugin, data_of = True, "sentence_prediction"
    encodes_pairs = True  # read by the model

    @classmethod
    def setup_task(cls, cfg: Any, **unused: Any) -> "SentencePairPredictionTask":
        """Load the dictionaries; raise UsageError if any or the number of classes is missing."""
        if cfg.num_classes < 1:
            problem = "give the number of classes, or 1 for --criterion rating_regression"
            raise UsageError(f"--num-classes {cfg.num_classes}: {problem}")
        try:
            return super().setup_task(cfg)
        except FileNotFoundError as error:
            fix = "prepare the data, or give the folder with input0, input1 and label"
            raise UsageError(f"{error.filename}: no such dictionary; {fix}") from error

    def load_dataset(self, split: str, combine: bool = False, **unused: Any) -> Any:
        """Load a split; raise UsageError if a row is malformed."""
        check_split(self, split, combine)
        cfg, words = self.cfg, self.source_dictionary
        limits = cfg.shorten_data_split_list, cfg.shorten_method, cfg.max_positions, cfg.seed
        names = ("input0", "input1")
        columns = (read_column(cfg.data, name, split, words, combine) for name in names)
        first, second = (maybe_shorten_dataset(column, split, *limits) for column in columns)
        both = data.ConcatSentencesDataset(first, second)
        parts = {
            "id": data.IdDataset(),
            "net_input": {
                "src_tokens": data.RightPadDataset(first, words.pad()),
                "src_lengths": data.NumelDataset(first),
                "pair_tokens": data.RightPadDataset(second, words.pad()),
                "pair_lengths": data.NumelDataset(second),
            },
            "nsentences": data.NumSamplesDataset(),
            "ntokens": data.NumelDataset(both, reduce=True),
            "target": self._targets(split, combine),
        }
        sizes = numpy.maximum(first.sizes, second.sizes)
        examples = data.NestedDictionaryDataset(parts, sizes=[sizes])
        if not cfg.no_shuffle:
            with data.data_utils.numpy_seed(cfg.seed):
                examples = data.SortDataset(examples, [numpy.random.permutation(len(examples))])
        self.datasets[split] = examples
        return examples

    def _targets(self, split: str, combine: bool) -> Any:
        if self.cfg.regression_target:
            with open(f"{self.cfg.data}/label/{split}.label", encoding="utf-8") as lines:
                return data.RawLabelDataset([*map(float, lines)])
        labels = read_column(self.cfg.data, "label", split, self.label_dictionary, combine)
        classes = data.StripTokenDataset(labels, self.label_dictionary.eos())
        return data.OffsetTokensDataset(classes, -self.label_dictionary.nspecial)
