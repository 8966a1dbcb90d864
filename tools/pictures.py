"""Draw pictures of the documentation from measured results.

    python tools/pictures.py [FOLDER]    # default: docs/pictures

results.png shows the measured differences from plain attention; length.png the scores of the recipe
multi30k/length; sequence_length.png the report of benchmarks/sequence_length.py, as in MTSA's
Figure 1(a, b). scripts/mechanism_pictures.py draws the others. look.png is the page of
`posattn look` for the quickstart's model in a browser:

    chromium --headless --hide-scrollbars --window-size=1100,850 --screenshot=look.png \\
        "file://$PWD/page.html#sentence=1&place=1&head=2&word=4"
"""

import argparse
import sys
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from matplotlib.lines import Line2D  # noqa: E402

from fairseq_posattn.common.figures import COLORS, line_style, new_figure, write_picture  # noqa: E402
from fairseq_posattn.recipes.results import read_object  # noqa: E402
from fairseq_posattn.recipes.tables import figure_by_length, name_of  # noqa: E402
from tools.pages.command import results_of  # noqa: E402
from tools.pages.findings import MECHANISMS, Finding, find  # noqa: E402
from tools.pages.tables import Results  # noqa: E402

ORANGE, GRAY = COLORS[1], "#777777"
# The tables of the results, by the starts of their titles.
FAMILIES = ("Mechanisms in translation", "All classifiers, small", "Semantic roles")
BY_LENGTH = "Beyond the lengths of training, small models"
LIMIT = 6.0  # of the horizontal axes, in points


def draw_results(results: Results, path: Path) -> None:
    """Draw the differences from plain attention with their 95% intervals, by mechanism."""
    findings = [f for f in find(results) if f.family.startswith(FAMILIES) and f.tested]
    names = list(dict.fromkeys(map(_label, findings)))
    drawn = {finding.mechanism.removesuffix(" (paper form)") for finding in findings}
    panels = [name for name in dict.fromkeys(MECHANISMS.values()) if name in drawn]
    figure = new_figure(2.1 * len(panels) + 1.6, 0.28 * len(names) + 1.3)
    axes = figure.subplots(1, len(panels), sharey=True)
    for axis, panel in zip(axes, panels, strict=True):
        axis.axvline(0, color="black", linewidth=0.8)
        axis.set_title(panel, fontsize=11)
        axis.set(xlim=(-LIMIT, LIMIT), ylim=(len(names) - 0.4, -0.6), xticks=(-5, 0, 5))
        axis.set_yticks(range(len(names)), names)
        axis.grid(alpha=0.25)
        for finding in findings:
            if finding.mechanism.removesuffix(" (paper form)") == panel:
                shift = 0.0 if finding.mechanism == panel else 0.3
                _draw(axis, finding, names.index(_label(finding)) + shift)
    figure.suptitle("difference from plain attention, in points, with 95% interval", fontsize=11)
    handles = [
        Line2D([], [], color=color, marker=marker, label=label)
        for label, marker, color in (
            ("significant (p < 0.05, uncorrected)", "o", ORANGE),
            ("not significant", "o", GRAY),
            ("DMAN, paper form", "D", GRAY),
        )
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    write_picture(figure, str(path))


def _label(finding: Finding) -> str:
    unit = " x 100" if finding.metric == "pearson" else ""
    return f"{finding.data}, {name_of(finding.metric)}{unit}"


def _draw(axis: Any, finding: Finding, height: float) -> None:
    """Draw a difference; beyond the axis its number stands at the border."""
    assert finding.tested
    scale = 100.0 if finding.metric == "pearson" else 1.0
    low, high = (scale * end for end in finding.tested["metrics"][finding.metric]["interval"])
    size = scale * finding.difference
    color = GRAY if finding.verdict == "undecided" else ORANGE
    if abs(size) > LIMIT:
        side = 1 if size > 0 else -1
        axis.text(side * 0.97 * LIMIT, height, f"{size:+.1f} →", color=color, fontsize=9)
        axis.texts[-1].set(ha="right" if side > 0 else "left", va="center")
        return
    axis.plot([low, high], [height, height], color=color, linewidth=1.6)
    marker = "D" if finding.mechanism.endswith("(paper form)") else "o"
    axis.plot([size], [height], marker, color=color, markersize=4.5)


def draw_lengths(report: dict[str, Any], path: Path) -> None:
    """Draw memory and time of a training step by length."""
    figure = new_figure(10, 4)
    axes, points = figure.subplots(1, 2), report["rows"]
    titles = ("peak memory of a training step, MiB", "time of a training step, ms")
    for number, name in enumerate(dict.fromkeys(point["mechanism"] for point in points)):
        of_name = [point for point in points if point["mechanism"] == name]
        lengths = [point["length"] for point in of_name]
        memory = [point["bytes"] / 2**20 for point in of_name]
        time = [1000 * median(point["seconds"]) for point in of_name]
        for axis, values in zip(axes, (memory, time), strict=True):
            axis.plot(lengths, values, marker="o", label=name, **line_style(number))
    for axis, title in zip(axes, titles, strict=True):
        axis.set(xlabel="tokens in a sentence", yscale="log", title=title)
        axis.set_xscale("log", base=2)
        axis.set_xticks(sorted({point["length"] for point in points}))
        axis.xaxis.set_major_formatter("{x:.0f}")
        axis.minorticks_off()
        axis.grid(alpha=0.3)
    axes[0].legend()
    text = "{sentences} sentences, {features} features, {dtype}, {device}".format(**report)
    figure.suptitle(text, fontsize=9)
    write_picture(figure, str(path))


def main() -> None:
    """Draw all pictures."""
    style = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=style)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "docs/pictures")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    results = results_of(ROOT)
    draw_results(results, folder / "results.png")
    rows = [row for row in results.rows.values() if row["table"].startswith(BY_LENGTH)]
    write_picture(figure_by_length(rows), str(folder / "length.png"))
    report = read_object(results.benchmarks / "sequence_length_cpu.json")
    draw_lengths(report, folder / "sequence_length.png")


if __name__ == "__main__":
    main()
