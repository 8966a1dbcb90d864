"""What fairseq makes of mistakes by itself, and what the mends make of them."""

import sys
import warnings
from argparse import Namespace
from types import SimpleNamespace

import hydra
import hydra._internal.utils
import pytest

from fairseq_posattn.training.plugin import register

register()

import fairseq_cli.train  # noqa: E402
import torch  # noqa: E402
from fairseq import checkpoint_utils, utils  # noqa: E402
from fairseq.data import Dictionary  # noqa: E402
from fairseq.dataclass.configs import FairseqConfig  # noqa: E402
from fairseq.search import DiverseBeamSearch  # noqa: E402
from hydra.core.config_store import ConfigStore  # noqa: E402
from hydra.core.utils import JobReturn, JobStatus  # noqa: E402

from fairseq_posattn.common.errors import UsageError  # noqa: E402
from fairseq_posattn.compat import (  # noqa: E402
    empty_save_dir,
    stale_warnings,
    unlike_checkpoints,
    validation_metric,
)


def test_unknown_words_are_copied_without_a_file():
    """As --replace-unk without a value has it."""
    with pytest.raises(FileNotFoundError):
        utils.load_align_dict.__wrapped__("@@ ")
    assert utils.load_align_dict("@@ ") == {}


def test_unknown_words_are_found_in_the_source():
    """Here the translation turns its source around."""
    arguments = ("<unk> b <unk>", "A B C", [(2, 0), (1, 1), (0, 2)], {"A": "a"}, "<unk>")
    with pytest.raises(TypeError):
        utils.replace_unk.__wrapped__(*arguments)
    assert utils.replace_unk(*arguments) == "C b a"


def test_unknown_words_are_found_among_the_pieces_of_words():
    """As --post-process joins them."""
    dictionary = Dictionary()
    tokens = dictionary.encode_line("a@@ b never").int()
    tokens[2] = dictionary.unk()
    alignment = [(0, 0), (2, 1), (1, 2)]
    given = {"hypo_tokens": tokens, "src_str": "A C B", "alignment": alignment, "align_dict": {}}
    found = utils.post_process_prediction(**given, tgt_dict=dictionary, remove_bpe="@@ ")
    assert found[1] == "ab C"
    assert dictionary.string(found[0]) == "ab C"


def test_diverse_beams_of_a_later_batch():
    """Sentences are numbered through the data, and some end before others."""
    generator = torch.Generator().manual_seed(1)
    dictionary = Dictionary()
    for word in "abcdef":
        dictionary.add_symbol(word)
    first, second = (
        torch.randn(count, 4, len(dictionary), generator=generator).log_softmax(-1)
        for count in (3, 2)
    )
    scores = torch.zeros(2, 4, 1)

    def search(step, numbers):
        numbers = torch.tensor(numbers)
        beams = DiverseBeamSearch(dictionary, 2, 0.5)
        step(beams, 0, first, None, None, numbers)
        return step(beams, 1, second, scores, None, numbers[[0, 2]])

    expected = search(DiverseBeamSearch.step.__wrapped__, [0, 1, 2])
    with pytest.raises(IndexError):
        search(DiverseBeamSearch.step.__wrapped__, [11, 7, 5])
    found = search(DiverseBeamSearch.step, [11, 7, 5])
    assert all(map(torch.equal, found, expected))


def test_an_empty_dictionary_is_named(tmp_path):
    path = str(tmp_path / "dict.txt")
    open(path, "w").close()
    Dictionary.add_from_file.__wrapped__(Dictionary(), path)
    with pytest.raises(UsageError, match=f"^{path} is a dictionary without words"):
        Dictionary.load(path)


def test_a_metric_that_validation_lacks(monkeypatch):
    monkeypatch.delattr(checkpoint_utils.save_checkpoint, "best", raising=False)
    cfg = SimpleNamespace(checkpoint=SimpleNamespace(best_checkpoint_metric="f1"))
    trainer = SimpleNamespace(get_num_updates=lambda: 3)
    original = fairseq_cli.train.get_valid_stats
    original = getattr(original, "__wrapped__", original)
    assert "f1" not in original(cfg, trainer, {"loss": 1}, True)
    with pytest.raises(UsageError, match="^--best-checkpoint-metric f1: validation has loss, num_"):
        validation_metric._name_the_metrics(original, cfg, trainer, {"loss": 1}, True)


