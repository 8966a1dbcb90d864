"""``posattn export``: its folder, its model card and its errors."""

import errno
import json
import os
import re
import resource
import shlex
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import yaml
from safetensors import SafetensorError
from test_export import TINY_CLASSIFIER, TINY_TRANSFORMER, run

from fairseq_posattn.attention import DynamicMaskAttention
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.export import card, checkpoint, onnx
from fairseq_posattn.export.commands import export as command
from fairseq_posattn.hugging_face import encoder_decoder
from fairseq_posattn.inference.trained_model import TrainedModel
from fairseq_posattn.text import manifest

ROOT = Path(__file__).parents[2]
PARTS = {"config.json", "model.safetensors", "tokenizer_config.json", "vocab.json", "README.md"}


@pytest.fixture
def path(translator):
    return translator("dman_iwslt_de_en", *TINY_TRANSFORMER)[0]


@pytest.mark.parametrize("option", ["--max-len-b", "--no-repeat-ngram-size"])
def test_sizes_of_the_search_are_whole_numbers(option, capsys):
    with pytest.raises(SystemExit):
        run("model.pt", "exported", option, "-1")
    assert f"argument {option}: '-1' is not a whole number" in capsys.readouterr().err


@pytest.mark.parametrize("package, extra", [("safetensors", "export"), ("ctranslate2",) * 2])
def test_a_missing_package_is_named(package, extra, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(command, "find_spec", lambda name: None if name == package else name)
    assert run(tmp_path / "checkpoint.pt", tmp_path / "out", "--ctranslate2") == 1
    error = f"{package} is not installed; python -m pip install 'fairseq-posattn[{extra}]'"
    assert capsys.readouterr().err == f"posattn export: error: {error}\n"


def test_a_section_that_does_not_fit_on_the_disk_leaves_the_card(tmp_path):
    path = tmp_path / card.NAME
    path.write_text("# model\n")
    card.add_section(tmp_path, "One", ["a", "b"])
    before = path.read_text()
    assert before == "# model\n\n## One\n\na\nb\n"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(UsageError, match=f"^{path} cannot be written: File too large$"):
            card.add_section(tmp_path, "Two", ["x" * 200_000])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_text() == before


@pytest.mark.slow
def test_a_folder_of_a_checkpoint_is_exported_to_this_folder(path, tmp_path, monkeypatch, capsys):
    path.rename(tmp_path / "checkpoint_best.pt")
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path / "out")
    moved = []
    monkeypatch.setattr(shutil, "move", lambda *paths: moved.append(os.replace(*paths) or paths[1]))
    assert run(tmp_path, ".", "--beam", "3") == 0
    assert moved[-1].name == "config.json"  # of a killed export nothing can be loaded
    output = capsys.readouterr()
    assert "is a folder: using its checkpoint_best.pt" in output.err
    assert output.out.startswith(".: weights, configuration, tokenizer and model")
    assert "# out\n" in Path("README.md").read_text()
    files = {file.name: file for file in Path().iterdir()}
    assert set(files) > PARTS
    assert '"num_beams": 3' in files["generation_config.json"].read_text()
    assert len({file.stat().st_mode for file in files.values()}) == 1
    assert run(tmp_path, ".") == 1
    assert "error: .: exists and is not empty" in capsys.readouterr().err


@pytest.mark.parametrize(
    "names, codes",
    [
        (["zh_TW", "no"], ["zh-TW", "no"]),
        (["yue", "sr-Latn-RS"], ["yue", "sr-Latn-RS"]),
        (["source", "target"], None),
        ([], None),
    ],
)
def test_languages_of_a_card_are_codes(names, codes):
    assert (yaml.safe_load(card.language_line(names)) or {}).get("language") == codes


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["translator", "classifier"])
def test_the_model_card_loads_the_model(kind, request, tmp_path, monkeypatch, capsys):
    arch = {"translator": "dman_iwslt_de_en", "classifier": "mpsan_classifier"}[kind]
    sizes = TINY_TRANSFORMER if kind == "translator" else TINY_CLASSIFIER
    path, _ = request.getfixturevalue(kind)(arch, *sizes)
    state = torch.load(path, weights_only=True)
    torch.save({**state, "extra_state": {"val_loss": 3.25}}, path)
    if kind == "translator":
        rules = ("own", "translation", "moses-escaped")
        manifest.write(tmp_path, manifest.Manifest(*rules, examples={"train": 28000, "test": 1000}))
    monkeypatch.chdir(tmp_path)
    assert run(path, "out") == 0
    text = (tmp_path / "out/README.md").read_text()
    facts = {
        "translator": [
            '\nlanguage: ["de", "en"]\n',
            "pipeline_tag: translation",
            "| languages | de to en |",
            "28,000 train, 1",
        ],
        "classifier": [
            "pipeline_tag: text-classification",
            "| encoder | mpsan |",
            "class0, class",
            "| tokenization | moses, lower-cased |",
        ],
    }[kind]
    for fact in [f"| architecture | {arch} |", "| validation loss | 3.25 |", *facts]:
        assert fact in text
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert code.startswith("import fairseq_posattn.hugging_face  # registers the model")
    exec(code, {})
    assert capsys.readouterr().out


