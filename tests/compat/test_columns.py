"""Rows of sentence data are checked for models that ask for it."""

from types import SimpleNamespace

import pytest
from fairseq import models, options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.training.models import PosAttnClassifier


@pytest.fixture
def task_of(write_sentence_data, tmp_path, monkeypatch):
    """``task_of(checks_rows)``: a task whose data has an empty row, and has built such a model."""

    def setup(checks_rows):
        columns = {"input0": ["a dog runs", "", "it rains"], "label": ["yes", "no", "no"]}
        data = write_sentence_data(tmp_path / "data", {"train": columns})
        flags = [str(data), "--task", "sentence_prediction", "--num-classes", "2"]
        flags += ["--criterion", "sentence_prediction", "--arch", "mpsan_classifier"]
        args = options.parse_args_and_arch(options.get_training_parser(), flags)
        cfg = convert_namespace_to_omegaconf(args)
        task = tasks.setup_task(cfg.task)
        model = SimpleNamespace(
            checks_rows=checks_rows, register_classification_head=lambda *args, **kwargs: None
        )
        monkeypatch.setattr(models, "build_model", lambda cfg, task, from_checkpoint: model)
        task.build_model(cfg.model)
        return task

    return setup


def test_rows_are_checked_for_models_that_need_it(task_of):
    with pytest.raises(UsageError, match="input0/train: row 2 is empty"):
        task_of(PosAttnClassifier.checks_rows).load_dataset("train")


def test_others_train_on_what_fairseq_makes_of_them(task_of):
    assert len(task_of(False).load_dataset("train")) == 3
