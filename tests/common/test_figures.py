"""Pictures: names, formats, and fonts for any script."""

import warnings

import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
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


@pytest.fixture
def font(tmp_path):
    """Return a function that writes a font of these characters and returns its path."""

    def make(family, characters):
        pen = TTGlyphPen(None)
        pen.moveTo((0, 0))
        for point in ((0, 500), (500, 500), (500, 0)):
            pen.lineTo(point)
        pen.closePath()
        names = [".notdef", *(f"uni{ord(one):04X}" for one in characters)]
        builder = FontBuilder(1000)
        builder.setupGlyphOrder(names)
        builder.setupCharacterMap(dict(zip(map(ord, characters), names[1:], strict=True)))
        builder.setupGlyf(dict.fromkeys(names, pen.glyph()))
        builder.setupHorizontalMetrics(dict.fromkeys(names, (600, 0)))
        builder.setupHorizontalHeader(ascent=800, descent=-200)
        builder.setupNameTable({"familyName": family, "styleName": "Regular"})
        builder.setupOS2()
        builder.setupPost()
        builder.save(tmp_path / f"{family}.ttf")
        return str(tmp_path / f"{family}.ttf")

    return make


@pytest.fixture
def drawn(tmp_path, monkeypatch, capsys):
    """Return a function that draws labels and returns font families and stderr."""
    known = list(font_manager.fontManager.ttflist)

    def draw(fonts, *labels):
        monkeypatch.setattr(font_manager, "findSystemFonts", fonts)
        figure = figures.new_figure(2, 2)
        axis = figure.subplots()
        axis.set_xticks(range(len(labels)), labels)
        before = axis.get_xticklabels()[0].get_fontfamily()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            figures.write_picture(figure, str(tmp_path / "picture.png"))
        return before, axis.get_xticklabels()[0].get_fontfamily(), capsys.readouterr().err

    yield draw
    font_manager.fontManager.ttflist = known


def test_characters_come_from_a_font_that_has_them(tmp_path, font, drawn):
    fonts = [font("Dogs", "犬a"), font("Cats", "猫"), font("Others", "x"), str(tmp_path / "gone")]
    before, after, error = drawn(lambda: fonts, "a 猫 犬", "b")
    assert after[: len(before)] == before
    assert sorted(after[len(before) :]) == ["Cats", "Dogs"]
    assert error == ""


def test_characters_that_no_font_has_are_reported_in_one_line(font, drawn):
    fonts = [font("Cats", "猫")]
    (line,) = drawn(lambda: fonts, "猫 犬 鳥", "犬")[2].splitlines()
    assert line.startswith("warning: no font of this machine has 犬 鳥: boxes stand for them")
