"""Memory and time of classifiers."""

import argparse
import subprocess
import sys

import torch
from torch import nn

from fairseq_posattn.inspection.cost import _peak_bytes, update_megabytes
from fairseq_posattn.training.models.classifier import PosAttnClassifier

CPU = torch.device("cpu")
MEGABYTE = 1 << 20


def test_the_greatest_memory_at_any_moment():
    def work():
        first = torch.zeros(3, MEGABYTE, dtype=torch.uint8)
        del first
        second = torch.zeros(2, MEGABYTE, dtype=torch.uint8)
        third = torch.zeros(2, MEGABYTE, dtype=torch.uint8)
        del second, third

    before = torch.zeros(MEGABYTE)  # is not counted
    assert 4 * MEGABYTE <= _peak_bytes(work, CPU) < 5 * MEGABYTE
    assert before.numel() == MEGABYTE


def test_memory_of_an_update(dictionary):
    """Deeper encoders keep more for their backward pass, and have more gradients."""

    def megabytes(layers):
        cfg = {"encoder": "transformer", "encoder_sublayers": "san,ffn", "encoder_layers": layers}
        cfg |= {"encoder_embed_dim": 16, "encoder_hidden_dim": 16, "encoder_ffn_embed_dim": 16}
        task = nn.Module()
        task.source_dictionary, task.max_positions = dictionary, lambda: 80
        options = {**cfg, "encoder_attention_heads": 2, "max_positions": 80}
        model = PosAttnClassifier.build_model(argparse.Namespace(**options), task)
        return update_megabytes(model, CPU)

    one, three = megabytes(1), megabytes(3)
    # 64 x 64 x 16 numbers of 4 bytes are a quarter of a megabyte; a layer keeps several of them.
    assert one > 1
    assert three > 1.5 * one


def test_the_profiler_is_quiet():
    """Of a program that loads PyTorch after the command has begun, as posattn does."""
    code = """
import sys, types
from fairseq_posattn.inspection.commands.analysis import look
def measure(args):
    import torch
    with torch.profiler.profile(profile_memory=True, acc_events=True):
        torch.ones(2)
looks = types.SimpleNamespace(RUN={"cost": measure})
sys.modules["fairseq_posattn.inspection"] = types.SimpleNamespace(looks=looks)
look(types.SimpleNamespace(command="cost"))
assert "torch" in sys.modules
"""
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (finished.returncode, finished.stderr) == (0, "")
