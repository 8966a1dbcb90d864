"""What the figures share: matplotlib, which is optional, colours, and files that are whole."""

import io
import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import check_writable, writing

SUFFIXES = (".png", ".pdf")
DOTS_PER_INCH = 150
LARGEST = 100  # inches
NEEDS = "pictures need matplotlib: pip install 'fairseq_posattn[analysis]'"

# Of Okabe and Ito: the colour-blind tell them apart. Without the yellow, too pale for lines.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
LINE_STYLES = ("-", "--", ":", "-.")


def line_style(index: int) -> dict[str, str]:
    """A look of its own for each of 28 lines."""
    repeats, colour = divmod(index, len(COLOURS))
    return {"color": COLOURS[colour], "linestyle": LINE_STYLES[repeats % len(LINE_STYLES)]}


def new_figure(width: float, height: float) -> Any:
    """An empty matplotlib figure of so many inches, without a window.

    Raises:
        UsageError: it would be too large to look at.
    """
    # It tells all its fonts, once fairseq has opened the log to everybody.
    logging.getLogger("matplotlib").setLevel(logging.WARNING)
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    if max(width, height) > LARGEST:
        raise UsageError(
            f"a picture of {width:.0f} by {height:.0f} inches is too large: choose fewer --layers, "
            "--sublayers or --heads, or a shorter sentence"
        )
    layout = ConstrainedLayoutEngine(hspace=0.06, wspace=0.04)
    return Figure(figsize=(width, height), layout=layout)


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def check_picture(path: str | None, instead: str = "") -> None:
    """Raise UsageError if the picture of --output cannot be drawn or written, before there is one.

    Args:
        instead: what to do where matplotlib is not installed.
    """
    if path is None:
        return
    if Path(path).suffix.lower() not in SUFFIXES:
        raise UsageError(f"--output {path}: the name must end in {' or '.join(SUFFIXES)}")
    check_writable(path, "--output")
    if not can_draw():
        raise UsageError(f"--output {path}: {NEEDS}{instead}")


def use_fonts_for(figure: Any) -> None:
    """Take characters that the usual font lacks, as Japanese ones, from others of the machine.

    What none of them has is told in a line. Letters of scripts that are joined, or written from the
    right, matplotlib sets one by one: ``posattn look`` shows them as they are written.
    """
    from matplotlib import font_manager
    from matplotlib.ft2font import FT2Font
    from matplotlib.text import Text

    texts = figure.findobj(Text)
    usual = FT2Font(font_manager.findfont(font_manager.FontProperties())).get_charmap()
    shown = {one for text in texts for one in text.get_text() if one.isprintable()}
    missing = {one for one in shown if ord(one) not in usual}
    families: list[str] = []
    fonts = sorted(_fonts_with(missing), key=lambda font: (len(font[0]), font[1]), reverse=True)
    for found, _, family, path in fonts:
        if missing & found:
            font_manager.fontManager.addfont(path)
            families.append(family)
            missing -= found
    for text in texts if families else ():
        text.set_fontfamily([*text.get_fontfamily(), *families])
    if missing:
        some = " ".join(sorted(missing)[:10])
        sys.stderr.write(
            f"warning: no font of this machine has {some}: boxes stand for them; install one, such "
            "as Noto Sans, or look at the words in a browser: posattn look\n"
        )


def _fonts_with(characters: set[str]) -> Iterator[tuple[set[str], bool, str, str]]:
    """Of the machine's fonts that have some: which, whether it is upright, its family, its file."""
    from matplotlib import font_manager
    from matplotlib.ft2font import FT2Font

    for path in font_manager.findSystemFonts() if characters else ():
        with suppress(OSError, RuntimeError):  # one that cannot be read
            font = FT2Font(path)
            known = font.get_charmap()
            if found := {one for one in characters if ord(one) in known}:
                yield found, font.style_name == "Regular", font.family_name, path


def write_picture(figure: Any, path: str) -> None:
    """As the suffix says."""
    memory = io.BytesIO()
    kind = Path(path).suffix[1:].lower()
    use_fonts_for(figure)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from ")  # told in one line
        figure.savefig(memory, format=kind, dpi=DOTS_PER_INCH, bbox_inches="tight")
    with writing(path, binary=True) as file:
        file.write(memory.getvalue())
