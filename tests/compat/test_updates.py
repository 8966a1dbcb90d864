"""Fused updates have fairseq's results."""

import copy
import inspect
import math
from types import SimpleNamespace
from unittest.mock import Mock, patch

import pytest
import torch
from fairseq import utils
from fairseq.dataclass.configs import EMAConfig
from fairseq.logging import metrics
from fairseq.models.ema.ema import EMA
from fairseq.modules import checkpoint_activations
from fairseq.nan_detector import NanDetector
from fairseq.optim import FairseqOptimizer, FP16Optimizer, MemoryEfficientFP16Optimizer
from fairseq.optim.adafactor import Adafactor
from fairseq.optim.adam import Adam, FairseqAdam, FairseqAdamConfig
from fairseq.optim.fp16_optimizer import _FP16OptimizerMixin
from fairseq.optim.lr_scheduler.polynomial_decay_schedule import (
    PolynomialDecayLRSchedule,
    PolynomialDecayLRScheduleConfig,
)
from fairseq.trainer import Trainer
from small_trainings import SIZES, Training
from torch.utils._python_dispatch import TorchDispatchMode

from fairseq_posattn.compat.updates import FusedAdam

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16


class Operations(TorchDispatchMode):
    """A counter of operations: those of a kind, or all except views."""

    count = 0

    def __init__(self, kind=None):
        super().__init__()
        self.kind = kind

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += function is self.kind if self.kind else not function.is_view
        return function(*args, **(kwargs or {}))


FORMS = [(F32, None), (BF16, None), (BF16, FP16Optimizer), (BF16, MemoryEfficientFP16Optimizer)]


def assert_same(ours, theirs):
    for weight, other in zip(ours.weights, theirs.weights, strict=True):
        assert weight.dtype == other.dtype
        torch.testing.assert_close(weight, other)


@pytest.mark.parametrize("dtype, wrapper", FORMS)
def test_the_fused_step_is_fairseqs(dtype, wrapper):
    trainings = [Training(dtype, wrapper, old) for old in (False, True)]
    kinds = [type(training.optimizer.optimizer) for training in trainings]
    fused = FusedAdam if dtype is F32 or wrapper is FP16Optimizer else Adam
    assert kinds == [fused, Adam]
    for training in trainings:
        training.train(2, slice(2)).train(3)  # some have no gradient at first
    assert_same(*trainings)
    ours, theirs = (training.saved_state() for training in trainings)
    assert ours["param_groups"] == theirs["param_groups"]
    for number, state in theirs["state"].items():
        assert ours["state"][number].keys() == state.keys()
        assert ours["state"][number]["step"] == state["step"]
        for name in ("exp_avg", "exp_avg_sq"):
            torch.testing.assert_close(ours["state"][number][name], state[name])


@pytest.mark.parametrize("dtype, wrapper", FORMS)
@pytest.mark.parametrize("old", [True, False])
def test_a_training_resumes_under_the_other_adam(old, dtype, wrapper):
    first, alone = (Training(dtype, wrapper, old).train(2) for _ in range(2))
    resumed = Training(dtype, wrapper, not old, start=first.weights)
    resumed.optimizer.load_state_dict(copy.deepcopy(first.saved_state()))
    assert_same(resumed.train(3), alone.train(3))


# --- Copies to and from half precision -----------------------------------------------------------

PATCHED = ("_sync_fp16_grads_to_fp32", "_sync_fp32_params_to_fp16", "zero_grad")
COPIES = [(F16, True), (F16, False), (BF16, False)]  # and whether weights are flat


def train(dtype, flat):
    """Return the weights, rounded and in float32, after updates of which one leaves some out."""
    training = Training(dtype, FP16Optimizer, flat=flat)
    for used in (slice(None), slice(1, 3), slice(None)):
        training.train(1, used, clip_norm=0.5)
    return [weight.detach() for weight in (*training.weights, *training.exact())]


