"""Translation of lines of text by one model or an ensemble."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from difflib import get_close_matches
from os import PathLike
from pathlib import Path
from types import SimpleNamespace

import torch
from typing_extensions import TypedDict, Unpack

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.inference.alignment import align
from fairseq_posattn.training.plugin import register

register()  # before the first import of fairseq, which it quiets

from fairseq import utils  # noqa: E402
from fairseq.data import data_utils  # noqa: E402
from fairseq.dataclass.configs import GenerationConfig  # noqa: E402
from fairseq.tasks.translation import TranslationTask  # noqa: E402
from fairseq.token_generation_constraints import pack_constraints  # noqa: E402

from fairseq_posattn.inference.forced_search import ForcedSearch  # noqa: E402
from fairseq_posattn.inference.trained_model import TrainedModel  # noqa: E402
from fairseq_posattn.inference.trained_model import load as load_checkpoint  # noqa: E402
from fairseq_posattn.inference.translation.hypotheses import BLANK, Hypothesis, Translation  # noqa: E402
from fairseq_posattn.inference.translation.lines import Line, Lines  # noqa: E402
from fairseq_posattn.model.projections import quantize_linear_layers  # noqa: E402

BATCH_SIZE, MAX_TOKENS = 128, 8000
CONSTRAINTS = ("ordered", "unordered")
NOT_FINITE = "the model's output is NaN or infinite"


class Decoding(TypedDict, total=False):
    """Settings of the search, by fairseq's names.

    Attributes:
        beam: beam size; 5 by default.
        nbest: hypotheses to return; 1 by default.
        lenpen: length penalty; 1.0 by default, above 1 favours longer outputs.
        max_len_a: see ``max_len_b``; 0 by default.
        max_len_b: maximum output length is ``max_len_a * source + max_len_b`` subwords; 200 by
            default.
        min_len: minimum output length in subwords; 1 by default.
        no_repeat_ngram_size: forbids repeated n-grams of so many subwords; 0, the default, allows
            them.
        constraints: "ordered" or "unordered" words that translations contain.
        prefix_size: subwords used of each prefix; 0, the default, for all.
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


def load(
    checkpoints: str | PathLike | Sequence[str | PathLike],
    data: str | PathLike | None = None,
    *,
    device: str | torch.device | None = None,
    attention: str | None = None,
    int8: bool = False,
    **decoding: Unpack[Decoding],
) -> "Translator":
    """Load a model that translates or summarizes, or an ensemble.

    Args:
        checkpoints: one checkpoint, or several with the same dictionaries, whose probabilities are
            averaged.
        data: folder with the dictionaries, preparation.json and the files it names; by default the
            checkpoint's, if training copied them there, else the folder of the training data.
        device: by default a GPU if there is one.
        attention: level of the hypotheses' ``alignment``: "words" or "pieces" (subwords); None for
            no alignment.
        int8: int8 matmuls in linear layers, on a CPU only.
        decoding: see :class:`Decoding`, and other fields of fairseq's :class:`GenerationConfig`.

    Raises:
        UsageError: a checkpoint, its data or a setting cannot be used; int8 on a GPU.
    """
    paths = [checkpoints] if isinstance(checkpoints, str | PathLike) else checkpoints
    trained = [load_checkpoint(str(path), None if data is None else str(data)) for path in paths]
    if int8 and device is None:
        device = "cpu"
    translator = translator_of(trained, device=device, attention=attention, **decoding)
    if int8:
        _round(translator)
    return translator


def translator_of(
    trained: Sequence[TrainedModel],
    *,
    device: str | torch.device | None = None,
    attention: str | None = None,
    **decoding: Unpack[Decoding],
) -> "Translator":
    """Return a translator for loaded models; see :func:`load`."""
    for one in trained:
        _check(one, trained[0])
    if attention not in (None, "words", "pieces"):
        raise UsageError(f"attention {attention!r}: must be words or pieces")
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return Translator(trained, torch.device(device), _generation(decoding), attention)


def _round(translator):
    if translator.device.type != "cpu":
        raise UsageError(f"int8: needs a CPU, not {translator.device}")
    for model in translator.models:
        quantize_linear_layers(model)


def translates(trained: TrainedModel) -> bool:
    """Return whether a model translates or summarizes."""
    return isinstance(trained.task, TranslationTask)


