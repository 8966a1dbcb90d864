"""The manifest beside binarized data."""

import json

import pytest

from fairseq_posattn import __version__
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation import corpora, stages
from fairseq_posattn.preparation.download import TABLES
from fairseq_posattn.preparation.stages import Stages, write_manifests
from fairseq_posattn.recipes.papers import RECIPES
from fairseq_posattn.text import manifest
from fairseq_posattn.text.manifest import read

COUNTED = {"examples": {"train": 80, "test": 20}, "features": None}


def made(corpus, dest, *, before=True, **options):
    with Stages(dest).locked() as running:
        if before:
            running.run("text", [], lambda work: None, corpus=corpus.name)
        write_manifests(running, corpus, count=lambda folder: COUNTED, lower=True, **options)


def test_written_manifests_are_read_back(tmp_path):
    made(corpora.CLASSIFICATION["cr"], tmp_path, parts=["fold0", "fold1"])
    for fold in ("fold0", "fold1"):
        rules = read(tmp_path / fold)
        assert rules.versions["sacremoses"]
        assert (rules.corpus, rules.task) == ("cr", "sentence_prediction")
        assert (rules.word_rule, rules.lower) == ("spaced", True)
        assert (rules.metric, rules.criterion) == ("accuracy", "sentence_classification")
        assert (rules.examples, rules.features) == (COUNTED["examples"], None)
    made(corpora.TRANSLATION["iwslt14"], tmp_path)
    path = tmp_path / manifest.NAME
    path.write_text(json.dumps({**json.loads(path.read_text()), "color": "green"}))  # ignored
    rules = read(tmp_path)
    assert (rules.languages, rules.subwords) == (("de", "en"), "subword_nmt")


def test_versions_are_recorded_only_if_known(tmp_path, monkeypatch):
    monkeypatch.setattr(stages, "version", dict.fromkeys(stages.PACKAGES, "1").__getitem__)
    versions = {"fairseq-posattn": __version__, **dict.fromkeys(stages.PACKAGES, "1")}
    for before, expected in ((True, versions), (False, {})):
        folder = tmp_path / str(before)
        made(corpora.CLASSIFICATION["cr"], folder, before=before)
        assert read(folder).versions == expected


GOOD = {"corpus": "c", "task": "t", "word_rule": "w"}
MALFORMED = [{"corpus": 1}, {"languages": [1]}, {"versions": {"a": None}}, {"longest": 0}]
MALFORMED += [{"longest": True}, {"examples": {"train": "a"}}]


@pytest.mark.parametrize(
    "content",
    [
        *(b"[]", b"null", b"\xff\x00", b"{" * 100_000, b'{"corpus": "cr"}'),
        *(json.dumps(GOOD | fields).encode() for fields in MALFORMED),
    ],
)
def test_malformed_manifests_are_refused(tmp_path, content):
    (tmp_path / manifest.NAME).write_bytes(content)
    with pytest.raises(UsageError) as caught:
        read(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / manifest.NAME}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "corpus",
    [*corpora.TRANSLATION.values(), *corpora.SUMMARIZATION.values()],
    ids=lambda corpus: corpus.name,
)
def test_recipes_of_pairs_train_on_their_corpus(corpus):
    settings = RECIPES[corpus.recipe].settings
    assert settings.corpus.partition("-")[0] == corpus.name  # then a version of it
    assert (settings.source, settings.target) == corpus.sides
    assert settings.subwords == corpus.subwords
    # Those of ranges of lengths begin with the name of the whole's.
    assert {metric.partition(" ")[0] for metric in settings.metrics} == {*corpus.metrics}


@pytest.mark.parametrize("name", corpora.CLASSIFICATION)
def test_recipes_of_classification_train_on_their_corpus(name):
    row = TABLES["classification"][name]
    named = [row["recipe"], *(c.get("recipe") for c in row.get("changed", {}).values())]
    recipes = list(filter(None, named))
    assert recipes
    for recipe in recipes:
        assert name in [dataset.name for dataset in RECIPES[recipe].datasets]
