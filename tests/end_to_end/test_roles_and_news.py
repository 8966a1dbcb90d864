"""Taggers and recommenders from synthetic data to predictions, by the commands that users type.

The data is that of ``recipes/tiny.py``.
"""

import json
import os
import random
import re
from itertools import pairwise

import forked_commands
import pytest
import torch

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.checkpoints import read_checkpoint
from fairseq_posattn.inference import prediction, trained_model
from fairseq_posattn.inference.commands.predict import main as predict
from fairseq_posattn.inference.commands.rank import main as rank
from fairseq_posattn.inspection.commands.analysis import main as analyse
from fairseq_posattn.recipes import tiny
from fairseq_posattn.scoring.commands.score import main as score
from fairseq_posattn.scoring.roles import compare
from fairseq_posattn.text.props import Proposition, Sentence, read_props, spans_of_tags, write_props

ROLES = ("words", "predicate", "tags")
TINY = [
    *("--encoder-embed-dim", "16", "--encoder-ffn-embed-dim", "16", "--encoder-layers", "1"),
    *("--encoder-attention-heads", "2", "--attention-dropout", "0", "--dropout", "0"),
    *("--activation-dropout", "0", "--optimizer", "adam", "--lr", "0.003", "--cpu", "--seed", "1"),
    *("--num-workers", "0", "--no-progress-bar", "--no-epoch-checkpoints", "--log-interval", "50"),
]


@pytest.fixture(scope="module")
def train(user_dir, generate, tmp_path_factory):
    """Return ``train(name, *flags)``: the best checkpoint, the log and the folder of the data."""

    def train(name, *flags):
        folder, saved = generate(name), tmp_path_factory.mktemp(name)
        words = [folder, "--user-dir", user_dir, "--save-dir", saved, *TINY, *flags]
        return saved / "checkpoint_best.pt", forked_commands.output_of("train", *words), folder

    return train


def validated(log, metric):
    """Return the metric of each validation."""
    return [float(number) for number in re.findall(rf"valid on .* \| {metric} ([\d.]+)", log)]


# --- Roles -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tagger(train):
    return train(
        "ewt",
        *("--task", "sequence_tagging", "--criterion", "sequence_tagging"),
        *("--arch", "mtsa_tagger", "--predicate-embed-dim", "16", "--batch-size", "20"),
        # one layer cannot tell whether a token is the first after the predicate
        *("--encoder-layers", "2"),
        *("--label-smoothing", "0.1", "--max-epoch", "4", "--lr", "0.01"),
        *("--best-checkpoint-metric", "f1", "--maximize-best-checkpoint-metric"),
    )


def test_predicted_roles_have_the_scores_of_validation(tagger, tmp_path, capsys):
    checkpoint, log, folder = tagger
    assert validated(log, "f1")[-1] > 90
    gold = []
    roles = tmp_path / "valid.roles"
    columns = [(folder / f"text/valid.{name}").read_text() for name in ROLES]
    rows = zip(*map(str.splitlines, columns), strict=True)
    with open(roles, "w") as file:
        for words, flags, tags in rows:
            position = flags.split().index("1")
            file.write(f"{position} {words} ||| {tags}\n\n")  # blank lines have no predicate
            spans = spans_of_tags(tags.split())
            gold.append(Sentence(len(tags.split()), [Proposition("x", position, spans)]))
    props = tmp_path / "valid.props"
    props.write_text("".join(write_props(gold)))
    assert predict([str(checkpoint), "--input", str(roles), "--props", str(props), "--cpu"]) == 0
    predicted = tmp_path / "predicted.props"
    predicted.write_text(capsys.readouterr().out)
    scores = compare(read_props(props), read_props(predicted)).scores()
    assert round(scores["f1"], 2) == max(validated(log, "f1"))


def test_unknown_words_are_warned_of_with_props(tagger, write, capsys):
    roles, props = write("text", ["0 x y ||| B-V O"]), write("props", ["x (V*)", "- *", ""])
    assert predict([str(tagger[0]), "--input", str(roles), "--props", str(props), "--cpu"]) == 0
    assert "2 of 2 words are unknown to the model" in capsys.readouterr().err


