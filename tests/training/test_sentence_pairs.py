"""The task of sentence pairs: batches, shuffling, malformed data; checks of fairseq's task."""

import copy
import functools
from itertools import product

import numpy
import pytest
import torch
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.training.plugin import register

register()

INPUTS = {
    "input0": ["a dog runs", "two men sit", "it rains"],
    "input1": ["an animal moves fast today", "men stand", "a dog runs"],
}
CLASSES = {**INPUTS, "label": ["yes", "no", "maybe"]}
SCORES = {**INPUTS, "score": ["4.5", "1", "3"]}
STOCK, PAIRS = "sentence_prediction", "sentence_pair_prediction"
RATINGS = "--criterion rating_regression --num-classes 1"
RELATEDNESS = "--criterion relatedness --num-classes 5"
NUMBERS = "--criterion sentence_prediction --regression-target --num-classes 5"
ONE_NUMBER = NUMBERS.replace("5", "1")
OF_CLASSES = ["--criterion", "sentence_classification", "--num-classes", "3"]


@functools.cache
def settings_of(task, flags):
    words = ["data", "--task", task, "--arch", "roberta_base", *OF_CLASSES, *flags.split()]
    args = options.parse_args_and_arch(options.get_training_parser(), words)
    return convert_namespace_to_omegaconf(args)


@pytest.fixture
def load_task(write_sentence_data, tmp_path):
    """``load_task(splits, flags)``: the task as fairseq-train sets it up, by default of classes."""

    def load(splits, flags="", task=PAIRS):
        data = tmp_path / "data"
        if not data.exists():
            write_sentence_data(data, splits)
        settings = copy.deepcopy(settings_of(task, flags)).task
        settings.data = str(data)
        task = tasks.setup_task(settings)
        task.checks_rows = True  # set by the plugin's models
        return task

    return load


def batch(task, rows):
    dataset = task.load_dataset("train")
    return dataset.collater([dataset[row] for row in rows])


def test_the_sentences_of_a_pair_are_separate(load_task):
    task = load_task({"train": CLASSES})
    sample = batch(task, [0, 1, 2])
    net_input = sample["net_input"]
    words = task.source_dictionary
    for name, column in (("src", "input0"), ("pair", "input1")):
        lines = [words.encode_line(line, add_if_not_exist=False) for line in INPUTS[column]]
        assert net_input[f"{name}_lengths"].tolist() == [len(line) for line in lines]
        expected = torch.nn.utils.rnn.pad_sequence(
            [line.long() for line in lines], batch_first=True, padding_value=words.pad()
        )
        assert torch.equal(net_input[f"{name}_tokens"], expected)
    labels = [task.label_dictionary[n + task.label_dictionary.nspecial] for n in sample["target"]]
    assert labels == CLASSES["label"]
    assert (sample["ntokens"], sample["nsentences"]) == (4 + 4 + 3 + 6 + 3 + 4, 3)


def test_max_tokens_counts_the_longer_sentence(load_task):
    dataset = load_task({"train": CLASSES}, "--no-shuffle").load_dataset("train")
    assert dataset.ordered_indices().tolist() == [0, 1, 2]
    assert [dataset.num_tokens(row) for row in range(3)] == [6, 4, 4]
    batches = dataset.batch_by_size(numpy.arange(3), max_tokens=8)
    assert [rows.tolist() for rows in batches] == [[0], [1, 2]]


@pytest.mark.parametrize(
    ("task", "flags"),
    [(PAIRS, RELATEDNESS), *product((PAIRS, STOCK), (RATINGS, ONE_NUMBER))],
)
def test_scores_are_float64_which_half_precision_leaves_unchanged(load_task, task, flags):
    columns = {**INPUTS, "score": ["4.1", "1", "3"]}
    target = batch(load_task({"train": columns}, flags, task), [0, 1, 2])["target"]
    assert (target.flatten().tolist(), target.dtype) == ([4.1, 1, 3], torch.float64)


def test_shuffling_depends_on_the_seed(load_task):
    columns = {name: [str(n) for n in range(50)] for name in ("input0", "input1", "label")}
    orders = []
    for seed in (1, 1, 2):
        task = load_task({"train": columns}, f"--num-classes 50 --seed {seed}")
        orders.append(task.load_dataset("train").ordered_indices().tolist())
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[2]) == list(range(50))


def test_missing_classes_or_dictionary_are_one_line(load_task, tmp_path):
    with pytest.raises(UsageError, match="^--num-classes -1: give the number of classes"):
        load_task({"train": CLASSES}, "--num-classes=-1")
    (tmp_path / "data/label/dict.txt").unlink()
    with pytest.raises(UsageError, match="label/dict.txt: no such dictionary; prepare"):
        load_task({})


