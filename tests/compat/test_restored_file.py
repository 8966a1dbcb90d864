from types import SimpleNamespace

import pytest
from fairseq import checkpoint_utils

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.restored_file import _refuse_missing
from fairseq_posattn.training.plugin import register

register()


def load(tmp_path, restore_file):
    """What fairseq is asked to load once the file has been looked for."""
    asked = []
    cfg = SimpleNamespace(restore_file=restore_file, save_dir=str(tmp_path))
    trainer = SimpleNamespace(checkpoint_suffix="")
    _refuse_missing(lambda cfg, trainer: asked.append(cfg.restore_file), cfg, trainer)
    return asked


@pytest.mark.parametrize("restore_file", ["", "checkpoint_last.pt"])
def test_no_file_and_none_yet_are_from_scratch(tmp_path, restore_file):
    assert load(tmp_path, restore_file) == [restore_file]


def test_a_file_that_is_named_must_be_there(tmp_path):
    with pytest.raises(UsageError, match="--restore-file: there is no file checkpoint_7.pt"):
        load(tmp_path, "checkpoint_7.pt")


def test_the_mend_is_in_place():
    assert checkpoint_utils.load_checkpoint.__wrapped__ is not None
