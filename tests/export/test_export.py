"""Exported models of every kind of architecture score as their checkpoints."""

import json
import pickle
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
import transformers
from classifier_builder import HEAD, PAD, TINY_OF, sentences
from classifier_builder import TINY as TINY_CLASSIFIER
from fairseq.models import register_model
from transformers import AutoModelForSeq2SeqLM, AutoModelForSequenceClassification, AutoTokenizer

import fairseq_posattn.hugging_face  # noqa: F401, registers
from fairseq_posattn.attention import DotProductAttention, MaskedDotProductAttention
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.flags import flag
from fairseq_posattn.export.checkpoint import export
from fairseq_posattn.export.commands import export as command
from fairseq_posattn.inference import prediction
from fairseq_posattn.model.mechanisms import MECHANISMS, Builder
from fairseq_posattn.training.models.seq2seq import PosAttnTransformer, PosAttnTransformerConfig
from fairseq_posattn.training.presets import ARCHITECTURES

CLASSIFIERS = ARCHITECTURES["posattn_classifier"]
TRANSFORMERS = ARCHITECTURES["posattn_transformer"]
TINY_TRANSFORMER = ["--max-source-positions=40", "--max-target-positions=40"]
for side in ("encoder", "decoder"):
    TINY_TRANSFORMER += [f"--{side}-embed-dim=16", f"--{side}-ffn-embed-dim=24"]
    TINY_TRANSFORMER += [f"--{side}-layers=2", f"--{side}-attention-heads=2"]
OF_TRANSFORMER = {
    "unshared": "",
    "shared": "--share-all-embeddings",
    "output": "--share-decoder-input-output-embed --decoder-output-dim=16",
    "options": "--layernorm-embedding --no-scale-embedding --decoder-output-dim=10 "
    "--encoder-normalize-before --decoder-normalize-before --no-decoder-final-norm "
    "--encoder-learned-pos --activation-fn=gelu_accurate --encoder-embed-dim=12",
    "plain": "--no-token-positional-embeddings --activation-fn=tanh",
    "mechanisms": "--encoder-sublayers=dman,gaussian,past,future,rpr,transformer_xl,tener,sman,ffn "
    "--decoder-sublayers=masked,dman,da,mtsa,rpr,transformer_xl,tener,sman,cross,ffn "
    "--attention-masks=past --mtsa-masks=past --decoder-learned-pos",
}

pytestmark = pytest.mark.slow  # each builds a model and exports it


def unlike(architectures):
    """Return one of the architectures that differ in mechanisms, sizes, dropouts, start alone."""
    aside = re.compile(r"sublayers|dropout|_(dim|layers|heads|queries|buckets)$|^max_|start")
    kinds = {
        frozenset(pair for pair in settings.items() if not aside.search(pair[0])): arch
        for arch, settings in architectures.items()
    }
    return list(kinds.values())


def run(*arguments):
    return command.main(list(map(str, arguments)), prog="posattn export")


def close(actual, expected):
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("arch", unlike(CLASSIFIERS))
@torch.inference_mode()
def test_a_classifier_scores_as_its_checkpoint(arch, classifier, tmp_path):
    path, model = classifier(arch, *TINY_CLASSIFIER, *TINY_OF.get(arch, []))
    export(path, tmp_path / "out")
    loaded = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out")
    right, left = sentences(7, 1, 12), sentences(7, 1, 12, left_pad=True)
    expected, _ = model(right, classification_head_name=HEAD)
    assert expected.std() > 0.01
    close(loaded(right).logits, expected)
    close(loaded(left, attention_mask=left.ne(PAD).long()).logits, expected)


