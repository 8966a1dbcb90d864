"""Int8 quantization: change of the scores and speed on this machine's CPU."""

import operator
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import onnxruntime
import torch

from fairseq_posattn.common.errors import UsageError, shortened
from fairseq_posattn.export import onnx
from fairseq_posattn.export.checkpoint import Exported
from fairseq_posattn.hugging_face.int8 import in_int8
from fairseq_posattn.scoring.bleu import bleu_metric, group_of
from fairseq_posattn.scoring.pairs import Pairs

BATCH = 32


@dataclass(frozen=True)
class Measured:
    """The quality and speed of one form of a model.

    Attributes:
        name: of the form.
        quality: how good it is, as text; empty where nobody says what is right.
        agreement: share of the lines of which it says what the model does.
        rate: lines a second, tokenising left out.
    """

    name: str
    quality: str
    agreement: float
    rate: float

    def __str__(self):
        told = [self.quality] if self.quality else []
        told += [f"agrees on {self.agreement:.1%}", f"{self.rate:,.1f} lines a second"]
        return f"{self.name}: {', '.join(told)}"


def compare(
    exported: Exported, folder: Path, lines: Sequence[str], right: Sequence[str] | None = None
) -> list[Measured]:
    """Compare the forms of a model: a classifier's graphs, or the int8 of a generation model.

    Args:
        exported: the model. folder: of its graphs.
        lines: plain text, of a classifier with a TAB between the sentences of a pair.
        right: the names of the right classes, or what is to be written, as many.

    Raises:
        UsageError: there are no lines, one has more or fewer TABs, or a label is unknown or
            missing.
    """
    if not lines:
        raise UsageError("--text: there is no line to compare on")
    if right is not None and len(right) != len(lines):
        raise UsageError(f"--labels has {len(right)} lines, --text {len(lines)} with words")
    writes = exported.model.config.is_encoder_decoder
    batches = _batches(exported, lines)
    forms, quality = (_writers if writes else _classifiers)(exported, folder, right)
    found, expected = [], None
    for name, form in forms.items():
        said, seconds = _ask(form, batches, len(lines))
        expected = said if expected is None else expected
        agreement = sum(map(operator.eq, said, expected)) / len(lines)
        told = "" if right is None else quality(said)
        found.append(Measured(name, told, agreement, len(lines) / seconds))
    return found


def _classifiers(exported, folder, labels):
    """Return the forms of a classifier by name, and their quality measure."""
    known = exported.model.config.label2id
    for label in labels or ():
        if label not in known:
            raise UsageError(f"--labels: {label!r} is none of {', '.join(known)}")

    def ask(**inputs):
        return exported.model(**inputs).logits.argmax(-1).tolist()

    def ask_graph(session, **inputs):
        return onnx.run(session, inputs.values()).argmax(-1).tolist()

    def quality(classes):
        right = [known[label] for label in labels]
        return f"accuracy {sum(map(operator.eq, classes, right)) / len(right):.1%}"

    forms = {"PyTorch": ask}
    for title, name in (("ONNX", onnx.NAME), ("ONNX, int8", onnx.INT8)):
        session = onnxruntime.InferenceSession(folder / name, _as_torch())
        forms[title] = partial(ask_graph, session)
    return forms, quality


def _writers(exported, folder, references):
    """Return the forms of a generation model by name, and their quality measure."""

    def ask(model, **inputs):
        return exported.tokenizer.batch_decode(model.generate(**inputs), skip_special_tokens=True)

    def quality(texts):
        language = exported.tokenizer.target_lang or None
        metric, pairs = bleu_metric("sacrebleu", language), Pairs(texts, list(references))
        return f"BLEU {group_of(metric, [pairs]).mean:.2f}"

    forms = {"PyTorch": exported.model, "PyTorch, int8": in_int8(exported.model)}
    return {name: partial(ask, model) for name, model in forms.items()}, quality


def _as_torch():
    """Return session options with PyTorch's number of threads."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    return options


def _batches(exported, lines):
    """Yield rows and inputs of batches; lines of similar length share one."""
    order = sorted(range(len(lines)), key=lambda row: len(lines[row].split()))
    config = exported.model.config
    apart = None if config.is_encoder_decoder else "\t"
    sentences = 2 if apart and config.encodes_pairs else 1 + lines[0].count("\t")
    for line in lines if apart else ():
        if line.count(apart) + 1 != sentences:
            raise UsageError(
                f"--text: {shortened(line)} has {line.count(apart)} TABs; between {sentences} "
                f"sentences there are {sentences - 1}"
            )
    batches = []
    for start in range(0, len(order), BATCH):
        rows = order[start : start + BATCH]
        texts = [lines[row].split(apart) if apart else [lines[row]] for row in rows]
        columns = [list(column) for column in zip(*texts, strict=True)]
        inputs = exported.tokenizer(*columns, padding=True, truncation=True, return_tensors="pt")
        batches.append(
            (rows, {name: inputs[name] for name in exported.tokenizer.model_input_names})
        )
    return batches


@torch.inference_mode()
def _ask(form, batches, count):
    form(**batches[0][1])  # the first call is slow
    said, start = [None] * count, time.perf_counter()
    for rows, inputs in batches:
        for row, one in zip(rows, form(**inputs), strict=True):
            said[row] = one
    return said, time.perf_counter() - start
