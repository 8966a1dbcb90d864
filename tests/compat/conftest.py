"""The plugin is registered, and fairseq's original functions can be restored."""

import inspect

import fairseq_cli.train  # noqa: F401, its loop is patched, too
import pytest
import torch

from fairseq_posattn.training.plugin import register

register()


@pytest.fixture
def restore(monkeypatch):
    """Return ``restore(owner, name)``, which puts back fairseq's function for this test."""

    def restore(owner, name):
        function = inspect.getattr_static(owner, name)
        kind = type(function) if isinstance(function, (classmethod, staticmethod)) else None
        original = inspect.unwrap(function.__func__ if kind else function)
        monkeypatch.setattr(owner, name, kind(original) if kind else original)

    return restore


@pytest.fixture(autouse=True)
def without_a_gpu(monkeypatch):
    """Make the device number None, as on the CPU; fairseq's flat weights ask for it."""
    monkeypatch.setattr(torch.cuda, "current_device", lambda: None)
