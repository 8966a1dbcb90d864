"""Search for the kernels' best tile sizes, warps and stages, and store them for the GPU.

    python benchmarks/tiles.py --device cuda --mechanisms dman mtsa

A choice must reproduce the reference before it is timed. The choice with the fastest training
steps over all lengths is stored in fairseq_posattn/attention/kernels/tiles.json under the GPU's
name, where the kernels look it up.
"""

import itertools
import json
import math
import statistics
import sys
import time
from pathlib import Path

import machine
import torch

from fairseq_posattn.attention.cases import CASES, Sizes
from fairseq_posattn.attention.kernels import distance_attention, mtsa_triton
from fairseq_posattn.attention.kernels.tiles import (
    SEARCHED,
    Tile,
    Tiles,
    searched_tiles,
    tiles_key,
)
from fairseq_posattn.common.files import output_file, write_json

KERNELS = {"dman": "distance_scores", "da": "distance_scores"}
KERNELS |= {"mtsa": "tensor_scores", "mtsa_identity": "tensor_scores"}
LONGEST_CHECKED = 1024


def choices(kernels):
    """Yield tiles of the forward pass and of both gradients; the defaults come early."""
    forward = [(128, 4, 2), (128, 8, 2), (64, 4, 2), (128, 4, 3), (128, 8, 3)]
    queries = [(64, 4, 2), (64, 8, 2), (32, 4, 2), (64, 4, 1)]
    keys = [(64, 4, 2), (32, 8, 2), (32, 4, 2), (64, 8, 1)]
    for first, second, third in itertools.product(forward, queries, keys):
        # Diagonals are summed in squares; all have equally many keys.
        block = second[0] if kernels == "distance_scores" else 64
        yield Tiles(*(Tile(rows, block, *options) for rows, *options in (first, second, third)))


def wrong(ours, rough, exact):
    """Return whether a result is further off than the kernels' self check allows.

    It allows four times the reference's error in the same type, and rounding errors, which grow
    with the square root of the number of summands.
    """
    eps = torch.finfo(ours[0].dtype).eps
    for got, reference, right in zip(ours, rough, exact, strict=True):
        summands = max(1.0, exact[0].numel() / right.numel())
        rounding = 16 * eps * (1 + right.abs().max()) * math.sqrt(summands)
        allowed = 4 * (reference.double() - right).abs().max() + rounding
        if not (got.double() - right).abs().max() <= allowed:  # true for NaN
            return True
    return False


def milliseconds(step, device):
    """Return the time of a step, with launches on a GPU back to back."""
    if device == "cuda":
        from triton.testing import do_bench

        return do_bench(step)
    start = time.perf_counter()
    step()
    return 1000 * (time.perf_counter() - start)


def step_of(name, length, dtype, arguments):
    """Return a function that runs a training step by an implementation and returns its results."""
    batch = max(1, arguments.tokens // length)
    sizes = Sizes(batch, arguments.heads, length, length, arguments.features)
    given = CASES[name].arguments(sizes, dtype, arguments.device)
    leaves = [tensor for tensor in given.values() if torch.is_tensor(tensor)]

    def step(impl="triton"):
        for tensor in leaves:
            tensor.grad = None
        context = CASES[name](given, impl=impl)
        context.backward(torch.ones_like(context))
        return [context.detach(), *(tensor.grad for tensor in leaves)]

    return step


def measure(name, length, arguments):
    """Return milliseconds of a step with the present tiles.

    Raises:
        ArithmeticError: its results are wrong.
    """
    step = step_of(name, length, getattr(torch, arguments.dtype), arguments)
    if length <= LONGEST_CHECKED:
        exact = step_of(name, length, torch.float64, arguments)("reference")
        if wrong(step(), step("reference"), exact):
            raise ArithmeticError(f"wrong results at {length}")
    return milliseconds(step, arguments.device)


def search(name, arguments, report):
    """Append a row to the report for each choice with correct results; save it after each."""
    kind = tiles_key(KERNELS[name], getattr(torch, arguments.dtype), arguments.features)
    for pair in itertools.islice(choices(KERNELS[name]), arguments.choices):
        searched_tiles(torch.device(arguments.device))[kind] = pair
        for module in (distance_attention, mtsa_triton):
            module.plan_of.cache_clear()
        try:
            times = [measure(name, length, arguments) for length in arguments.lengths]
        except Exception as failure:  # too many resources, with various exception types
            first_line = str(failure).partition("\n")[0]
            print(f"{name} {pair}: {type(failure).__name__}: {first_line}", flush=True)
            continue
        row = {"mechanism": name, "kind": kind, "tiles": pair, "milliseconds": times}
        report["results"].append(row)
        machine.save("tiles", report, arguments.json, tables)
        print(name, *map(tuple, pair), *(f"{t:.3f}" for t in times), flush=True)


def best(rows):
    """Return the tiles of each kind with the lowest geometric mean of times."""
    kinds = dict.fromkeys(row["kind"] for row in rows)
    return {
        kind: min(
            (row for row in rows if row["kind"] == kind),
            key=lambda row: statistics.fmean(map(math.log, row["milliseconds"])),
        )["tiles"]
        for kind in kinds
    }


def tables(report):
    """Return the report's Markdown: the fastest tiles of each kind."""
    rows = []
    for kind, pair in best(report["results"]).items():
        times = next(row["milliseconds"] for row in report["results"] if row["tiles"] == pair)
        row = {"kind": kind} | dict(zip(Tiles._fields, map(tuple, pair), strict=True))
        lengths = zip(report["lengths"], times, strict=True)
        rows.append(row | {f"ms at {length}": round(ms, 3) for length, ms in lengths})
    return {"": machine.table(rows) if rows else "No choice was correct."}


def parse_arguments():
    parser = machine.make_parser(__doc__)
    parser.add_argument("--mechanisms", nargs="+", choices=KERNELS, default=list(KERNELS))
    parser.add_argument("--lengths", nargs="+", type=int, default=[512, 2048])
    parser.add_argument("--tokens", type=int, default=8192, help="in a batch, of all sentences")
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--features", type=int, default=64, help="of a head")
    parser.add_argument("--dtype", choices=["float32", "float16", "bfloat16"], default="bfloat16")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--choices", type=int, help="number of choices to try (default: all)")
    parser.add_argument(
        "--table", type=output_file, default=str(SEARCHED), help="file to store them in"
    )
    return parser.parse_args()


def main():
    """Search, write the report and store the fastest tiles."""
    arguments = parse_arguments()
    report = machine.describe(arguments.device, arguments.dtype)
    report["lengths"] = arguments.lengths
    report["results"] = []
    for name in arguments.mechanisms:
        search(name, arguments, report)
    machine.finish("tiles", report, arguments.json, tables)
    fastest = best(report["results"])
    if fastest:
        table = Path(arguments.table)
        known = json.loads(table.read_text(encoding="utf-8")) if table.exists() else {}
        known[report["device"]] = known.get(report["device"], {}) | fastest
        write_json(table, known, indent=2)
    sys.exit(0 if fastest else 1)


if __name__ == "__main__":
    main()
