"""Checkpoints that are read, refused or cannot be read; memory that they may take."""

import argparse
import functools
import inspect
import io
import os
import pickle
import re
import sys
import zipfile
from argparse import Namespace
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy
import pytest
import torch
from fairseq import checkpoint_utils, options
from fairseq.data import Dictionary
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.distributed import utils as distributed_utils
from fairseq.models import BaseFairseqModel
from fairseq.models.transformer import TransformerConfig, TransformerDecoderBase
from fairseq.models.transformer import TransformerModelBase as Transformer
from fairseq.trainer import Trainer
from fairseq_cli import validate
from omegaconf import OmegaConf
from small_trainings import save_checkpoint

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat import loading, resuming
from fairseq_posattn.compat.checkpoints import EXTRA_BYTES, Contents, pickles, read_checkpoint
from fairseq_posattn.compat.checkpoints.pickles import CheckpointError
from fairseq_posattn.training.models import PosAttnTransformer

sys.path.append(str(Path(__file__).parents[1] / "hostile"))
from hostile_checkpoints import CHECKPOINTS, Call  # noqa: E402

FIXTURES = Path(__file__).parents[1] / "fixtures"
GOOD = FIXTURES / "translation" / "checkpoint.pt"
FIXTURE = FIXTURES / "classification"


def saved(tmp_path, **entries):
    return Path(save_checkpoint(tmp_path / "checkpoint.pt", **entries))


def test_types_in_checkpoints_are_read(tmp_path):
    entries = {
        "settings": argparse.Namespace(arch="fconv", lr=[0.5], nested=argparse.Namespace(a=None)),
        **{name: getattr(numpy, name)(3) for name in ("float32", "float64", "int64")},
    }
    arrays = {kind: numpy.arange(4).astype(kind) for kind in ("float32", "int64")}  # of BLEU
    read = loading.read_checkpoint(saved(tmp_path, **entries, arrays=arrays))
    assert {name: read[name] for name in entries} == entries
    assert all(type(read[name]) is type(value) for name, value in entries.items())
    for kind, array in read["arrays"].items():
        assert array.dtype == kind and array.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("core", [b"core", b"_core"])
def test_checkpoints_of_either_numpy_are_read(tmp_path, core):
    path = saved(tmp_path, number=numpy.float64(1.5), array=numpy.array([1, 2]))
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            content = re.sub(rb"numpy\._?core\.", b"numpy.%s." % core, content)
            archive.writestr(name, content)
    state = read_checkpoint(path)
    assert state["number"] == 1.5 and state["array"].tolist() == [1, 2]


def test_a_read_checkpoint_can_be_passed_between_processes(tmp_path):
    settings = {
        "task": {"data": "bin", "lr": [0.1, 0.2], "seed": 2**40, "none": None, "flag": True},
        "model": argparse.Namespace(arch="posattn_transformer"),
    }
    state = {
        "cfg": OmegaConf.create(settings, flags={"allow_objects": True}),
        "metrics": numpy.array([1, 2]),
        "model": {"weight": torch.ones(2)},
    }
    tensors, buffer = [], io.BytesIO()
    torch.save(distributed_utils._split_tensors_from_obj(state, tensors), buffer)
    buffer.seek(0)
    with pytest.raises(pickle.UnpicklingError):
        torch.load(buffer)  # as fairseq does
    buffer.seek(0)
    loaded = resuming.allow_types(lambda file: torch.load(file), buffer)
    received = distributed_utils._put_tensors_in_obj(loaded, tensors)
    assert received["cfg"] == state["cfg"]
    assert received["metrics"].tolist() == [1, 2]
    assert received["model"]["weight"] is state["model"]["weight"]


def test_averaged_weights_are_loaded_in_float32(tmp_path):
    settings, average = {"model": Namespace(arch="fconv")}, {"weight": torch.ones(2).half()}
    path = str(saved(tmp_path, cfg=settings, extra_state={"ema": average}))
    weight = checkpoint_utils.load_ema_from_checkpoint(path)["model"]["weight"]
    assert weight.dtype == torch.float32 and weight.tolist() == [1, 1]
    with pytest.raises(UsageError, match=f"^{GOOD} holds no averaged weights: train with"):
        checkpoint_utils.load_ema_from_checkpoint(str(GOOD))
    for name in ("load_checkpoint_to_cpu", "load_ema_from_checkpoint"):  # fairseq's own
        with pytest.raises(pickle.UnpicklingError):
            inspect.unwrap(getattr(checkpoint_utils, name))(path)


CALLS = {
    f"{os.system.__module__}.system": lambda path: Call(os.system, f"touch {path}"),
    f"{open.__module__}.open": lambda path: Call(open, str(path), "w"),  # differs by Python
}


