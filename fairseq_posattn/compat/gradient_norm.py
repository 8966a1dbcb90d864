"""The norm of all gradients in a few launches.

fairseq takes it at once where NVIDIA's apex is installed, and tensor by tensor elsewhere, with a
warning on a GPU. PyTorch has kernels for that by now.
"""

import torch
from fairseq import utils

from fairseq_posattn.compat.patching import instead, when_applied


@when_applied
def _let_it_be_called():
    utils.multi_tensor_l2norm_available = True


@instead(utils, "multi_tensor_total_norm")
def _total_norm(grads, chunk_size=None):
    norms = torch._foreach_norm(grads, dtype=torch.float32)
    return torch.norm(torch.stack([norm.to(norms[0].device) for norm in norms]))
