"""Sentences of the evaluation campaigns' XML and SGML files.

They are read by lines, as the published preparations do, because the files are not well formed.
Entities such as ``&amp;`` stay as they are, as there: the tokeniser escapes them once more.
"""

import re

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.text.lines import read_lines

SEGMENT = re.compile(r'\s*<seg id="?\d+"?>\s*(.*?)\s*</seg>\s*')


def read_segments(stream, name):
    """What stands between ``<seg id="N">`` and ``</seg>``, one sentence a line.

    Raises:
        UsageError: a segment does not end on its line, or there is none.
    """
    found = False
    for number, line in enumerate(read_lines(stream, name), start=1):
        if "<seg id" not in line:
            continue
        segment = SEGMENT.fullmatch(line)
        if segment is None:
            raise UsageError(f"{name}:{number}: not <seg id=...> ... </seg> on one line")
        found = True
        yield segment[1].replace("’", "'")
    if not found:
        raise UsageError(f"{name}: holds no <seg id=...>")
