"""Line ends of the text that fairseq reads: ``\\n`` and ``\\r\\n``, as everywhere in the package.

A lone carriage return, which ends lines in Python's text files, would shift all following pairs.
"""

from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any

from fairseq import file_chunker_utils, utils
from fairseq.data import dictionary, indexed_dataset
from fairseq.tasks import sentence_prediction, sentence_ranking

from fairseq_posattn.compat.patching import (
    Function,
    around,
    instead,
    interactive_loop,
    preprocessing,
    replaced,
    when_applied,
)
from fairseq_posattn.text.lines import file_lines, one_line

# Modules that open text files. The chunks that several workers read are cut by the first.
DATA_READERS = file_chunker_utils, dictionary, indexed_dataset, utils
READERS = *DATA_READERS, sentence_prediction, sentence_ranking


def open_text(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
    """Open a file as :func:`open`, but end lines of text at ``\\n`` only; readers strip ``\\r``."""
    if "b" not in mode:
        kwargs["newline"] = "\n"
    return open(file, mode, *args, **kwargs)


@when_applied
def end_lines_at_line_feeds() -> None:
    """Let fairseq's readers of parallel text, alignments, dictionaries and labels use it."""
    modules: tuple[Any, ...] = (*READERS, preprocessing())
    for module in filter(None, modules):
        module.open = open_text


@instead(interactive_loop, "buffered_read")
def read_groups(input: str, buffer_size: int, ends: str | None = None) -> Iterator[list[str]]:
    """Yield groups of lines of a file or of standard input, ``"-"``, as training reads them.

    Other separators of lines become spaces: ``--bpe`` would take them for text. Characters of
    ``ends``, by default all white space, are removed at both ends.
    """
    lines = (one_line(line).strip(ends) for line in file_lines(input, allow_empty=True))
    while group := list(islice(lines, buffer_size)):
        yield group


@around(interactive_loop, "main")
def keep_text_of_sentencepiece(main: Function, cfg: Any) -> Any:
    """Keep wide and no-break spaces at the ends of lines, which are text to SentencePiece alone."""
    ends = " \t" if getattr(cfg.bpe, "_name", None) == "sentencepiece" else None
    with replaced(interactive_loop(), "buffered_read", partial(read_groups, ends=ends)):
        return main(cfg)
