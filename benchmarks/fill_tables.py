"""Writes what was measured into docs/fused_attention.md, between the marks of each table.

    python benchmarks/fill_tables.py

Tables come from the files under benchmarks/results; one that nothing was measured for says so.
"""

import argparse
import json
import re
from pathlib import Path

from tabulate import tabulate

from fairseq_posattn.files import write_text

ROOT = Path(__file__).resolve().parents[1]
EMPTY = "Not measured yet."


def read(folder, pattern):
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob(pattern))]


def markdown(rows):
    return tabulate(rows, headers="keys", tablefmt="github") if rows else EMPTY


def compiled(folder):
    """What the compiler makes of the kernels, but for what the page says of all."""
    rows = [row for report in read(folder, "kernels.json") for row in report["kernels"]]
    shared = "dtype", "length"
    return markdown([{k: v for k, v in row.items() if k not in shared} for row in rows])


def host(folder):
    """Launches, and microseconds of the host."""
    return markdown([row for report in read(folder, "host.json") for row in report["rows"]])


def times(folder):
    """A training step's time over plain attention's, by length."""
    reports = read(folder / "gpu", "attention_*.json")
    measured = [r for report in reports for r in report["results"] if r["pass"] == "training"]
    lengths = sorted({result["length"] for result in measured})
    rows = {}
    for result in sorted(measured, key=lambda result: result["length"]):
        name = result["mechanism"], result["implementation"]
        row = rows.setdefault(name, {"mechanism": name[0], "implementation": name[1]})
        row |= {length: row.get(length) for length in lengths}
        row[result["length"]] = round(result["time_ratio"], 2)
    return markdown(list(rows.values()))


def end_to_end(folder):
    """Whole models beside stock ones of as many parameters."""
    reports = [("training", r) for r in read(folder / "gpu", "training_*.json")]
    reports += [("translation", r) for r in read(folder / "gpu", "decoding_*.json")]
    rows = []
    for what, report in reports:
        for pair in report["pairs"]:
            row = {"architecture": pair["arch"], "beside": pair["stock"], "what": what}
            rows.append(row | {"time over stock's": pair["time_ratio"]})
    return markdown(rows)


def tiles(folder):
    """The fastest of the tiles that were tried, forward and backward, and its time at lengths."""
    rows = []
    for report in read(folder / "gpu", "tiles_*.json"):
        if report["results"]:
            best = min(report["results"], key=lambda row: sum(row["milliseconds"]))
            forward, backward = map(str, best["tiles"])
            row = {"kind": best["kind"], "forward": forward, "backward": backward}
            times = zip(report["lengths"], best["milliseconds"], strict=True)
            rows.append(row | {f"ms at {length}": round(ms, 3) for length, ms in times})
    return markdown(rows)


TABLES = {"compiled": compiled, "host": host, "times": times}
TABLES |= {"end to end": end_to_end, "tiles": tiles}


def filled(text, folder):
    """The page with all its tables.

    Raises:
        ValueError: the marks of a table are not there.
    """
    for name, table in TABLES.items():
        marks = re.compile(f"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
        if not marks.search(text):
            raise ValueError(f"no marks of the table {name!r}")
        content = f"\n{table(folder)}\n\n"
        text = marks.sub(lambda found, new=content: found[1] + new + found[2], text)
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "fused_attention.md")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    arguments = parser.parse_args()
    page = arguments.page.read_text(encoding="utf-8")
    write_text(arguments.page, filled(page, arguments.results))


if __name__ == "__main__":
    main()
