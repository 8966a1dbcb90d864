"""A copy of a checkpoint is whole or not there."""

import errno
import os
import shutil
from pathlib import Path

import pytest
from fairseq.file_io import PathManager

from fairseq_posattn import compat
from fairseq_posattn.common.errors import UsageError

compat.apply()


def test_a_copy_that_fails_leaves_the_old_checkpoint(tmp_path, monkeypatch):
    new, old = tmp_path / "checkpoint_1_2.pt", tmp_path / "checkpoint_last.pt"
    new.write_bytes(b"new" * 100)
    old.write_bytes(b"old" * 100)

    def full_disk(source, destination):
        Path(destination).write_bytes(Path(source).read_bytes()[:10])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(destination))

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "copyfile", full_disk)
        with pytest.raises(UsageError) as caught:
            PathManager.copy(str(new), str(old), overwrite=True)
    assert str(caught.value) == (
        f"{old} cannot be written: No space left on device; there is no good checkpoint"
    )
    assert old.read_bytes() == b"old" * 100
    assert sorted(path.name for path in tmp_path.iterdir()) == [new.name, old.name]

    assert PathManager.copy(str(new), str(old), overwrite=True)
    assert old.read_bytes() == b"new" * 100
    assert sorted(path.name for path in tmp_path.iterdir()) == [new.name, old.name]
