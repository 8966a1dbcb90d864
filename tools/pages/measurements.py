"""Measurements of speed and memory: the Markdown that the programs in benchmarks/ wrote."""

import re
from collections.abc import Callable
from functools import partial

from fairseq_posattn.recipes.results import read, read_object
from fairseq_posattn.recipes.tables import markdown_table
from tools.pages.tables import Results

EMPTY = "Not measured yet."
MECHANISMS = ("mpsan", "mtsa", "cspan", "da_transformer", "dman")
# The files of each block, in benchmarks/results.
FILES = {
    "speed of training": "training_cpu*.md",
    "speed of switches": "switches_cpu*.md",
    "speed of launches": "launches.md",
    "speed of translating": "decoding_cpu*.md",
    "speed of preparing": "preparation_cpu*.md",
    "speed of serving": "serving_cpu.md",
    "speed from text to text": "text_translation_cpu*.md",
    "speed of classifying": "classification_cpu*.md",
    "speed by length": "sequence_length_cpu.md",
    "subwords": "subwords_cpu*.md",
    "compiled": "kernels.md",
    "counted": "launches_attention.md",
    "times": "gpu/attention_[!p]*.md",
    "times of positions": "gpu/attention_positions.md",
    "updates": "gpu/[!a]*.md",  # of training, and of whole models
    "scale": "scale.md",
    "scale here": "scale_here.md",
    "scale inputs": "scale_inputs.md",
}


def include(pattern: str, results: Results) -> str:
    """Return the text of the matching files; tables with the same header become one."""
    blocks: dict[tuple[str, ...], list[list[str]]] = {}
    for path in sorted(results.benchmarks.glob(pattern)):
        for block in read(path).strip().split("\n\n"):
            header, *rows = [_cells(line) for line in block.split("\n")]
            blocks.setdefault(tuple(header), []).extend(rows[1:])
    texts = [markdown_table(header, rows) if rows else header[0] for header, rows in blocks.items()]
    return "\n\n".join(texts) or EMPTY


def _cells(line: str) -> list[str]:
    """Return the cells of a table's row; a paragraph's line is one cell."""
    if not line.startswith("|"):
        return [line]
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def in_short(results: Results) -> str:
    """Return a list of the models' costs over those of plain attention."""
    lines = []
    for what, pattern, int8 in (
        ("Training DMAN", "training_cpu*.json", False),
        ("Translating with DMAN", "decoding_cpu*.json", False),
        ("Translating with DMAN in int8", "decoding_cpu*.json", True),
    ):
        reports = map(read_object, results.benchmarks.glob(pattern))
        rows = [row for report in reports for row in report["rows"]]
        ratios = [row["time_ratio"] for row in rows if row.get("int8", False) == int8]
        if ratios:
            span = f"{min(ratios):.2f} to {max(ratios):.2f}"
            text = f"- {what} takes {span} times as long as with fairseq's Transformer of its size."
            lines.append(text)
    for path in results.benchmarks.glob("classification_cpu_intel.json"):
        costs = {row["name"]: row["time_ratio"] for row in read_object(path)["rows"]}
        names = [name for name in MECHANISMS if f"{name}_classifier" in costs]
        each = ", ".join(f"{name} {costs[f'{name}_classifier']:.2f}" for name in names)
        what = "Training classifiers on an Intel Xeon, in times of a Transformer of their width"
        lines.append(f"- {what}: {each}.")
    return "\n".join(lines) or EMPTY


BLOCKS: dict[str, Callable[[Results], str]] = {
    **{name: partial(include, pattern) for name, pattern in FILES.items()},
    "speed in short": in_short,
}
