"""Scores by the length of sentences: one result for each range of lengths."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy
import regex

from fairseq_posattn.common.figures import COLORS, new_figure
from fairseq_posattn.scoring.outputs import Pairs
from fairseq_posattn.scoring.rouge import UNSPACED
from fairseq_posattn.scoring.significance import Group, compare, corrected

# Zero-width spaces between words of Khmer, marks between syllables of Tibetan and Ethiopic words.
BETWEEN = r"\u200b\u0f0b\u0f0c\u1361"
TOKEN = regex.compile(rf"(?V1){UNSPACED}\p{{M}}*|[\S--[{BETWEEN}{UNSPACED}]]+")
Bucket = dict[str, Any]  # see :func:`measure`
Ranges = Mapping[str, Sequence[int]]  # indices of sentences by range of lengths


def length_of(line: str) -> int:
    """Return the words between spaces; without spaces letters, or syllables of Tibetan."""
    return len(TOKEN.findall(line))


def divide(texts: Sequence[str], limits: Sequence[int]) -> dict[str, list[int]]:
    """Return the indices of the texts in each range of lengths; limits are inclusive."""
    bounds = zip([0, *(limit + 1 for limit in limits)], limits, strict=False)
    names = [*(f"{least} to {most}" for least, most in bounds), f"{limits[-1] + 1} or more"]
    ranges: dict[str, list[int]] = {name: [] for name in names}
    for index, text in enumerate(texts):
        ranges[names[bisect_left(limits, length_of(text))]].append(index)
    return ranges


def measure(
    runs: Sequence[Pairs],
    ranges: Ranges,
    groups: Mapping[str, Group],
    baselines: Mapping[str, Group],
) -> list[Bucket]:
    """Return the scores of ``groups`` in each range, for JSON.

    ``length_ratio`` is of words of hypotheses and references; p is also corrected for the number of
    ranges (Holm). Empty ranges have no scores.
    """
    buckets = []
    for name, indices in ranges.items():
        written, wanted = (
            sum(length_of(getattr(run, side)[index]) for run in runs for index in indices)
            for side in ("hypotheses", "references")
        )
        ratio = written / wanted if wanted else None
        bucket: Bucket = {"length": name, "sentences": len(indices), "length_ratio": ratio}
        bucket |= {"scores": {}, "significance": {}}
        for metric, group in groups.items() if indices else ():
            part = _select(group, indices)
            score = {"score": part.mean, "interval": part.interval}
            score |= {} if part.deviation is None else {"deviation": part.deviation}
            bucket["scores"][metric] = score
            if metric in baselines:
                compared = compare(part, _select(baselines[metric], indices))
                bucket["significance"][metric] = asdict(compared)
        buckets.append(bucket)
    for metric in groups if baselines else ():
        tested = [each["significance"][metric] for each in buckets if each["significance"]]
        ps = corrected([test["p"] for test in tested])
        for test, (holm, _) in zip(tested, ps, strict=True):
            test["p_holm"] = holm
    return buckets


def statistics(ranges: Ranges, groups: Mapping[str, Group]) -> dict[str, Group]:
    """Return groups by range, "bleu 13 to 24"; sentences outside of it add zero to its sums."""
    named = {}
    for name, indices in ranges.items():
        for metric, group in groups.items() if indices else ():
            outside = numpy.ones(group.array.shape[1], dtype=bool)
            outside[indices] = False
            runs = group.array.copy()
            runs[:, outside] = 0
            named[f"{metric} {name}"] = replace(group, runs=runs.tolist())
    return named


def _select(group: Group, indices: Sequence[int]) -> Group:
    return replace(group, runs=[[run[index] for index in indices] for run in group.runs])


def table(buckets: Sequence[Bucket], called: Mapping[str, str], unit: str) -> list[str]:
    """Return the lines of a table; ``called`` are the scores to print by the names of JSON."""
    from tabulate import tabulate  # slow to import

    is_compared = any(bucket["significance"] for bucket in buckets)
    header = [f"{unit} length", "sentences", "length ratio"]
    for label in called.values():
        header += [f"{label} (95%)", *(["difference", "p (Holm)"] if is_compared else [])]
    rows = []
    for bucket in buckets:
        ratio = bucket["length_ratio"]
        shown = "-" if ratio is None else f"{ratio:.2f}"
        row = [bucket["length"], f"{bucket['sentences']:,}", shown]
        for metric in called:
            cells = ["-", "-", "-"]
            if score := bucket["scores"].get(metric):
                cells[0] = f"{score['score']:.2f} ({{:.2f}} to {{:.2f}})".format(*score["interval"])
            if tested := bucket["significance"].get(metric):
                p = f"{tested['p']:.4f} ({tested['p_holm']:.4f})"
                cells[1:] = f"{tested['difference']:+.2f}", p
            row += cells[: 3 if is_compared else 1]
        rows.append(row)
    alignment = ["left", *["right"] * (len(header) - 1)]
    text = tabulate(rows, header, "plain", colalign=alignment, disable_numparse=True)
    return str(text).splitlines()


def draw(buckets: Sequence[Bucket], called: Mapping[str, str], unit: str) -> Any:
    """Return a figure: a panel for each score, with intervals, and the baseline's scores."""
    figure = new_figure(1 + 0.9 * len(buckets) * len(called), 3.2)
    axes = figure.subplots(1, len(called), squeeze=False)[0]
    for axis, (metric, label) in zip(axes, called.items(), strict=True):
        for x, bucket in enumerate(buckets):
            if score := bucket["scores"].get(metric):
                axis.vlines(x, *score["interval"], color=COLORS[0])
                axis.plot(x, score["score"], "o", color=COLORS[0])
            if tested := bucket["significance"].get(metric):
                axis.plot(x + 0.15, tested["baseline"], "D", color=COLORS[1])
        axis.set_xticks(range(len(buckets)), [bucket["length"] for bucket in buckets])
        axis.set(xlabel=f"{unit} length", title=label)
        axis.grid(axis="y", alpha=0.3)
    is_compared = any(bucket["significance"] for bucket in buckets)
    axes[0].set_ylabel("score" + (" (diamonds: baseline)" if is_compared else ""))
    return figure