def _check(one, first):
    if not translates(one):
        raise UsageError(
            f"{one.path}: neither translates nor summarizes; it was trained with --task "
            f"{one.task_name}, not translation"
        )
    for side in ("source", "target"):
        dictionary = getattr(one.task, f"{side}_dictionary")
        if dictionary != getattr(first.task, f"{side}_dictionary"):
            raise UsageError(
                f"{one.path}: its {side} dictionary differs from that of {first.path}; an ensemble "
                "needs models of the same data"
            )


def _generation(decoding):
    known = {field.name for field in fields(GenerationConfig)}
    for name, value in decoding.items():
        if name not in known:
            similar = ", ".join(get_close_matches(name, known, n=1))
            hint = f"; did you mean {similar}?" if similar else ""
            raise UsageError(f"{name}: no such setting of fairseq's generation{hint}")
        if name in ("beam", "nbest") and value < 1:
            raise UsageError(f"{name} {value}: must be 1 or more")
        if isinstance(value, float) and not math.isfinite(value):
            raise UsageError(f"{name} {value}: must be a finite number")
        if name == "no_repeat_ngram_size" and value < 0:
            raise UsageError(f"{name} {value}: must be 0 or more")
    if decoding.get("constraints") not in (None, *CONSTRAINTS):
        raise UsageError(
            f"constraints {decoding['constraints']!r}: must be {' or '.join(CONSTRAINTS)}"
        )
    config = GenerationConfig(**decoding)
    if config.nbest > config.beam:
        raise UsageError(f"nbest {config.nbest}: must be at most beam {config.beam}")
    return config


