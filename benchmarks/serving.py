"""Lines a second of ``posattn serve``: clients at once beside one at a time.

    python benchmarks/serving.py --checkpoint checkpoints/de-en --text test.de

Each client sends one line a request and waits for the answer. All numbers of clients take turns.
"""

import contextlib
import json
import statistics
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import machine

OPTIONS = {
    "checkpoint": (..., "model to serve, or its folder"),
    "text": (..., "file of source sentences"),
    "lines": (500, "sentences of it in each round"),
    "clients": ([1, 4, 16], "clients at once"),
    "rounds": (3, "rounds"),
}


@contextlib.contextmanager
def server(checkpoint):
    """Serve a model at a free port; yield the address."""
    command = ["posattn", "serve", checkpoint, "--cpu", "--port", "0"]
    process, line = subprocess.Popen(command, stderr=subprocess.PIPE, text=True), ""
    try:
        while not line.startswith("serving "):
            last, line = line, process.stderr.readline()
            if not line:
                sys.exit(last)
        yield line.split()[-1]
    finally:
        process.terminate()
        process.communicate()


def ask(url, **body):
    data, headers = json.dumps(body).encode(), {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url, data, headers)) as answer:
        answer.read()


def measure(arguments):
    lines = Path(arguments.text).read_text(encoding="utf-8").splitlines()[: arguments.lines]
    with server(arguments.checkpoint) as url:
        with urllib.request.urlopen(f"{url}/languages") as answer:
            pair = json.load(answer)[0]
        to = {"url": f"{url}/translate", "source": pair["code"], "target": pair["targets"][0]}
        ask(q=lines[:32], **to)  # warm-up
        rates = {clients: [] for clients in arguments.clients}
        for _ in range(arguments.rounds):
            for clients, measured in rates.items():
                start = time.perf_counter()
                with ThreadPoolExecutor(clients) as pool:
                    list(pool.map(lambda line: ask(q=line, **to), lines))
                measured.append(len(lines) / (time.perf_counter() - start))
    for clients, measured in rates.items():
        ratios = machine.compare(measured, rates[arguments.clients[0]])
        yield {"clients": clients, "lines_a_second": statistics.median(measured), **ratios}


def cells(row, report):
    first = report["rows"][0]["clients"]
    title = f"lines a second beside {first} client{'s' * (first > 1)}"
    return {"clients at once": row["clients"], title: machine.ratio(row)}


def describe(arguments):
    return machine.describe(arguments) | {"clock": "wall"}


TABLES, SETTINGS = machine.one_table(cells), ("lines", "rounds")
BENCHMARKS = {"": machine.Benchmark(OPTIONS, measure, TABLES, SETTINGS, describe)}

if __name__ == "__main__":
    machine.main(BENCHMARKS, __doc__)
