"""Prediction encodes raw text to the tokens of the prepared test set."""

from functools import partial

import pytest
import torch
from fairseq import tasks
from fairseq.data import data_utils
from published import publish

from fairseq_posattn.inference import prediction
from fairseq_posattn.inference.trained_model import TrainedModel
from fairseq_posattn.preparation.corpora import CLASSIFICATION
from fairseq_posattn.preparation.kinds import prepare

SIZE = 12
PLAIN = "The \xe9t\xe9 isn't (very) good, it's awful!"
TREEBANK = "The \xe9t\xe9 is n't -LRB- very -RRB- good , it 's awful !"
ESCAPED = f"{PLAIN} A #36;5 &lt;b&gt;now&lt;/b&gt;\\ok"
CORPORA = {  # the published sentence, and raw texts
    "sst5": (TREEBANK, [PLAIN]),
    "snli": (TREEBANK, [PLAIN] * 2),
    "ag_news": (ESCAPED, [f'{ESCAPED} "so" {ESCAPED}']),
    "sick": (PLAIN, [PLAIN] * 2),
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
    return prediction.predictor_of(trained, device="cpu")


@pytest.mark.parametrize("name", CORPORA)
def test_raw_text_is_encoded_like_the_prepared_test_set(name, tmp_path, fairseq_here):
    sentence, raw = CORPORA[name]
    source, dest = tmp_path / "published", tmp_path / name
    source.mkdir()
    published = publish(name, source, SIZE, sentence)
    words = ["--source", str(published), "--dest", str(dest), "--jobs", "1"]
    assert prepare("classification", [name, *words, "--min-count", "1"]) == 0
    predictor = predictor_of(name, dest)
    load = partial(data_utils.load_indexed_dataset, dictionary=predictor.dictionary)
    prepared = [load(str(dest / kind / "test")) for kind in CLASSIFICATION[name].inputs]
    assert len(prepared[0]) > 0
    result = [tokens.tolist() for tokens in predictor.encode(raw)]
    assert predictor.dictionary.index("n't") in result[0]
    for rows in zip(*prepared, strict=True):
        assert result == [row.tolist() for row in rows]