EMPTY = {"input1": ["one", "", "three"]}
CUT = "--max-positions 3 --shorten-method truncate --shorten-data-split-list"
THIRD = "label/valid: row 1: its label is number 3 of label/dict.txt"
NUMBER = "label/valid.label:2: a number should stand here, not "


@pytest.fixture
def load_error(load_task, tmp_path):
    """``load_error(task, columns, flags)``: the message for a validation set."""

    def load(task, columns, flags="", combine=False, **splits):
        train = SCORES if "score" in columns else CLASSES
        loaded = load_task({"train": train, "valid": columns, **splits}, flags, task)
        with pytest.raises(UsageError) as error:
            loaded.load_dataset("valid", combine=combine)
        message = str(error.value)
        assert "\n" not in message
        return message.replace(f"{tmp_path / 'data'}/", "")

    return load


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "changed", "flags", "message"),
    [
        (STOCK, {"input1": ["no"] * 2}, "", "input1/valid has 2 rows and input0/valid has 3: "),
        (PAIRS, {"input0": ["one", "", "three"]}, "", "input0/valid: row 2 is empty"),
        (STOCK, EMPTY, "", "input1/valid: row 2 is empty"),
        (STOCK, {}, f"{CUT} train", "input"),  # only the training set is cut
        (PAIRS, {}, f"{CUT} train", "input"),
        (STOCK, {"label": ["no", "no"]}, "", "label/valid has 2 rows and input0/valid has 3: "),
        (PAIRS, {"label": ["no", "no"]}, "", "label/valid has 2 rows and input0/valid has 3: "),
        (STOCK, {"label": ["yes", "no", "?"]}, "", "label/valid: row 3: its label is not in label"),
        (PAIRS, {"label": ["yes", "no", ""]}, "", "label/valid: row 3: has 0 labels; give it one"),
        (PAIRS, {"label": ["yes", "no", "yes no"]}, "", "label/valid: row 3: has 2 labels; give"),
        (STOCK, {}, "--num-classes 2", f"{THIRD}: give --num-classes 3"),
        (STOCK, {"label": None}, "", "label/valid: there are no such labels"),
        (STOCK, {"score": ["4.5", "", "3"]}, RATINGS, f"{NUMBER}''"),
        (PAIRS, {"score": ["4.5", "1 2", "3"]}, RATINGS, f"{NUMBER}'1 2'"),
        (PAIRS, {"score": ["4.5", "nan", "3"]}, RATINGS, f"{NUMBER}'nan'"),
        (PAIRS, {"score": ["4.5"]}, RATINGS, "label/valid.label has 1 row and input0/valid has 3"),
        (
            PAIRS,
            {"score": ["4", "1", "5.5"]},
            RELATEDNESS,
            "label/valid.label:3: the score 5.5 is ",
        ),
        (STOCK, {"score": ["4", "1", "3"]}, NUMBERS, "label/valid.label:1: 5 numbers, for --num-c"),
    ],
)
def test_malformed_rows_are_one_line(load_error, task, changed, flags, message):
    columns = (SCORES if "score" in changed else CLASSES) | changed
    columns = {name: lines for name, lines in columns.items() if lines}
    assert load_error(task, columns, flags).startswith(message)


@pytest.mark.slow
@pytest.mark.parametrize("task", [STOCK, PAIRS])
def test_shortened_sentences_are_accepted_and_counted(load_task, task, caplog):
    data = load_task({"train": CLASSES, "valid": CLASSES}, f"{CUT} valid,test", task)
    assert len(data.load_dataset("valid")) == 3
    warnings = [entry.message for entry in caplog.records if "cut to 3 tokens" in entry.message]
    assert len(warnings) == (2 if task == PAIRS else 1)
    assert "of 3 texts (" in warnings[0] and "a larger --max-positions" in warnings[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "limit", "start"),
    [
        (PAIRS, "5", "input1/valid: row 1 has 6 tokens with its end: raise --max-pos"),
        (STOCK, "9", "input0/valid and input1/valid: row 1 has 10 tokens"),
    ],
)
def test_too_long_sentences_are_named(load_error, task, limit, start):
    message = load_error(task, CLASSES, f"--max-positions {limit}")
    assert message.startswith(start) and message.endswith("--shorten-method truncate")


@pytest.mark.slow
def test_parts_of_a_set_are_checked_together(load_error):
    """fairseq-train reads a large training set as ``train``, ``train1`` and so on."""
    message = load_error(PAIRS, CLASSES, combine=True, valid1={**CLASSES, **EMPTY})
    assert message.startswith("input1/valid: row 5 is empty")
