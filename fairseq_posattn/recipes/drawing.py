"""Figures of a table: runs, means and intervals of its rows."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from fairseq_posattn.common.figures import new_figure, write_picture
from fairseq_posattn.recipes.comparisons import SIGNIFICANT
from fairseq_posattn.recipes.recipe import TableRow


def draw(path: Path, rows: Sequence[TableRow]) -> None:
    """Draw the rows of several runs, if there are any."""
    if figure := figure_of(rows):
        write_picture(figure, str(path))
        print(f"figure: {path}")


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
    heights = [1 + 0.3 * len(several) for several in panels.values()]
    figure = new_figure(7, sum(heights))
    axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axis, ((table, metric), several) in zip(axes, panels.items(), strict=True):
        for place, row in enumerate(several):
            scores = row["scores"][metric]
            axis.plot(scores, [place] * len(scores), ".", color="tab:blue", alpha=0.5)
            axis.plot(fmean(scores), place, "o", color="tab:blue")
            axis.hlines(place, *row.get("intervals", {}).get(metric, scores[:1] * 2))
        axis.set_yticks(range(len(several)), [_label(row, metric) for row in several])
        axis.set_ylim(len(several) - 0.5, -0.5)  # the first row on top
        axis.set_title(f"{table}: {metric}", loc="left", fontsize="medium", wrap=True)
    return figure


def _label(row: TableRow, metric: str) -> str:
    compared = row.get("compared", {}).get("metrics", {}).get(metric)
    return f"{row['row']} *" if compared and compared["p"] < SIGNIFICANT else str(row["row"])
