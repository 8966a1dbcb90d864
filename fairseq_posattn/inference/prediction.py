"""Labels and scores for new text, from a trained classifier.

    from fairseq_posattn.inference import prediction

    predictor = prediction.load("checkpoints/sst5/checkpoint_best.pt")
    predictor(["a gorgeous , witty , seductive movie ."])[0].label

``posattn predict`` does the same from the command line.
"""

import json
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.data import list_symbols
from fairseq_posattn.inference.role_prediction import RolePrediction, RolePredictor
from fairseq_posattn.inference.stream import (
    LineNotes,
    LineReader,
    batches,
    encode_texts,
    list_texts,
)
from fairseq_posattn.inference.tokens import UnknownTokens, token_ids
from fairseq_posattn.inference.trained_model import Device, TrainedModel, find_device, without_logs
from fairseq_posattn.inference.trained_model import load as load_checkpoint
from fairseq_posattn.text import manifest
from fairseq_posattn.text.words import RULES, SENTENCE_SEPARATOR
from fairseq_posattn.training.criterions.sentences import expected_score
from fairseq_posattn.training.registered import SentencePredictionTask, data_utils
from fairseq_posattn.training.tasks.sequence_tagging import SequenceTaggingTask

__all__ = ["Prediction", "Predictor", "RolePrediction", "RolePredictor", "classifier_of", "load"]
__all__ += ["predictor_of"]


@dataclass(frozen=True)
class Prediction:
    """The prediction for one text; all fields are empty for a blank line."""

    label: str | None  # the most probable class; None where the model predicts scores
    score: float | None  # or the mean of a distribution over scores; None for classes
    probabilities: dict[str, float]  # by name of the class or score; empty for a number

    def __str__(self) -> str:
        if self.label is not None:
            return f"{self.label}\t{self.probabilities[self.label]:.4f}"
        return "" if self.score is None else f"{self.score:.4f}"

    def as_json(self) -> str:
        """Return a JSON object of the fields that are set, numbers rounded to six digits."""
        nothing = {"label": None, "score": None}
        score = None if self.score is None else round(self.score, 6)
        rounded = {name: round(value, 6) for name, value in self.probabilities.items()}
        fields = {"label": self.label, "score": score, "probabilities": rounded}
        known = {name: value for name, value in fields.items() if value not in (None, {})}
        return json.dumps(known or nothing, ensure_ascii=False)


NOTHING = Prediction(None, None, {})
Words = str | Callable[[str], str] | None  # a rule's name or a function; None for the data's


class EmptySentenceError(UsageError):
    """A sentence without words."""


@without_logs()
def load(
    checkpoint: str | PathLike[str],
    data: str | PathLike[str] | None = None,
    *,
    words: Words = None,
    device: Device = None,
) -> "Predictor | RolePredictor":
    """Load a classifier, or a tagger of semantic roles.

    Args:
        checkpoint: the file, or a folder with checkpoint_best.pt or checkpoint_last.pt.
        data: folder with the dictionaries; by default the checkpoint's, else the training data's.
        words: tokenizer, a function that returns the words with spaces between, or a name in
            :data:`~fairseq_posattn.text.words.RULES`; by default the training data's.
        device: by default a GPU if available.
    """
    trained = load_checkpoint(str(checkpoint), None if data is None else str(data))
    predictor = predictor_of(trained, words, device)
    predictor.reload = partial(load, checkpoint, data, words=words, device=device)
    return predictor


def predictor_of(
    trained: TrainedModel, words: Words = None, device: Device = None
) -> "Predictor | RolePredictor":
    """Return a predictor for a loaded model; see :func:`load`."""
    if isinstance(trained.task, SequenceTaggingTask):
        settings = _words_of(trained, words), _is_lower_cased(trained), find_device(device)
        return RolePredictor(trained, *settings)
    return classifier_of(trained, words, device)


