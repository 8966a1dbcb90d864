"""Graphs give what models give, of batches and lengths that they were not made with; and int8."""

import onnxruntime
import pytest
import torch
from classifier_builder import sentences
from test_export import OF_CLASSIFIER, TINY_CLASSIFIER, TINY_TRANSFORMER

from fairseq_posattn.errors import UsageError
from fairseq_posattn.export import command, int8, onnx
from fairseq_posattn.export.checkpoint import export

pytestmark = pytest.mark.slow  # each traces a model
PAD = 1


def graph(folder, *tensors):
    return torch.from_numpy(onnx.run(onnxruntime.InferenceSession(folder / onnx.NAME), tensors))


@pytest.mark.parametrize(
    "arch",
    ["da_transformer_classifier", "mpsan_classifier", "cnn_classifier", "fasttext_classifier"],
)
@torch.no_grad()
def test_a_classifiers_graph_gives_its_scores(arch, classifier, tmp_path):
    path, _ = classifier(arch, *TINY_CLASSIFIER, *OF_CLASSIFIER.get(arch, []))
    exported = export(path, tmp_path / "out")
    onnx.write(exported.model, tmp_path / "out")
    for ids in (sentences(31), sentences(2, 9, 1, 4, 1, left_pad=True)):
        mask = ids.ne(PAD).long()
        expected = exported.model(ids, mask).logits
        found = graph(tmp_path / "out", ids, mask)
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_an_encoders_graph_gives_its_states(translator, tmp_path):
    flags = [*TINY_TRANSFORMER, "--encoder-sublayers=dman,san,ffn", "--decoder-learned-pos"]
    path, _ = translator("posattn_transformer", *flags)
    exported = export(path, tmp_path / "out")
    onnx.write(exported.model, tmp_path / "out")
    ids = sentences(2, 9, 1, 4, 1, left_pad=True)
    mask = ids.ne(PAD).long()
    expected = exported.model.get_encoder()(ids, mask).last_hidden_state
    found = graph(tmp_path / "out", ids, mask)
    present = mask.bool()
    torch.testing.assert_close(found[present], expected[present], atol=1e-5, rtol=1e-4)


def test_what_has_no_graph_is_one_line(classifier, tmp_path):
    path, _ = classifier("bilstm_classifier", *TINY_CLASSIFIER)
    exported = export(path, tmp_path / "out")
    with pytest.raises(UsageError, match="--onnx: --encoder bilstm has no graph"):
        onnx.write(exported.model, tmp_path / "out")
    assert not (tmp_path / "out" / onnx.NAME).exists()


def test_int8_is_measured_beside_the_model(classifier, tmp_path, capsys):
    path, _ = classifier("swem_classifier", *TINY_CLASSIFIER)
    text, labels = tmp_path / "text", tmp_path / "labels"
    words = [f"word{number % 20} word{number % 7}" for number in range(40)]
    text.write_text("".join(f"{line}\n" for line in words))
    labels.write_text("class1\n" * 40)
    folder = tmp_path / "out"
    flags = ["--int8", "--text", text, "--labels", labels]
    assert command.main(list(map(str, [path, folder, *flags])), prog="posattn export") == 0
    said = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in said[-3:]] == ["PyTorch", "ONNX", "ONNX, int8"]
    assert "agrees on 100.0%" in said[-3] and "agrees on 100.0%" in said[-2]
    shares = {line.partition("accuracy ")[2].partition(",")[0] for line in said[-3:-1]}
    assert len(shares) == 1 and shares.pop().endswith("%")
    assert (folder / onnx.INT8).is_file()


def test_labels_that_are_none_are_named(classifier, tmp_path):
    path, _ = classifier("swem_classifier", *TINY_CLASSIFIER)
    exported = export(path, tmp_path / "out")
    with pytest.raises(UsageError, match="--labels: 'else' is none of class"):
        int8.compare(exported, tmp_path / "out", ["word1"], ["else"])
