"""Pictures: their names, their files, and words in any script that the machine has fonts for."""

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
    ],
)
def test_names_of_pictures_are_checked(tmp_path, name, message):
    with pytest.raises(UsageError, match=f"^--output {tmp_path / name}: {message}"):
        figures.check_picture(str(tmp_path / name))


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


def test_each_line_looks_different():
    looks = [tuple(figures.line_style(index).values()) for index in range(28)]
    assert len(set(looks)) == 28


@pytest.fixture
def font(tmp_path):
    """``font("Cats", "猫")``: the file of a font that has these characters."""

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
        path = tmp_path / f"{family}.ttf"
        builder.save(path)
        return str(path)

    return make


@pytest.fixture
def fonts(monkeypatch):
    """``fonts(path, ...)``: those that the machine has."""
    known = list(font_manager.fontManager.ttflist)

    def have(*paths):
        monkeypatch.setattr(font_manager, "findSystemFonts", lambda: list(paths))

    yield have
    font_manager.fontManager.ttflist = known


def labelled(*labels):
    figure = figures.new_figure(2, 2)
    axis = figure.subplots()
    axis.set_xticks(range(len(labels)), labels)
    return figure, [label.get_fontfamily() for label in axis.get_xticklabels()]


def families(figure):
    return figure.axes[0].get_xticklabels()[0].get_fontfamily()


def test_characters_come_from_a_font_that_has_them(tmp_path, font, fonts, capsys):
    fonts(font("Dogs", "犬a"), font("Cats", "猫"), font("Others", "x"), str(tmp_path / "gone.ttf"))
    figure, before = labelled("a 猫 犬", "b")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figures.write_picture(figure, str(tmp_path / "picture.png"))
    assert families(figure)[: len(before[0])] == before[0]
    assert sorted(families(figure)[len(before[0]) :]) == ["Cats", "Dogs"]
    assert capsys.readouterr().err == ""


def test_characters_that_no_font_has_are_told_in_one_line(tmp_path, font, fonts, capsys):
    fonts(font("Cats", "猫"))
    figure, _ = labelled("猫 犬 鳥", "犬")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figures.write_picture(figure, str(tmp_path / "picture.pdf"))
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("warning: no font of this machine has 犬 鳥: boxes stand for them")


def test_what_the_usual_font_has_looks_for_no_other(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: pytest.fail("looked for fonts"))
    figure, before = labelled("Straße", "$x^2$", "a\nb")
    figures.write_picture(figure, str(tmp_path / "picture.png"))
    assert families(figure) == before[0]
    assert capsys.readouterr().err == ""
