"""Roles and rankings by their command lines."""

import json

import pytest

from fairseq_posattn.scoring.commands.score import main

PROPS = "-\t(A0*)\ndo\t(V*)\n-\t(A1*)\n\n"


def test_roles(tmp_path, capsys):
    gold, predicted = tmp_path / "gold.props", tmp_path / "predicted.props"
    gold.write_text(PROPS)
    predicted.write_text(PROPS.replace("(A1*)", "(A2*)"))
    arguments = ["srl", "--gold", str(gold), "--predicted", str(predicted)]
    assert main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    scores = {name: found[name] for name in ("precision", "recall", "f1", "complete")}
    assert scores == {"precision": 50.0, "recall": 50.0, "f1": 50.0, "complete": 0.0}
    assert found["roles"]["A2"]["excess"] == 1
    assert main(arguments) == 0
    assert "f1          50.00" in capsys.readouterr().out


def test_a_missing_predicate_warns_in_json_too(tmp_path, capsys):
    gold, predicted = tmp_path / "gold.props", tmp_path / "predicted.props"
    gold.write_text(PROPS)
    predicted.write_text("-\n-\n-\n\n")
    assert main(["srl", "--gold", str(gold), "--predicted", str(predicted), "--json"]) == 0
    output = capsys.readouterr()
    (warning,) = json.loads(output.out)["warnings"]
    assert "lacks 1 predicates" in warning
    assert warning in output.err


@pytest.mark.parametrize(
    ("predicted", "message"),
    [
        (PROPS.replace("(A1*)", "(A1*"), "predicted.props:3: (A1* is never closed"),
        ("-\t*\n" + PROPS, "predicted.props:1: a sentence of 4 words, but 3 at"),
    ],
)
def test_bad_roles_are_one_line(tmp_path, capsys, predicted, message):
    gold, path = tmp_path / "gold.props", tmp_path / "predicted.props"
    gold.write_text(PROPS)
    path.write_text(predicted)
    assert main(["srl", "--gold", str(gold), "--predicted", str(path)]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_rankings(tmp_path, capsys):
    scores = tmp_path / "scores.tsv"
    scores.write_text("1\t[1, 0]\t[2, 1]\n2\t[0, 1]\t[2, 1]\n3\t[0]\t[1]\n")
    assert main(["ranking", "--scores", str(scores), "--json"]) == 0
    output = capsys.readouterr()
    found = json.loads(output.out)
    assert (found["auc"], found["mrr"], found["scored"], found["skipped"]) == (0.5, 0.75, 2, 1)
    assert "skipped 1 impressions without both labels" in output.err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"1\t[1]\n", "scores.tsv:1: 2 columns"),
        (b"1\t[1]\t[\xff]\n", "scores.tsv:1: scores: must be a JSON list"),
        (None, "scores.tsv: No such file"),
    ],
)
def test_bad_rankings_are_one_line(tmp_path, capsys, content, message):
    path = tmp_path / "scores.tsv"
    if content is not None:
        path.write_bytes(content)
    assert main(["ranking", "--scores", str(path)]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_scores_without_end_or_of_nothing_are_one_line(tmp_path, capsys):
    path = tmp_path / "scores.tsv"
    path.touch()
    assert main(["ranking", "--scores", str(path)]) == 1
    assert f"{path}: no impressions\n" in capsys.readouterr().err
    assert main(["srl", "--gold", str(path), "--predicted", str(path)]) == 1
    assert f"{path}: no sentences\n" in capsys.readouterr().err
    with open(path, "wb") as file:
        file.truncate(1 << 40)
    for words in (["ranking", "--scores", path], ["srl", "--gold", path, "--predicted", path]):
        assert main(list(map(str, words))) == 1
        assert f"{path}:1: a line of more than 16,777,216 bytes" in capsys.readouterr().err
