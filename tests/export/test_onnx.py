"""ONNX graphs of classifiers and encoders on batches and lengths other than those traced."""

from pathlib import Path
from unittest.mock import Mock

import onnxruntime
import pytest
import torch
from classifier_builder import PAD, TINY_OF, sentences
from test_export import CLASSIFIERS, TINY_CLASSIFIER, TINY_TRANSFORMER, unlike

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.export import onnx
from fairseq_posattn.export.checkpoint import export

pytestmark = pytest.mark.slow  # each traces a model


def graph(model, folder):
    """Write ``model.onnx``; return a function that runs it."""
    onnx.write(model, folder)
    session = onnxruntime.InferenceSession(folder / onnx.NAME)
    return lambda *tensors: torch.from_numpy(onnx.run(session, tensors))


def close(actual, expected):
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-4)


# Layers of Transformers are tested below, a Bi-LSTM with pairs; hierarchical_cnn_classifier has
# convolutions, too; test_int8.py has the graph of swem_classifier.
ELSEWHERE = ["bigru", "bilstm", "cnn", "cspan_big", "dman", "han", "lstm", "swem", "tener"]
ELSEWHERE += ["hierarchical_cnn"]
SENTENCES = ["--sentence-ends=word3", "--sentence-separator=word4"]
GRAPHS = [
    *((arch, []) for arch in unlike(CLASSIFIERS) if arch[: -len("_classifier")] not in ELSEWHERE),
    ("cspan_classifier", ["--lstm-layers=2"]),
    ("swem_classifier", ["--pooling=window_max", "--pooling-window=6"]),
    ("cspan_classifier", ["--cspan-fusion=relative_position", "--rpr-max-distance=3"]),
    ("hierarchical_cnn_classifier", SENTENCES),
    ("han_classifier", SENTENCES),
]
# Their operations are also in graphs of the others, but for those of the largest, bi_blosan.
NIGHTLY = ("disan", "mpsan", "multi_head", "cspan_classifier", "bi_blosan", "fasttext", "han")


def as_case(arch, flags):
    name = "".join([arch, *flags])
    marks = pytest.mark.nightly if name.startswith(NIGHTLY) else ()
    return pytest.param(arch, flags, marks=marks, id=name)


@pytest.mark.parametrize("arch, flags", [as_case(*graph) for graph in GRAPHS])
@torch.no_grad()
def test_a_classifiers_graph_gives_its_scores(arch, flags, classifier, tmp_path):
    """Batches and lengths differ from those traced and are padded on either side."""
    path, _ = classifier(arch, *TINY_CLASSIFIER, *TINY_OF.get(arch, []), *flags)
    model = export(path, tmp_path / "out").model
    ask = graph(model, tmp_path / "out")
    padded = sentences(2, 9, 1, 4, 1, left_pad=True)
    for ids in (sentences(31), sentences(1, 1), padded, sentences(20, 44, 3)):
        mask = ids.ne(PAD).long()
        close(ask(ids, mask), model(ids, mask).logits)


@torch.no_grad()
def test_the_graph_of_a_model_of_pairs(classifier, tmp_path):
    path, _ = classifier("bilstm_classifier", *TINY_CLASSIFIER, task="sentence_pair_prediction")
    exported = export(path, tmp_path / "out")
    ask = graph(exported.model, tmp_path / "out")
    firsts = ["word1 word2 word3", "word5", "word6 " * 30]
    seconds = ["word9", "word4 word2 word7 word1 word3", "word8 word2"]
    for rows in (slice(2), slice(1), slice(3)):
        inputs = exported.tokenizer(firsts[rows], seconds[rows], padding=True, return_tensors="pt")
        logits = ask(*(inputs[name] for name in ("input_ids", "attention_mask", "token_type_ids")))
        close(logits, exported.model(**inputs).logits)