@pytest.mark.parametrize("name", CALLS)
def test_what_processes_send_runs_no_code(tmp_path, name):
    created, buffer = tmp_path / "created", io.BytesIO()
    torch.save({"model": CALLS[name](created)}, buffer)
    buffer.seek(0)
    with pytest.raises(pickle.UnpicklingError):
        resuming.allow_types(lambda file: torch.load(file), buffer)
    assert not created.exists()


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
def test_code_is_refused_and_not_run(tmp_path, zipped, name):
    path, created = tmp_path / "checkpoint.pt", tmp_path / "created"
    state = {"model": {}, "payload": CALLS[name](created)}
    torch.save(state, path, _use_new_zipfile_serialization=zipped)
    for load in ("load_checkpoint_to_cpu", "load_ema_from_checkpoint"):
        with pytest.raises(UsageError, match=rf"^{path} is refused: it holds {name}[^\n]*$"):
            getattr(checkpoint_utils, load)(str(path))
        assert not created.exists()


MEMBERS = "its members are not those of one checkpoint"
REASONS = {
    **dict.fromkeys(("pickle_in_capitals", "pickle_in_capitals_beside_another"), MEMBERS),
    **dict.fromkeys(("twice_the_same_name", "absolute_names"), MEMBERS),
    "code_behind_the_contents": "it holds .*system",
    "unknown_method": "it is compressed",
    "checksum": "is damaged .Bad CRC-32",
    "encrypted_by_flag": "is encrypted",
}


@pytest.mark.parametrize(("name", "reason"), REASONS.items())
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_file_that_torch_save_does_not_write_is_refused(tmp_path, name, reason):
    path, canary = tmp_path / "checkpoint.pt", tmp_path / "canary"
    CHECKPOINTS[name](path, GOOD, canary)
    with pytest.raises(UsageError, match=reason):
        loading.read_checkpoint(path)
    assert not canary.exists()


def test_pytorch_reads_the_checked_index(tmp_path):
    path = tmp_path / "checkpoint.pt"
    CHECKPOINTS["two_indexes"](path, GOOD, None)
    assert list(torch.load(path, weights_only=True)) == ["other"]
    read = loading.read_checkpoint(path)["model"]
    good = torch.load(GOOD, weights_only=True)["model"]
    assert read.keys() == good.keys() and all(read[name].equal(good[name]) for name in good)


@pytest.mark.parametrize("hold", [lambda x: [x], lambda x: (1, x), lambda x: {x}, lambda x: {1: x}])
def test_containers_are_checked_within(hold):
    with pytest.raises(CheckpointError, match="it holds builtins.len"):
        Contents(0, ()).check(hold(len))


def test_a_part_that_was_read_is_a_part_of_a_tuple(tmp_path):
    (array,) = read_checkpoint(saved(tmp_path, pair=(numpy.arange(3),)))["pair"]
    assert array.tolist() == [0, 1, 2]


def test_objects_are_counted_while_a_pickle_is_followed(monkeypatch):
    monkeypatch.setattr(pickles, "EXTRA_BYTES", 1 << 19)
    for body in (b"](" + b"}" * 10_000 + b"e", b"](" + b"N\x85" * 10_000 + b"e"):
        pickles.Pickles(1 << 20, ()).check(io.BytesIO(body + b"."))
        with pytest.raises(CheckpointError, match="become much larger than the file"):
            pickles.Pickles(len(body), ()).check(io.BytesIO(body + b"."))


def test_what_one_pickle_changes_is_not_left_for_the_next():
    for change in (b"NNa", b"N}b", b"NNNs"):
        with pytest.raises(CheckpointError):
            pickles.Pickles(0, ()).check(io.BytesIO(change + b"."))
    pickles.Pickles(0, ()).check(io.BytesIO(b"}NNs."))


def test_threads_leave_the_types_that_pytorch_allows():
    before = torch.serialization.get_safe_globals()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(4) as threads:
            for state in threads.map(read_checkpoint, [GOOD] * 12):
                assert state["model"]
    finally:
        sys.setswitchinterval(interval)
    assert set(torch.serialization.get_safe_globals()) == set(before)


