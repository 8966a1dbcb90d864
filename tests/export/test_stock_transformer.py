"""fairseq's Transformer is read as posattn_transformer, with equal translations."""

import math
import shutil
from pathlib import Path

import pytest
import torch
from classifier_builder import PAD, sentences
from fairseq.sequence_generator import SequenceGenerator
from forked_commands import output_of
from test_export import TINY_TRANSFORMER, run
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from fairseq_posattn.compat.checkpoints import read_checkpoint
from fairseq_posattn.export.checkpoint import export
from fairseq_posattn.inference import translation
from fairseq_posattn.inference.commands import average
from fairseq_posattn.inference.trained_model import load
from fairseq_posattn.inspection.page.view import open_view
from fairseq_posattn.training.models import PosAttnTransformer

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests/fixtures/translation/data"
OPTIONS = {
    "transformer": "",
    "transformer_iwslt_de_en": "--share-decoder-input-output-embed --encoder-layerdrop=0.3 "
    "--decoder-layerdrop=0.2",
    "transformer_vaswani_wmt_en_de_big": "--share-all-embeddings --layernorm-embedding",
    "transformer_wmt_en_de_big_t2t": "--decoder-learned-pos --no-decoder-final-norm "
    "--encoder-embed-dim=12",
    "transformer_wmt_en_de": "--encoder-normalize-before --encoder-learned-pos "
    "--no-scale-embedding --activation-fn=gelu --decoder-output-dim=10",
    "transformer_tiny": "--decoder-normalize-before --no-token-positional-embeddings "
    "--activation-fn=gelu_fast --merge-src-tgt-embed",
    "transformer_iwslt_de_en ": "--adaptive-softmax-cutoff=10 --relu-dropout=0.2",
    "bart_base": "",
}
UNREAD = {
    "--cross-self-attention": "it has --cross-self-attention, which",
    "--encoder-normalize-before": "it has no weight encoder.layer_norm.bias",
    "--arch=transformer_align": "its class is not fairseq's plain",
}


@pytest.mark.parametrize("arch", OPTIONS)
def test_translations_equal_fairseqs(arch, translator):
    joined = arch in ("transformer_vaswani_wmt_en_de_big", "bart_base")
    flags = [*TINY_TRANSFORMER, *OPTIONS[arch].split()]
    path, stock = translator(arch.strip(), *flags, joined=joined)
    ours = translation.load(path, device="cpu", nbest=3, max_len_b=12)
    assert type(ours.models[0]) is PosAttnTransformer
    source, target = sentences(7, 1, 12), ours.task.target_dictionary
    lines = [ours.task.source_dictionary.string(row[row.ne(PAD)]) for row in source]
    generator = SequenceGenerator([stock], target, beam_size=5, max_len_b=12)
    for line, row in zip(lines, source, strict=True):
        row = row[row.ne(PAD)][None]
        batch = {"src_tokens": row, "src_lengths": torch.tensor([row.size(1)])}
        (expected,) = generator.generate([stock], {"net_input": batch})
        hypotheses = ours(line).hypotheses
        assert [hypothesis.pieces for hypothesis in hypotheses] == [
            target.string(hypothesis["tokens"]) for hypothesis in expected[:3]
        ]
        scores = [hypothesis["score"].item() / math.log(2) for hypothesis in expected[:3]]
        assert [hypothesis.score for hypothesis in hypotheses] == pytest.approx(scores, abs=1e-4)


