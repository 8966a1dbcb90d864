"""Translations and summaries of plain text, from a trained model.

    from fairseq_posattn import translation

    translator = translation.load(["checkpoints/iwslt14/checkpoint_best.pt"])
    translator(["Guten Morgen!"])[0].text

``posattn translate`` and ``posattn summarize`` do the same from the command line.
"""

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from types import SimpleNamespace

import torch
from torch import Tensor

from fairseq_posattn.errors import UsageError
from fairseq_posattn.plugin import register
from fairseq_posattn.preparation import manifest
from fairseq_posattn.preparation.plain_text import joiner, splitter

register()  # before the first import of fairseq, which it quiets

from fairseq import utils  # noqa: E402
from fairseq.data import data_utils  # noqa: E402
from fairseq.dataclass.configs import GenerationConfig  # noqa: E402
from fairseq.tasks.translation import TranslationTask  # noqa: E402

from fairseq_posattn.data.unknown_words import UnknownWords  # noqa: E402
from fairseq_posattn.trained_model import TrainedModel  # noqa: E402
from fairseq_posattn.trained_model import load as load_checkpoint  # noqa: E402

BATCH_SIZE, MAX_TOKENS = 128, 8000
MANY_UNKNOWN = 0.1


@dataclass(frozen=True)
class Hypothesis:
    """One way to translate a sentence.

    Attributes:
        text: plain.
        score: log-probability, base 2, by length and its penalty, as fairseq's commands print it.
        pieces: what the model wrote, with spaces between.
    """

    text: str
    score: float
    pieces: str


@dataclass(frozen=True)
class Translation:
    """What a model makes of a line: the best hypothesis first; of a blank line none.

    Attributes:
        hypotheses: as many as ``nbest``.
    """

    hypotheses: tuple[Hypothesis, ...] = ()

    @property
    def text(self) -> str:
        """The best one; empty for a blank line."""
        return self.hypotheses[0].text if self.hypotheses else ""

    def as_json(self) -> str:
        """A JSON object: the text and, of all hypotheses, text, score and pieces."""
        found = [
            {"text": one.text, "score": round(one.score, 6), "pieces": one.pieces}
            for one in self.hypotheses
        ]
        return json.dumps({"text": self.text, "hypotheses": found}, ensure_ascii=False)


BLANK = Translation()


def load(
    checkpoints: Sequence[str],
    data: str | None = None,
    *,
    device: str | torch.device | None = None,
    **decoding,
) -> "Translator":
    """Load a model that translates or summarises, or several, whose probabilities are averaged.

    Args:
        checkpoints: the files, of models with the same dictionaries.
        data: folder with the dictionaries, the manifest and what it names; None for that of the
            checkpoint, if training has copied them there, or else where they were in training.
        device: None for a GPU if there is one.
        decoding: fields of fairseq's :class:`GenerationConfig`, such as ``beam`` and ``lenpen``.

    Raises:
        UsageError: a checkpoint, what lies beside its data, or a setting cannot be used.
    """
    trained = [
        load_checkpoint(str(path), None if data is None else str(data)) for path in checkpoints
    ]
    return translator_of(trained, device=device, **decoding)


def translator_of(
    trained: Sequence[TrainedModel], *, device: str | torch.device | None = None, **decoding
) -> "Translator":
    """As :func:`load`, of what is loaded already."""
    for one in trained:
        _check(one, trained[0])
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return Translator(trained, torch.device(device), _generation(decoding))


