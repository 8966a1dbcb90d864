"""Pictures: names and formats."""

import warnings
from dataclasses import replace

import pytest
from matplotlib import font_manager

from fairseq_posattn.common import figures
from fairseq_posattn.common.errors import UsageError


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("figure", "the name must end in .png or .pdf$"),
        ("figure.png.txt", "the name must end in .png or .pdf$"),
        ("missing/figure.png", "there is no such folder"),
        ("figure.png", r"pictures need matplotlib: pip install 'fairseq_posattn\[analysis\]'"),
    ],
)
def test_pictures_that_cannot_be_drawn_are_refused(tmp_path, monkeypatch, name, message):
    monkeypatch.setattr(figures, "find_spec", lambda name: None)
    figures.check_picture(None)
    with pytest.raises(UsageError, match=f"^--output {tmp_path / name}: {message}"):
        figures.check_picture(str(tmp_path / name))


@pytest.mark.parametrize("suffix, start", [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("PNG", b"\x89")])
def test_the_suffix_selects_the_format(tmp_path, suffix, start):
    path = tmp_path / f"figure.{suffix}"
    figure = figures.new_figure(2, 2)
    figure.subplots().plot([1, 2])
    figures.write_picture(figure, str(path))
    assert path.read_bytes().startswith(start)
    assert list(tmp_path.iterdir()) == [path]


def test_letters_that_the_default_font_lacks_are_of_another_font(tmp_path, monkeypatch):
    """matplotlib, which warns of missing glyphs, brings a second font with this letter."""
    fonts = font_manager.fontManager.ttflist
    font = next(font for font in fonts if font.fname.endswith("STIXGeneral.ttf"))
    removed = replace(font, name="removed", fname=str(tmp_path / "removed.ttf"))
    boxes = replace(font, name=".LastResort")
    monkeypatch.setattr(font_manager.fontManager, "ttflist", [removed, boxes, font, *fonts])
    figure = figures.new_figure(3, 2)
    axes = figure.subplots()
    axes.plot([0, 1], label="\u24b6 \n b")
    axes.set_yticks([0, 1], ["\u24b7", "b"])
    legend = axes.legend()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figures.write_picture(figure, str(tmp_path / "figure.png"))
    assert legend.get_texts()[0].get_fontfamily()[1:] == ["STIXGeneral"]
