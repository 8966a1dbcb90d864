"""Memory and time of a training step by sentence length: Figure 1(a, b) of MTSA.

    python benchmarks/sequence_length.py

As in the paper: 64 sentences, 300 features, MTSA beside other encoders, which take turns. A step
has no optimizer. Memory is its peak beyond parameters and input, on a CPU in a process for each.
"""

import itertools

import machine
import torch
from torch import nn

from fairseq_posattn.model.encoders import ENCODERS
from fairseq_posattn.training.flags import SentenceEncoderConfig

# Values of --encoder, by the names of the figure
MECHANISMS = {
    **{"Bi-LSTM": "bilstm", "Bi-GRU": "bigru", "CNN": "cnn", "Hrchy-CNN": "hierarchical_cnn"},
    **{"multi-head": "attention", "MTSA": "mtsa", "DiSAN": "disan", "Bi-BloSAN": "bi_blosan"},
}
ENCODER = {"encoder_attention_heads": 4, "mtsa_source": "value", "mtsa_fusion_gate": True}


def build(name, dim):
    cfg = SentenceEncoderConfig(encoder_hidden_dim=dim, dropout=0.0, **ENCODER)
    cfg.encoder = MECHANISMS[name]  # one builder makes both recurrent networks
    cfg.cnn_widths = "5,5,5" if name == "Hrchy-CNN" else cfg.cnn_widths
    encoder = ENCODERS[cfg.encoder](cfg, dim)
    return nn.Sequential(encoder, nn.Linear(dim, dim)) if name == "multi-head" else encoder


def training_step(module, shape, device):
    tokens = torch.randn(shape, device=device)
    return lambda: module(tokens).sum().backward()


def measure(arguments):
    """Yield peak bytes and the seconds of each step, by mechanism and length."""
    peaks, turns, left_out, device = {}, {}, set(), arguments.device
    lengths, features = arguments.lengths, arguments.features
    for length, longer in itertools.zip_longest(lengths, lengths[1:], fillvalue=0):
        for name in arguments.mechanisms:
            if name in left_out:
                continue
            module = build(name, features).to(device)
            first = training_step(module, (2, 2, features), device)
            step = training_step(module, (arguments.sentences, length, features), device)
            peak = peaks[length, name] = machine.peak_bytes(step, device, first)
            turns.setdefault(length, {})[name] = step
            if peak * (longer / length) ** 2 > arguments.memory * 2**30:
                left_out.add(name)
    # Times come last: processes are forked above, before PyTorch has threads.
    for length, steps in turns.items():
        times = machine.take_turns(f"{length} tokens", steps, arguments.steps, 1, device)
        for name, seconds in times.items():
            row = {"mechanism": name, "length": length, "bytes": peaks[length, name]}
            yield row | {"seconds": seconds}


def tables(report):
    lengths = sorted({row["length"] for row in report["rows"]})
    rows = {}
    for point in report["rows"]:
        name, mib = point["mechanism"], point["bytes"] / 2**20
        row = rows.setdefault(name, {"MiB, ms": name} | dict.fromkeys(map(str, lengths)))
        ms = machine.milliseconds(point["seconds"], digits=3)
        row[str(point["length"])] = f"{mib:,.0f}, {ms:,.0f}"
    return {"": machine.table(list(rows.values()))}


OPTIONS = {
    "lengths": ([8, 16, 32, 48, 64, 96, 128, 192, 256], "tokens"),
    "mechanisms": (list(MECHANISMS), "mechanisms", MECHANISMS),
    "sentences": (64, "sentences in a batch"),
    "features": (300, "features of a token"),
    "steps": (3, "counted steps"),
    "device": machine.DEVICE["device"],
    "memory": (12.0, "GiB; leave out lengths at which a mechanism would need more"),
}
BENCHMARKS = {"": machine.Benchmark(OPTIONS, measure, tables, ("sentences", "features", "steps"))}

if __name__ == "__main__":
    machine.main(BENCHMARKS, __doc__)