@pytest.mark.parametrize("flag", UNREAD)
def test_other_models_stay_and_the_messages_say_why(flag, translator, tmp_path, capsys):
    arch = flag.removeprefix("--arch=") if "arch" in flag else "transformer_iwslt_de_en"
    path, model = translator(arch, *TINY_TRANSFORMER, *([flag] if arch not in flag else []))
    state = read_checkpoint(path)
    if "normalize" in flag:  # so were the first of them
        state["model"] = {
            name: weight
            for name, weight in state["model"].items()
            if not name.startswith(("encoder.layer_norm", "encoder.version"))
        }
        torch.save(state, path)
    trained = load(str(path))
    assert type(trained.model) is type(model)
    assert trained.unread.startswith(UNREAD[flag])
    assert translation.load(path, device="cpu", max_len_b=5)("word1 word2").hypotheses
    assert run(path, tmp_path / "out") == 1
    kind = type(model).__name__
    error = capsys.readouterr().err
    assert f"{path}: a {kind} cannot be exported: {UNREAD[flag]}" in error
    assert "'posattn translate --int8'" in error and not list(tmp_path.glob("*out*"))
    with pytest.raises(ValueError, match=f"of {kind} has no layers of sublayers: {UNREAD[flag]}"):
        open_view(str(path))


def test_mbart_is_not_exported(translator, tmp_path, capsys):
    """Its search begins and ends with symbols of languages."""
    task = "translation_from_pretrained_bart"
    path, _ = translator("bart_base", *TINY_TRANSFORMER, "--langs=de,en", task=task)
    assert run(path, tmp_path / "out") == 1
    error = f"{path}: a BARTModel cannot be exported: its task is not translation"
    assert error in capsys.readouterr().err


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return a folder with two checkpoints of a trained model and what fairseq-generate prints."""
    folder = tmp_path_factory.mktemp("stock")
    shutil.copytree(DATA, folder / "data")
    flags = "--arch transformer_tiny --share-all-embeddings --optimizer adam --lr 0.002 --seed 1"
    flags += " --dropout 0 --max-tokens 64 --max-epoch 40 --save-interval 39 --cpu"
    flags += " --num-workers 0 --no-progress-bar --disable-validation"
    output_of("train", folder / "data", "--save-dir", folder, *flags.split())
    path = folder / "checkpoint_last.pt"
    flags = ["--path", path, "--cpu", "--batch-size", "8", "--user-dir", ROOT / "fairseq_posattn"]
    printed = output_of("generate", folder / "data", *flags).splitlines()
    rows = sorted(line.split("\t") for line in printed if line.startswith(("S-", "H-")))
    hypotheses = [text for name, _, text in (row for row in rows if len(row) == 3)]
    sources = [row[1] for row in rows if len(row) == 2]
    assert len(set(hypotheses)) > 5
    return path, sources, hypotheses


def test_a_trained_model_translates_as_fairseq_generate(trained):
    path, sources, expected = trained
    assert [result.text for result in translation.load(path, device="cpu")(sources)] == expected
    rounded = [result.text for result in translation.load(path, device="cpu", int8=True)(sources)]
    assert sum(map(str.__eq__, rounded, expected)) >= len(expected) - 2


def test_a_trained_model_is_exported(trained, tmp_path):
    path, sources, expected = trained
    export(str(path), tmp_path / "out")
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    inputs = tokenizer(sources, padding=True, return_tensors="pt")
    assert tokenizer.batch_decode(model.generate(**inputs), skip_special_tokens=True) == expected
    assert "| architecture | transformer_tiny |" in (tmp_path / "out/README.md").read_text()


def test_a_trained_model_is_shown(trained):
    path, sources, expected = trained
    view = open_view(str(path), layers=[1])
    assert [layer.name for layer in view.layers] == ["san", "san", "cross"]
    shown = view(sources[0])
    assert shown["outcome"]["text"] == expected[0] and len(shown["attention"]) == 3


def test_checkpoints_are_averaged(trained, tmp_path):
    path, sources, _ = trained
    paths = [str(path.with_name("checkpoint39.pt")), str(path)]
    words = ["--inputs", *paths, "--output", str(tmp_path / "average.pt")]
    assert average.main(words, prog="posattn average") == 0
    mean = load(str(tmp_path / "average.pt")).model.state_dict()
    states = [load(file).model.state_dict() for file in paths]
    for name, weight in mean.items():
        torch.testing.assert_close(weight, (states[0][name] + states[1][name]) / 2)
