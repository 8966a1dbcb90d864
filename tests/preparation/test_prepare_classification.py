"""Preparation for classification, from published archives to data of stock fairseq."""

import dataclasses
import json
from functools import partial

import pytest
import torch
from archive_files import lines, tree
from download_server import Server
from fairseq import tasks
from fairseq.data import data_utils
from published import WORDS, publish

from fairseq_posattn.inference import prediction
from fairseq_posattn.inference.trained_model import TrainedModel
from fairseq_posattn.preparation.commands.prepare import KINDS
from fairseq_posattn.preparation.commands.prepare import prepare as prepare_of_kind
from fairseq_posattn.preparation.corpora import CLASSIFICATION as CORPORA
from fairseq_posattn.preparation.download import Source

main = partial(prepare_of_kind, "classification")


@pytest.fixture
def vectors(tmp_path):
    """Write vectors of half of the words, and of two more, in GloVe's format."""
    path = tmp_path / "glove.6B.4d.txt"
    known = [*WORDS[::2], "unheard-of", "so"]
    path.write_text("".join(f"{word} 1 2 3 {number}\n" for number, word in enumerate(known)))
    return path


def prepare(name, tmp_path, *words, **published):
    """Run the command on a generated data set and return the destination."""
    source = tmp_path / f"published-{name}"
    source.mkdir(exist_ok=True)
    dest = tmp_path / name
    files = ["--source", str(publish(name, source, **published)), "--dest", str(dest)]
    assert main([name, *files, "--jobs", "1", *words]) == 0
    return dest


def task_of(name, folder, **settings):
    """Return a task of stock fairseq, or of the plugin, for prepared data."""
    config = tasks.TASK_DATACLASS_REGISTRY[name]()
    settings |= {"_name": name, "data": str(folder), "classification_head_name": "head"}
    for key, value in {**settings, "max_positions": 512}.items():
        setattr(config, key, value)
    return tasks.TASK_REGISTRY[name].setup_task(config)


def load(folder, split, num_classes, regression=False):
    """Return stock fairseq's task and its data set, in the order of the files."""
    settings = {"no_shuffle": True, "seed": 1, "regression_target": regression}
    task = task_of("sentence_prediction", folder, num_classes=num_classes, **settings)
    return task, task.load_dataset(split)


@pytest.mark.parametrize("name", CORPORA)
def test_stock_fairseq_reads_the_prepared_data(name, tmp_path, fairseq_here, vectors, capsys):
    dest = prepare(name, tmp_path, "--glove", str(vectors), "--min-count", "1")
    corpus = CORPORA[name]
    classes = len(corpus.labels)
    for part in corpus.parts:
        for split in ("train", "valid", "test"):
            task, dataset = load(dest / part, split, classes)
            read = {kind: lines(dest / part / f"text/{split}.{kind}") for kind in corpus.kinds}
            assert len(dataset) == len(read["label"]) > 0
            words = {(dest / part / kind / "dict.txt").read_bytes() for kind in corpus.inputs}
            assert len(words) == 1  # pairs share a dictionary
            assert len(task.label_dictionary) - task.label_dictionary.nspecial - 1 == classes
            for index in range(len(dataset)):
                sample = dataset[index]
                words = " ".join(read[kind][index] for kind in corpus.inputs)
                known = [word if word in task.dictionary else "<unk>" for word in words.split()]
                assert task.dictionary.string(sample["net_input.src_tokens"]).split() == known
                label = sample["target"] + task.label_dictionary.nspecial
                assert task.label_dictionary.string(label) == read["label"][index]
            if corpus.scored:
                _, dataset = load(dest / part, split, 1, regression=True)
                scores = [dataset[index]["target"][0] for index in range(len(dataset))]
                assert scores == pytest.approx([float(score) for score in read["score"]])
    assert "published" in capsys.readouterr().out


def test_a_missing_source_is_downloaded_unless_all_is_done(
    tmp_path, fairseq_here, monkeypatch, capsys
):
    archive = publish("sst5", tmp_path)
    with Server() as server:
        server.files[archive.name] = archive.read_bytes()
        source = Source(archive.name, (server.url("moved.zip"), server.url(archive.name)))
        here = dataclasses.replace(CORPORA["sst5"], alternatives=((source,),))
        monkeypatch.setitem(KINDS["classification"].corpora, "sst5", here)
        assert main(["sst5", "--dest", str(tmp_path / "data-bin/sst5"), "--jobs", "1"]) == 0
    (tmp_path / "data-bin/download" / archive.name).unlink()
    before = tree(tmp_path / "data-bin/sst5")
    assert len(lines(tmp_path / "data-bin/sst5/text/train.label")) == 30
    assert main(["sst5", "--dest", str(tmp_path / "data-bin/sst5")]) == 0  # without a source
    assert "text: done already" in capsys.readouterr().err
    assert tree(tmp_path / "data-bin/sst5") == before


