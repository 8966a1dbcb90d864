"""What the figures share: matplotlib, which is optional, colours, and files that are whole."""

import io
import logging
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fairseq_posattn.errors import UsageError
from fairseq_posattn.files import check_writable, writing

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


def check_picture(option: str, path: str | None, instead: str = "") -> None:
    """Raise UsageError if a picture cannot be drawn or written, before there is one to write.

    Args:
        instead: what to do where matplotlib is not installed.
    """
    if path is None:
        return
    if Path(path).suffix.lower() not in SUFFIXES:
        raise UsageError(f"{option} {path}: the name must end in {' or '.join(SUFFIXES)}")
    check_writable(path, option)
    if not can_draw():
        raise UsageError(f"{option} {path}: {NEEDS}{instead}")


def write_picture(figure: Any, path: str) -> None:
    """As the suffix says."""
    memory = io.BytesIO()
    kind = Path(path).suffix[1:].lower()
    figure.savefig(memory, format=kind, dpi=DOTS_PER_INCH, bbox_inches="tight")
    with writing(path, binary=True) as file:
        file.write(memory.getvalue())
