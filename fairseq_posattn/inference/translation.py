"""Translations and summaries of plain text, from a trained model or an ensemble.

    from fairseq_posattn.inference import translation

    translator = translation.load("checkpoints/iwslt14/checkpoint_best.pt")
    translator("Guten Morgen!").text

``posattn translate`` and ``posattn summarize`` do the same from the command line.
"""

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from os import PathLike
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from typing_extensions import TypedDict, Unpack

from fairseq_posattn.common.errors import UsageError, counted
from fairseq_posattn.inference.beam_search import ForcedSearch
from fairseq_posattn.inference.hypotheses import BLANK, Alignment, Hypothesis, Translation, align
from fairseq_posattn.inference.options import BATCH_SIZE, MAX_TOKENS
from fairseq_posattn.inference.stream import Reloadable, batches, list_texts
from fairseq_posattn.inference.tokens import Line, Lines
from fairseq_posattn.inference.trained_model import Device, TrainedModel, find_device, without_logs
from fairseq_posattn.inference.trained_model import load as load_checkpoint
from fairseq_posattn.model.projections import quantize_linear_layers
from fairseq_posattn.training import registered as fairseq

__all__ = ["Alignment", "Decoding", "Hypothesis", "Translation", "Translator", "load"]
__all__ += ["translator_of"]

CONSTRAINTS = ("ordered", "unordered")
# Fields of fairseq's GenerationConfig that act here.
SETTINGS = (
    *("beam", "nbest", "lenpen", "unnormalized", "max_len_a", "max_len_b", "min_len", "unkpen"),
    *("no_repeat_ngram_size", "match_source_len", "temperature", "constraints", "prefix_size"),
    *("sampling", "sampling_topk", "sampling_topp", "diversity_rate"),
    *("diverse_beam_groups", "diverse_beam_strength"),
)
NOT_FINITE = "the model's output is NaN or infinite"


class Decoding(TypedDict, total=False):
    """Settings of the search, by fairseq's names.

    Attributes:
        beam: beam size; 5 by default.
        nbest: hypotheses to return; 1 by default.
        lenpen: length penalty; 1.0 by default, above 1 favors longer outputs.
        max_len_a, max_len_b: maximum output length is ``max_len_a * source + max_len_b`` subwords;
            0 and 200 by default.
        min_len: minimum output length in subwords; 1 by default.
        no_repeat_ngram_size: length of n-grams that may not repeat; 0, the default, allows all.
        constraints: "ordered" or "unordered" words that translations contain.
        prefix_size: subwords used of each prefix; 0, the default, for all.
        unkpen: penalty of the log-probability of ``<unk>``; 0 by default. ``math.inf`` forbids it.
    """

    beam: int
    nbest: int
    lenpen: float
    max_len_a: float
    max_len_b: int
    min_len: int
    no_repeat_ngram_size: int
    constraints: str | None
    prefix_size: int
    unkpen: float


@without_logs()
def load(
    checkpoints: str | PathLike[str] | Sequence[str | PathLike[str]],
    data: str | PathLike[str] | None = None,
    *,
    device: Device = None,
    attention: str | None = None,
    int8: bool = False,
    **decoding: Unpack[Decoding],
) -> "Translator":
    """Load a model that translates or summarizes, or an ensemble.

    Args:
        checkpoints: a checkpoint or a folder with checkpoint_best.pt or checkpoint_last.pt; or
            several with the same dictionaries, whose probabilities are averaged.
        data: folder with the dictionaries, preparation.json and the files it names; by default the
            checkpoint's, if training copied them there, else the folder of the training data.
        device: by default a GPU if available.
        attention: level of the hypotheses' ``alignment``: "words" or "pieces" (subwords); None for
            no alignment.
        int8: int8 matmuls in linear layers, on a CPU only.
        decoding: see :class:`Decoding`, and the other :data:`SETTINGS` of fairseq's
            :class:`GenerationConfig`.

    Raises:
        UsageError: a checkpoint, its data or a setting cannot be used; int8 on a GPU.
    """
    paths = [checkpoints] if isinstance(checkpoints, str | PathLike) else checkpoints
    _generation(decoding)  # before checkpoints are read
    trained = [load_checkpoint(str(path), None if data is None else str(data)) for path in paths]
    _check_members(trained)
    device = "cpu" if int8 and not device else device
    translator = translator_of(trained, device=device, attention=attention, **decoding)
    if int8:
        if translator.device.type != "cpu":
            raise UsageError(f"int8: needs a CPU, not {translator.device}")
        for model in translator.models:
            quantize_linear_layers(model)
    translator.reload = partial(
        load, checkpoints, data, device=device, attention=attention, int8=int8, **decoding
    )
    return translator


def translator_of(
    trained: Sequence[TrainedModel],
    *,
    device: Device = None,
    attention: str | None = None,
    **decoding: Unpack[Decoding],
) -> "Translator":
    """Return a translator for loaded models, of the same data; see :func:`load`."""
    if attention not in (None, "words", "pieces"):
        raise UsageError(f"attention {attention!r}: must be words or pieces")
    return Translator(trained, find_device(device), _generation(decoding), attention)