def test_tied_weights_are_counted_each_time():
    weight = torch.zeros(EXTRA_BYTES // 8, dtype=torch.uint8)
    assert len(Contents(0, ()).check([weight] * 8)) == 8
    for size, value in ((0, [weight] * 9), (1000, torch.zeros(1).expand(2))):
        with pytest.raises(CheckpointError, match="larger than the file"):
            Contents(size, ()).check(value)


def test_a_truncated_checkpoint_is_reported_wherever_it_ends(tmp_path):
    path = saved(tmp_path, settings=argparse.Namespace(a=1))
    whole = path.read_bytes()
    for length in (*range(40), *range(40, len(whole), 29), *range(len(whole) - 40, len(whole))):
        path.write_bytes(whole[:length])
        with pytest.raises(UsageError) as caught:
            checkpoint_utils.load_checkpoint_to_cpu(str(path))
        message = str(caught.value)
        state = "is empty" if length == 0 else "is truncated" if length > 1 else "cannot be read"
        assert message.startswith(f"{path} {state}"), length
        assert message.endswith("--restore-file"), length
        assert "\n" not in message, length


@pytest.mark.parametrize(
    "content, reason",
    [
        (b"<html>not found</html>", "cannot be read"),
        (b"PK", "is truncated"),
        (bytes(range(256)), "cannot be read"),
        (torch.ones(2), "is not a checkpoint of fairseq: it holds"),
        ({"weight": torch.ones(2)}, "is not a checkpoint of fairseq: it holds"),
        (
            {"model": {"weight": torch.ones(2)}, "cfg": {"model": {}}, "optimizer_history": [{}]},
            "is not a checkpoint .*best_loss",
        ),
    ],
    ids=["text", "zip", "bytes", "tensor", "weights", "rest"],
)
def test_another_file_is_reported(tmp_path, content, reason):
    path = tmp_path / "other.pt"
    path.write_bytes(content) if isinstance(content, bytes) else torch.save(content, path)
    with pytest.raises(UsageError, match=rf"other\.pt {reason}"):
        checkpoint_utils.load_checkpoint_to_cpu(str(path))
    with pytest.raises(FileNotFoundError, match="nowhere.pt"):
        checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "nowhere.pt"))


def test_an_unsafe_pytorch_is_named(monkeypatch):
    monkeypatch.setattr(torch, "__version__", "2.9.1+cu126")
    with pytest.raises(ImportError, match=r"needs PyTorch 2\.10 or newer, not 2\.9\.1\+cu126"):
        loading.require_safe_torch()


SIZES = {"embed_dim": 8, "ffn_embed_dim": 8, "layers": 1, "attention_heads": 2}


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
@pytest.mark.parametrize("kind", [Transformer, PosAttnTransformer])
def test_weights_of_an_adaptive_softmax_are_loaded(kind, restore):
    words = Dictionary()
    words.encode_line(" ".join(map(str, range(20))))
    task = SimpleNamespace(source_dictionary=words, target_dictionary=words)
    flags = {f"{side}_{name}": n for side in ("encoder", "decoder") for name, n in SIZES.items()}
    cfg = Namespace(**flags, share_all_embeddings=True, adaptive_softmax_cutoff="8,14")
    if kind is Transformer:
        cfg = TransformerConfig.from_namespace(cfg)
    weights, model = kind.build_model(cfg, task).state_dict(), kind.build_model(cfg, task)
    model.load_state_dict(weights)
    assert all(weights[name].equal(value) for name, value in model.state_dict().items())
    restore(TransformerDecoderBase, "upgrade_state_dict_named")
    with pytest.raises(RuntimeError, match="decoder.output_projection.weight"):
        kind.build_model(cfg, task).load_state_dict(weights)


@pytest.fixture
def changed(tmp_path):
    """Return ``changed(edit)``: the path of a classifier whose last weight is edited, its name."""

    def changed(edit):
        state, path = read_checkpoint(FIXTURE / "checkpoint.pt"), str(tmp_path / "changed.pt")
        name = list(state["model"])[-1]
        state["model"][name] = edit(state["model"][name])
        torch.save(state, path)
        return path, name

    return changed


load = functools.partial(
    checkpoint_utils.load_model_ensemble_and_task,
    arg_overrides={"data": str(FIXTURE / "data"), "cpu": True},
)


def test_nonfinite_weights_are_refused(changed):
    path, name = changed(lambda weight: weight.fill_(torch.inf))
    with pytest.raises(UsageError, match=f"^{path}: the weight {name} is not finite"):
        load([path])
    (model,), *_ = inspect.unwrap(load.func)([path], **load.keywords)  # fairseq's own
    assert not all(weight.isfinite().all() for weight in model.parameters())


def test_the_file_of_an_ensemble_that_differs_is_named(changed):
    path, name = changed(lambda weight: weight[:-1].clone())
    with pytest.raises(UsageError, match=f"^{path} has other weights than the model, {name} among"):
        load([str(FIXTURE / "checkpoint.pt"), path])
    with pytest.raises(RuntimeError, match=name) as error:
        inspect.unwrap(load.func)([str(FIXTURE / "checkpoint.pt"), path], **load.keywords)
    assert path not in str(error.value)