class Translator:
    """A translator of plain text, called with lines; made by :func:`load`.

    Attributes:
        lines: tokenizer and detokenizer.
    """

    def __init__(self, trained: Sequence[TrainedModel], device, generation, attention=None):
        self.task = trained[0].task
        self.path = trained[0].path
        self.device = device
        self.models = [one.model.to(device) for one in trained]
        self.generation = generation
        self.attention = attention
        # fairseq's models return attention only with this setting.
        inference = replace(generation, print_alignment="soft") if attention else generation
        for model in self.models:
            model.prepare_for_inference_(SimpleNamespace(generation=inference))
        self.generator = self.task.build_generator(self.models, generation, ForcedSearch)
        limits = [model.max_positions() for model in self.models]
        longest = utils.resolve_max_positions(self.task.max_positions(), *limits)[0]
        folder = Path(utils.split_paths(self.task.cfg.data)[0])
        self.lines = Lines(folder, self.task, longest, generation.prefix_size)

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

        A blank line has no hypothesis, nor has one without a translation that satisfies its prefix
        or constraints.

        Args:
            texts: lines, or a single one.
            batch_size: lines in a batch, at most.
            max_tokens: subwords in a batch with padding, at most.
            prefixes: for each line, whole words that its translation begins with; the first
                ``prefix_size`` subwords of them if the model was loaded with that.
            constraints: for each line, words or phrases that its translation contains; in their
                order if the model was loaded with "ordered".

        Raises:
            UsageError: a model's output is not finite, a length is impossible, or the numbers of
                prefixes or constraints and texts differ.
        """
        if isinstance(texts, str):
            only = ([one] if one is not None else None for one in (prefixes, constraints))
            given = dict(zip(("prefixes", "constraints"), only, strict=True))
            return self([texts], batch_size, max_tokens, **given)[0]
        lines = self._lines(list(texts), prefixes, constraints)
        results = [BLANK] * len(lines)
        lengths = [len(line.tokens) for line in lines]
        # With max_len_a the output length of a batch depends on its longest line.
        equal_lengths = self.generation.max_len_a != 0
        for rows in batches(lengths, batch_size, max_tokens, equal_lengths):
            translations = self.translate([lines[row] for row in rows])
            for row, translation in zip(rows, translations, strict=True):
                results[row] = translation
        return results

    def _lines(self, texts, prefixes, constraints):
        if constraints is not None and not self.generation.constraints:
            raise UsageError(
                "constraints: load the model with constraints='ordered' or 'unordered'"
            )
        if prefixes is not None and self.generation.constraints:
            raise UsageError("prefixes: cannot be combined with constraints")
        prefixes = [""] * len(texts) if prefixes is None else list(prefixes)
        constraints = [()] * len(texts) if constraints is None else list(constraints)
        for name, given in (("prefixes", prefixes), ("constraints", constraints)):
            if len(given) != len(texts):
                raise UsageError(f"{name}: {len(given)} for {len(texts)} texts")
        return list(map(self.lines.encode, texts, prefixes, constraints))

    def translate(self, batch: Sequence[Line]) -> list[Translation]:
        """Return the translations of a batch of encoded lines, none of them blank."""
        self._check_lengths(max(len(line.tokens) for line in batch))
        lengths = [len(line.tokens) for line in batch]
        packed = pack_constraints([line.constraints for line in batch])
        dataset = self.task.build_dataset_for_inference(
            [line.tokens for line in batch],
            lengths,
            constraints=packed if self.generation.constraints else None,
        )
        sample = dataset.collater([dataset[row] for row in range(len(batch))])
        sample = utils.apply_to_sample(lambda tensor: tensor.to(self.device), sample)
        rows = sample["id"].tolist()
        results = self.task.inference_step(
            self.generator,
            self.models,
            sample,
            prefix_tokens=self._prefixes([batch[row].prefix for row in rows]),
            constraints=sample.get("constraints"),
        )
        pad = self.task.source_dictionary.pad()
        translated = {
            row: self._translation(batch[row], hypotheses, source.ne(pad))
            for row, hypotheses, source in zip(
                rows, results, sample["net_input"]["src_tokens"], strict=True
            )
        }
        return [translated[row] for row in range(len(batch))]

    def _prefixes(self, prefixes):
        if not any(map(len, prefixes)):
            return None
        pad = self.task.target_dictionary.pad()
        return data_utils.collate_tokens(prefixes, pad).to(self.device)

    def _check_lengths(self, source):
        cfg = self.generation
        most = min(int(cfg.max_len_a * source + cfg.max_len_b), self.generator.max_len - 1)
        if cfg.min_len > most:
            raise UsageError(
                f"min_len {cfg.min_len}: must be at most {most}, the maximum output length for "
                f"{source} source subwords (max_len_a, max_len_b, {self.path})"
            )

    def _translation(self, line, hypotheses, is_word):
        # The search cuts a prefix that exceeds the maximum output length.
        valid = [
            hypothesis
            for hypothesis in hypotheses
            if hypothesis["tokens"][: len(line.prefix)].cpu().equal(line.prefix)
        ]
        if not valid and not line.is_forced and self.generation.no_repeat_ngram_size != 1:
            raise UsageError(f"{self.path}: {NOT_FINITE}")
        best = valid[: self.generation.nbest]
        results = tuple(self._hypothesis(one, line, is_word) for one in best)
        return Translation(results, failed=not valid)

    def _hypothesis(self, result, line, is_word):
        score = float(result["score"]) / math.log(2)
        if not math.isfinite(score):
            raise UsageError(f"{self.path}: {NOT_FINITE}")
        dictionary = self.task.target_dictionary
        tokens = result["tokens"].cpu()
        marks = {dictionary.bos(), dictionary.eos(), *self.generator.symbols_to_strip_from_output}
        written = [place for place, token in enumerate(tokens.tolist()) if token not in marks]
        pieces = dictionary.string(tokens[written])
        alignment = None
        if self.attention and written and len(result["attention"]):
            weights = result["attention"][is_word][:, written].T  # [T, S + 1]
            kind = self.lines.subwords if self.attention == "words" else None
            alignment = align(line.pieces, pieces.split(" "), weights.cpu(), kind)
        return Hypothesis(self.lines.plain(pieces), score, pieces, alignment)


def batches(
    lengths: Sequence[int], batch_size: int, max_tokens: int, equal_lengths: bool = False
) -> Iterator[list[int]]:
    """Yield the indices of the lines of each batch, which have similar lengths.

    The longest come first, so that running out of memory shows at once. Lines of length 0 are left
    out.

    Args:
        lengths: of the lines, in subwords.
        batch_size: lines in a batch, at most.
        max_tokens: subwords in a batch with padding, at most; a longer line is a batch by itself.
        equal_lengths: batch only lines of equal length.
    """
    order = sorted(
        (row for row, length in enumerate(lengths) if length), key=lambda row: -lengths[row]
    )
    while order:
        longest = lengths[order[0]]
        rows = order[: max(1, min(batch_size, max_tokens // longest))]
        if equal_lengths:
            rows = [row for row in rows if lengths[row] == longest]
        yield rows
        del order[: len(rows)]
