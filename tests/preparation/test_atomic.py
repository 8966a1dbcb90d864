"""Files that appear whole or not at all."""

import pytest

from fairseq_posattn.preparation.pipeline.atomic import writing


def test_file_appears_when_it_is_whole(tmp_path):
    path = tmp_path / "text"
    with writing(path) as file:
        file.write("größer\n")
        assert not path.exists()
    assert path.read_bytes() == "größer\n".encode()
    assert list(tmp_path.iterdir()) == [path]


def test_failure_leaves_what_was_there(tmp_path):
    path = tmp_path / "text"
    path.write_text("before")
    with pytest.raises(RuntimeError), writing(path) as file:
        file.write("half")
        raise RuntimeError
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]
