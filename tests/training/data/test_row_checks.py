"""What is refused of fairseq's own task once a model asks for checks, and of pairs kept apart."""

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


@BOTH
@pytest.mark.parametrize("name", ["input1", "label"])
def test_unequal_files(complaint, task, name):
    message = complaint(task, {**CLASSES, name: ["no", "no"]})
    assert message.startswith(f"{name}/valid has 2 rows and input0/valid has 3: ")


@BOTH
@pytest.mark.parametrize("name", ["input0", "input1"])
def test_empty_sentence(complaint, task, name):
    message = complaint(task, {**CLASSES, name: ["one", "", "three"]})
    assert message.startswith(f"{name}/valid: row 2 is empty")


def test_long_sentence_of_a_pair(complaint):
    message = complaint(APART, CLASSES, "--max-positions", "5")
    assert message.startswith(
        "input1/valid: row 1 has 6 tokens with its end, and --max-positions is 5"
    )
    assert message.endswith("--shorten-method truncate")


def test_long_pair_in_one_sequence(complaint):
    message = complaint(STOCK, CLASSES, "--max-positions", "9")
    assert message.startswith("input0/valid and input1/valid: row 1 has 10 tokens")


@BOTH
def test_long_sentences_may_be_cut(load_valid, task):
    flags = ["--max-positions", "3", "--shorten-method", "truncate"]
    assert len(load_valid(task, CLASSES, *flags, "--shorten-data-split-list", "valid,test")) == 3


@BOTH
def test_long_sentences_of_a_split_that_is_not_cut(complaint, task):
    flags = ["--max-positions", "3", "--shorten-method", "truncate"]
    assert "tokens" in complaint(task, CLASSES, *flags, "--shorten-data-split-list", "train")


@BOTH
def test_unknown_label(complaint, task):
    message = complaint(task, {**CLASSES, "label": ["yes", "no", "perhaps"]})
    assert message.startswith("label/valid: row 3: its label is not in label/dict.txt")


@BOTH
def test_more_labels_than_classes(complaint, task):
    message = complaint(task, CLASSES, num_classes=2)
    assert message == (
        "label/valid: row 1: its label is number 3 of label/dict.txt, "
        "and --num-classes is 2: give --num-classes 3"
    )


@BOTH
@pytest.mark.parametrize("label, count", [("", 0), ("yes no", 2)])
def test_not_one_label(complaint, task, label, count):
    message = complaint(task, {**CLASSES, "label": ["yes", "no", label]})
    assert message == f"label/valid: row 3 has {count} labels; give it one"


@BOTH
def test_no_labels(complaint, task):
    assert complaint(task, PAIRS).startswith("label/valid: there are no such labels")


@BOTH
@pytest.mark.parametrize("score", ["", "good", "1 2", "nan"])
def test_not_one_score(complaint, task, score):
    columns = {**SCORES, "score": ["4.5", score, "3"]}
    flags = ["--criterion", "rating_regression"]
    message = complaint(task, columns, *flags, train=SCORES, num_classes=1)
    assert message == f"label/valid.label:2: a number should stand here, not {score!r}"


@BOTH
def test_unequal_scores(complaint, task):
    columns = {**SCORES, "score": ["4.5"]}
    flags = ["--criterion", "rating_regression"]
    message = complaint(task, columns, *flags, train=SCORES, num_classes=1)
    assert message.startswith("label/valid.label has 1 rows and input0/valid has 3: ")


def test_score_outside_the_distribution(complaint):
    columns = {**SCORES, "score": ["4.5", "1", "5.5"]}
    message = complaint(APART, columns, "--criterion", "relatedness", train=SCORES, num_classes=5)
    assert message == (
        "label/valid.label:3: the score 5.5 is not from 1 to 5, the value of --num-classes"
    )


def test_fairseqs_own_task_reads_a_score_an_output(complaint):
    flags = ["--criterion", "sentence_prediction", "--regression-target"]
    message = complaint(STOCK, SCORES, *flags, train=SCORES, num_classes=5)
    assert message.startswith("label/valid.label:1: 5 numbers, for --num-classes 5, should stand")


def test_parts_of_a_set_are_checked_together(complaint):
    """As fairseq-train does with a large training set, ``train``, ``train1`` and so on."""
    parts = {"valid1": {**CLASSES, "input1": ["one", "", "three"]}}
    message = complaint(APART, CLASSES, more=parts, combine=True)
    assert message.startswith("input1/valid: row 5 is empty")
