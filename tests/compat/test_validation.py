"""BLEU in validation, perplexity, and examples that training and validation leave out."""

import inspect
import logging
from argparse import Namespace
from collections import OrderedDict
from types import SimpleNamespace

import numpy
import pytest
import torch
from fairseq.data import Dictionary, LanguagePairDataset, RoundRobinZipDatasets, data_utils
from fairseq.data.indexed_dataset import MMapIndexedDatasetBuilder
from fairseq.logging import metrics
from fairseq.tasks.fairseq_task import FairseqTask, LegacyFairseqTask
from fairseq.tasks.language_modeling import LanguageModelingTask
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from fairseq.trainer import Trainer
from fairseq_cli import eval_lm

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.scoring.bleu import bleu_metric


@pytest.fixture
def task():
    """Return a task of translation whose generator copies the source."""
    words = Dictionary()
    for word in ("我爱北京的天安门。", "我爱北京天安门。", "a", "b", "c", "d", "e"):
        words.add_symbol(word)
    cfg = TranslationConfig(source_lang="en", target_lang="zh_TW", eval_bleu=True)
    task = TranslationTask(cfg, words, words)
    task.tokenizer = None
    task.inference_step = lambda generator, models, sample, prefix_tokens: [
        [{"tokens": tokens}] for tokens in sample["source"]
    ]
    return task


class Criterion:
    """A criterion that logs nothing."""

    @staticmethod
    def reduce_metrics(logs):
        pass


def validate(task, *pairs):
    """Return the score of validation on batches of one pair."""
    with metrics.aggregate(new_root=True) as aggregate:
        for source, target in pairs:
            source, target = map(task.target_dictionary.encode_line, (source, target))
            sample = {"source": [source], "target": [target]}
            bleu = task._inference_with_bleu(None, sample, None)
            log = {"_bleu_sys_len": bleu.sys_len, "_bleu_ref_len": bleu.ref_len}
            for n in range(4):
                log |= {f"_bleu_counts_{n}": bleu.counts[n], f"_bleu_totals_{n}": bleu.totals[n]}
            task.reduce_metrics([log | {"ntokens": 1, "nsentences": 1}], Criterion())
        return aggregate.get_smoothed_values()["bleu"]


def test_the_language_tokenizes_as_in_scoring(task, restore):
    pair = ("我爱北京天安门。", "我爱北京的天安门。")
    expected = bleu_metric("sacrebleu", "zh").corpus_score([pair[0]], [[pair[1]]]).score
    assert expected > 40 and validate(task, pair) == pytest.approx(expected, abs=0.01)
    task.cfg.target_lang = "de"
    assert validate(task, pair) == 0
    task.cfg.target_lang = "zh"
    restore(TranslationTask, "_inference_with_bleu")
    assert validate(task, pair) == 0


def test_unknown_words_have_no_equal_characters(task):
    """Thai is scored by characters."""
    task.cfg.target_lang = "th"
    apart = validate(task, ("a b c d e \N{SNOWMAN}", "a b c d e \N{COMET}"))
    assert validate(task, ("a b c d e <unk>", "a b c d e <unk>")) == apart


def test_the_perplexity_of_joined_subwords_is_that_of_words(monkeypatch, restore):
    words = Dictionary()
    tokens = words.encode_line("a@@ b@@ c d")  # with the end symbol: five tokens, three words
    scored = [[{"tokens": tokens, "positional_scores": torch.full((5,), -1.0)}]]
    scorer = SimpleNamespace(generate=lambda models, sample: scored)
    monkeypatch.setattr(eval_lm, "SequenceScorer", lambda *arguments: scorer)
    sample = {"net_input": {}, "ntokens": 5, "id": [0]}
    evaluate = {"models": [], "source_dictionary": words, "batch_iterator": [sample]}
    evaluate |= {"post_process": "subword_nmt", "device": torch.device("cpu")}
    bits = 5 / numpy.log(2)
    assert eval_lm.eval_lm(**evaluate)["loss"] == pytest.approx(bits / 3)
    restore(eval_lm, "eval_lm")
    scored[0][0]["positional_scores"] = torch.full((5,), -1.0)
    assert eval_lm.eval_lm(**evaluate)["loss"] == pytest.approx(bits / 5)