def test_a_folder_from_elsewhere_runs_no_code(classifier, tmp_path):
    path, _ = classifier("mtsa_classifier", *TINY_CLASSIFIER)
    folder, canary = tmp_path / "out", tmp_path / "canary"
    export(path, folder)
    (folder / "evil.py").write_text(f"open({str(canary)!r}, 'w')\nclass Evil: pass\n")
    names = ("AutoConfig", "AutoModelForSequenceClassification", "AutoTokenizer")
    for name in ("config.json", "tokenizer_config.json"):
        settings = json.loads((folder / name).read_text())
        settings["auto_map"] = dict.fromkeys(names, ["evil.Evil", None])
        (folder / name).write_text(json.dumps(settings))
    loaded = AutoModelForSequenceClassification.from_pretrained(folder)
    assert type(loaded).__module__ == "fairseq_posattn.hugging_face.sequence_classifier"
    assert "fairseq_posattn" in type(AutoTokenizer.from_pretrained(folder)).__module__
    (folder / "model.safetensors").unlink()
    torch.save({"weight": canary}, folder / "pytorch_model.bin")
    with pytest.raises(pickle.UnpicklingError):
        AutoModelForSequenceClassification.from_pretrained(folder)
    assert not canary.exists()


@torch.inference_mode()
def test_pairs_are_distinguished_by_token_types(classifier, tmp_path):
    flags = [*TINY_CLASSIFIER, "--pair-features=distance"]
    path, model = classifier("mtsa_classifier", *flags, task="sentence_pair_prediction")
    exported = export(path, tmp_path / "out")
    sides = ["word1 word2 word3", "word5"], ["word9", "word4 word2 word7 word1"]
    first, second = (
        exported.tokenizer(side, padding=True, return_tensors="pt")["input_ids"] for side in sides
    )
    expected, _ = model(first, pair_tokens=second, classification_head_name=HEAD)
    inputs = exported.tokenizer(*sides, padding=True, return_tensors="pt")
    close(exported.model(**inputs).logits, expected)
    with pytest.raises(ValueError, match="token_type_ids: missing for a model of pairs"):
        exported.model(inputs["input_ids"])


@pytest.mark.parametrize(("criterion", "classes"), [("rating_regression", 1), ("relatedness", 3)])
def test_scores_are_those_of_posattn_predict(criterion, classes, classifier, tmp_path, capsys):
    """The model card prints them, and of a single score so does the pipeline."""
    flags = [*TINY_CLASSIFIER, f"--criterion={criterion}"]
    task, pair = "sentence_pair_prediction", ("word1 word2", "word3")
    path, _ = classifier("swem_classifier", *flags, task=task, classes=classes)
    score = prediction.load(path)(pair).score
    folder = str(tmp_path / "out")
    export(path, folder)
    code = Path(folder, "README.md").read_text().split("```python\n")[1].split("```")[0]
    for shown, actual in (("out", folder), ("A sentence.", pair[0]), ("Another one.", pair[1])):
        code = code.replace(f'"{shown}"', f'"{actual}"')
    exec(code, {})
    assert float(capsys.readouterr().out.splitlines()[-1]) == pytest.approx(score, abs=1e-4)
    if classes == 1:
        classify = transformers.pipeline("text-classification", folder)
        answer = classify({"text": pair[0], "text_pair": pair[1]})
        assert answer["score"] == pytest.approx(score, abs=1e-4)


@torch.inference_mode()
def test_sentences_of_a_pair_are_truncated_separately(classifier, tmp_path):
    task = "sentence_pair_prediction"  # 64 tokens a sentence
    path, _ = classifier("swem_classifier", *TINY_CLASSIFIER, task=task)
    tokenizer = export(path, tmp_path / "out").tokenizer
    for first, second in ((60, 40), (90, 40), (3, 64)):
        encoded = tokenizer(" word1" * first, " word2" * second, truncation=True)
        second_length = sum(encoded["token_type_ids"])
        kept = min(first, 63) + 1, min(second, 63) + 1
        assert (len(encoded["input_ids"]) - second_length, second_length) == kept
    short = tokenizer("word1 word2 word3", "word2", truncation=True, max_length=4)
    assert len(short["input_ids"]) == 4


