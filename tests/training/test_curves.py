"""Learning curves of training logs, and the command that plots them."""

import json

import pytest

from fairseq_posattn.cli import main
from fairseq_posattn.common import figures
from fairseq_posattn.common.figures import write_picture
from fairseq_posattn.training.curves import Curves, plot_curves
from fairseq_posattn.training.training_log import TrainingLog

pytest.importorskip("matplotlib")


@pytest.fixture
def write_log(tmp_path):
    """``write_log("a/seed1/train.log", accuracy=[50, 60])``: a log with loss, rate and scores."""

    def write_log(name, rate=0.5, **scores):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = []
        for number in range(1, 3):
            progress = {"epoch": number, "num_updates": 10 * number}
            inner = progress | {"update": number, "loss": 9 - number, "lr": rate}
            lines.append(f"x | INFO | train_inner | {json.dumps(inner)}\n")
            valid = {f"valid_{name}": values[number - 1] for name, values in scores.items()}
            valid |= {"valid_loss": 8 - number, "valid_num_updates": 10 * number}
            if scores:
                lines.append(f"x | INFO | valid | {json.dumps(progress | valid)}\n")
        path.write_text("".join(lines))
        return path

    return write_log


def curves(write_log, name, group="", file=None, **scores):
    log = write_log(f"{file or name}.log", **scores)
    return Curves(name, TrainingLog(log), group)


def titles(figure):
    return [axis.get_title() for axis in figure.axes]


def plotted(axis):
    """Return (color, values) of the lines that have points."""
    lines = [line for line in axis.lines if len(line.get_ydata())]
    return [(line.get_color(), list(line.get_ydata())) for line in lines]


def test_a_run_has_curves_of_loss_score_and_rate(write_log):
    runs = [
        curves(write_log, "DMAN", rate=0.5, accuracy=[50, 60]),
        curves(write_log, "SAN", rate=0.25, accuracy=[40, 45]),
    ]
    figure = plot_curves(runs)
    losses, scores, rates = figure.axes
    assert titles(figure) == [
        "loss: validation; training is pale",
        "validation: accuracy",
        "learning rate",
    ]
    dman, san = figures.line_style(0)["color"], figures.line_style(1)["color"]
    assert plotted(losses) == [(dman, [8, 7]), (dman, [7, 6]), (san, [8, 7]), (san, [7, 6])]
    assert [line.get_alpha() for line in losses.lines[:2]] == [0.35, None]
    assert plotted(scores) == [(dman, [50, 60]), (san, [40, 45])]
    assert plotted(rates) == [(dman, [0.5, 0.5]), (san, [0.25, 0.25])]
    assert list(scores.lines[0].get_xdata()) == [10, 20]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["DMAN", "SAN"]


def test_groups_and_scores_have_separate_rows(write_log):
    runs = [
        curves(write_log, "A", "trec", accuracy=[1, 2]),
        curves(write_log, "A", "sick", file="b", pearson=[0.1, 0.2]),
        curves(write_log, "C", "sick", mse=[0.1, 0.2]),
        curves(write_log, "not validated yet", "trec"),
    ]
    figure = plot_curves(runs)
    assert [title.splitlines()[0] for title in titles(figure)[::3]] == ["trec", "sick", "sick"]
    scores = [title.removeprefix("validation: ") for title in titles(figure)[1::3]]
    assert scores == ["accuracy", "pearson", "mse"]
    assert len(plotted(figure.axes[0])) == 3  # two of A, training alone of the other
    assert len(figure.legends[0].get_texts()) == 3
    first, second = (plotted(figure.axes[row])[0][0] for row in (1, 4))
    assert first == second  # runs of one name share a color


def test_any_name_can_be_plotted(write_log, tmp_path):
    names = ["$a_{b$", "\udcff", "a$b", "a" * 99]
    runs = [curves(write_log, name, f"$\\{name}$", str(n)) for n, name in enumerate(names)]
    runs.append(curves(write_log, "c", **{r"$\frac": [1, 2]}))
    write_picture(plot_curves(runs), str(tmp_path / "curves.png"))
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_runs_are_named_by_the_parts_of_their_paths_that_differ(
    write_log, tmp_path, monkeypatch, capsys
):
    """Seeds are left out; a log file given by name has its own name."""
    for name in ("trec/dman-1/seed1", "trec/dman-1/fold0-seed2", "sst/san-2/seed1"):
        write_log(f"runs/{name}/train.log", accuracy=[50, 60])
    named = write_log("runs/sst/mine.txt", accuracy=[1, 2])
    seen = []
    monkeypatch.setattr(
        "fairseq_posattn.training.commands.curves.plot_curves",
        lambda runs: seen.extend((run.group, run.name) for run in runs) or plot_curves(runs),
    )
    twice = [str(tmp_path / "runs"), str(tmp_path / "runs/trec"), str(named)]
    assert main(["curves", *twice, "--output", str(tmp_path / "curves.pdf")]) == 0
    assert seen == [("sst", "san-2"), *[("trec", "dman-1")] * 2, ("sst", "mine.txt")]
    printed = capsys.readouterr()
    assert printed.out == f"4 trainings plotted to {tmp_path / 'curves.pdf'}\n" and not printed.err


def test_errors_are_one_line_and_logs_without_measurements_are_skipped(write_log, tmp_path, capsys):
    write_log("run/train.log", accuracy=[1, 2])
    for folder in ("empty", "begun"):
        (tmp_path / folder).mkdir()
    (tmp_path / "begun" / "train.log").write_text("x | INFO | fairseq_cli.train | begun\n")
    for folder, output, message in (
        ("none", "curves.png", "none: no such folder"),
        ("empty", "curves.png", "no train.log"),
        ("begun", "curves.png", "no measurements yet; train"),
        ("run", "curves.txt", ".png or .pdf"),
    ):
        assert main(["curves", str(tmp_path / folder), "--output", str(tmp_path / output)]) == 1
        *_, error = capsys.readouterr().err.splitlines()
        assert message in error
        assert not (tmp_path / output).exists()
    assert main(["curves", str(tmp_path), "--output", str(tmp_path / "curves.png")]) == 0
    printed = capsys.readouterr()
    assert printed.out == f"1 training plotted to {tmp_path / 'curves.png'}\n"
    (tmp_path / "empty/linked").symlink_to(tmp_path / "run")  # such as to a larger disk
    assert main(["curves", str(tmp_path / "empty"), "--output", str(tmp_path / "curves.png")]) == 0
    assert "begun" in printed.err and printed.err.count("\n") == 1
