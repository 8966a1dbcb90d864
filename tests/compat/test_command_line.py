"""Settings given as objects, and settings that Hydra cannot compose."""

import inspect
import sys

import hydra
import hydra._internal.utils
import pytest
from fairseq import models
from fairseq.dataclass import utils
from fairseq.dataclass.configs import FairseqConfig
from fairseq.models.transformer_lm import TransformerLanguageModelConfig
from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn, JobStatus

from fairseq_posattn.common.errors import UsageError


@pytest.mark.parametrize("module", [models, utils])
def test_an_object_of_settings_is_taken(module):
    given = TransformerLanguageModelConfig(dropout=0.7)
    with pytest.raises(KeyError, match="_parent"):
        inspect.unwrap(module.merge_with_parent)(TransformerLanguageModelConfig, given)
    merged = module.merge_with_parent(TransformerLanguageModelConfig, given)
    assert merged.dropout == 0.7


def test_another_classs_defaults_are_refused_in_one_line():
    given = TransformerLanguageModelConfig(_name="dman_iwslt_de_en")
    with pytest.raises(UsageError, match="cannot be a TransformerLanguageModelConfig") as error:
        models.merge_with_parent(models.MODEL_DATACLASS_REGISTRY["dman_iwslt_de_en"], given)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("error", [UsageError("--lr -1"), ValueError("a bug")])
def test_hydra_calls_the_hook_for_mistakes(capsys, monkeypatch, error):
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
    with pytest.raises(UsageError, match=line) as error:
        hydra._internal.utils.run_and_report(work)
    assert "\n" not in str(error.value)
