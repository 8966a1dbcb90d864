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


def share_shapes():
    """Make the shape of blocks once for its sizes, which takes a quarter of the time."""
    from triton.language import core

    init_type, init_tensor, shapes, numbers = core.block_type.__init__, core.tensor.__init__, {}, {}

    def share_in_type(self, element_ty, shape):
        sizes = tuple(getattr(size, "value", size) for size in shape)
        if sizes not in shapes:
            init_type(self, element_ty, shape)
            shapes[sizes] = self.shape, self.numel, str(self.shape)
        self.element_ty, (self.shape, self.numel, name) = element_ty, shapes[sizes]
        self.name = f"<{name}, {element_ty}>"

    def share_in_tensor(self, handle, type):
        sizes = tuple(type.shape) if type.is_block() else ()
        if sizes not in numbers:
            init_tensor(self, handle, type)
            numbers[sizes] = self.shape, self.numel
        self.handle, self.type, self.dtype = handle, type, type.scalar
        self.shape, self.numel = numbers[sizes]

    core.block_type.__init__, core.tensor.__init__ = share_in_type, share_in_tensor


if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
    if importlib.util.find_spec("triton"):
        patch_language_once()
        compute_without_repeated_checks()
        share_shapes()


@pytest.fixture
def tf32():
    """Allow TF32 by the setting of PyTorch 2.9 and later; yield what has the setting."""
    matmul = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    matmul.fp32_precision = "tf32"
    yield matmul
    matmul.fp32_precision = before
