"""Shared parts of the figures: matplotlib, which is optional, colors, fonts and files."""

import io
import logging
import os
import sys
import warnings
from collections.abc import Iterable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import check_writable, writing

SUFFIXES = (".png", ".pdf")
LARGEST = 100  # inches
NEEDS = "pictures need matplotlib: pip install 'fairseq_posattn[analysis]'"

# Okabe and Ito's colors for the color-blind, without the yellow, too pale for lines.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
LINE_STYLES = ("-", "--", ":", "-.")


def line_style(index: int) -> dict[str, str]:
    """Return color and line style of a line; the first 28 differ."""
    repeats, color = divmod(index, len(COLORS))
    return {"color": COLORS[color], "linestyle": LINE_STYLES[repeats % len(LINE_STYLES)]}


def new_figure(width: float, height: float) -> Any:
    """Return an empty matplotlib figure of a size in inches, at most :data:`LARGEST`, no window."""
    # It logs all its fonts, since fairseq has opened the root logger.
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
    """Return whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def check_picture(path: str | None, instead: str = "", option: str = "--output") -> None:
    """Raise UsageError if the picture of an option cannot be drawn or written.

    ``instead`` is what to do without matplotlib.
    """
    if path is None:
        return
    if Path(path).suffix.lower() not in SUFFIXES:
        raise UsageError(f"{option} {path}: the name must end in {' or '.join(SUFFIXES)}")
    check_writable(path, option)
    if not can_draw():
        raise UsageError(f"{option} {path}: {NEEDS}{instead}")


def use_fonts_for(figure: Any) -> None:
    """Take characters that the default font lacks from other fonts of the machine.

    Characters without any font are listed in a warning. matplotlib does not join letters, nor
    write from right to left; ``posattn look`` does.
    """
    from matplotlib import font_manager
    from matplotlib.ft2font import FT2Font
    from matplotlib.text import Text

    texts = figure.findobj(Text)
    default = FT2Font(font_manager.findfont(font_manager.FontProperties())).get_charmap()
    shown = {one for text in texts for one in text.get_text() if one.isprintable()}
    missing = {one for one in shown if ord(one) not in default}
    fonts = []
    for path in font_manager.findSystemFonts() if missing else ():
        with suppress(OSError, RuntimeError):  # unreadable fonts
            font = FT2Font(path)
            covered = {one for one in missing if ord(one) in font.get_charmap()}
            fonts.append((covered, font.style_name == "Regular", font.family_name, path))
    families: list[str] = []
    for covered, _, family, path in sorted(fonts, key=lambda font: (-len(font[0]), not font[1])):
        if missing & covered:
            font_manager.fontManager.addfont(path)
            families.append(family)
            missing -= covered
    for text in texts if families else ():
        text.set_fontfamily([*text.get_fontfamily(), *families])
    if missing:
        sys.stderr.write(
            f"warning: no font of this machine has {' '.join(sorted(missing)[:10])}: boxes stand "
            "for them; install one, such as Noto Sans, or look at the words in a browser: posattn "
            "look\n"
        )


def write_picture(figure: Any, path: str) -> None:
    """Write a figure in the format of the file's suffix."""
    write_pages([figure], path)


def write_pages(pages: Iterable[Any], path: str) -> list[str]:
    """Write figures as pages of one PDF, or as ``NAME-1.png``, ``NAME-2.png`` and so on.

    Returns the names of the files; a single picture is called ``path``.
    """
    from matplotlib.backends.backend_pdf import PdfPages

    stem, suffix = os.path.splitext(path)
    kind = suffix[1:].lower()
    memories = [io.BytesIO()] if kind == "pdf" else []
    document: Any = PdfPages(memories[0]) if memories else None
    for figure in pages:
        use_fonts_for(figure)
        if document is None:
            memories.append(io.BytesIO())
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from ")  # use_fonts_for warns
            figure.savefig(document or memories[-1], format=kind, dpi=150, bbox_inches="tight")
    if document is not None:
        document.close()
    names = [path]
    if len(memories) > 1:
        names = [f"{stem}-{number}{suffix}" for number in range(1, len(memories) + 1)]
    for name, memory in zip(names, memories, strict=True):
        with writing(name, binary=True) as file:
            file.write(memory.getvalue())
    return names
