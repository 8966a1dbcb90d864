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
from fairseq_posattn.common.files import write_json

KERNELS = dict.fromkeys(("dman", "da"), "distance_scores")
KERNELS |= dict.fromkeys(("mtsa", "mtsa_identity"), "tensor_scores")
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


def is_wrong(ours, rough, exact):
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


def make_step(name, length, dtype, arguments):
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


def milliseconds(name, length, arguments):
    """Return the time of a step with the present tiles; raise ArithmeticError if it is wrong."""
    step = make_step(name, length, getattr(torch, arguments.dtype), arguments)
    if length <= LONGEST_CHECKED:
        exact = make_step(name, length, torch.float64, arguments)("reference")
        if is_wrong(step(), step("reference"), exact):
            raise ArithmeticError(f"wrong results at {length}")
    if arguments.device == "cuda":
        from triton.testing import do_bench  # launches back to back

        return do_bench(step)
    start = time.perf_counter()
    step()
    return 1000 * (time.perf_counter() - start)


def measure(arguments):
    """Yield a row for each choice with correct results, and store the fastest tiles."""
    dtype, device, fastest = getattr(torch, arguments.dtype), torch.device(arguments.device), []
    for name in arguments.mechanisms:
        kind = tiles_key(KERNELS[name], dtype, arguments.features)
        for tiles in itertools.islice(choices(KERNELS[name]), arguments.choices):
            searched_tiles(device)[kind] = tiles
            for module in (distance_attention, mtsa_triton):
                module.plan_of.cache_clear()
            try:
                times = [milliseconds(name, length, arguments) for length in arguments.lengths]
            except Exception as failure:  # too many resources, with various exception types
                first_line = str(failure).partition("\n")[0]
                print(f"{name} {tiles}: {type(failure).__name__}: {first_line}", flush=True)
                continue
            row = {"mechanism": name, "kind": kind, "tiles": tiles, "milliseconds": times}
            fastest = best([*fastest, row])
            yield row
    path = Path(arguments.table)
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    name = machine.describe(arguments)["device"]
    known.setdefault(name, {}).update({row["kind"]: row["tiles"] for row in fastest})
    write_json(path, known, indent=2)


def best(rows):
    """Return the row of each kind with the lowest geometric mean of times."""

    def mean(row):
        return statistics.fmean(map(math.log, row["milliseconds"]))

    kinds = dict.fromkeys(row["kind"] for row in rows)
    return [min((row for row in rows if row["kind"] == kind), key=mean) for kind in kinds]


def tables(report):
    """Return the report's Markdown: the fastest tiles of each kind."""
    rows = [
        {
            "kind": row["kind"],
            **dict(zip(Tiles._fields, map(tuple, row["tiles"]), strict=True)),
            **{
                f"ms at {length}": round(ms, 3)
                for length, ms in zip(report["lengths"], row["milliseconds"], strict=True)
            },
        }
        for row in best(report["rows"])
    ]
    return {"": machine.table(rows) if rows else "No choice was correct."}


BENCHMARKS = {
    "": machine.Benchmark(
        {
            "mechanisms": (list(KERNELS), "mechanisms", KERNELS),
            "lengths": ([512, 2048], "positions"),
            "tokens": (8192, "positions of a batch"),
            "heads": (8, "attention heads"),
            "features": (64, "features per head"),
            "dtype": ("bfloat16", *machine.DEVICE["dtype"][1:]),
            "device": ("cuda", *machine.DEVICE["device"][1:]),
            "choices": (int, "number of choices to try (default: all)"),
            "table": (str(SEARCHED), "file to store the tiles in"),
        },
        measure,
        tables,
        settings=("lengths",),
    )
}

if __name__ == "__main__":
    sys.exit(0 if machine.main(BENCHMARKS, __doc__)["rows"] else 1)
