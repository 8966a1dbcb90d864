"""Tables of several runs, drawn."""

import pytest

from fairseq_posattn.recipes import drawing

pytest.importorskip("matplotlib")


def row(name, *scores, **more):
    return {"table": "T", "row": name, "scores": {"bleu": list(scores)}, **more}


ROWS = [
    row("Transformer", 36, 37, intervals={"bleu": [35, 38]}),
    row("DMAN", 38, 39, compared={"metrics": {"bleu": {"p": 0.01}}}),
    row("SMAN", 36, 38, compared={"metrics": {"bleu": {"p": 0.2}}}),
    row("one run", 35),
    row("not run"),
]


def test_a_panel_has_the_rows_of_several_runs():
    (axis,) = drawing.figure_of(ROWS).axes
    assert axis.get_title(loc="left") == "T: bleu"
    names = [label.get_text() for label in axis.get_yticklabels()]
    assert names == ["Transformer", "DMAN *", "SMAN"]  # from above
    assert axis.get_ylim() == (2.5, -0.5)  # the dots are off the frame
    baseline, *points = [list(line.get_xdata()) for line in axis.lines]
    assert baseline == [36.5, 36.5]
    assert points == [[36, 37], [36.5], [38, 39], [38.5], [36, 38], [37]]
    (interval,) = axis.collections
    assert interval.get_segments()[0].tolist() == [[35, 0], [38, 0]]


def test_a_picture_is_written_where_there_are_several_runs(tmp_path, capsys):
    path = tmp_path / "table.png"
    drawing.draw(path, [row("Transformer", 36), row("DMAN", 38, 39)])
    assert not path.exists() and not capsys.readouterr().out
    drawing.draw(path, ROWS)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().out == f"figure: {path}\n"
