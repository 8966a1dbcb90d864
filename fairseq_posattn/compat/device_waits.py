"""An update waits for the GPU once: for the norm of the gradients, before it steps.

The trainer of fairseq 0.12 asks whether the norm is finite twice, the second time behind the step,
and then for losses and perplexity, which it rounds and returns to a command that does not look at
them: five times the host waits until the GPU has done all that it was given, and with ``--fp16``
three times more, for the norm alone. What is logged is asked for when it is logged.
"""

from fairseq.optim import FairseqOptimizer
from fairseq.trainer import Trainer

from fairseq_posattn.compat.patching import around


@around(FairseqOptimizer, "clip_grad_norm")
def _on_the_host(clip_grad_norm, self, *args, **kwargs):
    """It was going to be asked for at once, by what protects the weights."""
    return clip_grad_norm(self, *args, **kwargs).cpu()


@around(Trainer, "_reduce_and_log_stats")
def _round_nothing(reduce_and_log_stats, self, *args, **kwargs):
    """fairseq itself spares TPUs what it returns here; it is the method's only look at ``tpu``."""
    tpu, self.tpu = self.tpu, True
    try:
        return reduce_and_log_stats(self, *args, **kwargs)
    finally:
        self.tpu = tpu
