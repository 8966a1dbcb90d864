"""Without a GPU kernels run in Triton's interpreter, selected before they are imported."""

import importlib.util
import os
from types import SimpleNamespace

import pytest
import torch


def patch_language_once():
    """Keep the interpreter's patches of Triton's language, which take half of the time.

    Triton repeats them at each launch and at each call of a device function.
    """
    from triton import language
    from triton.runtime import interpreter

    patch, patched = interpreter._patch_lang, []

    def patch_lang(function):
        modules = [module for module in function.__globals__.values() if module is language]
        modules += [module for module in function.__globals__.values() if module is language.core]
        if any(module not in patched for module in modules):
            patched.extend(modules)
            patch(function)
        return SimpleNamespace(restore=lambda: None)

    interpreter._patch_lang = patch_lang


if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
    if importlib.util.find_spec("triton"):
        patch_language_once()


@pytest.fixture
def tf32():
    """Allow TF32 by the setting of PyTorch 2.9 and later; yield what has the setting."""
    matmul = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    matmul.fp32_precision = "tf32"
    yield matmul
    matmul.fp32_precision = before
