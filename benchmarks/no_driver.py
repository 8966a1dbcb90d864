"""A Triton driver without a GPU: it compiles for a GPU and launches nothing.

Import it before the kernels. Compilation and the host's part of a launch are real, except for the
call of CUDA itself.
"""

import os
from types import SimpleNamespace

os.environ.pop("TRITON_INTERPRET", None)  # compiled, not interpreted

import torch  # noqa: E402
import triton  # noqa: E402
from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.backends.driver import DriverBase  # noqa: E402

from fairseq_posattn.attention.kernels import support, tiles  # noqa: E402


class _Launcher:
    def __init__(self, source, metadata):
        pass

    def __call__(self, *args):
        pass


UTILITIES = SimpleNamespace(
    # Module, function, registers, spilled registers and maximum threads.
    load_binary=lambda name, binary, shared, device: (object(), 1, 0, 0, 1024),
    unload_module=lambda module: None,
    get_device_properties=lambda device: {"max_shared_mem": 2**20, "multiprocessor_count": 132},
)


class NoDriver(DriverBase):
    """A driver for a compute capability, 90 for an H100 or H200."""

    launcher_cls = _Launcher

    def __init__(self, capability: int):
        self.utils, self.capability = UTILITIES, capability

    @staticmethod
    def is_active():
        return True

    def get_current_target(self):
        return GPUTarget("cuda", self.capability, 32)

    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return 0

    def get_active_torch_device(self):
        return torch.device("cpu")

    def map_python_to_cpp_type(self, name):
        return name

    def get_benchmarker(self):
        raise NotImplementedError("nothing is launched")


def install(capability: int = 90):
    """Make kernels accept CPU tensors, be compiled, and do nothing."""
    triton.runtime.driver.set_active(NoDriver(capability))
    support.interpreted = lambda: True
    tiles.capability_of = lambda device: capability