@pytest.mark.slow
def test_a_refused_model_leaves_nothing(translator, tmp_path):
    path, _ = translator("dman_iwslt_de_en", *TINY_TRANSFORMER, "--adaptive-softmax-cutoff=10")
    with pytest.raises(UsageError, match="--adaptive-softmax-cutoff cannot"):
        checkpoint.export(path, tmp_path / "out")
    assert not list(tmp_path.glob("*out*"))


def test_models_of_older_tasks_are_not_exported():
    older = SimpleNamespace(cfg=None, args=SimpleNamespace(_name="multilingual_translation"))
    with pytest.raises(UsageError, match="m.pt: .* --task multilingual_translation; no c"):
        checkpoint._seq2seq(TrainedModel("m.pt", None, None, older), {})


@pytest.mark.slow
def test_other_scores_are_not_exported(path, tmp_path, monkeypatch):
    nested, other = encoder_decoder.nested, {"no_scale_embedding": True}
    monkeypatch.setattr(encoder_decoder, "nested", lambda options: nested(options | other))
    with pytest.raises(UsageError, match="cannot be exported: its scores would differ by up to"):
        checkpoint.export(path, tmp_path / "out")
    assert not list(tmp_path.glob("*out*"))


@pytest.mark.slow
def test_the_folder_may_be_on_another_disk(path, tmp_path, monkeypatch):
    rename = os.rename

    def rename_here(source, target):
        if Path(target).parent == tmp_path / "mounted":
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        rename(source, target)

    (tmp_path / "mounted").mkdir()
    monkeypatch.setattr(os, "rename", rename_here)
    checkpoint.export(path, tmp_path / "mounted")
    assert PARTS.issubset(os.listdir(tmp_path / "mounted"))
    assert not list(tmp_path.glob(".mounted*"))


@pytest.mark.slow
def test_an_export_that_ended_meanwhile_is_not_replaced(path, tmp_path, monkeypatch):
    folder = tmp_path / "out"
    write = checkpoint._write

    def after_another(*arguments):
        monkeypatch.setattr(checkpoint, "_write", write)
        checkpoint.export(path, folder, beam=3)
        return write(*arguments)

    monkeypatch.setattr(checkpoint, "_write", after_another)
    with pytest.raises(UsageError, match="out: exists and is not empty; name another folder"):
        checkpoint.export(path, folder)
    assert json.loads((folder / "generation_config.json").read_text())["num_beams"] == 3


@pytest.mark.slow
def test_a_buffer_that_is_not_saved_is_named(translator, tmp_path, monkeypatch):
    build = DynamicMaskAttention.__init__

    def build_with_buffer(self, *args, **options):
        build(self, *args, **options)
        self.register_buffer("slopes", torch.tensor([0.5, 0.25]), persistent=False)

    monkeypatch.setattr(DynamicMaskAttention, "__init__", build_with_buffer)
    path, _ = translator("dman_iwslt_de_en", *TINY_TRANSFORMER)
    with pytest.raises(UsageError, match="buffer encoder.*slopes is not saved with the weights; r"):
        checkpoint.export(path, tmp_path / "out")


@pytest.mark.slow
def test_a_full_disk_is_one_line_and_leaves_no_partial_file(classifier, tmp_path, monkeypatch):
    path, _ = classifier("swem_classifier", *TINY_CLASSIFIER)
    out = tmp_path / "out"

    def fail(*args, **options):
        raise SafetensorError("no space")

    with monkeypatch.context() as full:
        full.setattr(checkpoint.PreTrainedModel, "save_pretrained", fail)
        with pytest.raises(UsageError, match=f"^{out} cannot be written: no space$"):
            checkpoint.export(path, out)
    assert not list(tmp_path.glob("*out*"))

    model = checkpoint.export(path, out).model

    def write_half(graph, examples, path, **options):
        Path(path).write_text("half")
        assert not (out / onnx.NAME).exists()  # nor if it is killed here
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(torch.onnx, "export", write_half)
    with pytest.raises(UsageError, match=f"^{out / onnx.NAME} cannot be written: No space"):
        onnx.write(model, out)
    assert not list(out.glob("*model.onnx"))


@pytest.mark.slow
def test_the_example_of_the_documentation(tmp_path, monkeypatch, capsys):
    page = (ROOT / "docs/export.md").read_text(encoding="utf-8")
    words = shlex.split(re.search(r"    posattn export (.* letters .*)", page)[1])
    example, output = re.search(r"```python\n([^`]*)\n# ([^\n]*)\n```", page).groups()
    monkeypatch.chdir(tmp_path)
    assert run(*(ROOT / word if word.startswith("tests/") else word for word in words)) == 0
    capsys.readouterr()
    exec(example, {})
    assert capsys.readouterr().out.strip() == output