def test_empty_hypotheses_score_zero_and_count_as_missing(task, restore):
    full, empty = ("a b c d e", "a b c d e"), ("", "a b c d e")
    assert validate(task, empty, empty) == 0
    halves = [validate(task, full, empty), validate(task, empty, full)]
    assert halves == [pytest.approx(100 * numpy.exp(-1), abs=0.01)] * 2
    restore(TranslationTask, "_inference_with_bleu")
    assert validate(task, full, empty) == 100  # fairseq forgets the second reference
    with pytest.raises(KeyError):
        validate(task, empty)


@pytest.mark.parametrize("by_moses", [False, True])
def test_languages_without_rules_are_named(task, monkeypatch, caplog, by_moses):
    task.cfg.target_lang, task.cfg.eval_bleu_detok = "bbj", "moses" if by_moses else "space"
    monkeypatch.setattr(FairseqTask, "build_model", lambda *args: None)
    monkeypatch.setattr(TranslationTask, "build_generator", lambda *args: None)
    task.build_model(None)
    assert "bbj: sacreBLEU has no tokenizer" in caplog.text
    assert ("bbj: Moses has no rules" in caplog.text) == by_moses


def test_back_translation_validates_in_the_language_of_its_pair(task, monkeypatch, caplog):
    monkeypatch.setattr(FairseqTask, "build_model", lambda *args: None)
    task.cfg = Namespace(eval_bleu=False)
    task.build_model(None)
    task.cfg = Namespace(eval_bleu=True, eval_bleu_detok="space", eval_tokenized_bleu=False)
    task.cfg.eval_bleu_remove_bpe = task.cfg.eval_bleu_print_samples = None
    task.cfg.eval_bleu_detok_args = task.cfg.eval_bleu_args = "{}"
    task.valid_lang_pairs = ["en-zh"]  # of online_backtranslation, whose settings name no language
    monkeypatch.setattr(TranslationTask, "build_generator", lambda *args: None)
    task.build_model(None)
    task.tokenizer = None
    assert validate(task, ("我爱北京天安门。", "我爱北京的天安门。")) > 40
    task.valid_lang_pairs = ["en-bbj"]
    task.build_model(None)
    assert "bbj: sacreBLEU has no tokenizer" in caplog.text


def skipped(task, split, sizes, limits, max_tokens, caplog):
    """Return the numbers of the examples kept, and the warning."""
    task.max_tokens_of_batches = max_tokens
    return filtered(task, split, sizes, limits, caplog)


def filtered(task, split, sizes, limits, caplog):
    sides = [numpy.array(side) for side in sizes]
    data = LanguagePairDataset(None, sides[0], Dictionary(), None, sides[1], Dictionary())
    task.datasets[split] = data
    caplog.clear()
    indices = task.filter_indices_by_size(numpy.arange(len(sides[0])), data, limits, True)
    return indices.tolist(), " ".join(caplog.messages)


@pytest.mark.parametrize(
    "kind, option",
    [(LegacyFairseqTask, "max_source_positions"), (FairseqTask, "tokens_per_sample")],
    ids=["several languages", "language models"],
)
def test_examples_left_out_of_other_tasks_are_counted(kind, option, caplog):
    """With --sampling-method temperature tasks make their batches themselves."""
    task = kind(SimpleNamespace(**{option: 9}))
    kept, line = filtered(task, "train", ([9, 20], [9, 9]), (9, 9), caplog)
    assert kept == [0] and line.endswith(f"; to keep all: --{option.replace('_', '-')} 20")


def test_examples_left_out_are_counted_with_the_flags_that_keep_them(task, caplog):
    task.cfg.train_subset = "train"
    caplog.set_level(logging.WARNING)
    sizes, limits = ([9, 20, 3], [2000, 20, 1100]), (1024, 1024)
    kept, line = skipped(task, "train", sizes, limits, 1024, caplog)
    assert kept == [1]
    assert line.startswith("train: 2 of 3 examples (66.7%) are too long and left out")
    assert line.endswith(" --max-target-positions 2000 --max-tokens 2000")
    line = skipped(task, "train", sizes, limits, 4096, caplog)[1]
    assert line.endswith(": --max-target-positions 2000")
    line = skipped(task, "valid", sizes, limits, 1500, caplog)[1]
    assert line.endswith(" --max-target-positions 2000 --max-tokens-valid 2000")
    kept, line = skipped(task, "train", ([600, 5], [5, 5]), (512, 512), 512, caplog)
    assert kept == [1] and line.endswith("; to keep all: --max-tokens 600")
    assert skipped(task, "train", ([9], [9]), limits, 100, caplog) == ([0], "")
    del task.datasets["train"]  # a trained model is used
    line = skipped(task, "test", sizes, limits, None, caplog)[1]
    assert line.endswith(" left out; the model takes (1024, 1024) tokens")
    with pytest.raises(UsageError, match=r"test: 1 of 1 examples .* too long; the model takes"):
        skipped(task, "test", ([2000], [9]), limits, None, caplog)


