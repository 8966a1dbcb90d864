"""Harmless checkpoints with unusual features are still read."""

from pathlib import Path

import entry_points
import forked_commands
import pytest
import torch

from fairseq_posattn.compat.checkpoints import read_checkpoint
from fairseq_posattn.training import plugin

plugin.register()

FIXTURES = Path(__file__).parents[1] / "fixtures"
DATA = FIXTURES / "translation" / "data"


def test_a_model_with_settings_that_are_evaluated_trains_and_translates(tmp_path):
    saved, log = tmp_path / "saved", tmp_path / "log"
    layers = ["--encoder-layers", "[(12, 3)] * 2", "--decoder-layers", "[(12, 3)] + [(12, 1)]"]
    sides = ("encoder", "decoder", "decoder-out")
    sizes = [word for side in sides for word in (f"--{side}-embed-dim", "12")]
    training = ["--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--lr", "[0.01, 0.005]"]
    training += ["--max-update", "2", "--max-tokens", "64", "--disable-validation"]
    common = [DATA, "--user-dir", entry_points.USER_DIR, "--cpu", "--num-workers", "0"]
    arguments = [*common, "--arch", "fconv", *layers, *sizes, *training, "--save-dir", saved]
    assert forked_commands.run("train", arguments, log) == 0, log.read_text()
    path = saved / "checkpoint_last.pt"
    assert read_checkpoint(path)["cfg"]["optimizer"]["adam_betas"] == "(0.9, 0.98)"
    arguments = [*common, "--path", path, "--batch-size", "8"]
    assert forked_commands.run("generate", arguments, log) == 0, log.read_text()
    assert log.read_text().count("\nH-") == 8


def test_an_old_checkpoint_without_zip_is_read(tmp_path):
    state = torch.load(FIXTURES / "translation" / "checkpoint.pt", weights_only=True)
    path = tmp_path / "old.pt"
    torch.save(state, path, _use_new_zipfile_serialization=False)
    read = read_checkpoint(path)
    assert all(read["model"][name].equal(weight) for name, weight in state["model"].items())


class Custom:
    """A type that a user trusts."""


def test_types_that_the_user_allows_are_read(tmp_path):
    path = tmp_path / "checkpoint.pt"
    torch.save({"model": {}, "custom": Custom()}, path)
    with pytest.raises(ValueError, match="it holds test_harmless.Custom"):
        read_checkpoint(path)
    before = set(torch.serialization.get_safe_globals())
    with torch.serialization.safe_globals([Custom]):
        assert isinstance(read_checkpoint(path)["custom"], Custom)
        assert set(torch.serialization.get_safe_globals()) == {Custom, *before}
    assert set(torch.serialization.get_safe_globals()) == before
    with pytest.raises(ValueError, match="it holds test_harmless.Custom"):
        read_checkpoint(path)


def test_types_that_pytorch_allows_are_refused(tmp_path):
    import torch.nested._internal.nested_tensor as nested

    path = tmp_path / "checkpoint.pt"
    torch.serialization.add_safe_globals([nested.NestedTensor])
    torch.save({"model": {}, "x": nested.NestedTensor}, path)
    with pytest.raises(ValueError, match="it holds torch.nested._internal.nested_tensor.Nested"):
        read_checkpoint(path)