def _check_members(trained: Sequence[TrainedModel]) -> None:
    """Raise UsageError for other models, and for different languages or dictionaries."""
    first = trained[0]
    for member in trained:
        if not member.translates:
            raise member.refusal("neither translates nor summarizes from left to right")
        if member.languages != first.languages:  # both directions may have one dictionary
            pair, expected = map("-".join, (member.languages, first.languages))
            differs = f"is a model of {pair}, {first.path} of {expected}"
            raise UsageError(f"{member.path}: {differs}; name models of the same languages")
        for side in ("source_dictionary", "target_dictionary"):
            if getattr(member.task, side) != getattr(first.task, side):
                differs = f"its {side.replace('_', ' ')} differs from that of {first.path}"
                raise UsageError(f"{member.path}: {differs}; name models of the same data")


def _generation(decoding: Mapping[str, Any]) -> fairseq.GenerationConfig:
    """Return fairseq's settings of the search, checked."""
    for name, value in decoding.items():
        if name not in SETTINGS:
            known = [*SETTINGS, "data", "device", "attention", "int8"]
            similar = get_close_matches(name, known, n=1)
            hint = f"; did you mean {similar[0]}?" if similar else ""
            raise UsageError(f"{name}: no such setting of load{hint}")
        if isinstance(value, float) and not (math.isfinite(value) or name == "unkpen"):
            raise UsageError(f"{name} {value}: must be a finite number")
        least = {"beam": 1, "nbest": 1, "no_repeat_ngram_size": 0}.get(name)
        if least is not None and value < least:
            raise UsageError(f"{name} {value}: must be {least} or more")
    config = fairseq.GenerationConfig(**decoding)
    if config.constraints not in (None, *CONSTRAINTS):
        raise UsageError(f"constraints {config.constraints!r}: must be {' or '.join(CONSTRAINTS)}")
    if config.nbest > config.beam:
        raise UsageError(f"nbest {config.nbest}: must be at most beam {config.beam}")
    return config


