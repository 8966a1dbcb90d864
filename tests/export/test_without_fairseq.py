"""An exported model where there is no fairseq: loaded, asked, trained on."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

FIXTURES = Path(__file__).parents[1] / "fixtures"

# Of torchaudio, which fairseq brings and transformers loads, there is one for another PyTorch.
WITHOUT = """
import json, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("fairseq", "fairseq_cli", "omegaconf", "hydra"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        if name == "torchaudio":
            raise OSError("Could not load this library")

sys.meta_path.insert(0, Absent())
import fairseq_posattn.hugging_face
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, pipeline

folder, lines = sys.argv[1], sys.stdin.read().splitlines()
"""
TRANSLATE = """
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForSeq2SeqLM.from_pretrained(folder)
found = model.generate(**tokenizer(lines, padding=True, return_tensors="pt"))
print(json.dumps(tokenizer.batch_decode(found, skip_special_tokens=True)))
"""
CLASSIFY = """
print(json.dumps([found["label"] for found in pipeline("text-classification", folder)(lines)]))
"""
TRAIN_TRANSLATOR = """
import torch
from transformers import DataCollatorForSeq2Seq, Seq2SeqTrainer, Seq2SeqTrainingArguments

tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForSeq2SeqLM.from_pretrained(folder)
examples = [dict(tokenizer(line, text_target="A B B A")) for line in lines]
settings = Seq2SeqTrainingArguments(
    folder + "-trained", max_steps=30, learning_rate=0.01, report_to=[], use_cpu=True,
    predict_with_generate=True, per_device_eval_batch_size=4, disable_tqdm=True,
)
collator = DataCollatorForSeq2Seq(tokenizer, model)
trainer = Seq2SeqTrainer(model, settings, collator, examples, examples, tokenizer)

def answer(model):
    return model.generate(**tokenizer(lines, padding=True, return_tensors="pt"))
"""
TRAIN_CLASSIFIER = """
import torch
from transformers import (
    AutoModelForSequenceClassification, DataCollatorWithPadding, Trainer, TrainingArguments,
)

tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForSequenceClassification.from_pretrained(folder)
examples = [{**tokenizer(line), "labels": number % 2} for number, line in enumerate(lines)]
settings = TrainingArguments(
    folder + "-trained", max_steps=30, learning_rate=0.01, report_to=[], use_cpu=True,
    disable_tqdm=True,
)
trainer = Trainer(model, settings, DataCollatorWithPadding(tokenizer), examples, examples)

def answer(model):
    return model(**tokenizer(lines, padding=True, return_tensors="pt")).logits
"""
TRAIN = """
before = trainer.evaluate()["eval_loss"]
trainer.train()
trainer.save_model()
after = trainer.evaluate()["eval_loss"]
again = type(model).from_pretrained(folder + "-trained").eval()
same = torch.equal(answer(again), answer(model.eval()))
print(json.dumps({"before": before, "after": after, "same": same}))
"""


def run(code, folder, lines):
    found = subprocess.run(
        [sys.executable, "-c", WITHOUT + code, str(folder)],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout.splitlines()[-1])


@pytest.fixture
def exported(tmp_path):
    from fairseq_posattn.export.checkpoint import export

    def make(kind):
        fixture = FIXTURES / kind
        export(str(fixture / "checkpoint.pt"), tmp_path / kind, str(fixture / "data"))
        return tmp_path / kind

    return make


@pytest.mark.slow
def test_importing_it_needs_no_fairseq():
    """The names are there, and nothing of fairseq is loaded."""
    assert run("print(json.dumps('fairseq_posattn.models' in sys.modules))", "", []) is False


@pytest.mark.slow
def test_a_pipeline_classifies(exported):
    sentences = (FIXTURES / "classification/sentences.txt").read_text().splitlines()
    labels = (FIXTURES / "classification/labels.txt").read_text().splitlines()
    assert run(CLASSIFY, exported("classification"), sentences) == labels


@pytest.mark.slow
def test_it_translates(exported):
    from fairseq_posattn import translation

    fixture = FIXTURES / "translation"
    texts = ["a b c", "d", "h g f e d c", "a a a"]
    ours = translation.load([fixture / "checkpoint.pt"], str(fixture / "data"), device="cpu")
    expected = [found.text for found in ours(texts)]
    assert run(TRANSLATE, exported("translation"), texts) == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind, code", [("translation", TRAIN_TRANSLATOR), ("classification", TRAIN_CLASSIFIER)]
)
def test_a_trainer_trains_on(kind, code, exported):
    pytest.importorskip("accelerate")
    found = run(code + TRAIN, exported(kind), ["a b c", "d", "h g f e d c", "a a a"])
    assert found["after"] < 0.5 * found["before"]
    assert found["same"]
