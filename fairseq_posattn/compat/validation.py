"""BLEU in validation, perplexity, and examples that training and validation leave out."""

import logging
from collections.abc import Iterator
from typing import Any

import numpy
import sacrebleu
from fairseq.data import RoundRobinZipDatasets, data_utils
from fairseq.tasks.fairseq_task import FairseqTask
from fairseq.tasks.translation import TranslationTask
from fairseq.trainer import Trainer
from fairseq_cli import eval_lm

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.checks import flag
from fairseq_posattn.compat.generation import UNKNOWN_HYPOTHESIS, UNKNOWN_REFERENCE
from fairseq_posattn.compat.patching import Function, around, replaced
from fairseq_posattn.text.languages import tokenizer_of
from fairseq_posattn.text.moses import rules_warning

logger = logging.getLogger(__name__)
LEAST = 1e-9  # n-grams


def target_of(task: Any) -> str:
    """Return the target language, in ``--task online_backtranslation`` that of validation."""
    pairs = getattr(task, "valid_lang_pairs", None)
    return pairs[0].split("-")[-1] if pairs else task.cfg.target_lang


@around(TranslationTask, "build_model")
def warn_of_languages(build_model: Function, self: Any, *args: Any, **kwargs: Any) -> Any:
    """Warn where the tools of ``--eval-bleu`` have no rules for the target language."""
    if self.cfg.eval_bleu:
        target = target_of(self)
        by_moses = self.cfg.eval_bleu_detok == "moses"
        for note in (tokenizer_of(target)[1], rules_warning(target) if by_moses else None):
            if note:
                logger.warning(note)
    return build_model(self, *args, **kwargs)


@around(TranslationTask, "_inference_with_bleu")
def tokenize_by_language(
    inference_with_bleu: Function, self: Any, *args: Any, **kwargs: Any
) -> Any:
    """Split the text of ``--eval-bleu`` by its language; fairseq takes 13a for all.

    If no hypothesis has a word, fairseq logs no BLEU, and a best checkpoint by it is a KeyError.
    Its marks of unknown words would have equal characters.
    """
    # force: no warning about tokenized text.
    options = {"tokenize": tokenizer_of(target_of(self))[0], "force": True}
    corpus_bleu = sacrebleu.corpus_bleu

    def by_language(hypotheses: list[str], references: list[list[str]], **others: Any) -> Any:
        written = [text.replace("UNKNOWNTOKENINHYP", UNKNOWN_HYPOTHESIS) for text in hypotheses]
        wanted = [
            [text.replace("UNKNOWNTOKENINREF", UNKNOWN_REFERENCE) for text in texts]
            for texts in references
        ]
        return corpus_bleu(written, wanted, **options | others)

    with replaced(sacrebleu, "corpus_bleu", by_language):
        bleu = inference_with_bleu(self, *args, **kwargs)
    bleu.totals[0] = max(bleu.totals[0], LEAST)
    return bleu


@around(eval_lm, "eval_lm")
def count_words(
    evaluate: Function,
    models: Any,
    source_dictionary: Any,
    batch_iterator: Any,
    post_process: str | None = None,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """Compute the perplexity of words with ``fairseq-eval-lm --remove-bpe``.

    For its value ``subword_nmt`` fairseq 0.12 looks for tokens that end so, and joins none.
    """
    marks = "@@ " if post_process == "subword_nmt" else post_process
    return evaluate(models, source_dictionary, batch_iterator, marks, *args, **kwargs)


@around(Trainer, "get_valid_iterator")
def separate_from_training(
    get_valid_iterator: Function, self: Any, *args: Any, **kwargs: Any
) -> Any:
    """Validate on the training split, too, by another iterator than training's.

    fairseq counts each validation as an epoch of training, and a resumed one loses its position.
    """
    iterators = vars(self).setdefault("iterators_of_validation", {})
    with replaced(self.task, "dataset_to_epoch_iter", iterators):
        return get_valid_iterator(self, *args, **kwargs)


@around(data_utils, "_find_extra_valid_paths")
def name_splits(find_extra_valid_paths: Function, dataset_path: str) -> set[str]:
    """Name splits as ``--valid-subset`` does: fairseq looks there for valid1.de-en.de."""
    return {name.partition(".")[0] for name in find_extra_valid_paths(dataset_path)}


@around(FairseqTask, "filter_indices_by_size")
def count_left_out(
    filter_indices: Function,
    self: Any,
    indices: Any,
    dataset: Any,
    max_positions: Any = None,
    ignore_invalid_inputs: bool = False,
) -> Any:
    """Name the share of the examples that are too long, and the flags that keep them.

    A trained model's limit cannot be raised by flags, and is named.
    """
    if not ignore_invalid_inputs:
        return filter_indices(self, indices, dataset, max_positions)
    kept, long = dataset.filter_indices_by_size(indices, max_positions)
    if len(long) == 0 or isinstance(dataset, RoundRobinZipDatasets):  # it logs them, and no indices
        return kept
    split = next((name for name, loaded in self.datasets.items() if loaded is dataset), "data")
    share = f"{len(long):,} of {len(indices):,} examples ({len(long) / len(indices):.1%})"
    longest = numpy.max([numpy.atleast_1d(dataset.size(index)) for index in long], axis=0)
    flags = " ".join(f"{flag(name)} {most}" for name, most in _lifted(self, split, longest))
    trains = getattr(self.cfg, "train_subset", "train") in self.datasets
    if trains and flags:
        fix = f"to keep all: {flags}"
    else:
        fix = f"the model takes {max_positions} tokens"
        # fairseq-eval-lm makes blocks of 1024 tokens; fairseq-interactive has no data set
        if self.datasets and hasattr(_settings(self), "sample_break_mode"):
            fix += f"; to split them: --sample-break-mode none --tokens-per-sample {max_positions}"
    # fairseq-eval-lm would print a perplexity of 1; fairseq-interactive reads the next line
    if len(kept) == 0 and self.datasets:
        raise UsageError(f"{split}: {share} are too long; {fix}")
    logger.warning(f"{split}: {share} are too long and left out; {fix}")
    return kept


def _settings(task: Any) -> Any:
    return task.cfg or getattr(task, "args", None)  # args of fairseq's older tasks


def _lifted(task: Any, split: str, longest: Any) -> Iterator[tuple[str, int]]:
    """Yield options and the values that they need for examples of the ``longest`` sides."""
    cfg = _settings(task)
    sides = ("max_source_positions", "max_target_positions")
    side = "tokens_per_sample" if hasattr(cfg, "tokens_per_sample") else "max_positions"
    names = sides if hasattr(cfg, sides[0]) else (side,)
    for name, most in zip(names, longest, strict=False):
        if most > getattr(cfg, name, most):
            yield name, most
    max_tokens = getattr(task, "max_tokens_of_batches", None)  # unknown if the task makes batches
    if max_tokens and max(longest) > max_tokens:
        is_train = split == getattr(cfg, "train_subset", "train")
        yield "max_tokens" if is_train else "max_tokens_valid", max(longest)
