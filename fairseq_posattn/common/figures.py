"""Shared parts of the figures: matplotlib, which is optional, colors and files."""

import logging
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import check_writable, writing

SUFFIXES = (".png", ".pdf")
NEEDS = "pictures need matplotlib: pip install 'fairseq_posattn[analysis]'"

# Okabe and Ito's colors for the color-blind, without the yellow, too pale for lines.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
LINE_STYLES = ("-", "--", ":", "-.")


def line_style(index: int) -> dict[str, str]:
    """Return color and line style of a line; the first 28 differ."""
    repeats, color = divmod(index, len(COLORS))
    return {"color": COLORS[color], "linestyle": LINE_STYLES[repeats % len(LINE_STYLES)]}


def new_figure(width: float, height: float) -> Any:
    """Return an empty matplotlib figure of a size in inches, without a window."""
    # It logs all its fonts, since fairseq has opened the root logger.
    logging.getLogger("matplotlib").setLevel(logging.WARNING)
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    layout = ConstrainedLayoutEngine(hspace=0.06, wspace=0.04)
    return Figure(figsize=(width, height), layout=layout)


def can_draw() -> bool:
    return find_spec("matplotlib") is not None


def check_picture(path: str | None, instead: str = "", option: str = "--output") -> None:
    """Raise UsageError if a picture cannot be drawn, with what to do ``instead``, or written."""
    if path is None:
        return
    if Path(path).suffix.lower() not in SUFFIXES:
        raise UsageError(f"{option} {path}: the name must end in {' or '.join(SUFFIXES)}")
    check_writable(path, option)
    if not can_draw():
        raise UsageError(f"{option} {path}: {NEEDS}{instead}")


def write_picture(figure: Any, path: str) -> None:
    """Write a figure in the format of the file's suffix."""
    add_fonts(figure)
    with writing(path, binary=True) as file:
        figure.savefig(file, format=Path(path).suffix[1:].lower(), dpi=150, bbox_inches="tight")


def add_fonts(figure: Any) -> None:
    """Let texts fall back to installed fonts with letters that the default font lacks."""
    from matplotlib.font_manager import FontProperties, findfont, fontManager, get_font
    from matplotlib.text import Text

    texts, names = figure.findobj(Text), []
    letters = {ord(letter) for text in texts for letter in text.get_text() if not letter.isspace()}
    letters -= get_font(findfont(FontProperties())).get_charmap().keys()
    for font in fontManager.ttflist:
        if not letters:
            break
        if font.style != "normal" or "LastResort" in font.name.replace(" ", ""):
            continue  # that font has boxes for all letters
        with suppress(OSError, RuntimeError):  # of a removed font, which stays in the cached list
            if known := letters & get_font(font.fname).get_charmap().keys():
                names.append(font.name)
                letters -= known
    for text in texts if names else ():
        text.set_fontfamily([*text.get_fontfamily(), *names])
