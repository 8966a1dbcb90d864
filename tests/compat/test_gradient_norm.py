"""The norm of gradients, all at once."""

import math
from unittest.mock import patch

import pytest
import torch
from fairseq import utils

from fairseq_posattn import compat

compat.apply()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_it_is_that_of_all_numbers_together(dtype):
    parameters = [torch.nn.Parameter(torch.zeros(size, dtype=dtype)) for size in ((2, 3), (4,), ())]
    for number, parameter in enumerate(parameters):
        parameter.grad = torch.full_like(parameter, 300.0 + number)  # whose squares float16 lacks
    norm = utils.clip_grad_norm_(parameters, 0.0)
    assert norm.item() == pytest.approx(math.sqrt(6 * 300**2 + 4 * 301**2 + 302**2), rel=1e-6)


def test_it_is_taken_at_once():
    parameters = [torch.nn.Parameter(torch.ones(2)) for _ in range(3)]
    for parameter in parameters:
        parameter.grad = torch.ones(2)
    with patch.object(torch, "_foreach_norm", wraps=torch._foreach_norm) as norms:
        utils.clip_grad_norm_(parameters, 1.0)
    assert [len(call.args[0]) for call in norms.call_args_list] == [3]
    assert torch.cat([one.grad for one in parameters]).norm().item() == pytest.approx(1, abs=1e-5)
