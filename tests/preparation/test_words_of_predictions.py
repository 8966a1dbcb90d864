"""A model gets, through prediction, the very tokens of its prepared test set from raw text."""

import json
from functools import partial

import pytest
import torch
from archive_files import write_archive, write_folder
from fairseq import tasks
from fairseq.data import data_utils

from fairseq_posattn.inference import prediction
from fairseq_posattn.inference.trained_model import TrainedModel
from fairseq_posattn.preparation.corpora import CLASSIFICATION
from fairseq_posattn.preparation.kinds import prepare

SIZE = 6  # examples of a split; each begins with its number
PLAIN = "The \xe9t\xe9 isn't (very) good, it's awful!"
TREEBANK = "The \xe9t\xe9 is n't -LRB- very -RRB- good , it 's awful !"


def _sst(folder):
    def tree(number):
        leaves = [f"(2 {word})" for word in f"{number} {TREEBANK}".split()]
        return f"({number % 5} {' '.join(leaves)})\n"

    files = {f"trees/{split}.txt": "".join(map(tree, range(SIZE))) for split in SPLITS}
    return write_archive(folder / "trainDevTestTrees_PTB.zip", files)


def _snli(folder):
    def pair(number):
        parse = f"( {number} ( {TREEBANK} ) )"
        parses = {"sentence1_binary_parse": parse, "sentence2_binary_parse": parse}
        return json.dumps({"gold_label": "neutral", **parses}) + "\n"

    lines = "".join(map(pair, range(SIZE)))
    return write_archive(
        folder / "snli_1.0.zip", {f"snli_1.0/snli_1.0_{split}.jsonl": lines for split in SPLITS}
    )


def _ag_news(folder):
    rows = "".join(
        f'"{1 + number % 4}","{number} {PLAIN}","A #36;5 ""deal"" &lt;b&gt;now&lt;/b&gt;\\ok"\n'
        for number in range(SIZE)
    )
    return write_archive(
        folder / "ag_news_csv.tgz", {f"ag_news_csv/{split}.csv": rows for split in SPLITS}
    )


def _sick(folder):
    rows = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
    rows += "".join(f"{n}\t{n} {PLAIN}\t{n} It's so.\t3.5\tNEUTRAL\n" for n in range(SIZE))
    files = {f"SICK_{part}.txt": rows for part in ("train", "trial", "test_annotated")}
    return write_folder(folder, files)


SPLITS = ("train", "dev", "test")
CORPORA = {  # what publishes it, and a text as a person has it
    "sst5": (_sst, lambda n: [f"{n} {PLAIN}"]),
    "snli": (_snli, lambda n: [f"{n} {PLAIN}"] * 2),
    "ag_news": (_ag_news, lambda n: [f'{n} {PLAIN} A #36;5 "deal" &lt;b&gt;now&lt;/b&gt;\\ok']),
    "sick": (_sick, lambda n: [f"{n} {PLAIN}", f"{n} It's so."]),
}


def predictor_of(name, folder):
    """Return a predictor of a model without weights."""
    corpus = CLASSIFICATION[name]
    config = tasks.TASK_DATACLASS_REGISTRY[corpus.task]()
    config._name, config.data, config.num_classes = corpus.task, str(folder), corpus.num_classes
    config.regression_target, config.classification_head_name = corpus.scored, "head"
    config.max_positions = 512
    if not corpus.pairs:
        config.init_token = config.separator_token = None
    task = tasks.TASK_REGISTRY[corpus.task].setup_task(config)
    trained = TrainedModel("none", torch.nn.Identity(), None, task)
    return prediction.Predictor(trained, None, torch.device("cpu"))


@pytest.mark.parametrize("name", CORPORA)
def test_raw_text_becomes_the_tokens_of_the_test_set(name, tmp_path, fairseq_here):
    publish, raw = CORPORA[name]
    source = tmp_path / "published"
    source.mkdir()
    words = ["--source", str(publish(source)), "--dest", str(tmp_path / name), "--jobs", "1"]
    assert prepare("classification", [name, *words, "--min-count", "1"]) == 0
    predictor = predictor_of(name, tmp_path / name)
    load = partial(data_utils.load_indexed_dataset, dictionary=predictor.dictionary)
    prepared = [load(str(tmp_path / name / kind / "test")) for kind in CLASSIFICATION[name].inputs]
    assert len(prepared[0]) == SIZE
    for number, rows in enumerate(zip(*prepared, strict=True)):
        result = predictor.encode(raw(number))
        assert [tokens.tolist() for tokens in result] == [row.tolist() for row in rows]
        assert predictor.dictionary.index("n't") in result[0].tolist()
