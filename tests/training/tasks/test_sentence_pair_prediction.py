import numpy
import pytest
import torch
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

from fairseq_posattn.training.plugin import register

register()

PAIRS = {
    "input0": ["a dog runs", "two men sit", "it rains"],
    "input1": ["an animal moves fast today", "men stand", "a dog runs"],
}
LABELS = ["yes", "no", "no"]


def load_task(data, *flags, num_classes=2):
    """The task as fairseq-train sets it up."""
    flags = [str(data), "--task", "sentence_pair_prediction", *flags]
    flags += ["--num-classes", str(num_classes), "--arch", "roberta_base"]
    args = options.parse_args_and_arch(options.get_training_parser(), flags)
    return tasks.setup_task(convert_namespace_to_omegaconf(args).task)


@pytest.fixture
def classes(write_sentence_data, tmp_path):
    return write_sentence_data(tmp_path / "classes", {"train": {**PAIRS, "label": LABELS}})


@pytest.fixture
def scores(write_sentence_data, tmp_path):
    columns = {**PAIRS, "score": ["4.5", "1", "3"]}
    return write_sentence_data(tmp_path / "scores", {"train": columns})


def batch(task, rows):
    dataset = task.load_dataset("train")
    return dataset.collater([dataset[row] for row in rows])


def test_the_sentences_of_a_pair_stay_apart(classes):
    task = load_task(classes, "--criterion", "sentence_classification")
    sample = batch(task, [0, 1, 2])
    net_input = sample["net_input"]
    assert net_input["src_lengths"].tolist() == [4, 4, 3]  # with </s>
    assert net_input["pair_lengths"].tolist() == [6, 3, 4]
    assert net_input["src_tokens"].shape == (3, 4)
    assert net_input["pair_tokens"].shape == (3, 6)
    pad, eos = task.source_dictionary.pad(), task.source_dictionary.eos()
    for name, column in (("src", "input0"), ("pair", "input1")):
        for row, length, line in zip(
            net_input[f"{name}_tokens"], net_input[f"{name}_lengths"], PAIRS[column], strict=True
        ):
            assert task.source_dictionary.string(row[: length - 1]) == line
            assert row[length - 1] == eos
            assert (row[length:] == pad).all()
    labels = [task.label_dictionary[n + task.label_dictionary.nspecial] for n in sample["target"]]
    assert labels == LABELS
    assert sample["ntokens"] == 4 + 4 + 3 + 6 + 3 + 4
    assert sample["nsentences"] == 3


def test_batches_are_cut_by_the_longer_sentence(classes):
    task = load_task(classes, "--criterion", "sentence_classification", "--no-shuffle")
    dataset = task.load_dataset("train")
    assert dataset.ordered_indices().tolist() == [0, 1, 2]
    assert [dataset.num_tokens(row) for row in range(3)] == [6, 4, 4]
    batches = dataset.batch_by_size(numpy.arange(3), max_tokens=8)
    assert [rows.tolist() for rows in batches] == [[0], [1, 2]]


def test_scores(scores):
    """The criterion says that there are scores; fairseq's flag for it does no harm."""
    for criterion, num_classes, *flag in (
        ("relatedness", 5),
        ("rating_regression", 1),
        ("rating_regression", 1, "--regression-target"),
    ):
        task = load_task(scores, "--criterion", criterion, *flag, num_classes=num_classes)
        target = batch(task, [0, 1, 2])["target"]
        assert target.tolist() == [4.5, 1, 3]
        assert target.dtype == torch.float64  # fairseq's half precision leaves these alone


def test_stock_criterion(scores, classes):
    """fairseq's own says with a flag whether there are scores or classes."""
    stock = ["--criterion", "sentence_prediction"]
    task = load_task(scores, *stock, "--regression-target", num_classes=1)
    assert batch(task, [0])["target"].tolist() == [4.5]
    assert batch(load_task(classes, *stock), [0])["target"].dtype == torch.int64


def test_shuffling_follows_the_seed(write_sentence_data, tmp_path):
    columns = {name: [str(n) for n in range(50)] for name in ("input0", "input1", "label")}
    data = write_sentence_data(tmp_path / "numbers", {"train": columns})
    orders = []
    for seed in (1, 1, 2):
        flags = ["--criterion", "sentence_classification", "--seed", str(seed)]
        task = load_task(data, *flags, num_classes=50)
        orders.append(task.load_dataset("train").ordered_indices().tolist())
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[2]) == list(range(50))


def test_the_number_of_classes_is_needed(classes):
    with pytest.raises(ValueError, match="^--num-classes -1: give the number of classes"):
        load_task(classes, "--criterion", "sentence_classification", num_classes=-1)


def test_missing_dictionary_is_one_line(classes, tmp_path):
    (classes / "label" / "dict.txt").unlink()
    with pytest.raises(ValueError, match="label/dict.txt: no such dictionary; prepare"):
        load_task(classes, "--criterion", "sentence_classification")
