"""Run a program with fairscale's use of CUDA replaced: ``fairscale_on_cpu.py PROGRAM ARGUMENTS``.

Replaced are the device, the streams, and a collective that gloo takes only in another shape.
"""

import contextlib
import runpy
import sys
import types
from unittest import mock

import torch
from fairscale.nn.data_parallel import fully_sharded_data_parallel
from torch import distributed

STREAM = types.SimpleNamespace(wait_stream=lambda other: None, synchronize=lambda: None)
SHARDED = fully_sharded_data_parallel.FullyShardedDataParallel

set_up_streams = SHARDED._setup_streams


def set_up_streams_on_cpu(self):
    with mock.patch("torch.cuda.is_available", return_value=True):
        set_up_streams(self)


def reduce_scatter(output, inputs, **options):
    distributed.reduce_scatter_tensor(output.view(-1), inputs.reshape(-1), **options)


torch.cuda.Stream = torch.cuda.current_stream = lambda: STREAM
torch.cuda.stream = lambda stream: contextlib.nullcontext()
torch.cuda.synchronize = lambda: None
torch.Tensor.record_stream = lambda self, stream: None
torch.Tensor.cuda = lambda self: self
torch.Tensor.cpu = torch.Tensor.clone  # from a GPU it is a copy
SHARDED._setup_streams = set_up_streams_on_cpu
fully_sharded_data_parallel._get_default_cuda_device = lambda module: torch.device("cpu")
distributed._reduce_scatter_base = reduce_scatter

sys.argv.pop(0)
runpy.run_path(sys.argv[0], run_name="__main__")
