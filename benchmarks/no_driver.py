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

from fairseq_posattn.attention.kernels import support, tiles  # noqa: E402

DRIVER = SimpleNamespace(
    # Builds the function that launches a kernel, from its source and metadata.
    launcher_cls=lambda source, metadata: lambda *args: None,
    get_current_device=lambda: 0,
    get_current_stream=lambda device: 0,
    get_active_torch_device=lambda: torch.device("cpu"),
    utils=SimpleNamespace(
        # Module, function, registers, spilled registers and maximum threads.
        load_binary=lambda name, binary, shared, device: (object(), 1, 0, 0, 1024),
        unload_module=lambda module: None,
        get_device_properties=lambda device: {"max_shared_mem": 2**20, "multiprocessor_count": 132},
    ),
)


def install(capability: int = 90):
    """Make kernels accept CPU tensors, be compiled for a compute capability, and do nothing."""
    DRIVER.get_current_target = lambda: GPUTarget("cuda", capability, 32)
    triton.runtime.driver.set_active(DRIVER)
    support.interpreted = lambda: True
    tiles.capability_of = lambda device: capability
