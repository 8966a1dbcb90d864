"""int8 models, and the measurements that the command prints."""

from pathlib import Path

import pytest
import torch
from classifier_builder import sentences
from onnx import load, numpy_helper
from test_export import TINY_CLASSIFIER, TINY_TRANSFORMER, run

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.export import int8, onnx
from fairseq_posattn.export.checkpoint import export
from fairseq_posattn.export.commands import export as command
from fairseq_posattn.hugging_face import in_int8
from fairseq_posattn.inference import prediction, translation

pytestmark = pytest.mark.slow  # each exports a model
FIXTURE = Path(__file__).parents[1] / "fixtures/translation"


def test_int8_is_measured_beside_the_model(classifier, tmp_path, write, capsys):
    path, _ = classifier("swem_classifier", *TINY_CLASSIFIER)
    text = write("text", [f"word{n % 20} word{n % 7}" for n in range(39)] + ["word1\tword2"])
    folder = tmp_path / "out"
    flags = ["--int8", "--text", text, "--labels", write("labels", ["class1"] * 40)]
    assert run(path, folder, *flags) == 0
    said = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in said[-3:]] == ["PyTorch", "ONNX", "ONNX, int8"]
    assert "agrees on 100.0%" in said[-3] and "agrees on 100.0%" in said[-2]
    assert all("accuracy " in line for line in said[-3:])
    weights = map(numpy_helper.to_array, load(folder / onnx.INT8).graph.initializer)
    largest = [abs(weight.astype(int)).max() for weight in weights if weight.dtype == "int8"]
    assert largest and max(largest) <= 64  # two products fit 16 bits


@pytest.mark.parametrize(
    ("criterion", "classes", "task", "between"),
    [
        ("rating_regression", 1, "sentence_prediction", " "),
        ("relatedness", 3, "sentence_pair_prediction", "\t"),
    ],
)
def test_int8_of_scores_is_measured_by_their_errors(
    criterion, classes, task, between, classifier, tmp_path
):
    flags = [*TINY_CLASSIFIER, f"--criterion={criterion}"]
    path, _ = classifier("swem_classifier", *flags, task=task, classes=classes)
    exported = export(path, tmp_path / "out")
    onnx.write(exported.model, tmp_path / "out")
    onnx.quantise(tmp_path / "out")
    lines = [f"word{n % 20}{between}word{n % 7}" for n in range(40)]
    scores = [str(result.score) for result in prediction.load(path)(lines)]
    said = int8.compare(exported, tmp_path / "out", lines, scores)
    assert said[0].startswith("PyTorch: RMSE 0.0000, differs by at most 0, ")
    assert all("differs by at most " in line for line in said)
    with pytest.raises(UsageError, match="--labels: must be a number a line"):
        int8.compare(exported, tmp_path / "out", lines, ["good"] * 40)


def test_unknown_labels_and_texts_that_are_no_pair_are_named(classifier, tmp_path):
    path, _ = classifier("swem_classifier", *TINY_CLASSIFIER)
    exported = export(path, tmp_path / "out")
    with pytest.raises(UsageError, match="--labels: 'else' is none of class"):
        int8.compare(exported, tmp_path / "out", ["word1"], ["else"])
    exported.model.config.encodes_pairs = True
    with pytest.raises(UsageError, match="^--text: 'word1' is no pair; separate its texts by one"):
        int8.compare(exported, tmp_path / "out", ["word1\tword2", "word1"])


def test_labels_stay_with_their_lines_when_blank_lines_are_left_out(write):
    text, lines = write("text", ["one", "", "two", "three"]), ["one", "two", "three"]
    assert command.read_examples(text, None) == (lines, None)
    for labels, kept in (("1\n\n2\n3\n", ["1", "2", "3"]), ("1\n2\n3\n\n", ["1", "3", ""])):
        assert command.read_examples(text, write("labels", labels)) == (lines, kept)
    with pytest.raises(UsageError, match=f"line counts differ: --text {text} has 4, --labels"):
        command.read_examples(text, write("labels", "1\n2\n3\n"))


@torch.no_grad()
def test_only_linear_layers_are_quantized(translator, tmp_path):
    """Errors stay small against the spread of logits; the model itself is unchanged."""
    path, _ = translator("dman_summarization", *TINY_TRANSFORMER)
    model = export(path, tmp_path / "out").model
    source, target = sentences(7, 1, 12), sentences(9, 4, 2, seed=1)
    before = model(source, decoder_input_ids=target).logits
    rounded = in_int8(model)(source, decoder_input_ids=target).logits
    assert torch.equal(model(source, decoder_input_ids=target).logits, before)
    error = (rounded - before).pow(2).mean().sqrt() / before.std()
    assert 1e-4 < error < 0.2


def test_translations_are_measured_beside_the_models(tmp_path, write, capsys):
    lines = ["a b c", "h g f e", "d d b", "c", "e f g h a"]
    translator = translation.load([FIXTURE / "checkpoint.pt"], str(FIXTURE / "data"), device="cpu")
    right = write("right", [result.text for result in translator(lines)])
    flags = ["--data", FIXTURE / "data", "--int8", "--text", write("text", lines)]
    assert run(FIXTURE / "checkpoint.pt", tmp_path / "out", *flags, "--labels", right) == 0
    said = capsys.readouterr().out.splitlines()
    note = command.IN_INT8
    assert said[-3] == f"{tmp_path / 'out'}: {note}" and "weights are float32; " in note
    assert f"\n## In int8\n\n{note}\n" in (tmp_path / "out/README.md").read_text()
    assert [line.partition(": ")[0] for line in said[-2:]] == ["PyTorch", "PyTorch, int8"]
    assert "BLEU 100.00, agrees on 100.0%, " in said[-2] and "BLEU " in said[-1]
    assert not (tmp_path / "out" / onnx.NAME).exists()