@pytest.mark.parametrize("dtype, flat", COPIES)
def test_updates_equal_those_of_single_copies(dtype, flat, restore):
    ours = train(dtype, flat)
    for name in PATCHED:
        restore(_FP16OptimizerMixin, name)
    theirs = train(dtype, flat)
    assert not torch.equal(ours[0], Training(dtype, FP16Optimizer, flat=flat).weights[0])
    assert all(map(torch.equal, ours, theirs))


def count_operations(dtype, flat, sizes=SIZES, old=False):
    """Return the number of operations of the patched methods in an update."""
    training = Training(dtype, FP16Optimizer, old, flat, sizes).train(1)
    training.optimizer._needs_sync = True
    with Operations() as operations:
        for name in PATCHED:
            getattr(training.optimizer, name)()
    return operations.count


@pytest.mark.parametrize("dtype, flat", COPIES)
def test_launches_do_not_grow_with_the_number_of_parameters(dtype, flat):
    assert count_operations(dtype, flat) == count_operations(dtype, flat, SIZES * 5) == 3
    old = count_operations(dtype, False, SIZES * 5, old=True)
    assert old >= 3 * 5 * len(SIZES)


def test_missing_gradients_are_made_by_fairseq():
    training = Training(BF16, FP16Optimizer)
    for weight in training.optimizer.fp32_params:
        weight.grad = None
    training.train(1)
    assert all(weight.grad is not None for weight in training.optimizer.fp32_params)


# --- Gradient norm, and synchronizations ----------------------------------------------------------


@pytest.mark.parametrize("dtype", [F32, F16])
def test_the_norm_is_that_of_all_gradients(dtype):
    parameters = [torch.nn.Parameter(torch.zeros(size, dtype=dtype)) for size in ((2, 3), (4,), ())]
    for number, parameter in enumerate(parameters):
        parameter.grad = torch.full_like(parameter, 300.0 + number)  # float16 lacks the squares
    with patch.object(torch, "_foreach_norm", wraps=torch._foreach_norm) as norms:
        norm = utils.clip_grad_norm_(parameters, 0.0)
    assert norm.item() == pytest.approx(math.sqrt(6 * 300**2 + 4 * 301**2 + 302**2), rel=1e-6)
    assert [len(call.args[0]) for call in norms.call_args_list] == [3]


def log_loss(outputs, criterion):
    metrics.log_scalar("loss", sum(output["loss"] for output in outputs), round=3)


@pytest.mark.parametrize("patched, count", [(True, 0), (False, 1)])
def test_statistics_are_not_copied_to_the_host(patched, count):
    reduce = Trainer._reduce_and_log_stats
    reduce = reduce if patched else inspect.unwrap(reduce)
    trainer = SimpleNamespace(tpu=False, task=SimpleNamespace(reduce_metrics=log_loss))
    trainer.get_criterion = lambda: None
    outputs = [{"loss": torch.tensor(1.5)}, {"loss": torch.tensor(2.0)}]
    with metrics.aggregate(new_root=True) as logged:
        with Operations(torch.ops.aten._local_scalar_dense.default) as copies:
            reduce(trainer, outputs, sample_size=1)
        assert copies.count == count
    assert not trainer.tpu
    assert logged.get_smoothed_values() == {"loss": 3.5}


def test_the_gradient_norm_is_copied_to_the_host(monkeypatch):
    norm = Mock()  # a GPU's
    monkeypatch.setattr(utils, "clip_grad_norm_", lambda *args: norm)
    clip, optimizer = FairseqOptimizer.clip_grad_norm, SimpleNamespace(params=[])
    assert clip(optimizer, 0.0) is norm.cpu()
    assert inspect.unwrap(clip)(optimizer, 0.0) is norm


