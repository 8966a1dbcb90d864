"""Without a GPU kernels run in Triton's interpreter, selected before they are imported."""

import importlib.util
import os
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch


def patch_language_once():
    """Keep the interpreter's patches of Triton's language, which take half of the time.

    Triton repeats them at each launch and at each call of a device function.
    """
    from triton import language
    from triton.runtime import interpreter

    patch, patched, known = interpreter._patch_lang, [], set()

    def patch_lang(function):
        names = function.__globals__
        if id(names) not in known:
            known.add(id(names))
            modules = [m for m in names.values() if m is language or m is language.core]
            if any(module not in patched for module in modules):
                patched.extend(modules)
                patch(function)
        return SimpleNamespace(restore=lambda: None)

    interpreter._patch_lang = patch_lang


def compute_without_repeated_checks():
    """Keep types of NumPy, and look for integers that overflow as compiled kernels do: not at all.

    Both take a third of the interpreter's time.
    """
    from triton.runtime import interpreter

    find, types = interpreter._get_np_dtype, {}

    def get_np_dtype(dtype):
        if dtype.name not in types:
            types[dtype.name] = find(dtype)
        return types[dtype.name]

    interpreter._get_np_dtype = get_np_dtype
    options = replace(interpreter.interpreter_builder.options, sanitize_overflow=False)
    interpreter.interpreter_builder.options = options


if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
    if importlib.util.find_spec("triton"):
        patch_language_once()
        compute_without_repeated_checks()


@pytest.fixture
def tf32():
    """Allow TF32 by the setting of PyTorch 2.9 and later; yield what has the setting."""
    matmul = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    matmul.fp32_precision = "tf32"
    yield matmul
    matmul.fp32_precision = before