ONE_LAYER = "--encoder-layers=1"
# Kinds of embeddings and layer norms, several layers, and all mechanisms but MTSA, which
# mtsa_classifier has, and ALiBi, whose biases are a part of KERPLE's. Most are nightly: `write`
# compares every graph with its model, and ends with an error if they differ.
ENCODERS = [
    ["--encoder-sublayers=da,rpr,transformer_xl,tener,ffn", "--layernorm-embedding", ONE_LAYER],
    ["--encoder-sublayers=past,future,masked,ffn", "--encoder-learned-pos"],
    ["--encoder-sublayers=san,dman,gaussian,sman,ffn", "--encoder-normalize-before", ONE_LAYER],
    ["--encoder-sublayers=rope,t5,kerple,fire,ffn", ONE_LAYER],
]


@pytest.mark.parametrize(
    "flags",
    [ENCODERS[0], *(pytest.param(flags, marks=pytest.mark.nightly) for flags in ENCODERS[1:])],
    ids="".join,
)
@torch.no_grad()
def test_an_encoders_graph_gives_its_states(flags, translator, tmp_path):
    path, _ = translator("posattn_transformer", *TINY_TRANSFORMER, *flags)
    model = export(path, tmp_path / "out").model
    ask = graph(model, tmp_path / "out")
    for ids in (sentences(2, 9, 1, 4, 1, left_pad=True), sentences(30)):
        mask = ids.ne(PAD).long()
        expected = model.get_encoder()(ids, mask).last_hidden_state
        present = mask.bool()
        close(ask(ids, mask)[present], expected[present])


@torch.no_grad()
def test_a_graph_keeps_the_ratios_of_small_sigmoids(translator, tmp_path):
    """Masks of a query are divided by their sum, so training may make all of them small."""
    flags = ["--encoder-sublayers=dman,mtsa,ffn", ONE_LAYER]
    path, _ = translator("posattn_transformer", *TINY_TRANSFORMER, *flags)
    model = export(path, tmp_path / "out").model
    for name, parameter in model.get_encoder().layers.named_parameters():
        if name.endswith("head_bias"):
            parameter -= 16
        elif parameter.dim() > 1:
            parameter *= 4
    assert onnx.write(model, tmp_path / "out") < 1e-4


@torch.no_grad()
def test_a_graph_of_large_scores_may_differ_by_their_rounding(classifier, tmp_path, monkeypatch):
    path, _ = classifier("swem_classifier", *TINY_CLASSIFIER)
    model = export(path, tmp_path / "out").model
    for parameter in model.head.parameters():
        parameter *= 1e5
    monkeypatch.setattr(torch.onnx, "export", lambda graph, examples, path, **_: Path(path).touch())
    monkeypatch.setattr(onnxruntime, "InferenceSession", Mock())
    rounded = torch.tensor(1 + 2**-22)
    monkeypatch.setattr(onnx, "run", lambda _, inputs: (model(*inputs).logits * rounded).numpy())
    assert onnx.write(model, tmp_path / "out") > onnx.TOLERANCE


@pytest.mark.parametrize("problem", ["cannot convert", "differs from .* by [1-9]", "by nan"])
def test_a_bad_graph_is_removed(problem, classifier, tmp_path, monkeypatch):
    path, _ = classifier("swem_classifier", *TINY_CLASSIFIER)
    exported = export(path, tmp_path / "out")
    fails = Mock(side_effect=RuntimeError("pages\nof text"))
    writes = Mock(side_effect=lambda graph, examples, path, **_: Path(path).touch())
    monkeypatch.setattr(torch.onnx, "export", fails if problem == "cannot convert" else writes)
    monkeypatch.setattr(onnxruntime, "InferenceSession", Mock())
    output = torch.full((1, 4), torch.nan if problem == "by nan" else 0.0).numpy()
    monkeypatch.setattr(onnx, "run", lambda *_: output)
    with pytest.raises(UsageError, match=problem) as error:
        onnx.write(exported.model, tmp_path / "out")
    assert "\n" not in str(error.value)
    assert not list((tmp_path / "out").glob("*.onnx"))