def test_snli_options_are_applied(tmp_path, fairseq_here, capsys):
    dest = prepare("snli", tmp_path, "--train-on-dev", "--released-form")
    assert "annotators did not agree: " in capsys.readouterr().err
    sizes = {split: len(lines(dest / f"text/{split}.label")) for split in ("train", "valid")}
    assert sizes["valid"] in (2, 3)  # held out
    assert json.loads((dest / "preparation.json").read_text())["word_rule"] == "treebank-split"


def test_examples_without_words_are_left_out_and_named(tmp_path, fairseq_here, capsys):
    source = tmp_path / "custrev.all"
    source.write_text("".join(f"{number % 2} sentence {number}\n" for number in range(30)) + "1 \n")
    assert main(["cr", "--source", str(source), "--dest", str(tmp_path / "cr"), "--jobs", "1"]) == 0
    assert f"left out, since they have no words: {source}:31 (3.2%)\n" in capsys.readouterr().err
    tested = [line for k in range(10) for line in lines(tmp_path / f"cr/fold{k}/text/test.input0")]
    assert sorted(tested) == sorted(f"sentence {number}" for number in range(30))


def test_a_limit_covers_all_classes_and_the_seed_selects_folds(tmp_path, fairseq_here):
    dest = prepare("cr", tmp_path, "--limit", "20")
    splits = ("train", "valid", "test")
    read = [line for split in splits for line in lines(dest / f"fold0/text/{split}.label")]
    assert len(read) == 20
    assert read.count("positive") == 10

    def tested(*words):
        return lines(prepare("mpqa", tmp_path, *words) / "fold0/text/test.input0")

    assert tested() == tested("--force") != tested("--seed", "2")


PLAIN = "The \xe9t\xe9 isn't (very) good, it's awful!"
TREEBANK = "The \xe9t\xe9 is n't -LRB- very -RRB- good , it 's awful !"
ESCAPED = f"{PLAIN} A #36;5 &lt;b&gt;now&lt;/b&gt;\\ok"
RAW = {  # the published sentence, and raw texts
    "sst5": (TREEBANK, [PLAIN]),
    "snli": (TREEBANK, [PLAIN] * 2),
    "ag_news": (ESCAPED, [f'{ESCAPED} "so" {ESCAPED}']),
    "sick": (PLAIN, [PLAIN] * 2),
}


def predictor_of(name, folder):
    """Return a predictor of a model without weights."""
    corpus = CORPORA[name]
    settings = {"num_classes": corpus.num_classes, "regression_target": corpus.scored}
    if not corpus.pairs:
        settings |= {"init_token": None, "separator_token": None}
    task = task_of(corpus.task, folder, **settings)
    trained = TrainedModel("none", torch.nn.Identity(), None, task)
    return prediction.predictor_of(trained, device="cpu")


@pytest.mark.parametrize("name", RAW)
def test_raw_text_is_encoded_like_the_prepared_test_set(name, tmp_path, fairseq_here):
    sentence, raw = RAW[name]
    dest = prepare(name, tmp_path, "--min-count", "1", size=12, sentence=sentence)
    predictor = predictor_of(name, dest)
    load = partial(data_utils.load_indexed_dataset, dictionary=predictor.dictionary)
    prepared = [load(str(dest / kind / "test")) for kind in CORPORA[name].inputs]
    assert len(prepared[0]) > 0
    result = [tokens.tolist() for tokens in predictor.encode(raw)]
    assert predictor.dictionary.index("n't") in result[0]
    for rows in zip(*prepared, strict=True):
        assert result == [row.tolist() for row in rows]


@pytest.mark.slow
def test_processes_prepare_the_text(tmp_path, fairseq_here, vectors, capsys):
    dest = prepare("trec", tmp_path, "--jobs", "2", "--glove", str(vectors), size=2000)
    printed = capsys.readouterr()
    assert "train        2,000        5,452\n" in printed.out
    assert "which are" in printed.err
    assert len(load(dest, "train", 6)[1]) == 1800
    summary = json.loads((dest / "text/summary.json").read_text())
    assert summary["written"] == {"train": 1800, "valid": 200, "test": 2000}