def test_dummy_batches_count_nothing(make_trainer):
    """Also those of tasks with an own function, as translation_lev's, and of nested metrics."""
    trainer = make_trainer()
    trainer.task.load_dataset("train")
    rows = trainer.task.dataset("train")
    trainer._dummy_batch = batch = rows.collater([rows[0], rows[1]])
    trainer.optimizer.multiply_grads = multiply = Mock()
    trainer.task.reduce_metrics = reduce = Mock()

    def train_step(sample, model, criterion, optimizer, update_num, ignore_grad):
        loss, size, logged = criterion(model, sample)
        optimizer.backward(0 * loss if ignore_grad else loss)
        return loss, size, {"ntokens": logged["ntokens"], "multitask": {"letters": {"ntokens": 3}}}

    trainer.task.train_step = train_step
    trainer.train_step([batch, None])
    assert multiply.call_args.args == (1 / 2,)
    ((dummy, real), _) = reduce.call_args.args
    assert (dummy["ntokens"], real["ntokens"]) == (0, batch["ntokens"])
    assert dummy["multitask"] == {"letters": {"ntokens": 0}}


def test_a_missing_last_batch_removes_no_tokens_of_the_others(make_trainer, restore):
    trainer = make_trainer()
    trainer.task.load_dataset("train")
    rows = trainer.task.dataset("train")
    trainer._dummy_batch = batch = rows.collater([rows[0], rows[1]])
    trainer.optimizer.multiply_grads = multiply = Mock()
    trainer.train_step([batch, None])
    restore(Trainer, "train_step")  # fairseq sums the gradients without dividing
    trainer.train_step([batch, None])
    assert [call.args for call in multiply.call_args_list] == [(1 / 2,), (1,)]


def test_the_dummy_batch_of_training_is_no_validation_batch(make_trainer):
    """Batches of news differ so much that training on several processes failed."""
    trainer = make_trainer()
    for split in ("train", "valid"):
        trainer.task.load_dataset(split)
    first = trainer.get_train_iterator(1).first_batch
    trainer.get_valid_iterator("valid")
    assert not torch.equal(trainer._dummy_batch["id"], first["id"])
    trainer.train_step([None])
    assert torch.equal(trainer._dummy_batch["id"], first["id"])


def test_the_training_time_has_decimals(make_trainer):
    """Tables of ``epoch_s`` read it; an epoch of less than half a second had none."""
    trainer = make_trainer()
    trainer.task.load_dataset("train")
    first = trainer.get_train_iterator(1).first_batch
    with metrics.aggregate(new_root=True) as logged:
        trainer.train_step([first])
    logged["train_wall"].sum = 0.234
    assert logged.get_smoothed_value("train_wall") == 0.23


class Model(torch.nn.Module):
    """A model whose encoder returns a dictionary of lists, as fairseq's."""

    def __init__(self):
        super().__init__()
        self.encoder = torch.nn.Sequential(torch.nn.Linear(2, 2))
        self.encoder.forward = lambda x: {"encoder_out": [self.encoder[0](x)]}
        self.output = torch.nn.Linear(2, 2)

    def forward(self, x):
        return self.output(self.encoder(x)["encoder_out"][0])


@pytest.mark.filterwarnings("ignore:Using a non-full backward hook")
def test_the_module_of_a_nan_is_named(caplog, restore):
    def search():
        model = Model()
        with NanDetector(model):
            model(torch.full((1, 2), math.inf)).sum().backward()

    search()
    assert "NaN detected in output of encoder.0" in caplog.text and ", forward" in caplog.text
    restore(NanDetector, "add_hooks")
    with pytest.raises(StopIteration):
        search()


@pytest.mark.parametrize("patched", [True, False])
def test_layers_are_recomputed_under_autocast(restore, patched):
    """fairseq recomputes them in float32."""
    if not patched:
        restore(checkpoint_activations, "_checkpointed_forward")
    types = []

    class Layer(torch.nn.Linear):
        def forward(self, x):
            output = super().forward(x)
            types.append(output.dtype)
            return output

    layer = checkpoint_activations.checkpoint_wrapper(Layer(2, 2))
    with torch.autocast("cpu", BF16):
        output = layer(torch.ones(1, 2, requires_grad=True)).sum()
    output.backward()
    assert types == [BF16, BF16 if patched else F32]


