import pytest

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.text.props import (
    Proposition,
    RoleSentence,
    Sentence,
    Span,
    read_props,
    spans_of_tags,
    tags_of_spans,
    write_props,
)

HATS = """\
-     (A0*   (A1*)
-     *)     *
love  (V*)   *
-     (A1*)  *
fit   *      (V*)


-  \t
"""


def test_columns_are_propositions_and_are_written_as_read(write):
    first, second = sentences = read_props(write("gold.props", HATS))
    love, fit = first.propositions
    assert (love.predicate, love.position) == ("love", 2)
    assert love.spans == [Span("A0", 0, 1), Span("V", 2, 2), Span("A1", 3, 3)]
    assert (fit.predicate, fit.position) == ("fit", 4)
    assert fit.spans == [Span("A1", 0, 0), Span("V", 4, 4)]
    assert (second.length, second.propositions, second.line) == (1, [], 8)
    read = read_props(write("again.props", "".join(write_props(sentences))))
    assert [(s.propositions, s.length) for s in read] == [(first.propositions, 5), ([], 1)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("love (A0*\n- *\n", r"props:1: \(A0\* is never closed"),
        ("love *)\n", r"props:1: \*\) closes what was not opened"),
        ("love (A0*A1)\n", r"props:1: \(A0\*A1\) closes A1, not A0"),
        ("love A0\n", r"props:1: A0 is no cell"),
        ("love *\n\n- * *\n", r"props:3: 3 columns; needs 1,"),
    ],
)
def test_malformed_input_is_reported_with_file_and_line(write, text, message):
    with pytest.raises(UsageError, match=message):
        read_props(write("gold.props", text))


@pytest.mark.parametrize(
    ("tags", "spans"),
    [
        ("O O", []),
        ("B-A0 I-A0 O B-V", [("A0", 0, 1), ("V", 3, 3)]),
        ("I-A1 I-A0 O I-V", [("A1", 0, 1), ("V", 3, 3)]),  # the first tag's label
        ("B-A0 I-C-A1 O", [("A0", 0, 1)]),
    ],
)
def test_invalid_tags_are_read(tags, spans):
    assert spans_of_tags(tags.split()) == [Span(*span) for span in spans]


def test_tags_and_spans_convert_unless_two_share_a_word():
    tags = ["B-A0", "I-A0", "B-V", "O", "B-C-A0", "B-AM-TMP", "I-AM-TMP"]
    assert tags_of_spans(spans_of_tags(tags), len(tags)) == tags
    with pytest.raises(ValueError, match="A1 at words 1 to 2 lies on another"):
        tags_of_spans([Span("A0", 0, 1), Span("A1", 1, 2)], 3)
    nested = Sentence(2, [Proposition("do", 1, [Span("A0", 0, 1), Span("V", 1, 1)])])
    with pytest.raises(UsageError, match="^x.props:1: predicate 'do': V at words 1 to 1 lies on"):
        list(RoleSentence(("a", "b"), nested, "x.props:1").examples())
