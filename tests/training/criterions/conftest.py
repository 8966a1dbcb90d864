"""What the tests of criterions share: a model of given outputs, and fairseq's way of logging."""

from types import SimpleNamespace

import pytest
import torch
from fairseq.criterions import CRITERION_DATACLASS_REGISTRY, CRITERION_REGISTRY
from fairseq.logging import metrics
from torch import nn

from fairseq_posattn.training.plugin import register

register()


class GivenLogits(nn.Module):
    """A model whose input is its output, [B, K]."""

    def __init__(self):
        super().__init__()
        self.classification_heads = {"sentence_classification_head": nn.Identity()}

    def forward(self, logits, features_only, classification_head_name):
        assert features_only
        return self.classification_heads[classification_head_name](logits), None


@pytest.fixture
def build_criterion():
    """``build_criterion(name, num_classes)``, for a task that has as many classes."""

    def build(name, num_classes, encodes_pairs=True, **options):
        cfg = SimpleNamespace() if num_classes is None else SimpleNamespace(num_classes=num_classes)
        task = SimpleNamespace(cfg=cfg, datasets={"valid": range(61), "train": range(70)})
        task.encodes_pairs = encodes_pairs
        cfg = CRITERION_DATACLASS_REGISTRY[name](**options)
        return CRITERION_REGISTRY[name].build_criterion(cfg, task)

    return build


@pytest.fixture
def log_batch():
    """``log_batch(criterion, logits, targets, ids)``: what the criterion logs in validation."""

    def log(criterion, logits, targets, ids=None, training=False):
        ids = torch.arange(len(targets)) if ids is None else ids
        sample = {"id": ids, "target": targets, "ntokens": len(targets)}
        sample["net_input"] = {"logits": logits}
        return criterion(GivenLogits().train(training), sample)[2]

    return log


@pytest.fixture
def validate():
    """``validate(criterion, steps)``: the metrics of a validation, by name.

    ``steps`` has, for each step, what the processes' batches logged. As fairseq does, it sums over
    the processes, in float64, before it reduces.
    """

    def run(criterion, steps):
        assert criterion.logging_outputs_can_be_summed()
        with metrics.aggregate(new_root=True) as meters:
            for logged in steps:
                criterion.reduce_metrics([{key: _total(logged, key) for key in logged[0]}])
        return meters.get_smoothed_values()

    return run


def _total(logged, key):
    return sum(torch.as_tensor(log[key], dtype=torch.float64) for log in logged)


@pytest.fixture
def uneven():
    """``uneven(rows)``: cut rows into steps of processes' batches, of sizes 5; 1 and 3; 7; ..."""

    def cut(rows):
        sizes = [[5], [1, 3], [7], [2, 2, 4]]
        steps, start = [], 0
        while start < len(rows):
            step = []
            for size in sizes[len(steps) % len(sizes)]:
                step += [rows[start : start + size]] if start < len(rows) else []
                start += size
            steps.append(step)
        return steps

    return cut