def test_checkpointed_layers_may_be_without_a_device_that_has_autocast():
    layer = checkpoint_activations.checkpoint_wrapper(torch.nn.Linear(2, 2, device="meta"))
    assert layer(torch.ones(1, 2, device="meta")).is_meta


@pytest.mark.parametrize("patched", [True, False])
@pytest.mark.parametrize("fp32", [True, False])
@pytest.mark.parametrize("dtype", [F32, BF16])
def test_the_average_of_shared_weights_has_the_decay_of_others(dtype, fp32, patched, restore):
    if not patched:
        restore(EMA, "_step_internal")
    layers = torch.nn.ModuleList(torch.nn.Linear(2, 2) for _ in range(3)).to(dtype)
    layers[1].weight = layers[2].weight = layers[0].weight
    for parameter in layers.parameters():
        torch.nn.init.zeros_(parameter)
    ema = EMA(layers, EMAConfig(store_ema=True, ema_decay=0.5, ema_fp32=fp32))
    for parameter in layers.parameters():
        torch.nn.init.ones_(parameter)
    ema.step(layers)
    stays = patched or (fp32 and dtype is BF16)  # then fairseq has a copy under each name
    for name, average in ema.get_model().state_dict().items():
        assert average.eq(0.5 if stays or "bias" in name else 0.875).all(), name


def test_a_model_with_a_state_that_is_not_a_tensor_is_averaged():
    class Layer(torch.nn.Linear):
        def get_extra_state(self):
            return {"updates": 1}

    layer = Layer(2, 2)
    ema = EMA(layer, EMAConfig(store_ema=True, ema_decay=0.5))
    before = ema.get_model().bias.clone()
    torch.nn.init.ones_(layer.bias)
    ema.step(layer)
    assert torch.equal(ema.get_model().bias, (before + 1) / 2)


def test_adafactor_scales_the_rate_of_each_weight_alone(restore):
    def changes():
        weights = [torch.nn.Parameter(torch.full((2, 2), size)) for size in (0.5, 0.5, 0.25)]
        optimizer = Adafactor(weights, lr=0.1, relative_step=False)
        for weight in weights:
            weight.grad = torch.ones_like(weight)
        before = [weight.detach().clone() for weight in weights]
        optimizer.step()
        assert len(optimizer.state) == 3
        changed = [(b - w.detach()).mean().item() for b, w in zip(before, weights, strict=True)]
        return changed, optimizer.param_groups[0]["lr"]

    assert changes() == (pytest.approx([0.05, 0.05, 0.025]), 0.1)  # by the root mean square
    restore(Adafactor, "step")
    assert changes() == (pytest.approx([0.05, 0.025, 0.00625]), pytest.approx(0.00625))


def test_polynomial_decay_begins_with_the_first_rate(restore):
    def rates(anneals=None):
        config = FairseqAdamConfig(adam_betas="(0.9, 0.98)", lr=[0.5])
        adam = FairseqAdam(config, [torch.nn.Parameter(torch.zeros(1))])
        settings = {"lr": [3.0, 2.0, 1.0], "total_num_update": 9, "force_anneal": anneals}
        schedule = PolynomialDecayLRSchedule(PolynomialDecayLRScheduleConfig(**settings), adam)
        return [schedule.step_begin_epoch(epoch) for epoch in range(1, 5)]

    assert rates() == [3, 2, 1, 1]
    assert rates(anneals=3) == [3, 2, 2, 2]
    restore(PolynomialDecayLRSchedule, "get_next_lr")
    assert rates() == [2, 1, 1, 1]
