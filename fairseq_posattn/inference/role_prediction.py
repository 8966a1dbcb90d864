"""Semantic roles of new sentences, from a trained tagger (``posattn predict``).

A line is ``POSITIONS<TAB>SENTENCE``: positions of the predicates, from 0, separated by commas, as
in ``2<TAB>My cats love hats.``. A line of prepared data is read, too, without its tags: ``2 My cats
love hats . ||| B-A0 I-A0 B-V B-A1 O``.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from fairseq_posattn.common.errors import UsageError, counted
from fairseq_posattn.inference.stream import LineReader, batches, encode_texts, list_texts
from fairseq_posattn.inference.tokens import UnknownTokens, token_ids
from fairseq_posattn.inference.trained_model import TrainedModel
from fairseq_posattn.text.props import SEPARATOR, Sentence, Span, spans_of_tags
from fairseq_posattn.training.registered import data_utils


@dataclass(frozen=True)
class RolePrediction:
    """The words of a sentence, and for each predicate its position and a tag for each word."""

    words: tuple[str, ...]
    tags: tuple[tuple[int, tuple[str, ...]], ...]

    def __str__(self) -> str:
        """Return ``[A0 My cats] [V love] [A1 hats] .``, with a TAB between predicates."""
        return "\t".join(_bracketed(self.words, tags) for _, tags in self.tags)

    def as_json(self) -> str:
        """Return the words and the arguments of each predicate (label, start, end, text)."""

        def argument(span: Span) -> dict[str, Any]:
            return asdict(span) | {"text": " ".join(self.words[span.start : span.end + 1])}

        propositions = []
        for position, tags in self.tags:
            arguments = list(map(argument, spans_of_tags(tags)))
            propositions.append({"predicate": position, "arguments": arguments})
        return json.dumps({"words": self.words, "propositions": propositions}, ensure_ascii=False)


def _bracketed(words: Sequence[str], tags: Sequence[str]) -> str:
    shown = list(words)
    for span in spans_of_tags(tags):
        shown[span.start] = f"[{span.label} {shown[span.start]}"
        shown[span.end] += "]"
    return " ".join(shown)


class RolePredictor(LineReader):
    """A tagger of semantic roles."""

    nothing = RolePrediction((), ())

    def __init__(self, trained: TrainedModel, *settings: Any):
        super().__init__(trained, *settings)
        self.unknown = UnknownTokens()  # a sentence counts once for each predicate

    def __repr__(self) -> str:
        return f"RolePredictor({self.path!r}, device={self.device})"

    def __call__(
        self, texts: str | Iterable[str], batch_size: int = 64
    ) -> RolePrediction | list[RolePrediction]:
        """Return the predictions for lines with their predicates, in order; a string is one line.

        Raises:
            UsageError: a line has no positions of predicates, or wrong ones; with its number.
            TypeError: a line is no string.
        """
        if isinstance(texts, str):
            return self([texts], batch_size)[0]  # type: ignore[index]
        return self.predict(encode_texts(list_texts(texts), self.encode_line), batch_size)

    def encode_line(self, text: str, number: int) -> tuple[tuple[str, ...], list[int]]:
        """Return the words of a line and the positions of its predicates."""
        prepared = f" {SEPARATOR} " in text and "\t" not in text
        positions, separator, sentence = text.partition(" " if prepared else "\t")
        try:
            numbers = [int(position) for position in positions.split(",")]
        except ValueError:
            separator = ""
        if not separator:
            positions = "the positions of the predicates, from 0, separated by commas"
            raise UsageError(f"a line needs {positions}, a TAB and the sentence")
        rest = sentence.rpartition(f" {SEPARATOR} ")[0] if prepared else self.words(sentence)
        words = tuple(rest.split())
        if not all(0 <= number < len(words) for number in numbers):
            outside = f"outside the sentence of {counted(len(words), 'word')}, counted from 0"
            raise UsageError(f"predicate {positions!r}: {outside}")
        return words, numbers

    def predict(self, encoded: Sequence[Any], batch_size: int = 64) -> list[Any]:
        """Return the predictions in order; sentences of similar length share a batch."""
        lines = (line for line in encoded if line is not None)
        queries = [(position, words) for words, positions in lines for position in positions]
        tags: dict[int, list[str]] = {}
        for chosen in batches([len(words) for _, words in queries], batch_size):
            batch_tags = self._tag([queries[number] for number in chosen])
            tags.update(zip(chosen, batch_tags, strict=True))
        ordered = (tuple(tags[number]) for number in range(len(queries)))
        return [
            RolePrediction(line[0], tuple((position, next(ordered)) for position in line[1]))
            if line is not None
            else self.nothing
            for line in encoded
        ]

    @torch.inference_mode()
    def _tag(self, batch: Sequence[tuple[int, tuple[str, ...]]]) -> list[list[str]]:
        texts = ((w.lower() if self.lower else w for w in words) for _, words in batch)
        tokens = [token_ids(words, self.dictionary) for words in texts]
        for sentence in tokens:
            self.unknown.add(sentence, self.dictionary)
        padded = data_utils.collate_tokens(tokens, self.dictionary.pad())
        predicate = torch.zeros_like(padded)
        for row, (position, _) in enumerate(batch):
            predicate[row, position] = 1
        padded, predicate = padded.to(self.device), predicate.to(self.device)
        scores, _ = self.model(src_tokens=padded, predicate=predicate)
        if not scores.isfinite().all():
            raise UsageError(f"{self.path}: the model's output is NaN or infinite")
        lengths = torch.tensor(list(map(len, tokens)))
        return list(self.task.decode(scores.float().log_softmax(-1).cpu(), lengths))


def as_props(gold: Sequence[Sentence], predictions: Iterable[RolePrediction]) -> Iterator[Sentence]:
    """Yield the predictions for the predicates of ``gold``; UsageError if the predicates differ."""
    predictions = iter(predictions)
    for sentence in gold:
        propositions = []
        for proposition in sentence.propositions:
            prediction = next(predictions, RolePrediction((), ()))
            positions = [position for position, _ in prediction.tags]
            if positions != [proposition.position] or len(prediction.words) != sentence.length:
                differ = f"line {sentence.line}: other predicates than those tagged"
                raise UsageError(f"props file, {differ}; give files of one split")
            spans = spans_of_tags(prediction.tags[0][1])
            propositions.append(replace(proposition, spans=spans))
        yield Sentence(sentence.length, propositions)
    if next(predictions, None) is not None:
        raise UsageError("props file: fewer predicates than were tagged")
