"""ONNX graphs of classifiers and encoders, for batches and sentences of any size; and in int8."""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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


class Graph(nn.Module):
    """A classifier, or the encoder of a generation model, from tensors to a tensor."""

    def __init__(self, model: PreTrainedModel):
        super().__init__()
        self.model = model
        config = self.config = model.config
        self.is_encoder = config.is_encoder_decoder
        self.has_pairs = not self.is_encoder and config.encodes_pairs
        types = ["token_type_ids"] if self.has_pairs else []
        self.inputs = ["input_ids", "attention_mask", *types]
        self.output = "last_hidden_state" if self.is_encoder else "logits"
        self.longest = config.options[f"max_{'source_' * self.is_encoder}positions"]

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> Any:
        """Return logits ``[B, classes]``, or the encoder's states ``[B, T, C]``."""
        if self.is_encoder:
            return self.model.get_encoder()(input_ids, attention_mask).last_hidden_state
        return self.model(input_ids, attention_mask, token_type_ids).logits


def write(model: PreTrainedModel, folder: Path) -> float:
    """Write ``model.onnx``; return the largest difference of its output, on generated lines."""
    graph, path = Graph(model).eval(), folder / NAME
    examples = _generate_lines(graph, (5, 3, 7))
    size = {0: Dim("batch"), 1: Dim("length", min=2, max=graph.longest)}
    options: dict[str, Any] = {"input_names": graph.inputs, "output_names": [graph.output]}
    options |= {"dynamic_shapes": (size,) * len(examples), "dynamo": True, "external_data": False}
    with _complete(path) as part:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(graph, examples, str(part), verbose=False, **options)
        return _difference(graph, part)


@contextmanager
def _complete(path: Path) -> Iterator[Path]:
    """Yield a name for a file, which gets its own at the end."""
    part = path.with_name(f".{path.name}")
    try:
        yield part
        part.replace(path)
    except UsageError:
        raise
    except Exception as error:  # PyTorch's are of many kinds, pages long
        problem = f"--onnx: PyTorch {torch.__version__} cannot convert this model"
        reason: object = type(error).__name__
        if isinstance(error, OSError):
            problem, reason = f"{path} cannot be written", error.strerror or error
        raise UsageError(f"{problem}: {reason}; the rest of {path.parent} is complete") from error
    finally:
        part.unlink(missing_ok=True)


def _generate_lines(graph: Graph, lengths: Sequence[int]) -> tuple[Tensor, ...]:
    config, longest = graph.config, graph.longest
    generator = torch.Generator().manual_seed(len(lengths))
    pairs = 1 + graph.has_pairs
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
    return (ids, ids.ne(config.pad_token_id).long(), types)[: len(graph.inputs)]


def _difference(graph: Graph, path: Path) -> float:
    session = onnxruntime.InferenceSession(path)
    largest, scale = torch.zeros(()), torch.ones(())
    for lengths in ((4,), (9, 1, 20), (2, 2, 3, 12, 6)):
        tensors = _generate_lines(graph, [min(length, graph.longest - 1) for length in lengths])
        with torch.inference_mode():
            expected = graph(*tensors)
        output = torch.from_numpy(run(session, tensors))
        present = tensors[1].bool() if graph.is_encoder else slice(None)
        largest = largest.maximum((output[present] - expected[present]).abs().max())
        scale = scale.maximum(expected[present].abs().max())
    if not largest <= TOLERANCE * scale:  # nor NaN
        raise UsageError(f"--onnx: the graph's output differs from the model's by {largest:.2g}")
    return largest.item()


def run(session: onnxruntime.InferenceSession, tensors: Iterable[Tensor]) -> Any:
    """Return the output of a graph, as an array, for tensors in the order of its inputs."""
    names = [node.name for node in session.get_inputs()]
    arrays = (tensor.numpy() for tensor in tensors)
    return session.run(None, dict(zip(names, arrays, strict=True)))[0]


def quantise(folder: Path) -> None:
    """Write ``model.int8.onnx``: int8 weights and dynamically quantized inputs."""
    traced = onnx.load(folder / NAME)
    del traced.graph.value_info[:]  # shapes from before the weights were transposed
    with _complete(folder / INT8) as part:
        # CPUs without VNNI add two int8 products in 16 bits: 7-bit weights avoid overflow.
        quantize_dynamic(traced, part, weight_type=QuantType.QInt8, reduce_range=True)
