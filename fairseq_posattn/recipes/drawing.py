"""A table at a glance: of each row its runs, their mean and its interval, beside the baseline's.

And how they were trained.
"""

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
    """Draw what several runs measured, if there is such."""
    if figure := figure_of(rows):
        write_picture(figure, str(path))
        print(f"drawn in {path}")


def draw_curves(path: Path, runs: Sequence[Curves]) -> None:
    """Draw how runs were trained, if any were."""
    if runs:
        write_picture(curves.plot_curves(runs), str(path))
        print(f"learning curves are drawn in {path}")


def figure_of(rows: Sequence[TableRow]) -> Any:
    """A panel for each table and metric of which two rows or more have several runs, or None.

    A row has a small dot for each run, a large one for their mean, a line for the mean's 95%
    bootstrap interval, and a star where its difference from the baseline is more than chance.
    """
    panels: dict[tuple[str, str], list[TableRow]] = {}
    for row in rows:
        for metric, scores in row["scores"].items():
            if len(scores) > 1:
                panels.setdefault((row["table"], metric), []).append(row)
    drawn = {titles: found for titles, found in panels.items() if len(found) > 1}
    if not drawn:
        return None
    from matplotlib.figure import Figure  # only here: it is optional

    heights = [1 + 0.3 * len(found) for found in drawn.values()]
    figure = Figure(figsize=(7, sum(heights)), layout="constrained")
    axes = figure.subplots(len(drawn), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axis, ((table, metric), found) in zip(axes, drawn.items(), strict=True):
        _panel(
            axis, metric, found, baseline_of([row["row"] for row in rows if row["table"] == table])
        )
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
    axis.set_yticks(range(len(rows)), [_name(row, metric) for row in rows])
    axis.set_ylim(len(rows) - 0.5, -0.5)  # the first on top, and none on the frame


def _name(row: TableRow, metric: str) -> str:
    found = row.get("compared", {}).get("metrics", {}).get(metric)
    return f"{row['row']} *" if found and found["p"] < SIGNIFICANT else str(row["row"])
