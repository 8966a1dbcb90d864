"""What the figures share: matplotlib, which is optional, colours, and files that are whole."""

import io
import logging
from pathlib import Path

from fairseq_posattn.errors import UsageError
from fairseq_posattn.files import check_writable, writing

SUFFIXES = (".png", ".pdf")
DOTS_PER_INCH = 150
LARGEST = 100  # inches

# Of Okabe and Ito: the colour-blind tell them apart. Without the yellow, too pale for lines.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
LINE_STYLES = ("-", "--", ":", "-.")


def line_style(index: int) -> dict:
    """A look of its own for each of 28 lines."""
    repeats, colour = divmod(index, len(COLOURS))
    return {"color": COLOURS[colour], "linestyle": LINE_STYLES[repeats % len(LINE_STYLES)]}


def new_figure(width: float, height: float):
    """An empty matplotlib figure of so many inches, without a window.

    Raises:
        UsageError: it would be too large to look at.
    """
    # It tells all its fonts, once fairseq has opened the log to everybody.
    logging.getLogger("matplotlib").setLevel(logging.WARNING)
    from matplotlib.figure import Figure

    if max(width, height) > LARGEST:
        raise UsageError(
            f"a picture of {width:.0f} by {height:.0f} inches is too large: choose fewer --layers, "
            "--sublayers or --heads, or a shorter sentence"
        )
    figure = Figure(figsize=(width, height), layout="constrained")
    figure.get_layout_engine().set(hspace=0.06, wspace=0.04)
    return figure


def check_picture(option: str, path: str | None):
    """Raise UsageError if a picture cannot be drawn or written, before there is one to write."""
    if path is None:
        return
    if Path(path).suffix.lower() not in SUFFIXES:
        raise UsageError(f"{option} {path}: the name must end in {' or '.join(SUFFIXES)}")
    check_writable(path, option)
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f"{option} {path}: pictures need matplotlib: pip install 'fairseq_posattn[analysis]' "
            "(or write the numbers alone, with --json)"
        ) from error


def write_picture(figure, path: str):
    """As the suffix says."""
    memory = io.BytesIO()
    kind = Path(path).suffix[1:].lower()
    figure.savefig(memory, format=kind, dpi=DOTS_PER_INCH, bbox_inches="tight")
    with writing(path, binary=True) as file:
        file.write(memory.getvalue())
