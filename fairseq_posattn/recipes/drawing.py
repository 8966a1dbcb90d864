"""Figures of a table: runs, means and intervals of its rows, and learning curves."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from fairseq_posattn.common.figures import write_picture
from fairseq_posattn.recipes.comparisons import SIGNIFICANT, baseline_of
from fairseq_posattn.recipes.recipe import TableRow
from fairseq_posattn.training import curves
from fairseq_posattn.training.curves import Curves


def draw(path: Path, rows: Sequence[TableRow]) -> None:
    """Draw the rows of several runs, if there are any."""
    if figure := figure_of(rows):
        write_picture(figure, str(path))
        print(f"figure: {path}")


def draw_curves(path: Path, runs: Sequence[Curves]) -> None:
    """Draw the learning curves of runs, if there are any."""
    if runs:
        write_picture(curves.plot_curves(runs), str(path))
        print(f"learning curves: {path}")


def figure_of(rows: Sequence[TableRow]) -> Any:
    """Return a figure with a panel for each metric of which two rows have several runs, or None.

    A row has a small dot for each run, a large one for their mean and a line for its 95% bootstrap
    interval. A star marks a significant difference from the baseline.
    """
    panels: dict[tuple[str, str], list[TableRow]] = {}
    for row in rows:
        for metric, scores in row["scores"].items():
            if len(scores) > 1:
                panels.setdefault((row["table"], metric), []).append(row)
    panels = {titles: several for titles, several in panels.items() if len(several) > 1}
    if not panels:
        return None
    from matplotlib.figure import Figure  # here, because it is optional

    heights = [1 + 0.3 * len(several) for several in panels.values()]
    figure = Figure(figsize=(7, sum(heights)), layout="constrained")
    axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axis, ((table, metric), several) in zip(axes, panels.items(), strict=True):
        baseline = baseline_of([row["row"] for row in rows if row["table"] == table])
        _panel(axis, metric, several, baseline)
        axis.set_title(f"{table}: {metric}", loc="left", fontsize="medium", wrap=True)
    return figure


def _panel(axis: Any, metric: str, rows: Sequence[TableRow], baseline: str) -> None:
    for place, row in enumerate(rows):
        scores, colour = row["scores"][metric], "tab:blue"
        if row["row"] == baseline:
            axis.axvline(fmean(scores), color="grey", linestyle=":")
            colour = "grey"
        axis.plot(scores, [place] * len(scores), ".", color=colour, alpha=0.5)
        axis.plot(fmean(scores), place, "o", color=colour)
        if interval := row.get("intervals", {}).get(metric):
            axis.hlines(place, *interval, color=colour)
    axis.set_yticks(range(len(rows)), [_label(row, metric) for row in rows])
    axis.set_ylim(len(rows) - 0.5, -0.5)  # the first row on top


def _label(row: TableRow, metric: str) -> str:
    compared = row.get("compared", {}).get("metrics", {}).get(metric)
    return f"{row['row']} *" if compared and compared["p"] < SIGNIFICANT else str(row["row"])
