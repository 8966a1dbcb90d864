"""Precision, recall and F1 of semantic roles, as srl-eval.pl of CoNLL-2005 has them.

An argument is correct if the same predicate has one of the same type with the same spans. ``C-X``
continues the last argument of type X. The predicate, V, does not count.
"""

import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields

from fairseq_posattn.common.errors import UsageError, counted
from fairseq_posattn.text.props import Proposition, Sentence, Span

__all__ = ["Counts", "arguments", "compare", "compare_propositions"]

CONTINUATION = "C-"
PREDICATE = "V"

Spans = tuple[tuple[int, int], ...]


@dataclass
class Counts:
    """Counts of correct, excess and missed arguments by type, and of propositions."""

    correct: Counter[str] = field(default_factory=Counter)
    excess: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    propositions: int = 0
    complete: int = 0

    def __iadd__(self, other: "Counts") -> "Counts":
        for count in fields(self):
            setattr(self, count.name, getattr(self, count.name) + getattr(other, count.name))
        return self

    def scores(self) -> dict[str, float]:
        """Return ``precision``, ``recall``, ``f1``, ``complete`` in percent; 0 if undefined."""
        totals = (self.correct.total(), self.excess.total(), self.missed.total())
        return {**_scores(*totals), "complete": 100 * self.complete / max(self.propositions, 1)}

    def by_type(self) -> dict[str, dict[str, float]]:
        """Return the counts and scores of each type of argument."""
        table = {}
        for label in sorted({*self.correct, *self.excess, *self.missed}):
            counts = {name: getattr(self, name)[label] for name in ("correct", "excess", "missed")}
            table[label] = {**counts, **_scores(**counts)}
        return table


def arguments(pieces: Iterable[Span]) -> list[tuple[str, Spans]]:
    """Return the arguments that pieces, from left to right, make up: type and spans."""
    result: list[tuple[str, list[tuple[int, int]]]] = []
    last: dict[str, list[tuple[int, int]]] = {}
    for piece in pieces:
        label = piece.label.removeprefix(CONTINUATION)
        if label == piece.label or label not in last:
            last[label] = []
            result.append((label, last[label]))
        last[label].append((piece.start, piece.end))
    return [(label, tuple(spans)) for label, spans in result if label != PREDICATE]


def compare_propositions(gold: Iterable[Span], predicted: Iterable[Span]) -> Counts:
    """Return the counts for one predicate's pieces, each from left to right."""
    wanted, answered = Counter(arguments(gold)), Counter(arguments(predicted))
    right, excess, missed = (
        Counter(label for label, _ in counts.elements())
        for counts in (wanted & answered, answered - wanted, wanted - answered)
    )
    return Counts(right, excess, missed, propositions=1, complete=int(wanted == answered))


def compare(
    gold: Sequence[Sentence],
    predicted: Sequence[Sentence],
    names: tuple[str, str] = ("gold", "predicted"),
) -> Counts:
    """Return the counts for whole files, with predicates matched by position.

    Arguments of a missing predicate or another lemma are missed, excess predicates ignored; each
    case warns once. Another number of sentences or words is a UsageError.
    """
    if len(gold) != len(predicted):
        sentences = counted(len(predicted), "sentence")
        raise UsageError(f"{names[1]}: {sentences}, but {len(gold)} in {names[0]}")
    counts, lacking, ignored = Counts(), 0, 0
    for wanted, answer in zip(gold, predicted, strict=True):
        if wanted.length != answer.length:
            differ = f"of {answer.length} words, but {wanted.length} at {names[0]}:{wanted.line}"
            raise UsageError(f"{names[1]}:{answer.line}: a sentence {differ}")
        by_position = {proposition.position: proposition for proposition in answer.propositions}
        for proposition in wanted.propositions:
            same = by_position.pop(proposition.position, None)
            if same is None or same.predicate != proposition.predicate:
                lacking += 1
                same = Proposition(proposition.predicate, proposition.position)
            counts += compare_propositions(proposition.spans, same.spans)
        ignored += len(by_position)
    if lacking:
        message = f"{names[1]} lacks {lacking} predicates of {names[0]} or has other lemmas; "
        warnings.warn(message + "their arguments count as missed", stacklevel=2)
    if ignored:
        message = f"{names[1]} has {ignored} predicates that {names[0]} lacks; they are ignored"
        warnings.warn(message, stacklevel=2)
    return counts


def _scores(correct: int, excess: int, missed: int) -> dict[str, float]:
    precision = 100 * correct / max(correct + excess, 1)
    recall = 100 * correct / max(correct + missed, 1)
    f1 = 2 * precision * recall / (precision + recall) if correct else 0.0
    return {"precision": precision, "recall": recall, "f1": f1}
