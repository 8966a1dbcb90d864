"""Time of the attention functions by length, and the kernels' best tiles.

    python benchmarks/attention.py --device cuda --json attention.json
    python benchmarks/attention.py tiles --device cuda --mechanisms dman mtsa

Every mechanism and implementation that serves the call, forward and as a training step, beside
PyTorch's attention without a mask ("plain"), on a GPU by FlashAttention-2 and by cuDNN. A batch has
--tokens positions. A ratio to the first plain attention is the median over rounds in turns. Memory,
on a GPU, is the peak of a pass beyond its inputs.

tiles: search for the kernels' best tiles, one pass after the other. A choice must reproduce the
reference. The kernels read `TABLE` in fairseq_posattn/attention/kernels/tiles.py.
"""

import itertools
import statistics
import sys
from contextlib import nullcontext
from functools import partial

import machine
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from fairseq_posattn.attention import auto
from fairseq_posattn.attention.cases import CASES, Sizes

IMPLEMENTATIONS = ["reference", "sdpa", "triton"]
BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
ON_GPU = torch.cuda.is_available()
SIZES = {
    "tokens": (8192, "positions of a batch"),
    "heads": (8, "attention heads"),
    "features": (64, "features per head"),
    "device": ("cuda" if ON_GPU else "cpu", *machine.DEVICE["device"][1:]),
    "dtype": ("bfloat16" if ON_GPU else "float32", *machine.DEVICE["dtype"][1:]),
}


def plain(query, key, value, impl, **dropout):
    """Return plain attention by a backend of ``BACKENDS``, or by PyTorch's choice."""
    backend = BACKENDS.get(impl)
    with sdpa_kernel(backend) if backend else nullcontext():
        return F.scaled_dot_product_attention(query, key, value, **dropout)