@pytest.mark.parametrize("group, option", [("model", "--arch"), ("task", "--task")])
def test_what_another_user_dir_registers_is_named(group, option, tmp_path):
    state, path = read_checkpoint(FIXTURE / "checkpoint.pt"), str(tmp_path / "other.pt")
    state["cfg"][group]["_name"] = "mine"
    torch.save(state, path)
    with pytest.raises(UsageError, match=f"^{path}: {option} mine: unknown; give --user-dir, the "):
        load([path])


def test_an_error_of_validation_names_the_checkpoint(tmp_path):
    state, path = read_checkpoint(FIXTURE / "checkpoint.pt"), str(tmp_path / "other.pt")
    state["cfg"]["criterion"] = {"_name": "adaptive_loss"}
    state["cfg"]["task"]["data"] = str(FIXTURE / "data")
    torch.save(state, path)
    flags = [str(FIXTURE / "data"), "--path", path, "--cpu", "--batch-size", "8"]
    flags += ["--task", "sentence_prediction", "--criterion", "sentence_prediction"]
    args = options.parse_args_and_arch(options.get_validation_parser(), flags)
    cfg = convert_namespace_to_omegaconf(args)
    with pytest.raises(UsageError, match=f"^{path} cannot be validated with the criterion and the"):
        validate.main(cfg)
    with pytest.raises(Exception) as error:
        inspect.unwrap(validate.main)(cfg)
    assert path not in str(error.value)


def test_another_criterion_validates_with_its_options():
    path = str(FIXTURE / "checkpoint.pt")
    trained = checkpoint_utils.load_checkpoint_to_cpu(path)["cfg"].criterion
    named = {"criterion": "label_smoothed_cross_entropy", "label_smoothing": 0.2}
    cfg = checkpoint_utils.load_checkpoint_to_cpu(path, named)["cfg"].criterion
    assert trained._name != cfg._name == named["criterion"]
    assert (cfg.label_smoothing, cfg.sentence_avg) == (0.2, False)
    same = {"criterion": trained._name}
    assert checkpoint_utils.load_checkpoint_to_cpu(path, same)["cfg"].criterion == trained


def test_a_criterion_without_a_dataclass_validates_with_its_options(tmp_path):
    """Its settings in a checkpoint are a namespace, which stays where the name is the same."""
    named = {"criterion": "sentence_ranking", "num_classes": 3}
    state = checkpoint_utils.load_checkpoint_to_cpu(str(FIXTURE / "checkpoint.pt"), named)
    cfg, path = state["cfg"].criterion, str(tmp_path / "checkpoint.pt")
    read = cfg.num_classes, cfg.ranking_head_name, cfg.sentence_avg, cfg._name
    assert read == (3, "sentence_classification_head", False, "sentence_ranking")
    cfg.num_classes, state["cfg"] = 2, OmegaConf.to_container(state["cfg"])
    torch.save(state, path)
    same = {"criterion": "sentence_ranking"}
    cfg = checkpoint_utils.load_checkpoint_to_cpu(path, same)["cfg"].criterion
    assert (cfg.num_classes, cfg._name) == (2, "sentence_ranking")


def test_a_model_that_is_larger_than_its_file_is_not_built(tmp_path):
    state, path = read_checkpoint(GOOD), str(tmp_path / "deep.pt")
    state["cfg"]["model"]["encoder_layers"] = 400
    torch.save(state, path)
    data = {"data": str(GOOD.parent / "data")}
    with pytest.raises(UsageError, match=f"^{path} is refused: .* larger than the file"):
        load.func([path], data)
    with pytest.raises(RuntimeError, match="encoder.layers.399"):  # fairseq builds all layers
        inspect.unwrap(load.func)([path], data)


@pytest.mark.filterwarnings("ignore:Casting complex values")
@pytest.mark.parametrize("kind", [torch.complex64, torch.int32])
def test_weights_of_other_types_are_refused(kind, changed, restore):
    path, name = changed(lambda weight: weight.to(kind))
    (model,), cfg, task = load([str(FIXTURE / "checkpoint.pt")])
    cfg.checkpoint.no_save = True
    trainer = Trainer(cfg, task, model, task.build_criterion(cfg.criterion))
    line = f"^{path}: the weight {name} is of type {str(kind).removeprefix('torch.')}, "
    for use in (lambda: load([path]), lambda: trainer.load_checkpoint(path)):
        with pytest.raises(UsageError, match=line):
            use()
    restore(BaseFairseqModel, "load_state_dict")
    assert load([path])  # fairseq casts them
