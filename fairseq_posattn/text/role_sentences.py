"""Sentences with semantic roles, on their way from an archive to a model."""

from typing import NamedTuple

from fairseq_posattn.text.props import Sentence, tags_of_pieces

SEPARATOR = "|||"


class RoleSentence(NamedTuple):
    """A sentence: its words, its predicates with their arguments, and where it was read."""

    words: tuple[str, ...]
    roles: Sentence
    place: str

    def examples(self):
        """``(place of the predicate, tags)`` for each predicate, in the order of their places."""
        for proposition in self.roles.propositions:
            yield proposition.place, tags_of_pieces(proposition.pieces, len(self.words))


def readable(words, place, tags):
    """An example as a line: ``2 My cats love hats . ||| B-A0 I-A0 B-V B-A1 O``."""
    return " ".join([str(place), *words, SEPARATOR, *tags])
