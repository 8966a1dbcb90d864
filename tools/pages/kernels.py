"""What is known of the fused kernels: the tables of docs/fused_attention.md."""

from collections.abc import Callable
from typing import Any

from tools.pages.results import Results

EMPTY = "Not measured yet."
H200 = 4.8e12  # bytes a second through its memory, says the vendor


def markdown(rows: list[dict[str, Any]]) -> str:
    """A table of rows, or that there is none."""
    from tabulate import tabulate  # only here: a page without a table needs nothing beside Python

    return str(tabulate(rows, headers="keys", tablefmt="github")) if rows else EMPTY


def compiled(results: Results) -> str:
    """What the compiler makes of the kernels, but for what the page says of all."""
    rows = [row for report in results.reports("kernels.json") for row in report["kernels"]]
    shared = "dtype", "length"
    return markdown([{k: v for k, v in row.items() if k not in shared} for row in rows])


def counted(results: Results) -> str:
    """Launches, and bytes through tensors of all pairs; what these take at least."""
    rows = [row for report in results.reports("traffic.json") for row in report["rows"]]
    text = markdown(rows)
    for row in rows:
        if (row["mechanism"], row["implementation"]) == ("dman", "reference"):
            a_pair = (row["bytes forward"] + row["bytes backward"]) / H200
            longest = a_pair * 32 * 8192**2
            text += (
                f"\n\nBy these bytes alone, at the {H200 / 1e12:.1f} TB/s that the vendor gives "
                "for an H200, the reference of DMAN cannot train faster than "
                f"{a_pair * 1e12:.0f} ps a pair: {1000 * longest:.0f} ms for a sentence of 8192 "
                "and 32 heads."
            )
    return text


def host(results: Results) -> str:
    """Launches, and microseconds of the host."""
    return markdown([row for report in results.reports("host.json") for row in report["rows"]])


def times(results: Results) -> str:
    """A training step's time over plain attention's, by length."""
    reports = results.reports("gpu/attention_*.json")
    measured = [r for report in reports for r in report["results"] if r["pass"] == "training"]
    lengths = sorted({result["length"] for result in measured})
    rows: dict[tuple[str, str], dict[Any, Any]] = {}
    for result in sorted(measured, key=lambda result: int(result["length"])):
        name = result["mechanism"], result["implementation"]
        row = rows.setdefault(name, {"mechanism": name[0], "implementation": name[1]})
        row |= {length: row.get(length) for length in lengths}
        row[result["length"]] = round(result["time_ratio"], 2)
    return markdown(list(rows.values()))


def end_to_end(results: Results) -> str:
    """Whole models beside stock ones of as many parameters."""
    reports = [("training", report) for report in results.reports("gpu/training_*.json")]
    reports += [("translation", report) for report in results.reports("gpu/decoding_*.json")]
    rows = []
    for what, report in reports:
        for pair in report["pairs"]:
            row = {"architecture": pair["arch"], "beside": pair["stock"], "what": what}
            rows.append(row | {"time over stock's": pair["time_ratio"]})
    return markdown(rows)


def parts(results: Results) -> str:
    """Where an update's time goes, of ours and of the stock model."""
    rows = []
    for report in results.reports("gpu/update_*.json"):
        for pair in report["pairs"]:
            for part in pair["parts"]:
                row = {"architecture": pair["arch"], "part": part["part"]}
                row |= {"ms": part["milliseconds"], "stock's ms": part["stock_milliseconds"]}
                row |= {"launches": part["launches"], "stock's launches": part["stock_launches"]}
                rows.append(row)
    return markdown(rows)


def tiles(results: Results) -> str:
    """The fastest of the tiles that were tried, forward and backward, and its time at lengths."""
    rows = []
    for report in results.reports("gpu/tiles_*.json"):
        if report["results"]:
            best = min(report["results"], key=lambda row: float(sum(row["milliseconds"])))
            forward, backward = map(str, best["tiles"])
            row = {"kind": best["kind"], "forward": forward, "backward": backward}
            times = zip(report["lengths"], best["milliseconds"], strict=True)
            rows.append(row | {f"ms at {length}": round(ms, 3) for length, ms in times})
    return markdown(rows)


PLACES: dict[str, Callable[[Results], str]] = {
    "compiled": compiled,
    "counted": counted,
    "host": host,
    "times": times,
    "end to end": end_to_end,
    "parts of an update": parts,
    "tiles": tiles,
}
