"""Memory of classifiers."""

import argparse
import subprocess
import sys

import torch
from torch import nn

from fairseq_posattn.inspection.cost import MEGABYTE, peak_bytes, update_megabytes
from fairseq_posattn.training.models.classifier import PosAttnClassifier

CPU = torch.device("cpu")


def test_peak_memory_counts_tensors_that_exist_at_once():
    def work():
        first = torch.zeros(3, MEGABYTE, dtype=torch.uint8)
        del first
        second, third = (torch.zeros(2, MEGABYTE, dtype=torch.uint8) for _ in range(2))
        del second, third

    before = torch.zeros(MEGABYTE)  # does not count
    assert 4 * MEGABYTE <= peak_bytes(work, CPU) < 5 * MEGABYTE
    assert before.numel() == MEGABYTE


def test_deeper_encoders_need_more_memory(dictionary):
    def megabytes(layers):
        cfg = {"encoder": "transformer", "encoder_sublayers": "san,ffn", "encoder_layers": layers}
        cfg |= {"encoder_embed_dim": 16, "encoder_hidden_dim": 16, "encoder_ffn_embed_dim": 16}
        task = nn.Module()
        task.source_dictionary, task.max_positions = dictionary, lambda: 80
        options = {**cfg, "encoder_attention_heads": 2, "max_positions": 80}
        model = PosAttnClassifier.build_model(argparse.Namespace(**options), task)
        return update_megabytes(model, CPU)

    one, three = megabytes(1), megabytes(3)
    # 64 x 64 x 16 numbers of 4 bytes are a quarter of a megabyte; a layer stores several of them.
    assert one > 1
    assert three > 1.5 * one


def test_the_profiler_is_quiet():
    code = """
import sys, types
from fairseq_posattn.inspection.commands.analysis import analyse
def measure(args):
    import torch
    with torch.profiler.profile(profile_memory=True, acc_events=True):
        torch.ones(2)
analyses = types.SimpleNamespace(RUN={"cost": measure})
sys.modules["fairseq_posattn.inspection"] = types.SimpleNamespace(analyses=analyses)
analyse(types.SimpleNamespace(command="cost"))
assert "torch" in sys.modules
"""
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (finished.returncode, finished.stderr) == (0, "")