def classifier_of(trained: TrainedModel, words: Words = None, device: Device = None) -> "Predictor":
    """Return a predictor of labels or scores for a loaded model; see :func:`load`."""
    if not isinstance(trained.task, SentencePredictionTask):
        raise trained.refusal("not a classifier")
    cfg = trained.task.cfg
    if cfg.regression_target and cfg.num_classes > 1 and not trained.encodes_pairs:
        fix = "a score needs --num-classes 1 or --task sentence_pair_prediction"
        raise UsageError(f"{trained.path}: predicts {cfg.num_classes} numbers for each text; {fix}")
    return Predictor(trained, _words_of(trained, words), find_device(device))


def _words_of(trained: TrainedModel, words: Words) -> Callable[[str], str]:
    """Return the function that separates words; by default that of the training data."""
    rule = (trained.rules.word_rule if trained.rules else "spaces") if words is None else words
    if not isinstance(rule, str):
        return rule
    if rule not in RULES:
        data = trained.task.cfg.data
        source = f"{data}/{manifest.NAME}: word_rule" if words is None else "words"
        raise UsageError(f"{source} {rule!r}: no such rule; name one of {', '.join(RULES)}")
    return RULES[rule]


def _is_lower_cased(trained: TrainedModel) -> bool:
    """Return whether the training data is lower-cased, by its dictionary if nothing else says."""
    if trained.rules:
        return trained.rules.lower
    dictionary = trained.task.source_dictionary
    return all(word == word.lower() for word in dictionary.symbols[dictionary.nspecial :])