def test_flags_of_the_users_model_are_required_and_exported(translator, tmp_path, monkeypatch):
    @dataclass
    class Flags:
        much_bent_by: float = flag(1.0, "factor of the queries", "much_bent")

    class Bent(DotProductAttention):
        flags = Flags

        def __init__(self, by, **shared):
            super().__init__(**shared)
            self.by = by

        def forward(self, hidden, query, key, value, **options):
            return super().forward(hidden, self.by * query, key, value, **options)

    config = dataclass(type("Config", (Flags, PosAttnTransformerConfig), {}))
    monkeypatch.setitem(MECHANISMS, "much_bent", Builder(Bent))
    lacks = "--much-bent-by: the model has no such flag, which Bent reads; register a model"
    with pytest.raises(UsageError, match=lacks):
        translator("posattn_transformer", *TINY_TRANSFORMER, "--encoder-sublayers=much_bent,ffn")
    register_model("translator_of_mine", dataclass=config)(type("Mine", (PosAttnTransformer,), {}))
    flags = [*TINY_TRANSFORMER, "--encoder-sublayers=much_bent,ffn", "--much-bent-by=3"]
    path, _ = translator("translator_of_mine", *flags)
    loaded, _, difference = export(path, tmp_path / "out")
    assert loaded.config.options["much_bent_by"] == 3 and difference < 1e-5


def test_the_card_imports_the_folder_of_a_users_mechanism(translator, tmp_path, monkeypatch):
    (tmp_path / "named_here").mkdir()
    (tmp_path / "named_here/__init__.py").touch()
    builder = Builder(MaskedDotProductAttention, {"masks": "past+window:2"})
    monkeypatch.setitem(MECHANISMS, "near", builder)
    flags = "--encoder-sublayers=near,ffn", f"--user-dir={tmp_path / 'named_here'}"
    path, _ = translator("posattn_transformer", *TINY_TRANSFORMER, *flags)
    export(path, tmp_path / "out")
    assert "\nimport named_here  #" in (tmp_path / "out/README.md").read_text()


@pytest.mark.parametrize(
    "arch, options",
    [
        *((arch, "shared") for arch in unlike(TRANSFORMERS)),
        *(("posattn_transformer", options) for options in OF_TRANSFORMER),
    ],
)
@torch.inference_mode()
def test_a_translator_scores_as_its_checkpoint(arch, options, translator, tmp_path):
    flags = [*TINY_TRANSFORMER, *OF_TRANSFORMER[options].split()]
    path, model = translator(arch, *flags, joined=options == "shared")
    export(path, tmp_path / "out")
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out")
    if options == "shared":
        assert loaded.decoder.output_projection.weight is loaded.encoder.embed_tokens.weight
        assert loaded.decoder.embed_tokens.weight is loaded.encoder.embed_tokens.weight
    right, left = sentences(7, 1, 12), sentences(7, 1, 12, left_pad=True)
    targets = sentences(9, 4, 2, seed=1)
    expected, _ = model(left, left.ne(PAD).sum(1), targets)
    present = targets.ne(PAD)
    assert expected.std() > 0.01
    for source in (left, right):
        mask = source.ne(PAD).long()
        result = loaded(source, attention_mask=mask, decoder_input_ids=targets).logits
        close(result[present], expected[present])
    search = {"num_beams": 4, "max_new_tokens": 10}
    loaded.double()  # no ties by rounding
    cached, whole = (loaded.generate(left, **search, use_cache=cache) for cache in (True, False))
    assert cached.tolist() == whole.tolist()


@pytest.mark.parametrize(
    "build, options, labels",
    [
        ("classifier", ("swem_classifier", *TINY_CLASSIFIER), torch.tensor([0, 2, 2])),
        ("translator", ("posattn_transformer", *TINY_TRANSFORMER), sentences(9, 4, 2, seed=1)),
    ],
)
@torch.inference_mode()
def test_losses_of_parts_of_an_update_are_summed(build, options, labels, request, tmp_path):
    """``Trainer`` calls the model so with gradient_accumulation_steps."""
    path, _ = request.getfixturevalue(build)(*options)
    model, source, count = export(path, tmp_path / "out").model, sentences(7, 1, 12), labels.ne(PAD)
    parts = ((source[rows], labels[rows]) for rows in (slice(1), slice(1, 3)))
    losses = [model(x, labels=y, num_items_in_batch=count.sum()).loss for x, y in parts]
    close(sum(losses), model(source, labels=labels).loss)


