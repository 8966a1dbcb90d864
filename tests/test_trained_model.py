import pytest

from fairseq_posattn.errors import UsageError
from fairseq_posattn.trained_model import load


def test_no_such_checkpoint(tmp_path):
    path = str(tmp_path / "best.pt")
    with pytest.raises(UsageError, match=f"^{path}: there is no such checkpoint$"):
        load(path)
