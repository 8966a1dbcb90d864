"""What a GPU has is asked for once an update; a CPU, too, tells how often the trainer asks."""

import inspect
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch
from fairseq import utils
from fairseq.logging import metrics
from fairseq.optim import FairseqOptimizer
from fairseq.trainer import Trainer
from torch.utils._python_dispatch import TorchDispatchMode

from fairseq_posattn import compat

compat.apply()


class Asked(TorchDispatchMode):
    """Counts the numbers that the host takes out of tensors."""

    count = 0

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        self.count += function is torch.ops.aten._local_scalar_dense.default
        return function(*arguments, **(keywords or {}))


def log_loss(outputs, criterion):
    metrics.log_scalar("loss", sum(output["loss"] for output in outputs), round=3)


@pytest.mark.parametrize("mended, asked", [(True, 0), (False, 1)])
def test_what_is_logged_is_asked_for_when_it_is_logged(mended, asked):
    reduce = Trainer._reduce_and_log_stats
    reduce = reduce if mended else inspect.unwrap(reduce)
    trainer = SimpleNamespace(tpu=False, task=SimpleNamespace(reduce_metrics=log_loss))
    trainer.get_criterion = lambda: None
    outputs = [{"loss": torch.tensor(1.5)}, {"loss": torch.tensor(2.0)}]
    with metrics.aggregate(new_root=True) as logged:
        with Asked() as counter:
            reduce(trainer, outputs, sample_size=1)
        assert counter.count == asked
    assert not trainer.tpu
    assert logged.get_smoothed_values() == {"loss": 3.5}


def test_the_norm_of_the_gradients_is_brought_to_the_host(monkeypatch):
    norm = Mock()  # a GPU's
    monkeypatch.setattr(utils, "clip_grad_norm_", lambda *args: norm)
    clip, optimizer = FairseqOptimizer.clip_grad_norm, SimpleNamespace(params=[])
    assert clip(optimizer, 0.0) is norm.cpu()
    assert inspect.unwrap(clip)(optimizer, 0.0) is norm
