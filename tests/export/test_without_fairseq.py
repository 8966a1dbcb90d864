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

inputs = json.load(sys.stdin)
common = {"max_steps": 30, "learning_rate": 0.01, "report_to": [], "use_cpu": True}
common["disable_tqdm"] = True
"""
TRANSLATE = """
from transformers import DataCollatorForSeq2Seq, Seq2SeqTrainer, Seq2SeqTrainingArguments

folder, lines = inputs["translation"]
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

folder, lines = inputs["classification"]
answers = [result["label"] for result in pipeline("text-classification", folder)(lines)]
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForSequenceClassification.from_pretrained(folder)

def answer(model):
    return model(**tokenizer(lines, padding=True, return_tensors="pt")).logits

lines = lines[:4]
examples = [{**tokenizer(line), "labels": number % 2} for number, line in enumerate(lines)]
settings = TrainingArguments(folder + "-trained", **common)
trainer = Trainer(model, settings, DataCollatorWithPadding(tokenizer), examples, examples)
"""
# Two batches of two make the update of four examples: their labels have equally many tokens.
TRAIN = """
def updated(size, accumulated):
    options = dict(common, max_steps=1, per_device_train_batch_size=size, optim="sgd")
    options["gradient_accumulation_steps"] = accumulated
    again = type(model).from_pretrained(folder)
    again.train = lambda mode=True: again  # no dropout
    arguments = type(settings)(folder + "-run", **options)
    type(trainer)(again, arguments, trainer.data_collator, examples).train()
    return torch.cat([value.flatten() for value in again.state_dict().values()])


difference = (updated(2, 2) - updated(4, 1)).abs().max().item()
accumulated = difference < 1e-3 * (updated(2, 2) - updated(2, 1)).abs().max().item()
before = trainer.evaluate()["eval_loss"]
trainer.train()
trainer.save_model()
after = trainer.evaluate()["eval_loss"]
again = type(model).from_pretrained(folder + "-trained").eval()
same = torch.equal(answer(again), answer(model.eval()))
same = same and accumulated
print(json.dumps({"answers": answers, "before": before, "after": after, "same": same}))
"""


def output_of(words, text=""):
    done = subprocess.run(words, input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_exported_models_answer_and_train(tmp_path):
    """All checks share one process; most of its time is importing."""
    from fairseq_posattn.export.checkpoint import export
    from fairseq_posattn.inference import prediction, translation

    sentences = (FIXTURES / "classification/sentences.txt").read_text().splitlines()
    inputs, expected = {}, []
    for kind, load, answer, lines in (
        ("classification", prediction.load, "label", sentences),
        ("translation", translation.load, "text", ["a b c", "d", "h g f e d c", "a a a"]),
    ):
        checkpoint, data = (str(FIXTURES / kind / name) for name in ("checkpoint.pt", "data"))
        export(checkpoint, tmp_path / kind, data)
        inputs[kind] = str(tmp_path / kind), lines
        model = load(checkpoint, data, device="cpu")
        expected.append([getattr(result, answer) for result in model(lines)])
    program = WITHOUT + CLASSIFY + TRAIN + TRANSLATE + TRAIN
    printed = output_of([sys.executable, "-c", program], json.dumps(inputs)).splitlines()
    results = [json.loads(line) for line in printed if line.startswith('{"answers"')]
    assert [result["answers"] for result in results] == expected
    for result in results:
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
