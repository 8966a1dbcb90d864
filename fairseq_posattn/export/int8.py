"""Int8 beside the model: quality, agreement and speed on this machine's CPU."""

import operator
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import onnxruntime
import torch
from torch import Tensor

from fairseq_posattn.common.errors import UsageError, shortened
from fairseq_posattn.export import onnx
from fairseq_posattn.export.checkpoint import Exported
from fairseq_posattn.hugging_face import in_int8
from fairseq_posattn.inference.stream import batches
from fairseq_posattn.scoring.bleu import bleu_metric, group_of
from fairseq_posattn.scoring.labels import ROOT_OF_MEAN, label_of, numeric_scores
from fairseq_posattn.scoring.outputs import Pairs
from fairseq_posattn.scoring.significance import Group
from fairseq_posattn.training.criterions.sentences import expected_score

BATCH = 32
Batches = list[tuple[list[int], dict[str, Tensor]]]
Form = Callable[..., list[Any]]  # from a batch's inputs to an output for each line
Forms = tuple[dict[str, Form], Callable[[list[Any]], str]]  # and the measure of quality


def compare(
    exported: Exported, folder: Path, lines: Sequence[str], labels: Sequence[str] | None = None
) -> list[str]:
    """Return lines of quality, agreement and speed of the model, int8 form and graphs."""
    if not lines:
        raise UsageError("--text: there is no line to compare on")
    inputs = _batches(exported, lines)
    is_generator = exported.model.config.is_encoder_decoder
    forms, quality = (_generators if is_generator else _classifiers)(exported, folder, labels)
    timed = {name: _time(form, inputs, len(lines)) for name, form in forms.items()}
    expected, _ = timed["PyTorch"]
    results = []
    for name, (outputs, seconds) in timed.items():
        measured = [] if labels is None else [quality(outputs)]
        measured += [_agreement(outputs, expected), f"{len(lines) / seconds:,.1f} lines per second"]
        results.append(f"{name}: {', '.join(measured)}")
    return results


def _agreement(outputs: list[Any], expected: list[Any]) -> str:
    if isinstance(outputs[0], float):
        return f"differs by at most {max(map(abs, map(operator.sub, outputs, expected))):.1g}"
    return f"agrees on {sum(map(operator.eq, outputs, expected)) / len(outputs):.1%}"


def _classifiers(exported: Exported, folder: Path, labels: Sequence[str] | None) -> Forms:
    """Return the forms of a classifier by name, and their quality measure."""
    config: Any = exported.model.config
    known: dict[str, Any] = config.label2id or {}
    names = [label_of(label) for label in labels or ()]
    for label in names:
        if not config.predicts_numbers and label not in known:
            raise UsageError(f"--labels: {label!r} is none of {', '.join(known)}")

    def quality(answers: list[Any]) -> str:
        if config.predicts_numbers:
            scores = numeric_scores(answers, names)
            if not scores:
                raise UsageError("--labels: must be a number a line, as the model's scores are")
            return f"RMSE {Group(ROOT_OF_MEAN, [scores['rmse']]).mean:.4f}"
        right = [known[label] for label in names]
        return f"accuracy {sum(map(operator.eq, answers, right)) / len(right):.1%}"

    def answers(logits: Any) -> list[Any]:
        logits = torch.as_tensor(logits)  # ONNX gives arrays
        if not config.predicts_numbers:
            return list(logits.argmax(-1).tolist())
        numbers = logits[:, 0] if config.num_labels == 1 else expected_score(logits.softmax(-1))
        return list(numbers.tolist())

    def run_graph(session: onnxruntime.InferenceSession, **inputs: Tensor) -> list[Any]:
        return answers(onnx.run(session, inputs.values()))

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    model, graphs = exported.model, {"ONNX": onnx.NAME, "ONNX, int8": onnx.INT8}
    forms: dict[str, Form]
    forms = {"PyTorch": lambda **inputs: answers(model(**inputs).logits)}
    for title, name in graphs.items():
        session = onnxruntime.InferenceSession(folder / name, options)
        forms[title] = partial(run_graph, session)
    return forms, quality


def _generators(exported: Exported, folder: Path, references: Sequence[str] | None) -> Forms:
    """Return the forms of a generation model by name, and their quality measure."""
    tokenizer = exported.tokenizer

    def generate(model: Any, **inputs: Tensor) -> list[str]:
        return tokenizer.batch_decode(model.generate(**inputs), skip_special_tokens=True)

    def quality(texts: list[str]) -> str:
        metric = bleu_metric("sacrebleu", tokenizer.target_lang or None)
        return f"BLEU {group_of(metric, [Pairs(texts, list(references or ()))]).mean:.2f}"

    models = {"PyTorch": exported.model, "PyTorch, int8": in_int8(exported.model)}
    return {name: partial(generate, model) for name, model in models.items()}, quality


def _batches(exported: Exported, lines: Sequence[str]) -> Batches:
    """Return rows and inputs of batches; lines of similar length share a batch."""
    config, tokenizer = exported.model.config, exported.tokenizer
    wrong = [line for line in lines if line.count("\t") != 1]
    if wrong and getattr(config, "encodes_pairs", False):
        raise UsageError(f"--text: {shortened(wrong[0])} is no pair; separate its texts by one TAB")
    is_pair = not (config.is_encoder_decoder or wrong)
    texts = [line.split("\t") if is_pair else [line.replace("\t", " ")] for line in lines]
    results = []
    for rows in batches([len(line.split()) for line in lines], BATCH):
        columns = map(list, zip(*(texts[row] for row in rows), strict=True))
        inputs = tokenizer(*columns, padding=True, truncation=True, return_tensors="pt")
        results.append((rows, {name: inputs[name] for name in tokenizer.model_input_names}))
    return results


@torch.inference_mode()
def _time(form: Form, prepared: Batches, count: int) -> tuple[list[Any], float]:
    form(**prepared[0][1])  # the first call is slow
    outputs: list[Any] = [None] * count
    start = time.perf_counter()
    for rows, inputs in prepared:
        for row, output in zip(rows, form(**inputs), strict=True):
            outputs[row] = output
    return outputs, time.perf_counter() - start
