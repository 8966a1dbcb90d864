"""What the host would gain by kernels of residual sum, dropout and layer norm, without a GPU.

    python benchmarks/norms.py

One sublayer ends with ``s = x + dropout(output)``, the next begins with the norm of s. Both ways do
that to two numbers, so that there is next to nothing to compute; on a CPU PyTorch's dropout is
several operations, on a GPU one. The kernels have no body: they are launched as ones that
compute would be (no_driver.py), one forward, one backward, one that sums what the programs have for
weight and bias, and PyTorch's that draws a seed. The driver's own part of a launch is in neither
time. Microseconds of the processor, the least over the rounds, for both passes of a sublayer.
"""

import machine
import no_driver
import torch
import triton
from host import microseconds
from torch import nn

from fairseq_posattn.attention.kernels.launch import Launch, alike, draw_dropout

SUBLAYERS, PROGRAMS, DROPOUT = 12, 264, 0.3
# On a GPU PyTorch's norm has two kernels backward; the gradients of s that meet are added.
LAUNCHES = {"PyTorch": 3 + 4, "kernels": 2 + 2}


@triton.jit
def forward(X, RESIDUAL, WEIGHT, BIAS, SUM, NORMED, ROW_STATISTICS, DROPOUT, rows, eps):
    pass


@triton.jit
def backward(SUM, D_SUM, D_NORMED, WEIGHT, ROW_STATISTICS, DROPOUT, D_X, D_RESIDUAL, D_PARTS, rows):
    pass


@triton.jit
def fold(D_PARTS, D_WEIGHT, D_BIAS):
    pass


FORWARD, BACKWARD, FOLD = (Launch(kernel, PROGRAMS, {}) for kernel in (forward, backward, fold))


class Fused(torch.autograd.Function):
    """``s`` and its norm, of a residual and of what a sublayer made, by kernels without a body."""

    @staticmethod
    def forward(ctx, x, residual, weight, bias):
        dropout = draw_dropout(DROPOUT, x.device)
        for tensor in (x, residual):
            alike(tensor)  # by which the launches would be found
        total, normed = torch.empty_like(x), torch.empty_like(x)
        statistics = x.new_empty(len(x), 2, dtype=torch.float32)
        FORWARD(x, residual, weight, bias, total, normed, statistics, dropout, len(x), 1e-5)
        ctx.save_for_backward(total, weight, bias, statistics)
        ctx.dropout = dropout
        return total, normed

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, d_total, d_normed):
        total, weight, bias, statistics = ctx.saved_tensors
        d_x, d_residual = torch.empty_like(total), torch.empty_like(total)
        parts = total.new_empty(PROGRAMS, 2 * total.size(-1), dtype=torch.float32)
        d_weight, d_bias = torch.empty_like(weight), torch.empty_like(bias)
        given = total, d_total, d_normed, weight, statistics, ctx.dropout
        BACKWARD(*given, d_x, d_residual, parts, len(total))
        FOLD(parts, d_weight, d_bias)
        return d_x, d_residual, d_weight, d_bias


def training_step(by):
    """A function that makes a step of so many sublayers, of which each is the identity."""
    norm = nn.LayerNorm(2, dtype=torch.bfloat16)
    words = torch.zeros(1, 2, dtype=torch.bfloat16, requires_grad=True)

    def end(x, residual):
        if by == "kernels":
            return Fused.apply(x, residual, norm.weight, norm.bias)
        total = residual + torch.native_dropout(x, DROPOUT, True)[0]
        return total, norm(total)

    def step():
        norm.zero_grad()
        words.grad = None
        residual = normed = words
        for _ in range(SUBLAYERS):
            residual, normed = end(normed, residual)
        torch.autograd.backward([residual, normed], [residual.detach(), normed.detach()])

    return step


def main():
    parser = machine.make_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=200, help="of each")
    arguments = parser.parse_args()
    no_driver.install()
    torch.set_num_threads(1)
    steps = {by: training_step(by) for by in LAUNCHES}
    least = dict.fromkeys(steps, float("inf"))
    for _ in range(arguments.rounds):  # in turns
        for by, step in steps.items():
            least[by] = min(least[by], microseconds(step, 1, 1) / SUBLAYERS)
    rows = [
        {"by": by, "launches": LAUNCHES[by], "microseconds": round(least[by], 1)} for by in steps
    ]
    for row in rows:
        print("{by}: {launches} launches, {microseconds} microseconds".format(**row))
    machine.keep({"torch": torch.__version__, "rows": rows}, arguments.json)


if __name__ == "__main__":
    main()
