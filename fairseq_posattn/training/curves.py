"""Learning curves: loss, score and learning rate of several runs in one figure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairseq_posattn.common.figures import line_style, new_figure
from fairseq_posattn.training.training_log import Points, TrainingLog

PANELS = 3
PANEL_WIDTH, PANEL_HEIGHT = 4.2, 3.2  # inches
LEGEND_LINE, LEGEND_LETTER = 0.22, 0.075  # inches
MAX_MARKED = 40  # points; of longer curves only the last has a marker
MAX_NAME = 70  # characters
Style = dict[str, Any]
PALE: Style = {"alpha": 0.35}
MARKED: Style = {"marker": "."}


@dataclass(frozen=True)
class Curves:
    """A run to plot: a ``group`` shares a row of panels, runs of one name share a color."""

    name: str
    log: TrainingLog
    group: str = ""


def plot_curves(runs: Sequence[Curves]) -> Any:
    """Return a matplotlib figure with a row of panels per group and score, and one legend."""
    rows = _group_rows(runs)
    names = list(dict.fromkeys(run.name for run in runs))
    styles = {name: line_style(number) for number, name in enumerate(names)}
    shown = [_escape(name) for name in names]
    width = PANELS * PANEL_WIDTH
    columns = max(1, min(len(names), int(width / (LEGEND_LETTER * max(map(len, shown)) + 0.6))))
    legend = LEGEND_LINE * -(-len(names) // columns) + 0.2
    figure = new_figure(width, len(rows) * PANEL_HEIGHT + legend)
    grid = figure.subplots(len(rows), PANELS, squeeze=False)
    for panels, ((group, score), members) in zip(grid, rows.items(), strict=True):
        _plot_row(panels, score, members, styles)
        if len(rows) > 1 and group:
            title = f"{_escape(group)}\n{panels[0].get_title()}"
            panels[0].set_title(title, fontsize="medium")
    handles = [grid[0, 0].plot([], [], **styles[name])[0] for name in names]
    figure.legend(handles, shown, loc="outside lower center", ncols=columns, frameon=False)
    return figure


def _group_rows(runs: Sequence[Curves]) -> dict[tuple[str, str], list[Curves]]:
    """Return the runs of each row, by group and score; a run without a score joins its group."""
    rows: dict[tuple[str, str], list[Curves]] = {}
    for run in sorted(runs, key=lambda run: run.log.score() is None):
        others = [score for group, score in rows if group == run.group]
        score = run.log.score() or (others[0] if others else "")
        rows.setdefault((run.group, score), []).append(run)
    return rows


def _plot_row(panels: Any, score: str, runs: Sequence[Curves], styles: Mapping[str, Style]) -> None:
    losses, scores, rates = panels
    for run in runs:
        style = styles[run.name]
        _plot(losses, run.log.points("loss", "train_inner", "train"), style | PALE)
        _plot(losses, run.log.points("loss", "valid"), style | MARKED)
        _plot(scores, run.log.points(score, "valid"), style | MARKED)
        _plot(rates, run.log.points("lr", "train_inner", "train"), style)
    validation = f"validation: {_escape(score) or 'none'}"
    titles = ("loss: validation; training is pale", validation, "learning rate")
    for panel, title in zip(panels, titles, strict=True):
        panel.set_title(title, fontsize="medium")
        panel.set_xlabel("updates")
        panel.grid(alpha=0.3)
        panel.set_xlim(left=0)
    rates.update_datalim([(0, 0)])
    rates.autoscale_view()  # with a margin above
    rates.set_ylim(bottom=0)


def _plot(panel: Any, points: Points, style: Style) -> None:
    if len(points) == 1:
        style = style | MARKED
    if points:
        few = len(points) <= MAX_MARKED
        panel.plot(*zip(*points, strict=True), linewidth=1.2, **style, markevery=1 if few else [-1])


def _escape(name: str) -> str:
    """Shorten a long name, and escape dollar signs and invalid characters for matplotlib."""
    half = MAX_NAME // 2
    name = name if len(name) <= MAX_NAME else f"{name[:half]}…{name[-half:]}"
    return name.encode(errors="replace").decode().replace("$", r"\$")