class Translator(Reloadable):
    """A translator of plain text, called with lines; made by :func:`load`."""

    def __init__(
        self,
        trained: Sequence[TrainedModel],
        device: torch.device,
        generation: fairseq.GenerationConfig,
        attention: str | None = None,
    ):
        first = trained[0]
        self.task, self.path, self.languages = first.task, first.path, first.languages
        self.device, self.generation, self.attention = device, generation, attention
        self.models = [member.model.to(device) for member in trained]
        # fairseq's models return attention only with this setting.
        inference = replace(generation, print_alignment="soft") if attention else generation
        for model in self.models:
            model.prepare_for_inference_(SimpleNamespace(generation=inference))
        self.generator = self.task.build_generator(self.models, generation, ForcedSearch)
        longest = min(member.longest for member in trained)
        self.lines = Lines(first, longest, generation.prefix_size)

    def __repr__(self) -> str:
        languages = "-".join(self.languages)
        models = f", {len(self.models)} models" if len(self.models) > 1 else ""
        beam = self.generation.beam
        return f"Translator({self.path!r}, {languages}{models}, beam={beam}, device={self.device})"

    def __call__(
        self,
        texts: str | Iterable[str],
        batch_size: int = BATCH_SIZE,
        max_tokens: int = MAX_TOKENS,
        *,
        prefixes: Iterable[str] | None = None,
        constraints: Iterable[Sequence[str]] | None = None,
    ) -> Translation | list[Translation]:
        """Translate lines, in order.

        Blank lines, and lines without a translation that satisfies their prefix or constraints,
        have no hypothesis. A warning counts lines that are longer than the model reads, and cut.

        Args:
            texts: lines, or a single line.
            batch_size, max_tokens: lines, and subwords with padding, in a batch at most.
            prefixes: for each line, whole words that its translation begins with; the first
                ``prefix_size`` subwords of them if the model was loaded with that.
            constraints: for each line, words or phrases that its translation contains; in their
                order if the model was loaded with "ordered".

        Raises:
            UsageError: a model's output is not finite, a length is impossible, or the numbers of
                prefixes or constraints and texts differ.
            TypeError: a text, prefix or constraint is no string.
        """
        if isinstance(texts, str):
            forced = {"prefixes": prefixes, "constraints": constraints}
            kwargs: dict[str, Any] = {name: [v] for name, v in forced.items() if v is not None}
            return self([texts], batch_size, max_tokens, **kwargs)[0]  # type: ignore[index]
        lines = self.encode(texts, prefixes, constraints)
        notes = self.lines.notes("text")
        for number, line in enumerate(lines, start=1):
            if line.cut:
                notes.add("cut", number)
        for message in notes.warnings(self.path):
            warnings.warn(message, stacklevel=2)
        return self.translate_all(lines, batch_size, max_tokens)

    def translate_all(
        self, lines: Sequence[Line], batch_size: int = BATCH_SIZE, max_tokens: int = MAX_TOKENS
    ) -> list[Translation]:
        """Return the translations of encoded lines, in order; see :meth:`__call__`."""
        results = [BLANK] * len(lines)
        lengths = [len(line.tokens) for line in lines]
        # With these the output length of a batch depends on its longest line.
        equal_lengths = self.generation.max_len_a != 0 or self.generation.match_source_len
        for rows in batches(lengths, batch_size, max_tokens, equal_lengths):
            translations = self.translate([lines[row] for row in rows])
            for row, translation in zip(rows, translations, strict=True):
                results[row] = translation
        return results

    def encode(
        self,
        texts: Iterable[str],
        prefixes: Iterable[str] | None = None,
        constraints: Iterable[Sequence[str]] | None = None,
    ) -> list[Line]:
        """Return lines as token ids; see :meth:`__call__`."""
        texts = list_texts(texts)
        if constraints is not None and not self.generation.constraints:
            raise UsageError("constraints: load the model with constraints='ordered'")
        if prefixes is not None and self.generation.constraints:
            raise UsageError("prefixes: cannot be combined with constraints")
        prefixes = [""] * len(texts) if prefixes is None else list_texts(prefixes, "prefix")
        constraints = [()] * len(texts) if constraints is None else constraints
        constraints = list_texts(constraints, "constraint", several=True)
        for name, values in (("prefixes", prefixes), ("constraints", constraints)):
            if len(values) != len(texts):
                raise UsageError(f"{name}: {len(values)} for {counted(len(texts), 'text')}")
        return list(map(self.lines.encode, texts, prefixes, constraints))

    def translate(self, batch: Sequence[Line]) -> list[Translation]:
        """Return the translations of a batch of encoded lines, none of them blank."""
        lengths, shortest = [len(line.tokens) for line in batch], self.generation.min_len
        longest = self.longest_output(max(lengths))
        if shortest > longest:
            most = f"{longest}, the maximum output length (max_len_a, max_len_b)"
            raise UsageError(f"min_len {shortest}: must be at most {most}")
        sources, packed = [line.tokens for line in batch], None
        if self.generation.constraints:
            packed = fairseq.pack_constraints([line.constraints for line in batch])
        dataset = self.task.build_dataset_for_inference(sources, lengths, constraints=packed)
        sample = dataset.collater([dataset[row] for row in range(len(batch))])
        sample = fairseq.utils.apply_to_sample(lambda tensor: tensor.to(self.device), sample)
        rows = sample["id"].tolist()
        forced: dict[str, Any] = {"constraints": sample.get("constraints")}
        prefixes = [batch[row].prefix for row in rows]
        if any(map(len, prefixes)):
            padded = fairseq.data_utils.collate_tokens(prefixes, self.task.target_dictionary.pad())
            forced["prefix_tokens"] = padded.to(self.device)
        results = self.task.inference_step(self.generator, self.models, sample, **forced)
        is_token = sample["net_input"]["src_tokens"].ne(self.task.source_dictionary.pad())
        translated = {
            row: self._translation(batch[row], hypotheses, tokens)
            for row, hypotheses, tokens in zip(rows, results, is_token, strict=True)
        }
        return [translated[row] for row in range(len(batch))]

    def longest_output(self, source: int) -> int:
        """Return the maximum output length in subwords, without the end symbol."""
        cfg = self.generation
        return int(min(cfg.max_len_a * source + cfg.max_len_b, self.generator.max_len - 1))

    def _translation(
        self, line: Line, hypotheses: list[dict[str, Tensor]], is_token: Tensor
    ) -> Translation:
        # The search cuts a prefix that exceeds the maximum output length.
        start = len(line.prefix)
        valid = [h for h in hypotheses if h["tokens"][:start].cpu().equal(line.prefix)]
        is_forced = start or line.constraints or self.generation.no_repeat_ngram_size == 1
        if not valid and not is_forced:
            raise UsageError(f"{self.path}: {NOT_FINITE}")
        best = valid[: self.generation.nbest]
        results = tuple(self._hypothesis(result, line, is_token) for result in best)
        longest = self.longest_output(len(line.tokens)) + 1  # with the end symbol
        is_longest = bool(valid) and len(valid[0]["tokens"]) == longest
        return Translation(results, not valid, is_longest)

    def _hypothesis(self, result: dict[str, Tensor], line: Line, is_token: Tensor) -> Hypothesis:
        score = float(result["score"]) / math.log(2)
        if not math.isfinite(score):
            raise UsageError(f"{self.path}: {NOT_FINITE}")
        dictionary = self.task.target_dictionary
        tokens = result["tokens"].tolist()
        marks = {dictionary.bos(), dictionary.eos(), *self.generator.symbols_to_strip_from_output}
        positions = [position for position, token in enumerate(tokens) if token not in marks]
        subwords = dictionary.string([tokens[position] for position in positions])
        alignment = None
        if self.attention and positions and len(result["attention"]):
            weights = result["attention"][is_token][:, positions].T.cpu()  # [T, S + 1]
            words = (self.lines.kind, self.lines.plain_word)
            levels = words if self.attention == "words" else (None,)
            alignment = align(line.subwords, subwords.split(" "), weights, *levels)
        return Hypothesis(self.lines.plain(subwords), score, subwords, alignment)
