import pytest

from fairseq_posattn.common import figures
from fairseq_posattn.common.errors import UsageError


@pytest.mark.parametrize("name", ["figure", "figure.jpg", "figure.png.txt"])
def test_only_suffixes_that_can_be_drawn(tmp_path, name):
    path = str(tmp_path / name)
    with pytest.raises(UsageError, match=f"^--output {path}: the name must end in .png or .pdf$"):
        figures.check_picture(path)


def test_the_folder_must_be_there(tmp_path):
    path = str(tmp_path / "missing" / "figure.png")
    with pytest.raises(UsageError, match=f"^--output {path}: there is no such folder"):
        figures.check_picture(path)


def test_without_matplotlib(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "find_spec", lambda name: None)
    figures.check_picture(None)
    with pytest.raises(UsageError, match=r"pip install 'fairseq_posattn\[analysis\]'"):
        figures.check_picture(str(tmp_path / "figure.png"))


@pytest.mark.parametrize("suffix, start", [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("PNG", b"\x89")])
def test_pictures_are_what_their_names_say(tmp_path, suffix, start):
    path = tmp_path / f"figure.{suffix}"
    figure = figures.new_figure(2, 2)
    figure.subplots().plot([1, 2])
    figures.write_picture(figure, str(path))
    assert path.read_bytes().startswith(start)
    assert list(tmp_path.iterdir()) == [path]


def test_a_picture_may_go_through_a_link(tmp_path):
    (tmp_path / "link.png").symlink_to("figure.png")
    figures.write_picture(figures.new_figure(1, 1), str(tmp_path / "link.png"))
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "link.png").is_symlink()


def test_each_line_looks_different():
    looks = [tuple(figures.line_style(index).values()) for index in range(28)]
    assert len(set(looks)) == 28
