"""``posattn export``, and what it says of what cannot be exported."""

import errno
import re
import shlex
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from test_export import TINY_CLASSIFIER, TINY_TRANSFORMER

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.export.commands import export as command


def run(*arguments):
    return command.main(list(map(str, arguments)), prog="posattn export")


def test_what_is_not_installed_is_named(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(command, "find_spec", lambda name: None if name == "safetensors" else name)
    assert run(tmp_path / "checkpoint.pt", tmp_path / "out") == 1
    assert capsys.readouterr().err == (
        "posattn export: error: safetensors is not installed; python -m pip install "
        "'fairseq-posattn[export]'\n"
    )


def test_help_needs_no_torch():
    """It is there at once."""
    code = (
        "import sys; sys.modules['torch'] = sys.modules['transformers'] = None\n"
        "from fairseq_posattn.export.commands import export\n"
        "export.main(['--help'], prog='posattn export')"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.returncode == 0 and "AutoModelForSeq2SeqLM" in found.stdout, found.stderr


@pytest.mark.slow
def test_it_says_what_is_there(translator, tmp_path, capsys):
    path, _ = translator("dman_iwslt_de_en", *TINY_TRANSFORMER)
    assert run(path, tmp_path / "out", "--beam", "3") == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{tmp_path / 'out'}: weights, configuration and tokenizer; its")
    files = {file.name: file for file in (tmp_path / "out").iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer_config.json", "vocab.json"} < set(files)
    assert '"num_beams": 3' in files["generation_config.json"].read_text()
    assert len({file.stat().st_mode for file in files.values()}) == 1


@pytest.mark.slow
def test_a_folder_that_is_full_is_left_alone(translator, tmp_path, capsys):
    path, _ = translator("dman_iwslt_de_en", *TINY_TRANSFORMER)
    assert run(path, tmp_path) == 1
    assert f"error: {tmp_path} is there already: name another folder" in capsys.readouterr().err
    (tmp_path / "out").mkdir()
    assert run(path, tmp_path / "out") == 0


@pytest.mark.slow
@pytest.mark.parametrize("flags", [["--adaptive-softmax-cutoff=10", "--arch=dman_iwslt_de_en"], []])
def test_what_cannot_be_exported_is_one_line_and_leaves_nothing(flags, translator, tmp_path):
    from fairseq_posattn.export.checkpoint import export

    arch = "dman_iwslt_de_en" if flags else "transformer_iwslt_de_en"
    path, _ = translator(arch, *TINY_TRANSFORMER, *flags)
    message = "--adaptive-softmax-cutoff cannot" if flags else "TransformerModel: models that"
    with pytest.raises(UsageError, match=message):
        export(path, tmp_path / "out")
    assert not list(tmp_path.glob("*out*"))


def test_models_of_older_tasks_are_not_exported(tmp_path):
    from fairseq_posattn.export.checkpoint import _seq2seq
    from fairseq_posattn.inference.trained_model import TrainedModel

    older = SimpleNamespace(cfg=None, args=SimpleNamespace(_name="multilingual_translation"))
    with pytest.raises(UsageError, match="m.pt: .* --task multilingual_translation, and only"):
        _seq2seq(TrainedModel("m.pt", None, None, older), tmp_path, {})


@pytest.mark.slow
def test_other_scores_are_not_exported(translator, tmp_path, monkeypatch):
    from fairseq_posattn.export import checkpoint
    from fairseq_posattn.hugging_face import encoder_decoder
    from fairseq_posattn.hugging_face.configuration import nested

    path, _ = translator("dman_iwslt_de_en", *TINY_TRANSFORMER)
    monkeypatch.setattr(
        encoder_decoder, "nested", lambda options: nested(options | {"no_scale_embedding": True})
    )
    with pytest.raises(UsageError, match="exported, it gives other scores, by up to"):
        checkpoint.export(path, tmp_path / "out")
    assert not list(tmp_path.glob("*out*"))


@pytest.mark.slow
def test_a_full_disk_is_one_line_and_leaves_no_half_of_a_file(classifier, tmp_path, monkeypatch):
    from safetensors import SafetensorError

    from fairseq_posattn.export import checkpoint, onnx

    path, _ = classifier("swem_classifier", *TINY_CLASSIFIER)
    out = tmp_path / "out"
    with monkeypatch.context() as full:
        fail = raising(SafetensorError("no space"))
        full.setattr(checkpoint.PreTrainedModel, "save_pretrained", fail)
        with pytest.raises(UsageError, match=f"^{out} cannot be written: no space$"):
            checkpoint.export(path, out)
    assert not list(tmp_path.glob("*out*"))

    model = checkpoint.export(path, out).model
    onnx.write(model, out)

    def half(*args, **options):
        for name in (onnx.NAME, onnx.INT8):
            if str(out / name) in map(str, args):
                (out / name).write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(onnx, "quantize_dynamic", half)
    monkeypatch.setattr(onnx, "_trace", half)
    for write, name in (
        (partial(onnx.quantise, out), onnx.INT8),
        (partial(onnx.write, model, out), onnx.NAME),
    ):
        with pytest.raises(UsageError, match=f"^{out / name} cannot be written: No space"):
            write()
        assert not (out / name).exists()


def raising(error):
    """What raises this, whatever it is given."""

    def fail(*args, **options):
        raise error

    return fail


@pytest.mark.slow
def test_another_export_to_the_folder_takes_nothing_away(translator, tmp_path, monkeypatch):
    """One that begins and fails while this one is at work."""
    from fairseq_posattn.export import checkpoint

    path, _ = translator("dman_iwslt_de_en", *TINY_TRANSFORMER)
    finish = checkpoint._with_tokenizer

    def finish_after_another(*args):
        monkeypatch.setattr(checkpoint, "_with_tokenizer", lambda *args: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            checkpoint.export(path, tmp_path / "out")
        return finish(*args)

    monkeypatch.setattr(checkpoint, "_with_tokenizer", finish_after_another)
    checkpoint.export(path, tmp_path / "out")
    assert (tmp_path / "out" / "model.safetensors").is_file()
    assert [one.name for one in tmp_path.glob("*out*")] == ["out"]


@pytest.mark.slow
def test_the_page_shows_what_its_example_prints(tmp_path, monkeypatch, capsys):
    root = Path(__file__).parents[2]
    page = (root / "docs/export.md").read_text(encoding="utf-8")
    words = shlex.split(re.search(r"    posattn export (.* letters .*)", page)[1])
    example, shown = re.search(r"```python\n([^`]*)\n# ([^\n]*)\n```", page).groups()
    monkeypatch.chdir(tmp_path)
    assert run(*(root / word if word.startswith("tests/") else word for word in words)) == 0
    capsys.readouterr()
    exec(example, {})
    assert capsys.readouterr().out.strip() == shown
