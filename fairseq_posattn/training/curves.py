"""Learning curves: loss, score and learning rate of several runs, side by side in one picture."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairseq_posattn.common.figures import line_style, new_figure
from fairseq_posattn.training.training_log import Points, TrainingLog

PANELS = 3
PANEL_WIDTH, PANEL_HEIGHT = 4.2, 3.2  # inches
LEGEND_LINE, LEGEND_LETTER = 0.22, 0.075  # inches
MOST_MARKED = 40  # points that are marked one by one; of more, the last
LONGEST_NAME = 70
Style = dict[str, Any]
PALE: Style = {"alpha": 0.35}
MARKED: Style = {"marker": "."}


@dataclass(frozen=True)
class Curves:
    """What is drawn of a run.

    Attributes:
        name: in the legend. Runs with the same name, of several seeds for one, have one colour.
        log: of its training.
        group: runs of a group share their panels, one group below the other.
    """

    name: str
    log: TrainingLog
    group: str = ""


def figure_of(runs: Sequence[Curves]) -> Any:
    """A matplotlib figure with a line of panels for each group, and one legend.

    Raises:
        UsageError: there are too many groups for one picture.
    """
    lines = _lines(runs)
    names = list(dict.fromkeys(run.name for run in runs))
    styles = {name: line_style(number) for number, name in enumerate(names)}
    shown = [_as_text(_shortened(name)) for name in names]
    width = PANELS * PANEL_WIDTH
    columns = max(1, min(len(names), int(width / (LEGEND_LETTER * max(map(len, shown)) + 0.6))))
    legend = LEGEND_LINE * -(-len(names) // columns) + 0.2
    figure = new_figure(width, len(lines) * PANEL_HEIGHT + legend)
    grid = figure.subplots(len(lines), PANELS, squeeze=False)
    for panels, ((group, score), of_line) in zip(grid, lines.items(), strict=True):
        _draw_line(panels, score, of_line, styles)
        if len(lines) > 1 and group:
            title = f"{_as_text(group)}\n{panels[0].get_title()}"
            panels[0].set_title(title, fontsize="medium")
    handles = [grid[0, 0].plot([], [], **styles[name])[0] for name in names]
    figure.legend(handles, shown, loc="outside lower center", ncols=columns, frameon=False)
    return figure


def _lines(runs: Sequence[Curves]) -> dict[tuple[str, str], list[Curves]]:
    """The runs of each line of panels, by group and score; who has no score yet is with others."""
    lines: dict[tuple[str, str], list[Curves]] = {}
    for run in sorted(runs, key=lambda run: run.log.score() is None):
        others = [score for group, score in lines if group == run.group]
        score = run.log.score() or (others[0] if others else "")
        lines.setdefault((run.group, score), []).append(run)
    return lines


def _draw_line(
    panels: Any, score: str, runs: Sequence[Curves], styles: Mapping[str, Style]
) -> None:
    """Loss, score, learning rate."""
    losses, scores, rates = panels
    for run in runs:
        style = styles[run.name]
        _plot(losses, run.log.points("loss", "train_inner", "train"), style | PALE)
        _plot(losses, run.log.points("loss", "valid"), style | MARKED)
        _plot(scores, run.log.points(score, "valid"), style | MARKED)
        _plot(rates, run.log.points("lr", "train_inner", "train"), style)
    for panel, title in zip(
        panels,
        (
            "loss: validation; training is pale",
            f"validation: {_as_text(score) or 'none'}",
            "learning rate",
        ),
        strict=True,
    ):
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
        few = len(points) <= MOST_MARKED
        panel.plot(*zip(*points, strict=True), linewidth=1.2, **style, markevery=1 if few else [-1])


def _shortened(name: str) -> str:
    """Without its middle, if it is long; what folders differ in is at their ends."""
    half = LONGEST_NAME // 2
    return name if len(name) <= LONGEST_NAME else f"{name[:half]}…{name[-half:]}"


def _as_text(name: str) -> str:
    """As matplotlib draws it: a dollar sign starts no formula, and what is no character is one."""
    return name.encode(errors="replace").decode().replace("$", r"\$")