@pytest.mark.parametrize("inside", [False, True])
def test_another_folder_is_proposed_where_it_would_do(tmp_path, inside):
    """Not for a checkpoint that --restore-file or --finetune-from-model names."""

    def load(trainer, path):
        try:
            raise RuntimeError('Missing key(s) in state_dict: "weight"')
        except RuntimeError:
            raise Exception("Cannot load model parameters from checkpoint") from None

    path = tmp_path / "checkpoint_last.pt"
    torch.save({"args": Namespace(task="t", arch="a"), "model": {}}, path)
    settings = SimpleNamespace(save_dir=str(tmp_path if inside else tmp_path / "other"))
    trainer = SimpleNamespace(
        task=SimpleNamespace(cfg={}), cfg=SimpleNamespace(model={}, checkpoint=settings)
    )
    with pytest.raises(UsageError, match="weight among them; train as it was trained") as caught:
        unlike_checkpoints._say_what_differs(load, trainer, str(path))
    assert str(caught.value).endswith(", or into another --save-dir") == inside


@pytest.mark.parametrize("used", [False, True])
def test_a_folder_for_checkpoints_goes_if_none_was_written(tmp_path, monkeypatch, used):
    at_exit = []
    monkeypatch.setattr(empty_save_dir.atexit, "register", lambda *call: at_exit.append(call))
    folder = tmp_path / "saved"
    checkpoint_utils.verify_checkpoint_directory.__wrapped__(str(folder))
    assert folder.is_dir() and not at_exit
    folder.rmdir()
    checkpoint_utils.verify_checkpoint_directory(str(folder))
    (folder / ".lock").touch()
    if used:
        (folder / "checkpoint_last.pt").touch()
    ((function, *arguments),) = at_exit
    function(*arguments)
    assert folder.exists() == used
    checkpoint_utils.verify_checkpoint_directory(str(tmp_path))
    assert len(at_exit) == 1  # a folder that was there stays


def test_warnings_that_nobody_can_mend():
    def warned(filters):
        with warnings.catch_warnings(record=True) as caught:
            warnings.resetwarnings()
            filters()
            warnings.warn_explicit("old", UserWarning, "x.py", 1, module="hydra.core.x")
            warnings.warn_explicit("old", FutureWarning, "x.py", 2, module="fairseq.trainer")
            warnings.warn_explicit("new", UserWarning, "x.py", 3, module="my_program")
        return [str(warning.message) for warning in caught]

    def asked_for():
        warnings.simplefilter("always")
        stale_warnings.ignore()

    assert warned(lambda: None) == ["old", "old", "new"]
    assert warned(stale_warnings.ignore) == ["new"]
    assert warned(asked_for) == ["old", "old", "new"]


@pytest.mark.parametrize("error", [UsageError("--lr -1"), ValueError("a bug")])
def test_hydra_leaves_mistakes_to_the_hook(capsys, monkeypatch, error):
    shown = []
    monkeypatch.setattr(sys, "excepthook", lambda *error: shown.append(error[1]))
    finished = JobReturn(status=JobStatus.FAILED)
    finished.return_value = error
    with pytest.raises(ValueError):
        JobReturn.return_value.fget.__wrapped__(finished)
    assert "Error executing job" in capsys.readouterr().err
    is_mistake = isinstance(error, UsageError)
    with pytest.raises(SystemExit if is_mistake else ValueError):
        finished.return_value  # noqa: B018
    assert bool(capsys.readouterr().err) != is_mistake
    assert shown == [error] * is_mistake


@pytest.mark.filterwarnings("ignore::UserWarning")  # of matching names, which fairseq has, too
@pytest.mark.parametrize(
    "text, override, line",
    [
        ("", "optimization.max_updates=3", "Key 'max_updates' .* the nearest are max_update, .*"),
        ("", "optimization.lr=[1", "optimization.lr=.1: it must be NAME=VALUE: .*"),
        ("", "optimization.max_update=x", ".*max_update=x: Value 'x' of type 'str' could not .*"),
        ("checkpoint: {savedir: a}", "", "Error merging 'mine' .* the nearest are save_dir, .*"),
        ("model: {_name: x}", "model.dropout=1", ".* To append .* use [+]model.dropout=1"),
        ("defaults: [{optimiser: adam}]", "", "In 'mine': Could not find 'optimiser/adam'"),
        ("task:\n  a: b\n c: d", "", r".*mine.yaml:3: this is not YAML: .*"),
    ],
)
def test_what_hydra_cannot_compose_is_a_line(tmp_path, monkeypatch, capsys, text, override, line):
    (tmp_path / "mine.yaml").write_text(text)
    store = ConfigStore.instance()
    monkeypatch.setattr(store, "repo", dict(store.repo))
    store.store("mine", FairseqConfig)

    def work():
        with hydra.initialize_config_dir(str(tmp_path), version_base="1.1"):
            hydra.compose("mine", [override] if override else [])

    with pytest.raises(SystemExit):
        hydra._internal.utils.run_and_report.__wrapped__(work)
    assert len(capsys.readouterr().err.splitlines()) > 3
    with pytest.raises(UsageError, match=line) as told:
        hydra._internal.utils.run_and_report(work)
    assert "\n" not in str(told.value)
