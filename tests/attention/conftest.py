"""Without a GPU kernels run in Triton's interpreter, selected before they are imported."""

import os

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"


@pytest.fixture
def tf32():
    """Allow TF32 by the setting of PyTorch 2.9 and later; yield what has the setting."""
    matmul = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    matmul.fp32_precision = "tf32"
    yield matmul
    matmul.fp32_precision = before
