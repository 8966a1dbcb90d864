"""What is refused of fairseq's own task once a model asks for checks, and of pairs kept apart."""

import shutil

import pytest
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

from fairseq_posattn.training.plugin import register

pytestmark = pytest.mark.slow

register()

PAIRS = {
    "input0": ["a dog runs", "two men sit", "it rains"],
    "input1": ["an animal moves fast today", "men stand", "a dog runs"],
}
CLASSES = {**PAIRS, "label": ["yes", "no", "maybe"]}
SCORES = {**PAIRS, "score": ["4.5", "1", "3"]}
STOCK, APART = "sentence_prediction", "sentence_pair_prediction"
BOTH = pytest.mark.parametrize("task", [STOCK, APART])


@pytest.fixture
def load_valid(write_sentence_data, tmp_path):
    """``load_valid(task, columns, *flags)``: the validation set, beside the training set."""

    def load(task, columns, *flags, train=CLASSES, num_classes=3, more=None, combine=False):
        splits = {"train": train, "valid": columns, **(more or {})}
        shutil.rmtree(tmp_path / "data", ignore_errors=True)
        data = write_sentence_data(tmp_path / "data", splits)
        flags = [str(data), "--task", task, *flags]
        flags += ["--num-classes", str(num_classes), "--arch", "roberta_base"]
        if "--criterion" not in flags:
            flags += ["--criterion", "sentence_classification"]
        args = options.parse_args_and_arch(options.get_training_parser(), flags)
        task = tasks.setup_task(convert_namespace_to_omegaconf(args).task)
        task.checks_rows = True  # as a model of ours makes it
        return task.load_dataset("valid", combine=combine)

    return load


@pytest.fixture
def complaint(load_valid, tmp_path):
    """``complaint(...)``: what loading the same complains of, in one line."""

    def complain(*arguments, **options):
        with pytest.raises(ValueError) as error:
            load_valid(*arguments, **options)
        message = str(error.value)
        assert "\n" not in message
        return message.replace(f"{tmp_path / 'data'}/", "")

    return complain


@BOTH
def test_good_data_is_loaded(load_valid, task):
    assert len(load_valid(task, CLASSES)) == 3


EMPTY = ["one", "", "three"]
RATING = ["--criterion", "rating_regression"]
CUT = ["--max-positions", "3", "--shorten-method", "truncate", "--shorten-data-split-list"]


@BOTH
@pytest.mark.parametrize(
    ("changed", "flags", "message"),
    [
        ({"input1": ["no", "no"]}, [], "input1/valid has 2 rows and input0/valid has 3: "),
        ({"label": ["no", "no"]}, [], "label/valid has 2 rows and input0/valid has 3: "),
        ({"input0": EMPTY}, [], "input0/valid: row 2 is empty"),
        ({"input1": EMPTY}, [], "input1/valid: row 2 is empty"),
        (
            {"label": ["yes", "no", "perhaps"]},
            [],
            "label/valid: row 3: its label is not in label/dict",
        ),
        ({"label": ["yes", "no", ""]}, [], "label/valid: row 3 has 0 labels; give it one"),
        ({"label": ["yes", "no", "yes no"]}, [], "label/valid: row 3 has 2 labels; give it one"),
        ({}, [*CUT, "train"], "input"),  # only the training set is cut
    ],
)
def test_malformed_rows_of_classes_are_one_line(complaint, task, changed, flags, message):
    assert complaint(task, {**CLASSES, **changed}, *flags).startswith(message)


@BOTH
@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (["4.5", "", "3"], "label/valid.label:2: a number should stand here, not ''"),
        (["4.5", "1 2", "3"], "label/valid.label:2: a number should stand here, not '1 2'"),
        (["4.5", "nan", "3"], "label/valid.label:2: a number should stand here, not 'nan'"),
        (["4.5"], "label/valid.label has 1 rows and input0/valid has 3: "),
    ],
)
def test_malformed_scores_are_one_line(complaint, task, scores, message):
    columns = {**SCORES, "score": scores}
    result = complaint(task, columns, *RATING, train=SCORES, num_classes=1)
    assert result.startswith(message)


@BOTH
def test_labels_must_exist_and_be_classes(complaint, task):
    assert complaint(task, PAIRS).startswith("label/valid: there are no such labels")
    assert complaint(task, CLASSES, num_classes=2) == (
        "label/valid: row 1: its label is number 3 of label/dict.txt, "
        "and --num-classes is 2: give --num-classes 3"
    )


@BOTH
def test_long_sentences_may_be_cut(load_valid, task):
    assert len(load_valid(task, CLASSES, *CUT, "valid,test")) == 3


def test_long_sentences_are_named(complaint):
    message = complaint(APART, CLASSES, "--max-positions", "5")
    assert message.startswith("input1/valid: row 1 has 6 tokens with its end, and --max-positions")
    assert message.endswith("--shorten-method truncate")
    message = complaint(STOCK, CLASSES, "--max-positions", "9")
    assert message.startswith("input0/valid and input1/valid: row 1 has 10 tokens")


def test_scores_outside_the_distribution(complaint):
    columns = {**SCORES, "score": ["4.5", "1", "5.5"]}
    message = complaint(APART, columns, "--criterion", "relatedness", train=SCORES, num_classes=5)
    assert message.startswith("label/valid.label:3: the score 5.5 is not from 1 to 5")
    flags = ["--criterion", "sentence_prediction", "--regression-target"]
    message = complaint(STOCK, SCORES, *flags, train=SCORES, num_classes=5)
    assert message.startswith("label/valid.label:1: 5 numbers, for --num-classes 5, should stand")


def test_parts_of_a_set_are_checked_together(complaint):
    """``train``, ``train1`` and so on, as fairseq-train reads a large training set."""
    parts = {"valid1": {**CLASSES, "input1": EMPTY}}
    message = complaint(APART, CLASSES, more=parts, combine=True)
    assert message.startswith("input1/valid: row 5 is empty")