def make_step(name, length, arguments, dtype, training=True, **options):
    """Return a function that computes a mechanism; it returns context and gradients, if any."""
    batch = max(1, arguments.tokens // length)
    sizes = Sizes(batch, arguments.heads, length, length, arguments.features)
    case = CASES["san" if name == "plain" else name]
    inputs = case.arguments(sizes, getattr(torch, dtype), arguments.device)
    attend = partial(plain if name == "plain" else case.function, **inputs, **options)
    leaves = [tensor for tensor in inputs.values() if torch.is_tensor(tensor)]

    def step(**options):
        for tensor in leaves:
            tensor.grad = None
        with torch.set_grad_enabled(training):
            context = attend(**options)
        if training:
            context.backward(context.detach())
        return [context.detach(), *(tensor.grad for tensor in leaves if tensor.requires_grad)]

    return step


def steps(arguments, length, training):
    """Return steps by name and implementation, and why the others do not serve the call."""
    pairs_gib = max(1, arguments.tokens // length) * arguments.heads * length**2 * 4 / 2**30
    fused = arguments.device == "cuda" and arguments.dtype != "float32"
    wanted = [("plain", impl) for impl in (BACKENDS if fused else ["sdpa"])]
    wanted += itertools.product(arguments.mechanisms, arguments.implementations)
    able, unable = {}, {}
    for name, impl in wanted:
        try:
            has_pairs = name != "plain" and impl in ("reference", "sdpa")
            if has_pairs and pairs_gib > arguments.largest_matrix:
                raise MemoryError(f"a tensor of all pairs has {pairs_gib:.1f} GiB")
            options = {"training": training, "impl": impl, "dropout_p": arguments.dropout}
            step = make_step(name, length, arguments, arguments.dtype, **options)
            step()
            able[name, impl] = step
        except Exception as error:  # compilers and launches have various exception types
            unable[name, impl] = str(error).splitlines()[0].split(";")[0]
    return able, unable


def measure(arguments):
    """Yield a row for each length, pass, mechanism and implementation."""
    on_gpu = arguments.device == "cuda"
    rounds = arguments.rounds, arguments.warmup, arguments.device
    for length, which in itertools.product(arguments.lengths, ("forward", "training")):
        able, unable = steps(arguments, length, which == "training")
        seconds = machine.take_turns(f"{length} {which}", able, *rounds)
        for name, impl in (*able, *unable):
            row = {"mechanism": name, "implementation": impl, "length": length, "pass": which}
            if times := seconds.get((name, impl)):
                peak = machine.peak_bytes(able[name, impl], "cuda") / 2**20 if on_gpu else None
                row |= {"milliseconds": machine.milliseconds(times, digits=3), "peak_mib": peak}
                yield row | machine.compare(times, next(iter(seconds.values())))
            else:
                yield row | {"reason": unable[name, impl]}


def tables(report):
    """Return the report's Markdown: the measurements, and what was not measured."""
    rows, left_out = {}, {}
    for row in report["rows"]:
        if "reason" in row:
            what = f"{row['mechanism']} by {row['implementation']}", row["reason"]
            left_out.setdefault(what, {})[str(row["length"])] = None
            continue
        names = {key: row[key] for key in ("mechanism", "length", "pass")}
        cells = rows.setdefault(tuple(names.values()), names)
        if row["mechanism"] == "plain":
            cells.setdefault("ms", f"{row['milliseconds']:.3f}")
        peak = "" if row["peak_mib"] is None else f", {row['peak_mib']:.1f} MiB"
        cells[row["implementation"]] = f"{machine.ratio(row)}{peak}"
    texts = [machine.table(list(rows.values()))]
    if left_out:
        reasons = (f"{x} at {', '.join(at)} ({reason})" for (x, reason), at in left_out.items())
        texts.append(f"Not measured: {'; '.join(reasons)}.")
    return {"": "\n\n".join(texts)}


KERNELS = {"dman": "distance_scores", "da": "distance_scores"}
KERNELS |= {"mtsa": "tensor_scores", "mtsa_identity": "tensor_scores"}
LONGEST_CHECKED = 1024
# Rows, warps, stages and registers of tiles of 64 keys to try, by pass.
CHOICES = {
    "forward": ((64, 4, 3), (64, 4, 2), (64, 4, 1), (128, 4, 2), (128, 8, 2), (128, 8, 3)),
    "queries": ((64, 4, 1), (64, 4, 2), (64, 4, 3), (64, 8, 1), (64, 8, 2)),
    "keys": ((64, 4, 1, 168), (64, 4, 3, 168), (64, 4, 1), (64, 4, 2), (64, 4, 3), (32, 8, 1)),
}


def milliseconds(name, length, arguments):
    """Return the time of a step with the present tiles; raise ArithmeticError if it is wrong."""
    step = make_step(name, length, arguments, arguments.dtype)
    if length <= LONGEST_CHECKED:
        exact = make_step(name, length, arguments, "float64")(impl="reference")
        ours, rough = step(impl="triton"), step(impl="reference")
        if auto.largest_error(ours, rough, exact, torch.finfo(ours[0].dtype).eps) > 1:
            raise ArithmeticError(f"wrong results at {length}")
    if arguments.device == "cpu":
        return 1000 * machine.seconds_of(partial(step, impl="triton"), "cpu")
    from triton.testing import do_bench

    return do_bench(partial(step, impl="triton"), warmup=10, rep=50)


def try_tiles(name, tiles, arguments):
    """Return the times of a choice by length, or None if it does not work."""
    from fairseq_posattn.attention.kernels import distance_attention, mtsa_triton

    CASES[name].attention.decisions.clear()  # and with it prepared launches
    for module in (distance_attention, mtsa_triton):
        module.differentiable.launches_of.cache_clear()
        module.tiles_of = lambda *kind: tiles
    try:
        return [milliseconds(name, length, arguments) for length in arguments.lengths]
    except Exception as failure:  # too many resources, with various exception types
        first_line = str(failure).partition("\n")[0]
        print(f"{name} {tiles}: {type(failure).__name__}: {first_line}", flush=True)
        return None


def measure_tiles(arguments):
    """Yield a row for each choice with correct results."""
    from fairseq_posattn.attention.kernels.tiles import Tile, Tiles, block_of, tiles_of

    device = torch.empty(0, device=arguments.device).device  # with its number
    for name in arguments.mechanisms:
        kind = f"{KERNELS[name]} {arguments.dtype} {block_of(arguments.features, 128)}"
        dtype, rows = getattr(torch, arguments.dtype), []
        tiles = tiles_of(KERNELS[name], device, dtype, arguments.features)
        for part, choices in CHOICES.items():
            for size, *options in choices[: arguments.choices]:
                tiles = tiles._replace(**{part: Tile(size, 64, *options)})
                if times := try_tiles(name, tiles, arguments):
                    row = {"mechanism": name, "kind": kind, "tiles": tiles._asdict()}
                    rows.append(row | {"milliseconds": times})
                    yield rows[-1]
            if rows:  # the next pass is tried with the best so far
                tiles = Tiles(**best(rows)[0]["tiles"])


def best(rows):
    """Return the row of each kind with the lowest geometric mean of times."""
    kinds = {}
    for row in sorted(rows, key=lambda row: statistics.geometric_mean(row["milliseconds"])):
        kinds.setdefault(row["kind"], row)
    return list(kinds.values())


def tables_of_tiles(report):
    """Return the report's Markdown: the fastest tiles of each kind."""
    rows = []
    for row in best(report["rows"]):
        tiles = {part: tuple(tile) for part, tile in row["tiles"].items()}
        times = zip(report["lengths"], row["milliseconds"], strict=True)
        columns = {f"ms at {length}": round(ms, 3) for length, ms in times}
        rows.append({"kind": row["kind"], **tiles, **columns})
    return {"": machine.table(rows) if rows else "No choice was correct."}


OPTIONS = {
    "mechanisms": (["dman", "da", "mtsa", "mtsa_identity", "mpsan"], "mechanisms", CASES),
    "implementations": (IMPLEMENTATIONS, "implementations", [*IMPLEMENTATIONS, "auto"]),
    "lengths": ([32, 64, 128, 256, 512, 1024, 2048, 4096, 8192], "positions"),
    **SIZES,
    "dropout": (0.0, "probability, also of plain"),
    "rounds": (20, "counted rounds"),
    "warmup": (5, "rounds before those"),
    "largest_matrix": (16.0 if ON_GPU else 1.0, "GiB of a float32 tensor of all pairs"),
}
SETTINGS = ("tokens", "heads", "features", "dropout", "rounds", "lengths")
OPTIONS_OF_TILES = {
    "mechanisms": (list(KERNELS), "mechanisms", KERNELS),
    "lengths": ([512, 2048], "positions"),
    **SIZES,
    "choices": (int, "number of choices to try for each pass (default: all)"),
}
BENCHMARKS = {
    "": machine.Benchmark(OPTIONS, measure, tables, SETTINGS),
    "tiles": machine.Benchmark(OPTIONS_OF_TILES, measure_tiles, tables_of_tiles, ("lengths",)),
}

if __name__ == "__main__":
    sys.exit(0 if machine.main(BENCHMARKS, __doc__)["rows"] else 1)