def test_lines_may_give_the_predicates(tagger):
    predictor = prediction.load(tagger[0])
    lines = [
        b"1\tba verb de\n",
        b"\n",
        b"1,2\tba verb verb de\n",
        b"1 a verb ||| b ||| O B-V O O\n",
    ]
    ((first, blank, both, prepared),) = predictor.read_groups([lines], "typed")
    assert prepared.words == ("a", "verb", "|||", "b")
    assert str(first) == "[A0 ba] [V verb] [A1 de]"
    assert (str(blank), blank.as_json()) == ("", '{"words": [], "propositions": []}')
    assert str(both).count("\t") == 1
    result = json.loads(first.as_json())
    assert result["words"] == ["ba", "verb", "de"]
    last = result["propositions"][0]["arguments"][2]
    assert last == {"label": "A1", "start": 2, "end": 2, "text": "de"}


def test_a_tagger_is_called_with_lines(tagger):
    predictor = prediction.load(tagger[0])
    line = "1\tba verb de"
    assert str(predictor(line)) == "[A0 ba] [V verb] [A1 de]"
    assert predictor([line, line]) == [predictor(line)] * 2
    with pytest.raises(UsageError, match="^text 2: a line needs the positions"):
        predictor([line, "ba verb de"])
    with pytest.raises(TypeError, match="^text 1: None: must be a string"):
        predictor([None])


def test_without_preparation_json_capitals_of_the_dictionary_are_kept(tagger):
    trained = trained_model.load(str(tagger[0]))
    vars(trained)["rules"] = None
    assert prediction.predictor_of(trained).lower
    trained.task.words.add_symbol("Ba")
    assert not prediction.predictor_of(trained).lower


