"""Classifiers and encoders as ONNX graphs, for batches and sentences of any size; and in int8.

    import onnxruntime

    session = onnxruntime.InferenceSession("sst5/model.onnx")
    logits, = session.run(None, {"input_ids": ids, "attention_mask": mask})

The tokeniser is that of the folder.
"""

import warnings
from contextlib import contextmanager
from pathlib import Path

import onnx
import onnxruntime
import torch
from onnxruntime.quantization import QuantType, quantize_dynamic
from torch import Tensor, nn
from torch.export import Dim
from transformers import PreTrainedModel

from fairseq_posattn.common.errors import UsageError

NAME, INT8 = "model.onnx", "model.int8.onnx"
TOLERANCE = 1e-4


class Classifier(nn.Module):
    """A classifier from tensors to a tensor."""

    inputs, output = ("input_ids", "attention_mask"), "logits"

    def __init__(self, model: PreTrainedModel):
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.model(input_ids, attention_mask).logits


class PairClassifier(Classifier):
    """A classifier of pairs that are encoded apart."""

    inputs = ("input_ids", "attention_mask", "token_type_ids")

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        return self.model(input_ids, attention_mask, token_type_ids).logits


class Encoder(Classifier):
    """The encoder of a generation model."""

    output = "last_hidden_state"

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.model.get_encoder()(input_ids, attention_mask).last_hidden_state


def write(model: PreTrainedModel, folder: Path) -> float:
    """Write ``model.onnx``.

    Args:
        model: as it was exported.
        folder: where the file goes.

    Returns:
        the greatest difference between what the graph gives and the model, of made-up lines.

    Raises:
        UsageError: this PyTorch cannot make a graph of the model, or one that gives the same; or
            it cannot be written.
    """
    face, longest = _face(model)
    try:
        with _whole(folder / NAME):
            _trace(face, longest, folder / NAME)
        return _difference(face, folder / NAME, longest)
    except UsageError:
        raise
    except Exception as error:  # of many kinds, pages long
        (folder / NAME).unlink(missing_ok=True)
        raise UsageError(
            f"--onnx: PyTorch {torch.__version__} makes no graph of this model "
            f"({type(error).__name__}); all else of {folder} is there"
        ) from error


@contextmanager
def _whole(path):
    """Remove a file that is incomplete if writing fails."""
    try:
        yield
    except OSError as error:
        path.unlink(missing_ok=True)
        raise UsageError(
            f"{path} cannot be written: {error.strerror or error}; all else of {path.parent} is "
            "there"
        ) from error


def _trace(face, longest, path):
    examples = _lines(face, (5, 3, 7), longest)
    size = {0: Dim("batch"), 1: Dim("length", min=2, max=longest)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            face,
            examples,
            str(path),
            input_names=list(face.inputs),
            output_names=[face.output],
            dynamic_shapes=(size,) * len(examples),
            dynamo=True,
            external_data=False,
            verbose=False,
        )


def _face(model):
    config, options = model.config, model.config.options
    if config.is_encoder_decoder:
        return Encoder(model).eval(), options["max_source_positions"]
    kind = PairClassifier if config.encodes_pairs else Classifier
    return kind(model).eval(), options["max_positions"]


def _lines(face, lengths, longest) -> tuple[Tensor, ...]:
    """Return generated lines of the given lengths as inputs of the graph."""
    config = face.model.config
    generator = torch.Generator().manual_seed(len(lengths))
    pairs = 1 + ("token_type_ids" in face.inputs)
    shape = (len(lengths), min(pairs * (max(lengths) + 1), longest))
    ids = torch.full(shape, config.pad_token_id)
    types = torch.zeros(shape, dtype=torch.long)
    first = min(4, config.vocab_size - 1)
    for row, kind, length in zip(ids, types, lengths, strict=True):
        ends = [min(length, longest // pairs - 1) + 1]
        ends += [2 * ends[0]] * (pairs - 1)
        row[: ends[-1]] = torch.randint(first, config.vocab_size, (ends[-1],), generator=generator)
        if config.options.get("hierarchical"):  # sentences of three words or fewer
            row[row.eq(config.separator_id)] = config.eos_token_id
            row[2 : ends[-1] : 3] = [*config.sentence_end_ids, config.separator_id][0]
        row[[end - 1 for end in ends]] = config.eos_token_id
        kind[ends[0] : ends[-1]] = 1
    return (ids, ids.ne(config.pad_token_id).long(), types)[: len(face.inputs)]


def _difference(face, path, longest):
    session = onnxruntime.InferenceSession(path)
    worst = 0.0
    for lengths in ((4,), (9, 1, 20), (2, 2, 3, 12, 6)):
        tensors = _lines(face, [min(length, longest - 1) for length in lengths], longest)
        with torch.inference_mode():
            expected = face(*tensors)
        found = torch.from_numpy(run(session, tensors))
        present = tensors[1].bool() if face.output == "last_hidden_state" else slice(None)
        worst = max(worst, (found[present] - expected[present]).abs().max().item())
    if not worst <= TOLERANCE:
        path.unlink()
        raise UsageError(f"--onnx: the graph gives other scores, by up to {worst:.2g}")
    return worst


def run(session: onnxruntime.InferenceSession, tensors) -> torch.Tensor:
    """Return the output of a graph, as an array, for tensors in the order of its inputs."""
    names = [given.name for given in session.get_inputs()]
    arrays = (tensor.numpy() for tensor in tensors)
    return session.run(None, dict(zip(names, arrays, strict=True)))[0]


def quantise(folder: Path) -> None:
    """Write ``model.int8.onnx``: int8 weights and dynamically quantized inputs.

    Raises:
        UsageError: it cannot be written.
    """
    traced = onnx.load(folder / NAME)
    del traced.graph.value_info[:]  # shapes from before the weights were transposed
    with _whole(folder / INT8):
        quantize_dynamic(traced, folder / INT8, weight_type=QuantType.QInt8)
