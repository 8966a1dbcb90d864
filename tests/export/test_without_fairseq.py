"""Exported models without fairseq: loaded, called and trained further."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

FIXTURES = Path(__file__).parents[1] / "fixtures"

# The torchaudio that fairseq installs may be built for another PyTorch.
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
assert "fairseq_posattn.training.models" not in sys.modules
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, pipeline

folder, lines = sys.argv[1], sys.stdin.read().splitlines()
common = {"max_steps": 30, "learning_rate": 0.01, "report_to": [], "use_cpu": True}
common["disable_tqdm"] = True
"""
TRANSLATE = """
from transformers import DataCollatorForSeq2Seq, Seq2SeqTrainer, Seq2SeqTrainingArguments

tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForSeq2SeqLM.from_pretrained(folder)

def answer(model):
    return model.generate(**tokenizer(lines, padding=True, return_tensors="pt"))

answers = tokenizer.batch_decode(answer(model), skip_special_tokens=True)
examples = [dict(tokenizer(line, text_target="A B B A")) for line in lines]
more = {"predict_with_generate": True, "per_device_eval_batch_size": 4}
settings = Seq2SeqTrainingArguments(folder + "-trained", **common, **more)
collator = DataCollatorForSeq2Seq(tokenizer, model)
trainer = Seq2SeqTrainer(model, settings, collator, examples, examples, tokenizer)
"""
CLASSIFY = """
from transformers import (
    AutoModelForSequenceClassification, DataCollatorWithPadding, Trainer, TrainingArguments,
)

answers = [found["label"] for found in pipeline("text-classification", folder)(lines)]
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForSequenceClassification.from_pretrained(folder)

def answer(model):
    return model(**tokenizer(lines, padding=True, return_tensors="pt")).logits

lines = lines[:4]
examples = [{**tokenizer(line), "labels": number % 2} for number, line in enumerate(lines)]
settings = TrainingArguments(folder + "-trained", **common)
trainer = Trainer(model, settings, DataCollatorWithPadding(tokenizer), examples, examples)
"""
TRAIN = """
before = trainer.evaluate()["eval_loss"]
trainer.train()
trainer.save_model()
after = trainer.evaluate()["eval_loss"]
again = type(model).from_pretrained(folder + "-trained").eval()
same = torch.equal(answer(again), answer(model.eval()))
print(json.dumps({"answers": answers, "before": before, "after": after, "same": same}))
"""


def output_of(words, text=""):
    done = subprocess.run(words, input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("kind, code", [("classification", CLASSIFY), ("translation", TRANSLATE)])
def test_an_exported_model_answers_and_trains(kind, code, tmp_path):
    """All checks share one process; most of its time is importing."""
    from fairseq_posattn.export.checkpoint import export
    from fairseq_posattn.inference import prediction, translation

    fixture, folder = FIXTURES / kind, tmp_path / "exported"
    given = str(fixture / "checkpoint.pt"), str(fixture / "data")
    export(given[0], folder, given[1])
    if kind == "translation":
        lines = ["a b c", "d", "h g f e d c", "a a a"]
        expected = [one.text for one in translation.load(*given, device="cpu")(lines)]
    else:
        lines = (fixture / "sentences.txt").read_text().splitlines()
        expected = [one.label for one in prediction.load(*given, device="cpu")(lines)]
    words = [sys.executable, "-c", WITHOUT + code + TRAIN, str(folder)]
    result = json.loads(output_of(words, "\n".join(lines)).splitlines()[-1])
    assert result["answers"] == expected
    assert result["after"] < 0.5 * result["before"]
    assert result["same"]


@pytest.mark.slow
def test_a_torchaudio_that_does_not_load_is_hidden(tmp_path):
    """Transformers was imported first; the other tests import it later."""
    (tmp_path / "torchaudio").mkdir()
    (tmp_path / "torchaudio/__init__.py").write_text("raise RuntimeError('Another CUDA')")
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from transformers.utils import is_torchaudio_available; assert is_torchaudio_available()\n"
        "import fairseq_posattn.hugging_face\n"
        "from transformers import pipeline\n"
    )
    output_of([sys.executable, "-c", program, str(tmp_path)])
