"""Detection of compilation and tracing, under which nothing is cached by tensors."""

import torch


def is_traced() -> bool:
    """Return whether PyTorch is compiling or tracing."""
    return (
        torch.compiler.is_compiling() or torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
    )
