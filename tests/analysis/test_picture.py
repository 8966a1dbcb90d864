import json
import sys

import pytest

from fairseq_posattn.analysis import picture
from fairseq_posattn.errors import UsageError


@pytest.mark.parametrize("name", ["figure", "figure.jpg", "figure.png.txt"])
def test_only_suffixes_that_can_be_drawn(tmp_path, name):
    path = str(tmp_path / name)
    with pytest.raises(UsageError, match=f"^--output {path}: the name must end in .png or .pdf$"):
        picture.check_picture("--output", path)


def test_the_folder_must_be_there(tmp_path):
    path = str(tmp_path / "missing" / "numbers.json")
    with pytest.raises(UsageError, match=f"^--json {path}: there is no such folder"):
        picture.check_output("--json", path)


def test_without_matplotlib(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # as if it were not installed
    picture.check_picture("--output", None)
    with pytest.raises(UsageError, match=r"pip install 'fairseq_posattn\[analysis\]'"):
        picture.check_picture("--output", str(tmp_path / "figure.png"))


@pytest.mark.parametrize("suffix, start", [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("PNG", b"\x89")])
def test_pictures_are_what_their_names_say(tmp_path, suffix, start):
    path = tmp_path / f"figure.{suffix}"
    figure = picture.new_figure(2, 2)
    figure.subplots().plot([1, 2])
    picture.write_picture(figure, str(path))
    assert path.read_bytes().startswith(start)
    assert list(tmp_path.iterdir()) == [path]


def test_numbers_are_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "numbers.json"
    picture.write_json({"word": "für", "numbers": [1.5, None]}, str(path))
    assert json.loads(path.read_text(encoding="utf-8")) == {"word": "für", "numbers": [1.5, None]}
    before = path.read_bytes()
    with pytest.raises(ValueError):
        picture.write_json({"number": float("nan")}, str(path))  # which JSON has not
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_place_that_cannot_be_written(tmp_path):
    folder = tmp_path / "numbers.json"
    folder.mkdir()
    with pytest.raises(UsageError, match=f"^{folder} cannot be written: Is a directory$"):
        picture.write_json({}, str(folder))
    assert list(tmp_path.iterdir()) == [folder]


def test_each_line_looks_different():
    looks = [tuple(picture.line_style(index).values()) for index in range(28)]
    assert len(set(looks)) == 28
