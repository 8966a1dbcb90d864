"""Training by CUDA graphs equals training without; on a CPU a graph is a function run again."""

from functools import partial
from types import SimpleNamespace

import pytest
import torch
from fairseq import options
from fairseq.data import Dictionary
from fairseq.data.language_pair_dataset import collate
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.logging import metrics
from fairseq.nan_detector import NanDetector
from fairseq.tasks.translation import TranslationTask
from fairseq.trainer import Trainer

from fairseq_posattn.compat import cuda_graphs

ON_GPU = torch.cuda.is_available()
# Source and target lengths of the sentences of each batch; a shape recurs from the third on.
SHAPES = [[(5, 4), (3, 4)], [(4, 6), (4, 2)], [(5, 4), (2, 1)], [(3, 2), (5, 4)], [(4, 6), (1, 6)]]
NUMBERS = ["loss", "nll_loss", "gnorm", "wpb", "bsz"]
FLAGS = """
    data --arch posattn_transformer --encoder-sublayers dman,san,ffn
    --decoder-sublayers dman,cross,ffn --encoder-layers 2 --decoder-layers 2
    --encoder-embed-dim 16 --encoder-ffn-embed-dim 24 --encoder-attention-heads 2
    --decoder-embed-dim 16 --decoder-ffn-embed-dim 24 --decoder-attention-heads 2
    --max-source-positions 16 --max-target-positions 16 --share-all-embeddings --no-save
    --optimizer adam --lr 1e-2 --label-smoothing 0.1 --clip-norm 1.0
    --criterion label_smoothed_cross_entropy_fused
"""


@pytest.fixture
def make_trainer(monkeypatch):
    if ON_GPU:
        monkeypatch.undo()  # fairseq asks for the device's number
    words = Dictionary()
    for number in range(20):
        words.add_symbol(f"word{number}")

    def make(*flags):
        torch.manual_seed(1)
        command = [*FLAGS.split(), *([] if ON_GPU else ["--cpu"]), *flags]
        args = options.parse_args_and_arch(options.get_training_parser(), command)
        cfg = convert_namespace_to_omegaconf(args)
        task = TranslationTask(cfg.task, words, words)
        model, criterion = task.build_model(cfg.model), task.build_criterion(cfg.criterion)
        make.trainers.append(Trainer(cfg, task, model, criterion))
        return make.trainers[-1]

    def batch(number, lengths):
        generator = torch.Generator().manual_seed(number)
        draw = partial(torch.randint, 4, 24, generator=generator)
        pairs = [[draw((length,)) for length in both] for both in lengths]
        samples = [{"id": n, "source": s, "target": t} for n, (s, t) in enumerate(pairs)]
        return collate(samples, words.pad(), words.eos(), left_pad_source=True)

    make.trainers = []
    make.batches = [batch(number, lengths) for number, lengths in enumerate(SHAPES * 2)]
    return make


@pytest.fixture
def recorded(monkeypatch, make_trainer):
    """Return the list of graphs recorded; without a GPU a graph runs its function again."""
    graphs, record = [], cuda_graphs.record

    def record_here(run, other):
        if ON_GPU:
            graph, results = record(run, other)
        else:
            graph, results = again(run, make_trainer.trainers[-1].optimizer)
        graphs.append(graph)
        return graph, results

    monkeypatch.setattr(cuda_graphs, "record", record_here)
    return graphs


def again(run, optimizer):
    """Return a graph that only writes tensors, as a real graph, and the function's result."""
    scaler = getattr(optimizer, "scaler", None)
    scale = scaler and scaler.loss_scale
    loss, logged = run()

    def replay():
        before = vars(optimizer).copy()
        if scaler:
            number, scaler.loss_scale = scaler.loss_scale, scale
        new_loss, new_logged = run()
        vars(optimizer).update(before)
        if scaler:
            scaler.loss_scale = number
        loss.copy_(new_loss)
        for name, value in new_logged.items():
            if torch.is_tensor(value):
                logged[name].copy_(value)

    return SimpleNamespace(replay=replay), (loss, logged)


def train(trainer, batches, update_freq=1):
    """Return what is logged of the updates."""
    logged = []
    for first in range(0, len(batches), update_freq):
        with metrics.aggregate(new_root=True) as meters:
            trainer.train_step(batches[first : first + update_freq])
        logged.append(meters.get_smoothed_values())
    return logged


@pytest.mark.parametrize(
    ("flags", "update_freq"),
    [
        ((), 2),
        (("--sentence-avg",), 1),
        (("--ignore-prefix-size", "1"), 2),
        (("--bf16",), 1),
        (("--fp16",), 2),
    ],
)
def test_training_by_graphs_equals_training_without(flags, update_freq, make_trainer, recorded):
    if flags == ("--fp16",):
        flags = ("--fp16", "--fp16-init-scale", "4", "--fp16-scale-window", "2")  # it changes
    results = []
    for graphs in ([], ["--cuda-graphs"]):
        trainer = make_trainer(*flags, "--dropout", "0", *graphs)
        logged = train(trainer, make_trainer.batches, update_freq)
        results.append((logged, [p.detach().float() for p in trainer.model.parameters()]))
    assert len(recorded) == 2
    (theirs, expected), (ours, weights) = results
    for result, other in zip(ours, theirs, strict=True):
        assert result.keys() == other.keys()
        for name in NUMBERS + ["loss_scale"] * ("--fp16" in flags):
            assert result[name] == pytest.approx(other[name], rel=1e-2), name
    half = flags[:1] in (("--bf16",), ("--fp16",))
    for weight, other in zip(weights, expected, strict=True):
        torch.testing.assert_close(weight, other, rtol=0, atol=2e-2 if half else 1e-4)


def test_dropout_is_drawn_anew(make_trainer, recorded):
    trainer = make_trainer("--cuda-graphs", "--dropout", "0.5", "--lr", "0")
    losses = [train(trainer, make_trainer.batches[:1])[0]["loss"] for _ in range(4)]
    assert len(recorded) == 1 and len(set(losses[1:])) == 3


def test_batches_of_further_shapes_are_trained_without(make_trainer, recorded, monkeypatch):
    monkeypatch.setattr(cuda_graphs, "MOST", 1)
    trainer = make_trainer("--cuda-graphs")
    train(trainer, make_trainer.batches)
    assert len(recorded) == 1


def test_a_nan_is_searched_without_graphs(make_trainer, recorded):
    """A graph runs no hooks, and those of the search synchronize, which none can record."""
    trainer, batch = make_trainer("--cuda-graphs"), make_trainer.batches[0]
    train(trainer, [batch] * 2)
    arguments = trainer.model, trainer.criterion, trainer.optimizer, batch
    assert len(recorded) == 1 and cuda_graphs.graphs_of(*arguments)
    with NanDetector(trainer.model):
        assert cuda_graphs.graphs_of(*arguments) is None
