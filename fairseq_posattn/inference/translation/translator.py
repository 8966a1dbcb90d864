"""The search for translations of lines of text, by one model or several."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from os import PathLike
from pathlib import Path
from types import SimpleNamespace

import torch

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
NO_NUMBER = "what the model gives is no number (NaN or infinite)"


def load(
    checkpoints: str | PathLike | Sequence[str | PathLike],
    data: str | PathLike | None = None,
    *,
    device: str | torch.device | None = None,
    attention: str | None = None,
    int8: bool = False,
    **decoding,
) -> "Translator":
    """Load a model that translates or summarises, or several, whose probabilities are averaged.

    Args:
        checkpoints: the file, or files, of models with the same dictionaries.
        data: folder with the dictionaries, the manifest and what it names; None for that of the
            checkpoint, if training has copied them there, or else where they were in training.
        device: None for a GPU if there is one.
        attention: between what hypotheses have an ``alignment``: "words" or "pieces"; None for no
            alignment.
        int8: whether affine maps multiply whole numbers of 8 bits, on a CPU alone.
        decoding: fields of fairseq's :class:`GenerationConfig`, such as ``beam``, ``lenpen``,
            ``constraints`` ("ordered" or "unordered") and ``prefix_size``.

    Raises:
        UsageError: a checkpoint, what lies beside its data, or a setting cannot be used; int8 on a
            GPU, or of a model of fairseq's own.
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
    **decoding,
) -> "Translator":
    """As :func:`load`, of what is loaded already."""
    for one in trained:
        _check(one, trained[0])
    if attention not in (None, "words", "pieces"):
        raise UsageError(f"attention {attention!r}: is between words or pieces")
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return Translator(trained, torch.device(device), _generation(decoding), attention)


def _round(translator):
    if translator.device.type != "cpu":
        raise UsageError(f"int8 is for a CPU, and not for {translator.device}")
    if not all(map(quantize_linear_layers, translator.models)):
        raise UsageError(f"{translator.path}: int8 is for the plugin's models, and this is none")


def translates(trained: TrainedModel) -> bool:
    """Whether its model translates or summarises."""
    return isinstance(trained.task, TranslationTask)


def _check(one, first):
    if not translates(one):
        raise UsageError(
            f"{one.path} neither translates nor summarises: it was trained with --task "
            f"{one.task_name}, not translation"
        )
    for side in ("source", "target"):
        dictionary = getattr(one.task, f"{side}_dictionary")
        if dictionary != getattr(first.task, f"{side}_dictionary"):
            raise UsageError(
                f"{one.path} and {first.path} have different dictionaries of the {side}: only "
                "models of the same data go together"
            )


def _generation(decoding):
    known = {field.name for field in fields(GenerationConfig)}
    for name, value in decoding.items():
        if name not in known:
            raise UsageError(f"{name}: fairseq's generation has no such setting")
        if name in ("beam", "nbest") and value < 1:
            raise UsageError(f"{name} {value}: must be 1 or more")
        if isinstance(value, float) and not math.isfinite(value):
            raise UsageError(f"{name} {value}: must be a finite number")
        if name == "no_repeat_ngram_size" and value < 0:
            raise UsageError(f"{name} {value}: must be 0 or more")
    if decoding.get("constraints") not in (None, *CONSTRAINTS):
        raise UsageError(f"constraints {decoding['constraints']!r}: are {' or '.join(CONSTRAINTS)}")
    config = GenerationConfig(**decoding)
    if config.nbest > config.beam:
        raise UsageError(f"nbest {config.nbest}: a beam of {config.beam} finds no more than that")
    return config


