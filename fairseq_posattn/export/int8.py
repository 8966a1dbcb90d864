"""What whole numbers of 8 bits cost a classifier, and what they gain it, on this machine's CPU."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnxruntime
import torch
from torch import Tensor

from fairseq_posattn.errors import UsageError
from fairseq_posattn.export import onnx
from fairseq_posattn.export.checkpoint import Exported

BATCH = 32


@dataclass(frozen=True)
class Measured:
    """How one form of a model does on some lines.

    Attributes:
        name: of the form. agreement: share of the lines on which its class is the checkpoint's.
        accuracy: share on which it is right; None where nobody says what is.
        rate: lines a second, tokenising left out.
    """

    name: str
    agreement: float
    accuracy: float | None
    rate: float

    def __str__(self):
        right = "" if self.accuracy is None else f"accuracy {self.accuracy:.1%}, "
        return (
            f"{self.name}: {right}agrees on {self.agreement:.1%}, {self.rate:,.0f} lines a second"
        )


def compare(
    exported: Exported, folder: Path, lines: Sequence[str], labels: Sequence[str] | None = None
) -> list[Measured]:
    """Ask the model, its graph and the graph in int8.

    Args:
        exported: the classifier. folder: of its graphs.
        lines: plain text, with a TAB between the sentences of a pair.
        labels: the names of the right classes, as many.

    Raises:
        UsageError: there are no lines, or a label is unknown or missing.
    """
    right = _numbers(exported, lines, labels)
    batches = _batches(exported, lines)

    def ask(*tensors):
        names = [*exported.tokenizer.model_input_names]
        return exported.model(**dict(zip(names, tensors, strict=True))).logits

    forms: dict[str, Callable[..., Tensor]] = {"PyTorch": ask}
    for title, name in (("ONNX", onnx.NAME), ("ONNX, int8", onnx.INT8)):
        session = onnxruntime.InferenceSession(folder / name, _as_torch())
        forms[title] = lambda *tensors, s=session: torch.from_numpy(onnx.run(s, tensors))
    found, expected = [], None
    for name, form in forms.items():
        classes, seconds = _classes(form, batches, len(lines))
        expected = classes if expected is None else expected
        accuracy = None if right is None else classes.eq(right).float().mean().item()
        agreement = classes.eq(expected).float().mean().item()
        found.append(Measured(name, agreement, accuracy, len(lines) / seconds))
    return found


def _numbers(exported, lines, labels):
    if not lines:
        raise UsageError("--text: there is no line to compare on")
    if labels is None:
        return None
    known = exported.model.config.label2id
    for label in labels:
        if label not in known:
            raise UsageError(f"--labels: {label!r} is none of {', '.join(known)}")
    if len(labels) != len(lines):
        raise UsageError(f"--labels has {len(labels)} lines, --text {len(lines)} with words")
    return torch.tensor([known[label] for label in labels])


def _as_torch():
    """As many threads for all."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    return options


def _batches(exported, lines):
    """The rows of each batch and its tensors; lines of like length go together."""
    order = sorted(range(len(lines)), key=lambda row: len(lines[row].split()))
    batches = []
    for start in range(0, len(order), BATCH):
        rows = order[start : start + BATCH]
        texts = [lines[row].split("\t") for row in rows]
        columns = [list(column) for column in zip(*texts, strict=True)]
        inputs = exported.tokenizer(*columns, padding=True, truncation=True, return_tensors="pt")
        names = exported.tokenizer.model_input_names
        batches.append((rows, [inputs[name] for name in names]))
    return batches


@torch.inference_mode()
def _classes(form, batches, count):
    form(*batches[0][1])  # the first call is slow
    classes, start = torch.empty(count, dtype=torch.long), time.perf_counter()
    for rows, tensors in batches:
        classes[rows] = form(*tensors).argmax(-1)
    return classes, time.perf_counter() - start
