#!/usr/bin/env python3
"""BLEU of translations by fairseq-generate, side by side, with what the models were trained with.

Prints a table and writes the same, with settings, versions and hardware, as JSON.
"""

import argparse
import json
import logging
import os
import platform
import re
import sys
from importlib.metadata import version
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]  # runs in a checkout, too
from fairseq import checkpoint_utils  # noqa: E402
from preparation.errors import DataError  # noqa: E402
from scoring.bleu import bleu  # noqa: E402
from scoring.pairs import Pairs, read_generated  # noqa: E402

import fairseq_posattn  # noqa: E402, F401

SETTINGS = {
    "model": [
        "dropout",
        "attention_dropout",
        "activation_dropout",
        "encoder_layers",
        "decoder_layers",
        "encoder_embed_dim",
        "encoder_ffn_embed_dim",
        "decoder_ffn_embed_dim",
        "encoder_attention_heads",
    ],
    "common": ["seed", "fp16"],
    "dataset": ["max_tokens"],
    "optimization": ["lr", "update_freq"],
    "lr_scheduler": ["warmup_updates"],
}
PACKAGES = ["torch", "fairseq-fixed", "sacrebleu", "subword-nmt", "sacremoses", "numpy"]


class ResultError(Exception):
    """A file is not what this script reads; the message says which."""


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("reference", type=Path, help="the test set's English, a sentence a line")
    parser.add_argument("results", type=Path, help="JSON file to write")
    parser.add_argument(
        "runs",
        nargs="+",
        type=Path,
        metavar="CHECKPOINT TRANSLATION",
        help="of each model the checkpoint, and what fairseq-generate printed with it",
    )
    args = parser.parse_args()
    if len(args.runs) % 2:
        parser.error("each checkpoint needs a translation after it")
    return args


def read_translation(path, sentences):
    """What ``fairseq-generate --remove-bpe`` printed.

    Returns:
        The best hypotheses in the order of the test set, and fairseq's own line about BLEU.

    Raises:
        ResultError: there is not one hypothesis for each of the ``sentences``.
    """
    hypotheses, _ = read_generated(path)
    if sorted(hypotheses) != list(range(sentences)):
        raise ResultError(
            f"{path} translates {len(hypotheses):,} sentences; the reference has {sentences:,}"
        )
    own_line = re.search(r"BLEU4 = .*", path.read_text(encoding="utf-8"))
    return [hypotheses[i] for i in range(sentences)], own_line and own_line[0]


def describe_model(path):
    """Parameters, updates, time and settings of a checkpoint that fairseq-train wrote."""
    state = checkpoint_utils.load_checkpoint_to_cpu(str(path))
    models, cfg, _ = checkpoint_utils.load_model_ensemble_and_task([str(path)], state=state)
    settings = {
        name: getattr(cfg[group], name) for group, names in SETTINGS.items() for name in names
    }
    return {
        "architecture": cfg.model._name,
        "parameters": sum(parameter.numel() for parameter in models[0].parameters()),
        "updates": state["optimizer_history"][-1]["num_updates"],
        "epochs": state["extra_state"]["train_iterator"]["epoch"],
        # From the first update to the newest checkpoint, validation included, pauses not.
        "training_seconds": round(state["extra_state"]["previous_training_time"]),
        "settings": settings,
    }


def hardware():
    """The machine this runs on."""
    name = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
        name = found[1] if found else name
    machine = {"cpu": name, "cores": os.cpu_count(), "threads": torch.get_num_threads()}
    if torch.cuda.is_available():
        machine["gpu"] = torch.cuda.get_device_name()
    return machine


def score(args):
    references = args.reference.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    runs = []
    for checkpoint, translation in zip(args.runs[::2], args.runs[1::2], strict=True):
        hypotheses, own_line = read_translation(translation, len(references))
        # The text is tokenised and lower-cased already, as the published scores are.
        found = bleu(Pairs(hypotheses, references), "tokenised")
        runs.append(
            {
                **describe_model(checkpoint),
                "bleu": round(found.score, 2),
                "signature": found.signature,
                "fairseq_bleu": own_line,
            }
        )
    return {
        "test_sentences": len(references),
        "runs": runs,
        "versions": {
            "python": platform.python_version(),
            **{package: version(package) for package in PACKAGES},
        },
        "hardware": hardware(),
    }


def print_table(results):
    print(f"\n{'model':<26} {'BLEU':>6} {'parameters':>12} {'updates':>8} {'training':>10}")
    for run in results["runs"]:
        print(
            f"{run['architecture']:<26} {run['bleu']:6.2f} {run['parameters']:12,} "
            f"{run['updates']:8,} {run['training_seconds']:8,} s"
        )
    print(f"\nBLEU|{results['runs'][0]['signature']}, on tokenised, lower-cased text")
    for run in results["runs"]:
        print(f"fairseq's own, {run['architecture']}: {run['fairseq_bleu']}")


def main():
    args = parse_args()
    logging.getLogger("fairseq").setLevel(logging.WARNING)
    try:
        results = score(args)
        part = args.results.with_name(args.results.name + ".part")
        part.write_text(json.dumps(results, indent=2, default=list) + "\n", encoding="utf-8")
        part.replace(args.results)
    except (ResultError, DataError, OSError) as error:
        sys.exit(f"score: error: {error}")
    print_table(results)
    print(f"\nwritten to {args.results}")


if __name__ == "__main__":
    main()