class Translator:
    """Called with lines of plain text; made by :func:`load`.

    Attributes:
        lines: makes of text what the models read, and plain text of what they write.
    """

    def __init__(self, trained: Sequence[TrainedModel], device, generation, attention=None):
        self.task = trained[0].task
        self.path = trained[0].path
        self.device = device
        self.models = [one.model.to(device) for one in trained]
        self.generation = generation
        self.attention = attention
        # By this fairseq's models know whether anybody reads their attention.
        asked = replace(generation, print_alignment="soft") if attention else generation
        for model in self.models:
            model.prepare_for_inference_(SimpleNamespace(generation=asked))
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
        """Translate lines, in their order; a blank one is answered with no hypothesis.

        So is one of which no translation is found that has its prefix and constraints.

        Args:
            texts: a sentence, or a text to summarise, each; or just one.
            batch_size: lines that the model sees at once;
            max_tokens: and pieces, those that pad shorter lines counted.
            prefixes: of each line, whole words with which its translation begins; of them, the
                first ``prefix_size`` pieces if the model was loaded with that.
            constraints: of each line, words or phrases that are in its translation; in that order
                where the model was loaded with "ordered".

        Raises:
            UsageError: what a model gives is no number, lengths are asked for that it has not, or
                there are not as many prefixes or constraints as texts.
        """
        if isinstance(texts, str):
            only = ([one] if one is not None else None for one in (prefixes, constraints))
            given = dict(zip(("prefixes", "constraints"), only, strict=True))
            return self([texts], batch_size, max_tokens, **given)[0]
        lines = self._lines(list(texts), prefixes, constraints)
        found = [BLANK] * len(lines)
        lengths = [len(line.tokens) for line in lines]
        alike = self.generation.max_len_a != 0  # else the longest line would say it of all
        for rows in batches(lengths, batch_size, max_tokens, alike):
            translations = self.translate([lines[row] for row in rows])
            for row, translation in zip(rows, translations, strict=True):
                found[row] = translation
        return found

    def _lines(self, texts, prefixes, constraints):
        if constraints is not None and not self.generation.constraints:
            raise UsageError(
                "constraints: load the model with constraints 'ordered' or 'unordered'"
            )
        if prefixes is not None and self.generation.constraints:
            raise UsageError("prefixes and constraints do not go together")
        prefixes = [""] * len(texts) if prefixes is None else list(prefixes)
        constraints = [()] * len(texts) if constraints is None else list(constraints)
        for name, given in (("prefixes", prefixes), ("constraints", constraints)):
            if len(given) != len(texts):
                raise UsageError(f"{name}: {len(given)} for {len(texts)} texts")
        return list(map(self.lines.encode, texts, prefixes, constraints))

    def translate(self, batch: Sequence[Line]) -> list[Translation]:
        """As :meth:`__call__`, of what :meth:`.Lines.encode` gave, all at once; none is blank."""
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
        found = self.task.inference_step(
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
                rows, found, sample["net_input"]["src_tokens"], strict=True
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
                f"min_len {cfg.min_len}: what is made of {source} pieces has at most {most}, by "
                f"max_len_a, max_len_b and {self.path}"
            )

    def _translation(self, line, hypotheses, is_word):
        # A prefix that is longer than any translation may be is cut by the search.
        begun = [
            found
            for found in hypotheses
            if found["tokens"][: len(line.prefix)].cpu().equal(line.prefix)
        ]
        if not begun and not line.is_forced and self.generation.no_repeat_ngram_size != 1:
            raise UsageError(f"{self.path}: {NO_NUMBER}")
        best = begun[: self.generation.nbest]
        found = tuple(self._hypothesis(one, line, is_word) for one in best)
        return Translation(found, failed=not begun)

    def _hypothesis(self, found, line, is_word):
        score = float(found["score"]) / math.log(2)
        if not math.isfinite(score):
            raise UsageError(f"{self.path}: {NO_NUMBER}")
        dictionary = self.task.target_dictionary
        tokens = found["tokens"].cpu()
        marks = {dictionary.bos(), dictionary.eos(), *self.generator.symbols_to_strip_from_output}
        written = [place for place, token in enumerate(tokens.tolist()) if token not in marks]
        pieces = dictionary.string(tokens[written])
        alignment = None
        if self.attention and written and len(found["attention"]):
            weights = found["attention"][is_word][:, written].T  # [T, S + 1]
            kind = self.lines.subwords if self.attention == "words" else None
            alignment = align(line.pieces, pieces.split(" "), weights.cpu(), kind)
        return Hypothesis(self.lines.plain(pieces), score, pieces, alignment)


def batches(
    lengths: Sequence[int], batch_size: int, max_tokens: int, alike: bool = False
) -> Iterator[list[int]]:
    """The numbers of the lines that are translated together, which are of like length.

    The longest come first: who runs out of memory does so at once. Those of length 0 are left out.

    Args:
        lengths: of the lines, in pieces.
        batch_size: lines at most;
        max_tokens: and pieces, with padding; a longer line goes alone.
        alike: only lines of equal length go together.
    """
    order = sorted(
        (row for row, length in enumerate(lengths) if length), key=lambda row: -lengths[row]
    )
    while order:
        longest = lengths[order[0]]
        rows = order[: max(1, min(batch_size, max_tokens // longest))]
        if alike:
            rows = [row for row in rows if lengths[row] == longest]
        yield rows
        del order[: len(rows)]
