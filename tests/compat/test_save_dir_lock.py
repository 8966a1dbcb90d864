"""A training's folder is locked; tests/end_to_end/test_stopping.py has two trainings in one."""

import pytest

from fairseq_posattn.training import plugin

plugin.register()

from fairseq_posattn.common.errors import UsageError  # noqa: E402
from fairseq_posattn.compat.save_dir_lock import lock  # noqa: E402


def test_what_a_link_in_the_folder_leads_to_is_not_written_over(tmp_path):
    (tmp_path / "saved").mkdir()
    (tmp_path / "thesis.txt").write_text("mine")
    (tmp_path / "saved" / ".lock").symlink_to("../thesis.txt")
    with pytest.raises(UsageError, match="saved/.lock is a link, which no training makes: remove"):
        lock(tmp_path / "saved")
    assert (tmp_path / "thesis.txt").read_text() == "mine"
