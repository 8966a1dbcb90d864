"""Importing and registering the plugin."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import fairseq_posattn
from fairseq_posattn.training.plugin import ERRORS, register

register()

import torch  # noqa: E402
from fairseq import checkpoint_utils  # noqa: E402
from fairseq.file_io import PathManager  # noqa: E402

from fairseq_posattn import compat  # noqa: E402
from fairseq_posattn.attention import distance_aware_attention  # noqa: E402
from fairseq_posattn.compat.command_line import explain  # noqa: E402

USER_DIR = Path(fairseq_posattn.__file__).parent


def test_registering_again_changes_nothing():
    attributes = [(checkpoint_utils, "load_checkpoint_to_cpu"), (PathManager, "copy")]
    before = [getattr(*attribute) for attribute in attributes]
    safe = set(torch.serialization.get_safe_globals())
    register()
    assert [getattr(*attribute) for attribute in attributes] == before
    assert set(torch.serialization.get_safe_globals()) == safe


def test_another_copy_of_the_package_does_not_patch_again(monkeypatch):
    wrapped = PathManager.copy
    source = Path(compat.saving.__file__).read_text()
    monkeypatch.setattr(compat.patching, "steps", [])
    monkeypatch.setattr(compat.patching, "targets", [])
    exec(compile(source, "another_copy", "exec"), {"__name__": "another.saving"})
    compat.apply()
    assert PathManager.copy is wrapped


# As --user-dir FOLDER, other tests start commands.
BY_USER_DIR = f"""
for user_dir in ("fairseq_posattn", "{USER_DIR}/"):
    import_user_module(Namespace(user_dir=user_dir))
"""
AFTER_FAIRSEQ = f"""
import os
from argparse import Namespace
import fairseq.models
from fairseq.utils import import_user_module
print("imported", flush=True)
for way in {[BY_USER_DIR, "import fairseq_posattn"]}:
    child = os.fork()
    if child == 0:
        exec(way)
        assert "posattn_transformer" in fairseq.models.ARCH_MODEL_REGISTRY, way
        break
    assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.slow
def test_importing_after_fairseq_registers_and_prints_nothing():
    """Each way in a process, forked from a process that has imported fairseq."""
    finished = subprocess.run(
        [sys.executable, "-c", AFTER_FAIRSEQ],
        cwd=USER_DIR.parent,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert finished.returncode == 0, finished.stdout
    assert finished.stdout.partition("imported\n")[1:] == ("imported\n", "")


def test_an_implementation_that_cannot_serve_a_model_is_named_with_its_flag():
    x, weights = torch.ones(1, 2, 3, 4), (torch.ones(2), torch.ones(2))
    program = compile("call()", "/somewhere/fairseq_cli/train.py", "exec")
    with pytest.raises(ValueError) as raised:
        exec(program, {"call": lambda: distance_aware_attention(x, x, x, *weights, impl="sdpa")})
    line = explain(raised.value, raised.tb, first=ERRORS)
    why = "cannot do early_multiply, only early_add"
    assert line.startswith(f"--attention-impl: impl='sdpa' {why}; choose one of: auto")