@pytest.mark.parametrize("kind", ["multi_label_classification", "regression"])
@torch.inference_mode()
def test_the_loss_is_that_of_the_problem_type(kind, classifier, tmp_path):
    path, _ = classifier("swem_classifier", *TINY_CLASSIFIER)
    export(path, tmp_path / "out")
    read = AutoModelForSequenceClassification.from_pretrained
    model, source = read(tmp_path / "out", problem_type=kind), sentences(7, 1, 12)
    labels = torch.tensor([[0, 1, 1, 0], [1, 1, 0, 0], [0, 0, 0, 1]])
    output = model(source, labels=labels)
    likely = torch.where(labels == 1, output.logits, -output.logits).sigmoid().log()
    expected = (output.logits - labels).square() if kind == "regression" else -likely
    close(output.loss, expected.mean())
    parts = ((source[rows], labels[rows]) for rows in (slice(1), slice(1, 3)))
    losses = [model(x, labels=y, num_items_in_batch=labels.numel()).loss for x, y in parts]
    close(sum(losses), output.loss)


def test_frozen_embeddings_stay_frozen(classifier, tmp_path):
    path, _ = classifier("swem_classifier", *TINY_CLASSIFIER, "--freeze-embeddings")
    export(path, tmp_path / "out")
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out")
    frozen = [name for name, weight in model.named_parameters() if not weight.requires_grad]
    assert frozen == ["encoder.embed_tokens.weight"]


def test_a_token_that_no_text_becomes_is_not_added(classifier, translator, tmp_path):
    """Texts had it as unknown tokens, and two such tokens had the same index."""
    for build, arch in ((translator, "dman_iwslt_de_en"), (classifier, "swem_classifier")):
        path, _ = build(arch, *(TINY_CLASSIFIER if build is classifier else TINY_TRANSFORMER))
        export(path, tmp_path / arch)
        tokenizer = AutoTokenizer.from_pretrained(tmp_path / arch)
        for add in (tokenizer.add_tokens, tokenizer.add_special_tokens):
            new = ["<new>"] if add == tokenizer.add_tokens else {"bos_token": "<new>"}
            with pytest.raises(UsageError, match="<new>: an exported vocabulary takes no more"):
                add(new)
        ids = tokenizer("word2").input_ids
        assert tokenizer.add_tokens(["<unk>", "word2"]) == 0 and tokenizer.unk_token_id == 3
        assert tokenizer("word2").input_ids == ids


@torch.inference_mode()
def test_a_translator_in_another_precision(translator, tmp_path):
    flags = [*TINY_TRANSFORMER, *OF_TRANSFORMER["options"].split()]
    path, _ = translator("dman_iwslt_de_en", *flags, joined=False)
    model = export(path, tmp_path / "out").model
    source, targets = sentences(7, 1, 12), sentences(9, 4, 2, seed=1)
    expected = model(source, decoder_input_ids=targets).logits
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out", dtype=dtype)
        result = model(source, decoder_input_ids=targets).logits
        assert result.dtype == dtype
        assert (result - expected).abs().max() < 0.1 * expected.abs().max()


def test_paths_of_the_training_are_not_exported(classifier, tmp_path):
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("word1 0.5 1 2\n")
    sizes = ["--encoder-embed-dim=3", f"--encoder-embed-path={vectors}"]
    path, _ = classifier("cnn_classifier", *sizes)
    export(path, tmp_path / "out")
    for name in ("*.json", "*.md"):
        for file in (tmp_path / "out").glob(name):
            assert str(tmp_path) not in file.read_text()
    assert json.loads((tmp_path / "out/config.json").read_text())["id2label"]["2"] == "class2"