class Predictor(LineReader):
    """A classifier, called with texts or pairs of them; made by :func:`load`."""

    nothing = NOTHING

    def __init__(self, trained: TrainedModel, words: Callable[[str], str], device: torch.device):
        info = self.rules = trained.rules
        super().__init__(trained, words, _is_lower_cased(trained), device)
        data = Path(self.task.cfg.data)
        self.encodes_pairs = trained.encodes_pairs
        self.expects_pairs = self.encodes_pairs or (data / "input1").is_dir()
        self.unknown = UnknownTokens(kind="subwords" if info and info.subwords else "words")
        self.split = trained.to_subwords
        self.notes = self.new_notes()
        self.names = self._names()

    def __repr__(self) -> str:
        names = f"{len(self.names)} classes" if len(self.names) > 9 else ", ".join(self.names)
        return f"Predictor({self.path!r}, [{names}], device={self.device})"

    def _names(self) -> list[str]:
        cfg = self.task.cfg
        if cfg.regression_target:
            return [str(score) for score in range(1, cfg.num_classes + 1)]
        names = list_symbols(self.task.label_dictionary)
        if len(names) != cfg.num_classes:
            differ = f"{cfg.num_classes} classes, but {cfg.data}/label/dict.txt has {len(names)}"
            raise UsageError(f"{self.path}: has {differ}; name its training data with --data")
        return names

    def __call__(
        self, texts: str | tuple[str, str] | Iterable[str | Sequence[str]], batch_size: int = 64
    ) -> Prediction | list[Prediction]:
        """Return the predictions for sentences, or pairs of them for a model of pairs, in order.

        A string, or a tuple of two for a model of pairs, is a single text. A warning counts the
        texts that are longer than the model reads, and cut.

        Raises:
            UsageError: a text is empty, or no pair as the model needs; with its number.
            TypeError: a text is no string.
        """
        is_pair = self.expects_pairs and isinstance(texts, tuple) and len(texts) == 2
        if isinstance(texts, str) or (is_pair and all(isinstance(part, str) for part in texts)):
            text: Any = texts
            return self([text], batch_size)[0]  # type: ignore[index]
        notes = self.new_notes("text")
        encode = partial(self.encode, notes=notes)
        encoded = encode_texts(list_texts(texts, several=True), encode)
        for message in notes.warnings(self.path):
            warnings.warn(message, stacklevel=2)
        return self.predict(encoded, batch_size)

    def rule_of_text(self) -> str:
        """Return the rule for plain text: the training data's, else documents' or Moses'."""
        if self.rules:
            return self.rules.word_rule
        return "documents" if SENTENCE_SEPARATOR in self.dictionary else "moses"

    def encode_line(self, text: str, number: int) -> list[Tensor] | None:
        """Return the model's input for a line, or None if it has no words."""
        try:
            return self.encode(text, number, self.notes)
        except EmptySentenceError:
            return None

    def new_notes(self, unit: str = "line") -> LineNotes:
        """Return empty notes about texts that are cut."""
        read = f"{self.task.cfg.max_positions:,} tokens"
        return LineNotes(read, "train with a larger --max-positions", unit)

    def encode(
        self, text: str | Sequence[str], number: int = 1, notes: LineNotes | None = None
    ) -> list[Tensor]:
        """Return token ids of a text, cut to what the model reads; cuts are added to ``notes``.

        A TAB in a string separates the sentences of a pair. For a model of one sentence it is a
        space, and added to ``notes``.
        """
        sentences = text
        if isinstance(text, str):
            sentences = text.split("\t") if self.expects_pairs else [text]
            if notes and not self.expects_pairs and "\t" in text.strip():
                notes.add("tab", number)
        if len(sentences) != 1 + self.expects_pairs:
            wanted, fix = "one sentence", "give each a line of its own, without a TAB"
            if self.expects_pairs:
                wanted, fix = "a pair of sentences", "separate the sentences of a line with a TAB"
            raise UsageError(f"the model needs {wanted}, not {len(sentences)}; {fix}")
        cfg = self.task.cfg
        sequences = [self._encode_sentence(sentence) for sentence in sentences]
        if not self.encodes_pairs:  # concatenated as fairseq's sentence_prediction does
            marks = [cfg.init_token, cfg.separator_token]
            marked = (
                tokens if mark is None else torch.cat([tokens.new_tensor([mark]), tokens])
                for mark, tokens in zip(marks, sequences, strict=False)
            )
            sequences = [torch.cat(list(marked))]
        if notes and max(map(len, sequences)) > cfg.max_positions:
            notes.add("cut", number)
        return [tokens[: cfg.max_positions] for tokens in sequences]

    def _encode_sentence(self, sentence: str) -> Tensor:
        text = self.words(sentence.replace("\t", " "))  # as in training
        tokens = self.split(text.lower() if self.lower else text).split()
        ids = token_ids(tokens, self.dictionary, "<mask>")  # which the task adds
        if not len(ids):
            raise EmptySentenceError("the sentence is empty")
        self.unknown.add(ids, self.dictionary)
        return torch.cat([ids, ids.new_tensor([self.dictionary.eos()])])

    def predict(
        self, encoded: Sequence[list[Tensor] | None], batch_size: int = 64
    ) -> list[Prediction]:
        """Return the predictions of encoded texts (:meth:`encode`); None for a blank text."""
        lengths = [max(map(len, sequences)) if sequences else 0 for sequences in encoded]
        results = [self.nothing] * len(encoded)
        for rows in batches(lengths, batch_size):
            predictions = self._predict_batch([encoded[row] or [] for row in rows])
            for row, prediction in zip(rows, predictions, strict=True):
                results[row] = prediction
        return results

    @torch.inference_mode()
    def _predict_batch(self, batch: Sequence[list[Tensor]]) -> list[Prediction]:
        net_input = {}
        for name, sequences in zip(("src", "pair"), zip(*batch, strict=True), strict=False):
            padded = data_utils.collate_tokens(sequences, self.dictionary.pad())
            net_input[f"{name}_tokens"] = padded.to(self.device)
            net_input[f"{name}_lengths"] = torch.tensor(list(map(len, sequences))).to(self.device)
        head = self.task.cfg.classification_head_name
        logits, _ = self.model(**net_input, features_only=True, classification_head_name=head)
        if not logits.isfinite().all():
            raise UsageError(f"{self.path}: the model's output is NaN or infinite")
        return [self._prediction(row) for row in logits.double().cpu()]

    def _prediction(self, logits: Tensor) -> Prediction:
        scores = self.task.cfg.regression_target
        if scores and len(logits) == 1:
            return Prediction(None, logits.item(), {})
        probabilities = logits.softmax(-1)
        named = dict(zip(self.names, probabilities.tolist(), strict=True))
        if scores:
            return Prediction(None, expected_score(probabilities).item(), named)
        return Prediction(max(named, key=named.__getitem__), None, named)
