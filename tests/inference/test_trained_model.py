import logging
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.checkpoints import read_checkpoint
from fairseq_posattn.inference import prediction, translation
from fairseq_posattn.inference.trained_model import load
from fairseq_posattn.text import manifest
from fairseq_posattn.text.manifest import Manifest

FIXTURE = Path(__file__).parents[1] / "fixtures" / "translation"


def test_a_folder_selects_its_best_or_last_checkpoint(tmp_path, capsys):
    folder, data = tmp_path / "saved", str(FIXTURE / "data")
    folder.mkdir()
    with pytest.raises(UsageError, match=f"^{folder}: the folder has no checkpoint_best.pt and no"):
        load(str(folder), data)
    for name in ("checkpoint_last.pt", "checkpoint_best.pt"):
        shutil.copy(FIXTURE / "checkpoint.pt", folder / name)
        assert load(str(folder), data).path == str(folder / name)
        (line,) = (line for line in capsys.readouterr().err.splitlines() if name in line)
        assert line == f"fairseq_posattn: {folder} is a folder: using its {name}"


@pytest.mark.parametrize(
    ("package", "name"), [(translation, "translation"), (prediction, "classification")]
)
def test_threads_that_load_leave_the_logs_as_they_were(package, name, monkeypatch):
    """Check that one loads after the other: each would restore the settings of the other."""
    loading = []

    def watched(*args, **kwargs):
        loading.append(name)
        time.sleep(0.2)
        assert loading == [name]
        loading.clear()
        return trained

    folder = FIXTURE.parent / name
    trained = load(str(folder / "checkpoint.pt"), str(folder / "data"))
    monkeypatch.setattr(package, "load_checkpoint", watched)
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(package.load, ["one", "two"]))
    assert logging.root.manager.disable == logging.NOTSET


def test_the_data_folder_of_training_is_used_for_sentences(tmp_path):
    """Check a checkpoint folder with dictionaries and manifest, but without sentences."""
    data, saved = tmp_path / "data", tmp_path / "saved"
    shutil.copytree(FIXTURE / "data", data)
    saved.mkdir()
    for dictionary in data.glob("dict.*"):
        shutil.copy(dictionary, saved)
    rule = {"word_rule": "spaces", "lower": False, "subwords": None}
    manifest.write(saved, Manifest("own", "translation", **rule, languages=("de", "en")))
    state = read_checkpoint(FIXTURE / "checkpoint.pt")
    state["cfg"]["task"]["data"] = str(data)
    path = str(saved / "checkpoint.pt")
    torch.save(state, path)

    assert load(path).task.cfg.data == str(saved)
    trained = load(path, reads_data=True)
    assert trained.task.cfg.data == str(data)
    trained.task.load_dataset("test")
    assert len(trained.task.dataset("test"))
    shutil.rmtree(data)
    with pytest.raises(UsageError, match=f"^{data}: no such folder of dictionaries"):
        load(path, reads_data=True)
