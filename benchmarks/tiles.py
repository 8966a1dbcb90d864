"""Searches the sizes of tiles, warps and stages, and writes the best where the kernels look.

    python benchmarks/tiles.py --device cuda --mechanisms dman mtsa

A choice must give the reference's numbers before its time counts; of those that do, the one whose
training steps are fastest, over all lengths, goes into fairseq_posattn/attention/kernels/tiles.json
under the GPU's name, from where every call takes it.
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
from fairseq_posattn.attention.kernels.distance_attention import plan_of
from fairseq_posattn.attention.kernels.launch import TILES, Tile, kind_of_tiles, searched_tiles
from fairseq_posattn.common.files import output_file, write_json

KERNELS = {"dman": "distance_scores", "da": "distance_scores"}
KERNELS |= {"mtsa": "tensor_scores", "mtsa_identity": "tensor_scores"}
LONGEST_CHECKED = 1024


def choices(kernels):
    """Pairs of tiles, forward and backward, those that are taken without a search near the top."""
    forward = [(128, 4, 2), (128, 8, 2), (64, 4, 2), (128, 4, 3), (128, 8, 3), (64, 4, 3)]
    backward = [(64, 4, 2), (64, 8, 2), (32, 4, 2), (64, 4, 3), (64, 4, 1), (128, 8, 2)]
    for (queries, warps, stages), (other, *options) in itertools.product(forward, backward):
        # Diagonals are summed in squares; MTSA may take more queries than keys.
        keys = other if kernels == "distance_scores" else min(other, 64)
        yield Tile(queries, keys, warps, stages), Tile(other, keys, *options)


def wrong(ours, rough, exact):
    """Whether a result is further off than the kernels' self check would allow.

    That is four times what the reference is in the same type, and some roundings, of which those
    in a sum grow as the root of its size.
    """
    eps = torch.finfo(ours[0].dtype).eps
    for got, reference, right in zip(ours, rough, exact, strict=True):
        summands = max(1.0, exact[0].numel() / right.numel())
        rounding = 16 * eps * (1 + right.abs().max()) * math.sqrt(summands)
        allowed = 4 * (reference.double() - right).abs().max() + rounding
        if not (got.double() - right).abs().max() <= allowed:  # nor is what is no number
            return True
    return False


def milliseconds(step, device):
    """Of a step, its launches on a GPU back to back."""
    if device == "cuda":
        from triton.testing import do_bench

        return do_bench(step)
    start = time.perf_counter()
    step()
    return 1000 * (time.perf_counter() - start)


def step_of(name, length, dtype, arguments):
    """A function that makes a training step by an implementation, and returns its results."""
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
    """Milliseconds of a step with the tiles that are set.

    Raises:
        ArithmeticError: its results are wrong.
    """
    step = step_of(name, length, getattr(torch, arguments.dtype), arguments)
    if length <= LONGEST_CHECKED:
        exact = step_of(name, length, torch.float64, arguments)("reference")
        if wrong(step(), step("reference"), exact):
            raise ArithmeticError(f"wrong results at {length}")
    return milliseconds(step, arguments.device)


def search(name, arguments):
    """A row for each choice that gives the right results."""
    kind = kind_of_tiles(KERNELS[name], getattr(torch, arguments.dtype), arguments.features)
    rows = []
    for pair in itertools.islice(choices(KERNELS[name]), arguments.choices):
        searched_tiles(torch.device(arguments.device))[kind] = pair
        plan_of.cache_clear()
        try:
            times = [measure(name, length, arguments) for length in arguments.lengths]
        except Exception as failure:  # too many resources, by whatever name: the next choice
            first_line = str(failure).partition("\n")[0]
            print(f"{name} {pair}: {type(failure).__name__}: {first_line}", flush=True)
            continue
        rows.append({"mechanism": name, "kind": kind, "tiles": pair, "milliseconds": times})
        print(name, *map(tuple, pair), *(f"{t:.3f}" for t in times), flush=True)
    return rows


def best(rows):
    """The tiles of each kind whose steps take least: the lowest mean of the times' logarithms."""
    kinds = dict.fromkeys(row["kind"] for row in rows)
    return {
        kind: min(
            (row for row in rows if row["kind"] == kind),
            key=lambda row: statistics.fmean(map(math.log, row["milliseconds"])),
        )["tiles"]
        for kind in kinds
    }


def parse_arguments():
    parser = machine.make_parser(__doc__)
    parser.add_argument("--mechanisms", nargs="+", choices=KERNELS, default=list(KERNELS))
    parser.add_argument("--lengths", nargs="+", type=int, default=[512, 2048])
    parser.add_argument("--tokens", type=int, default=8192, help="in a batch, of all sentences")
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--features", type=int, default=64, help="of a head")
    parser.add_argument("--dtype", choices=["float32", "float16", "bfloat16"], default="bfloat16")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--choices", type=int, help="try so many; default: all")
    parser.add_argument(
        "--table", type=output_file, default=str(TILES), help="where the kernels look"
    )
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    report = machine.describe(arguments.device, arguments.dtype)
    report["lengths"] = arguments.lengths
    report["results"] = [row for name in arguments.mechanisms for row in search(name, arguments)]
    found = best(report["results"])
    for kind, pair in found.items():
        print("best:", kind, *map(tuple, pair))
    machine.keep(report, arguments.json)
    if found:
        table = Path(arguments.table)
        known = json.loads(table.read_text(encoding="utf-8")) if table.exists() else {}
        known[report["device"]] = known.get(report["device"], {}) | found
        write_json(table, known, indent=2)
    sys.exit(0 if found else 1)


if __name__ == "__main__":
    main()
