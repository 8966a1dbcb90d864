"""Reading of fairseq's training logs."""

import json

import pytest

from fairseq_posattn.training.training_log import TrainingLog, read_line

TIME = "2026-01-02 03:04:05 | INFO |"
HYDRA = "[2026-01-02 03:04:05,678]"
INNER = (
    "epoch 002:    100 / 400 loss=9.1, nll_loss=8.9, ppl=480.1, wps=0, ups=0, wpb=3.5e+02, "
    "bsz=16, num_updates=500, lr=1e-05, gnorm=2.1, loss_scale=None, train_wall=0, wall=4"
)
VALID = (
    "epoch 002 | valid on 'valid' subset | loss 7.049 | ppl 132.4 | wps 7647.7 | bsz 5 | "
    "num_updates 800 | best_loss 7"
)
TRAIN = "epoch 002 | loss 6.961 | ppl 124.59 | bsz 50 | num_updates 800 | lr 0.001 | wall 4"


def test_lines_of_json_are_read():
    text = json.dumps({"epoch": 2, "valid_loss": "2.5", "valid_num_updates": "7", "valid_a": None})
    measured = {"epoch": 2, "loss": 2.5, "num_updates": 7}
    assert read_line(f"{TIME} valid | {text}\n") == ("valid", measured)
    assert read_line(f"{HYDRA}[valid][INFO] - {text}\n") == ("valid", measured)
    assert read_line(text) == ("valid", measured)


@pytest.mark.parametrize(
    "tag, text, loss, more",
    [
        ("train_inner", INNER, 9.1, {"update": 1.25, "lr": 1e-5, "wpb": 350, "wall": 4}),
        ("valid", VALID, 7.049, {"ppl": 132.4, "bsz": 5, "best_loss": 7}),
        ("train", TRAIN, 6.961, {"ppl": 124.59, "lr": 0.001, "wall": 4}),
    ],
)
def test_lines_of_the_simple_format_are_read(tag, text, loss, more):
    for head in (f"{TIME} {tag} | ", f"{HYDRA}[{tag}][INFO] - ", ""):
        named, numbers = read_line(f"{head}{text}\n")
        assert named == tag
        updates = {"train_inner": 500}.get(tag, 800)
        expected = {"epoch": 2, "num_updates": updates, "loss": loss, **more}
        assert {name: numbers[name] for name in expected} == expected
        assert "loss_scale" not in numbers


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x | INFO | fairseq_cli.train | Namespace(a=1)",
        'x | INFO | valid | {"epoch": 2, "valid',
        'x | INFO | valid | {"epoch": [2]}',
        "x | INFO | valid | epoch 002 | valid on 'valid' sub",
        "x | INFO | fairseq.trainer | begin training epoch 1",
        "epoch 001:  10%|#  | 3/30 [00:01<00:09, 2.9it/s, loss=9.1, num_updates=3]",
        "a sentence that has epoch 001: in it, loss=2",
    ],
)
def test_lines_without_measurements_are_none(text):
    assert read_line(text) is None


def inner(update, loss):
    numbers = {"epoch": 1, "update": 0.1, "loss": str(loss), "num_updates": str(update)}
    return f"{TIME} train_inner | {json.dumps(numbers)}\n"


def epoch_end(tag, update, **scores):
    numbers = {f"{tag}_{name}": str(score) for name, score in scores.items()}
    return f"{TIME} {tag} | {json.dumps({'epoch': 1, **numbers, f'{tag}_num_updates': update})}\n"


def log_of(tmp_path, *lines):
    (tmp_path / "train.log").write_text("".join(lines))
    return TrainingLog(tmp_path / "train.log")


def test_a_resumed_training_replaces_lost_updates(tmp_path):
    """It was killed after update 250 and resumed at update 150."""
    log = log_of(
        tmp_path,
        *(inner(100, 9), epoch_end("valid", 150, loss=8), inner(200, 7)),
        epoch_end("valid", 250, loss=6.5),
        "half of a line",
        *(inner(200, 7.5), epoch_end("valid", 250, loss=6), inner(250, 5)),
    )
    assert log.points("loss", "train_inner") == [(100, 9), (200, 7.5), (250, 5)]
    assert log.points("loss", "valid") == [(150, 8), (250, 6)]


def test_epochs_shorter_than_the_log_interval_give_the_points(tmp_path):
    ends = [epoch_end("train", update, loss=loss) for update, loss in ((50, 9), (100, 7))]
    log = log_of(tmp_path, ends[0], inner(100, 8), ends[1])
    assert log.points("loss", "train_inner", "train") == [(50, 9), (100, 7)]


@pytest.mark.parametrize(
    "others", [inner(100, "nan"), inner("nan", 8), inner("1" + "0" * 400, 8), inner(100, 1e200)]
)
def test_numbers_that_are_not_finite_or_huge_are_left_out(others, tmp_path):
    log = log_of(tmp_path, others, inner(200, 8), inner(300, "inf"))
    assert log.points("loss", "train_inner", "train") == [(200, 8)]


def test_a_carriage_return_ends_a_line(tmp_path):
    log = log_of(tmp_path, inner(100, 9).replace("\n", "\r"), inner(200, 8))
    assert log.points("loss", "train_inner") == [(100, 9), (200, 8)]


@pytest.mark.parametrize(
    "scores, chosen",
    [
        ({"loss": 1, "accuracy": 2, "f1": 3, "best_f1": 3}, "f1"),
        ({"loss": 1, "accuracy": 2, "f1": 3}, "accuracy"),
        ({"loss": 1, "nll_loss": 1, "ppl": 2, "best_loss": 1}, "ppl"),
        ({"loss": 1, "nll_loss": 1, "ppl": 2, "bleu": 30, "best_loss": 1}, "bleu"),
        ({"loss": 1, "wps": 9, "bsz": 9, "best_loss": 1}, None),
    ],
)
def test_the_main_score_is_that_of_the_best_checkpoint(tmp_path, scores, chosen):
    assert log_of(tmp_path, epoch_end("valid", 10, **scores)).score() == chosen
    assert log_of(tmp_path, inner(100, 9)).score() is None  # no validation