def _check(one, first):
    if not isinstance(one.task, TranslationTask):
        raise UsageError(
            f"{one.path} neither translates nor summarises: it was trained with --task "
            f"{one.task.cfg._name}, not translation"
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
    config = GenerationConfig(**decoding)
    if config.nbest > config.beam:
        raise UsageError(f"nbest {config.nbest}: a beam of {config.beam} finds no more than that")
    return config


class Translator:
    """Called with lines of plain text; made by :func:`load`.

    Attributes:
        manifest: what says how text is split and joined; None where nothing does: then words are
            taken as they stand, and what the model writes is not joined.
        unknown: counts the pieces that the dictionary lacks.
        cut: how many lines were longer than the model reads, and so were cut.
    """

    def __init__(self, trained: Sequence[TrainedModel], device, generation):
        self.task = trained[0].task
        self.path = trained[0].path
        self.device = device
        cfg = self.task.cfg
        self.models = [one.model.to(device) for one in trained]
        self.generation = generation
        for model in self.models:
            model.prepare_for_inference_(SimpleNamespace(generation=generation))
        self.generator = self.task.build_generator(self.models, generation)
        self.dictionary = self.task.source_dictionary
        self.special = torch.tensor(range(self.dictionary.nspecial))
        limits = [model.max_positions() for model in self.models]
        self.longest = utils.resolve_max_positions(self.task.max_positions(), *limits)[0]
        self.unknown = UnknownWords(share=MANY_UNKNOWN)
        self.cut = 0
        folder = Path(utils.split_paths(cfg.data)[0])
        told = self.manifest = manifest.read(folder)
        self.split = splitter(folder, told, cfg.source_lang) if told else str.strip
        self.join = joiner(told, cfg.target_lang) if told else str
        self.subwords = told and told.subwords

    def __call__(
        self, texts: Iterable[str], batch_size: int = BATCH_SIZE, max_tokens: int = MAX_TOKENS
    ) -> list[Translation]:
        """Translate lines, in their order; a blank one is answered with no hypothesis.

        Args:
            texts: a sentence, or a text to summarise, each.
            batch_size: lines that the model sees at once;
            max_tokens: and pieces, those that pad shorter lines counted.

        Raises:
            UsageError: what a model gives is no number, or lengths are asked for that it has not.
        """
        encoded = [self.encode(text) for text in texts]
        found = [BLANK] * len(encoded)
        for rows in batches(list(map(len, encoded)), batch_size, max_tokens):
            translations = self._translate([encoded[row] for row in rows])
            for row, translation in zip(rows, translations, strict=True):
                found[row] = translation
        return found

    def encode(self, text: str) -> Tensor:
        """The numbers of a line's pieces and of the end mark; nothing of a blank line."""
        pieces = self.split(text)
        tokens = self.dictionary.encode_line(pieces, add_if_not_exist=False).long()
        if len(tokens) > self.longest:
            self.cut += 1
            tokens = torch.cat([tokens[: self.longest - 1], tokens[-1:]])
        words = tokens[:-1]  # what is written into it is written into the tokens
        # What text holds is words: none of it is padding or the end.
        words[torch.isin(words, self.special)] = self.dictionary.unk()
        self.unknown.add(words, self.dictionary)
        return tokens if len(words) else tokens[:0]

    def _translate(self, batch):
        self._check_lengths(max(map(len, batch)))
        dataset = self.task.build_dataset_for_inference(batch, list(map(len, batch)))
        sample = dataset.collater([dataset[row] for row in range(len(batch))])
        sample = utils.apply_to_sample(lambda tensor: tensor.to(self.device), sample)
        found = self.task.inference_step(self.generator, self.models, sample)
        rows = sample["id"].tolist()
        translated = dict(zip(rows, map(self._translation, found), strict=True))
        return [translated[row] for row in range(len(batch))]

    def _check_lengths(self, source):
        cfg = self.generation
        most = min(int(cfg.max_len_a * source + cfg.max_len_b), self.generator.max_len - 1)
        if cfg.min_len > most:
            raise UsageError(
                f"min_len {cfg.min_len}: what is made of {source} pieces has at most {most}, by "
                f"max_len_a, max_len_b and {self.path}"
            )

    def _translation(self, hypotheses):
        found = hypotheses[: self.generation.nbest]
        return Translation(tuple(map(self._hypothesis, found)))

    def _hypothesis(self, found):
        score = float(found["score"]) / math.log(2)
        if not math.isfinite(score):
            raise UsageError(f"{self.path}: what the model gives is no number (NaN or infinite)")
        ignored = self.generator.symbols_to_strip_from_output
        pieces = self.task.target_dictionary.string(
            found["tokens"].int().cpu(), extra_symbols_to_ignore=ignored
        )
        return Hypothesis(self.join(data_utils.post_process(pieces, self.subwords)), score, pieces)


def batches(lengths: Sequence[int], batch_size: int, max_tokens: int) -> Iterator[list[int]]:
    """The numbers of the lines that are translated together, which are of like length.

    The longest come first: who runs out of memory does so at once. Those of length 0 are left out.

    Args:
        lengths: of the lines, in pieces.
        batch_size: lines at most;
        max_tokens: and pieces, with padding; a longer line goes alone.
    """
    order = sorted(
        (row for row, length in enumerate(lengths) if length), key=lambda row: -lengths[row]
    )
    while order:
        count = max(1, min(batch_size, max_tokens // lengths[order[0]]))
        yield order[:count]
        del order[:count]
