"""Stories of CNN and the Daily Mail (Hermann et al., 2015): an article, then its highlights.

A story is a file of lines with empty ones between; each line after ``@highlight`` is a highlight.

Lines of an article that do not end as sentences do, such as captions, get a " .", as is usual since
See et al. (2017), and are joined by spaces. Highlights all end in " .", which makes them sentences
to ROUGE: files2rouge and ``score_rouge.py`` end sentences there. Nothing else is changed: not case,
not tokens, and not the place and agency that a story begins with.
"""

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.text.lines import LONGEST, read_lines

HIGHLIGHT = "@highlight"
# What may end a sentence, in the order of See et al. (2017)
ENDS = (".", "!", "?", "'", "`", '"', "\u2019", "\u201d", ")")


def read_story(stream, name):
    """The article and the summary of a story, each a line; "" for what it does not have."""
    article, highlights = [], []
    lines, length = article, 0
    for line in read_lines(stream, name, allow_empty=True):
        line = clean(line)
        length += len(line)
        if length > LONGEST:
            raise UsageError(f"{name}: a story of more than {LONGEST:,} characters is none")
        if line.startswith(HIGHLIGHT):
            lines = highlights
        elif line:
            lines.append(line)
    return " ".join(map(close_sentence, article)), summary(highlights)


def summary(highlights):
    """Highlights as the sentences of one line."""
    sentences = (clean(highlight).rstrip(". ") for highlight in highlights)
    return " ".join(f"{sentence} ." for sentence in sentences if sentence)


def close_sentence(line):
    """The line with an end."""
    return line if line.endswith(ENDS) else f"{line} ."


def clean(line):
    """A line with single spaces for white space of any kind."""
    return " ".join(line.split())
