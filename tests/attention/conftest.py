"""Where there is no GPU, kernels run in Triton's interpreter: chosen before they are imported."""

import os

import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