def test_blocks_of_text_that_are_too_long_for_a_language_model_can_be_split(caplog):
    """fairseq-eval-lm makes blocks of 1024 tokens, whatever the model takes."""
    task = LanguageModelingTask(
        SimpleNamespace(tokens_per_sample=1024, sample_break_mode="none"), None
    )
    line = filtered(task, "test", ([9, 833], [9, 9]), (64, 64), caplog)[1]
    assert "; to split them: --sample-break-mode none --tokens-per-sample " in line


def test_data_of_several_pairs_of_languages_are_filtered_as_by_fairseq(caplog):
    """They filter themselves, return no indices of examples, and log their number."""
    task, sizes = LegacyFairseqTask(SimpleNamespace(max_source_positions=9)), numpy.array([9, 20])

    def filtered(*skips):
        pairs = LanguagePairDataset(sizes, sizes, Dictionary(), sizes, sizes, Dictionary())
        data = RoundRobinZipDatasets(OrderedDict({"de-en": pairs}))
        return task.filter_indices_by_size(data.ordered_indices(), data, {"de-en": (9, 9)}, *skips)

    assert filtered(True).tolist() == [0] and "1 samples from de-en" in caplog.text
    with pytest.raises(Exception, match="Size of sample #0 is invalid"):
        filtered()


def test_a_typed_line_that_is_too_long_is_left_out(task, caplog):
    line = LanguagePairDataset(None, numpy.array([2000]), Dictionary())
    assert task.filter_indices_by_size(numpy.arange(1), line, (1024, 1024), True).tolist() == []
    assert "data: 1 of 1 examples (100.0%) are too long and left out" in caplog.text


@pytest.mark.parametrize(("unknown", "warns"), [(0, False), (1, False), (2, True)])
def test_many_unknown_tokens_are_named(tmp_path, caplog, unknown, warns):
    words = Dictionary()
    known, path = words.add_symbol("a"), str(tmp_path / "valid")
    builder = MMapIndexedDatasetBuilder(f"{path}.bin", dtype=numpy.uint16)
    builder.add_item(torch.tensor([words.unk()] * unknown + [known] * (199 - unknown)))
    builder.add_item(torch.tensor([words.eos()]))
    builder.finalize(f"{path}.idx")
    data_utils.load_indexed_dataset(path, words)
    assert (f"{path}: 1.0% of 200 tokens are unknown" in caplog.text) == warns
    assert ("larger dictionary" in caplog.text) == warns  # fairseq-preprocess has no --like


def test_a_patch_keeps_the_names_of_parameters():
    """fairseq loads older checkpoints only if ``build_model`` has a parameter from_checkpoint."""
    assert "from_checkpoint" in inspect.getfullargspec(TranslationTask.build_model).args


def test_splits_in_valid_subset_are_not_called_ignored(tmp_path, restore):
    (tmp_path / "valid1.de-en.de.idx").touch()
    dataset = {"ignore_unused_valid_subsets": False, "combine_valid_subsets": False}
    dataset |= {"disable_validation": False, "valid_subset": "valid,valid1"}
    task = SimpleNamespace(data=str(tmp_path))
    cfg = SimpleNamespace(dataset=SimpleNamespace(**dataset), task=task)
    check = data_utils.raise_if_valid_subsets_unintentionally_ignored
    check(cfg)
    cfg.dataset.valid_subset = "valid"
    with pytest.raises(ValueError, match=r"Valid paths \['valid1'\] will be ignored"):
        check(cfg)
    restore(data_utils, "_find_extra_valid_paths")
    cfg.dataset.valid_subset = "valid,valid1"
    with pytest.raises(ValueError, match="will be ignored"):
        check(cfg)


def test_validation_on_the_training_split_is_no_epoch_of_training(make_trainer, restore):
    trainer = make_trainer()
    trainer.task.load_dataset("train")

    def epoch_after_validation():
        iterator = trainer.get_train_iterator(1)
        list(trainer.get_valid_iterator("train").next_epoch_itr(shuffle=False))
        return iterator.next_epoch_idx

    assert epoch_after_validation() == 1
    restore(Trainer, "get_valid_iterator")
    trainer.task.dataset_to_epoch_iter.clear()
    assert epoch_after_validation() == 2  # of fairseq