def test_constrained_decoding_gives_valid_tags(tagger, tmp_path, monkeypatch, capsys):
    """The best tags of this model are invalid."""
    predictor = prediction.load(tagger[0])
    torch.manual_seed(3)
    torch.nn.init.normal_(predictor.model.output.weight)
    monkeypatch.setattr(prediction, "load", lambda *args, **kwargs: predictor)
    roles = tmp_path / "valid.roles"
    sentences = (random.Random(seed).sample(tiny.FILLERS, 8) for seed in range(20))
    roles.write_text("".join(f"1 {' '.join(words)} ||| O\n" for words in sentences))

    def broken(*options):
        batches = []
        decode = predictor.task.decode
        monkeypatch.setattr(
            predictor.task, "decode", lambda *args: batches.append(decode(*args)) or batches[-1]
        )
        assert predict([str(tagger[0]), "--input", str(roles), "--cpu", *options]) == 0
        monkeypatch.setattr(predictor.task, "decode", decode)
        return sum(
            after.startswith("I-") and before[2:] != after[2:]
            for batch in batches
            for tags in batch
            for before, after in pairwise(["O", *tags])
        )

    assert broken() > 0
    assert broken("--constrained-decoding") == 0
    capsys.readouterr()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"3\ta B c\n", "typed:1: predicate '3': outside the sentence of 3 words"),
        (b"0,-1\ta B c\n", "typed:1: predicate '0,-1': outside"),
        (b"0 1\ta B c\n", "typed:1: a line needs the positions of the predicates, from 0, "),
        (b"9" * 5000 + b"\ta B c\n", "typed:1: a line needs the positions of the predicates"),
        (b"a B c\n", "typed:1: a line needs the positions of the predicates"),
        (b"1\t\xff\n", "typed:1: not UTF-8"),
    ],
)
def test_wrong_lines_are_named(tagger, line, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        list(prediction.load(tagger[0]).read_groups([[line]], "typed"))


# --- News ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recommender(train):
    return train(
        "mind",
        *("--task", "news_recommendation", "--criterion", "news_recommendation"),
        *("--arch", "da_transformer_recommender", "--encoder-hidden-dim", "16"),
        *("--batch-size", "20", "--max-epoch", "3"),
        *("--best-checkpoint-metric", "auc", "--maximize-best-checkpoint-metric"),
    )


def test_rankings_have_the_scores_of_validation(recommender, tmp_path, capsys):
    checkpoint, log, news = recommender
    assert validated(log, "auc")[-1] > 0.8
    assert validated(log, "ndcg5")[-1] > 0.6
    scores, submission = tmp_path / "scores.tsv", tmp_path / "prediction.txt"
    arguments = [str(checkpoint), "--split", "valid", "--scores", str(scores), "--cpu"]
    arguments += ["--submission", str(submission), "--batch-size", "7"]
    assert rank(arguments) == 0
    capsys.readouterr()
    assert score(["ranking", "--scores", str(scores), "--json"]) == 0
    means = json.loads(capsys.readouterr().out)
    assert round(means["auc"], 4) == max(validated(log, "auc"))
    logged = [f"| {name} {round(means[name], 4):g} |" for name in ("auc", "mrr", "ndcg5", "ndcg10")]
    assert any(all(metric in line for metric in logged) for line in log.splitlines())
    rows = [line.split("\t") for line in scores.read_text().splitlines()]
    names = (news / "text/valid.impressions").read_text().splitlines()
    assert [row[0] for row in rows] == names
    labels = (news / "text/valid.labels").read_text().splitlines()
    assert [" ".join(map(str, json.loads(row[1]))) for row in rows] == labels
    first = json.loads(rows[0][2])
    ranks = json.loads(submission.read_text().splitlines()[0].partition(" ")[2])
    assert ranks.index(1) == first.index(max(first))


def test_parameters_of_a_recommender_are_shown_without_sentences(recommender, tmp_path, capsys):
    """DA-Transformer, Figure 7."""
    checkpoint = recommender[0]
    numbers, picture = tmp_path / "weights.json", tmp_path / "weights.png"
    outputs = ["--json", str(numbers), "--output", str(picture)]
    analyse(["parameters", str(checkpoint), "--plot", "weights", *outputs])
    model = read_checkpoint(checkpoint)["model"]
    sublayers = json.loads(numbers.read_text())["sublayers"]
    parameters = {sublayer["sublayer"]: sublayer["parameters"] for sublayer in sublayers}
    assert list(parameters) == ["words.da", "clicks.da"]
    for level in ("words", "clicks"):
        mechanism = f"{level}.encoder.layers.0.sublayers.0.sublayer.mechanism."
        for name, parameter in (("w", "distance_weight"), ("v", "sigmoid_shift")):
            values = sorted(model[mechanism + parameter].tolist())
            assert [bar["value"] for bar in parameters[f"{level}.da"][name]] == values
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert analyse(["locality", str(checkpoint), "--split", "valid", *outputs[:2]]) == 1
    assert "only its parameters can be shown" in capsys.readouterr().err


def test_infinite_scores_are_one_line(recommender, tmp_path, capsys):
    state = read_checkpoint(recommender[0])
    state["model"]["no_history"].fill_(3e38)  # a number, but no dot product with it is
    state["model"]["clicks.pooling.hidden.bias"].fill_(3e38)
    weights = state["model"]["words.encoder.layers.0.sublayers.1.sublayer.fc2.weight"]
    weights.fill_(3e38)
    broken = tmp_path / "broken.pt"
    torch.save(state, broken)
    scores = tmp_path / "scores.tsv"
    arguments = [str(broken), "--split", "valid", "--scores", str(scores), "--cpu"]
    assert rank(arguments) == 1
    error = capsys.readouterr().err
    assert error.endswith("of valid is NaN or infinite\n")
    assert error.count("\n") == 1
    assert not scores.exists()


def test_only_a_recommender_ranks(tagger, recommender, tmp_path, capsys):
    assert rank([str(tagger[0]), "--scores", str(tmp_path / "scores.tsv")]) == 1
    reason = "not a recommender; it was trained with --task sequence_tagging; use posattn predict"
    assert capsys.readouterr().err.endswith(f": {reason}\n")
    assert not list(tmp_path.iterdir())
    assert predict([str(recommender[0]), "--input", os.devnull]) == 1
    reason = "not a classifier; it was trained with --task news_recommendation; use posattn rank"
    assert capsys.readouterr().err.endswith(f": {reason}\n")
