import io

import pytest

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.corpora.cnn_dailymail import read_story, summary
from fairseq_posattn.scoring.rouge import sentences

STORY = """\
LONDON, England (CNN) -- Harry\tPotter star  turns 18.\r

A caption without a stop

"He said so"

@highlight

Star turns 18 Monday

@highlight

Will he spend it all?

@highlight

No, he says.

@highlight

Born in the U.S. .

"""


def read(text):
    return read_story(io.BytesIO(text.encode()), "x.story")


def test_article_is_its_lines_with_ends():
    article, _ = read(STORY)
    assert article == (
        "LONDON, England (CNN) -- Harry Potter star turns 18. A caption without a stop . "
        '"He said so"'
    )


def test_highlights_are_the_sentences_of_the_summary():
    _, summary = read(STORY)
    assert summary == (
        "Star turns 18 Monday . Will he spend it all? . No, he says . Born in the U.S ."
    )
    assert sentences(summary) == [
        "Star turns 18 Monday",
        "Will he spend it all?",
        "No, he says",
        "Born in the U.S",
    ]


def test_a_summary_stays_as_it_is():
    once = summary(["One. two .", "Three"])
    assert once == "One. two . Three ."
    assert summary(once.removesuffix(" .").split(" . ")) == once
    assert summary(["", " . "]) == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ("", "")),
        ("\n\n@highlight\n\nOnly this\n", ("", "Only this .")),
        ("Only an article\n", ("Only an article .", "")),
    ],
)
def test_what_a_story_lacks_is_empty(text, expected):
    assert read(text) == expected


def test_bad_encoding_is_told_with_its_line():
    with pytest.raises(UsageError, match="x.story:3: not UTF-8"):
        read_story(io.BytesIO(b"one\n\nb\xe4d\n"), "x.story")
