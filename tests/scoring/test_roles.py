"""Hand-made propositions with the counts of the shared task's script."""

import json

import pytest

from fairseq_posattn.scoring.commands.score import main
from fairseq_posattn.scoring.roles import arguments, compare, compare_propositions
from fairseq_posattn.text.props import Proposition, Sentence, spans_of_tags


def spans(tags):
    return spans_of_tags(tags.split())


def sentence(*propositions, length=4):
    return Sentence(
        length, [Proposition(lemma, index, spans(tags)) for lemma, index, tags in propositions]
    )


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("B-A0 B-V B-A1", [("A0", ((0, 0),)), ("A1", ((2, 2),))]),
        ("B-A1 B-V B-C-A1", [("A1", ((0, 0), (2, 2)))]),
        ("B-C-A1 B-V B-C-A1", [("A1", ((0, 0), (2, 2)))]),  # without a head: starts an argument
        ("B-A1 B-A1 B-C-A1", [("A1", ((0, 0),)), ("A1", ((1, 1), (2, 2)))]),  # the last argument
        ("B-V B-C-V B-A1", [("A1", ((2, 2),))]),
        ("B-R-A0 B-A0 O", [("R-A0", ((0, 0),)), ("A0", ((1, 1),))]),
    ],
)
def test_pieces_form_arguments(tags, expected):
    assert arguments(spans(tags)) == expected


@pytest.mark.parametrize(
    ("gold", "predicted", "counts"),
    [
        ("B-A0 B-V B-A1 I-A1", "B-A0 B-V B-A1 I-A1", (2, 0, 0, 1)),
        ("B-A0 B-V B-A1 I-A1", "B-A0 B-V B-A1 O", (1, 1, 1, 0)),  # another end
        ("B-A0 B-V O O", "B-A1 B-V O O", (0, 1, 1, 0)),  # another type
        ("B-A0 B-V O O", "B-A0 O B-V O", (1, 0, 0, 1)),  # V does not count
        ("B-A1 O B-C-A1 B-V", "B-A1 I-A1 I-A1 B-V", (0, 1, 1, 0)),  # the whole span as one
        ("B-A1 O B-C-A1 B-V", "B-A1 O B-A1 B-V", (0, 2, 1, 0)),  # two for one
        ("B-A1 O B-A1 B-V", "B-A1 O B-C-A1 B-V", (0, 1, 2, 0)),
        ("O B-V O O", "O B-V O O", (0, 0, 0, 1)),
        ("O B-V O O", "O B-V B-A1 O", (0, 1, 0, 0)),
    ],
)
def test_arguments_are_counted(gold, predicted, counts):
    result = compare_propositions(spans(gold), spans(predicted))
    totals = (result.correct.total(), result.excess.total(), result.missed.total(), result.complete)
    assert totals == counts


def test_scores_are_percentages_over_all_arguments():
    gold = [sentence(("a", 1, "B-A0 B-V B-A1 O")), sentence(("b", 0, "B-V B-A1 O B-AM-TMP"))]
    predicted = [sentence(("a", 1, "B-A0 B-V B-A1 O")), sentence(("b", 0, "B-V B-A1 I-A1 O"))]
    counts = compare(gold, predicted)
    scores = {"precision": 200 / 3, "recall": 50.0, "f1": 400 / 7, "complete": 50.0}
    assert counts.scores() == pytest.approx(scores)
    expected = {"correct": 1, "excess": 1, "missed": 1}
    expected |= dict.fromkeys(("precision", "recall", "f1"), 50.0)
    assert counts.by_type()["A1"] == expected
    assert set(compare([sentence()], [sentence()]).scores().values()) == {0.0}


def test_missing_predicates_count_and_excess_predicates_do_not():
    gold = [sentence(("a", 1, "B-A0 B-V O O"), ("b", 2, "O B-A1 B-V O"))]
    predicted = [sentence(("a", 1, "B-A0 B-V O O"), ("c", 3, "B-A1 O O B-V"))]
    with pytest.warns() as warned:
        counts = compare(gold, predicted)
    assert [str(w.message).split(":")[0] for w in warned] == [
        "predicted lacks 1 predicates of gold or has other lemmas; their arguments count as missed",
        "predicted has 1 predicates that gold lacks; they are ignored",
    ]
    scores = counts.scores()
    assert (scores["precision"], scores["recall"], scores["complete"]) == (100.0, 50.0, 50.0)
    gold, predicted = ([sentence((lemma, 1, "B-A0 B-V O O"))] for lemma in "ax")
    with pytest.warns(UserWarning, match="other lemmas"):
        counts = compare(gold, predicted)
    assert (counts.correct.total(), counts.excess.total(), counts.missed.total()) == (0, 0, 1)


PROPS = "-\t(A0*)\ndo\t(V*)\n-\t(A1*)\n\n"


def test_roles_are_scored(write, capsys, as_json):
    gold, predicted = write("gold", PROPS), write("predicted", PROPS.replace("(A1*)", "(A2*)"))
    files = ["--gold", gold, "--predicted", predicted]
    result = as_json("srl", files)
    scores = {name: result[name] for name in ("precision", "recall", "f1", "complete")}
    assert scores == {"precision": 50.0, "recall": 50.0, "f1": 50.0, "complete": 0.0}
    assert result["roles"]["A2"]["excess"] == 1
    assert main(["srl", *files]) == 0
    assert "f1          50.00" in capsys.readouterr().out
    write("predicted", "-\n-\n-\n\n")
    assert main(["srl", *files, "--json"]) == 0
    output = capsys.readouterr()
    (warning,) = json.loads(output.out)["warnings"]
    assert "lacks 1 predicates" in warning and warning in output.err
