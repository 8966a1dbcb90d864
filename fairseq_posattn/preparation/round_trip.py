"""Measurement of what comes back when the user's text is split into subwords and joined again.

It is what a perfect model would print: an upper bound of its scores.
"""

import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from fairseq_posattn.common.files import writing
from fairseq_posattn.common.progress import say
from fairseq_posattn.preparation.corpus import SIDES
from fairseq_posattn.text.languages import tokenizer_of
from fairseq_posattn.text.lines import file_lines
from fairseq_posattn.text.manifest import Manifest
from fairseq_posattn.text.plain_text import joiner, splitter
from fairseq_posattn.text.subwords import whole_words
from fairseq_posattn.text.vocabulary import SPECIAL, read_symbols
from fairseq_posattn.text.words import UNSPACED, single_spaces

MOST = 1000  # pairs of a split
UNKNOWN = SPECIAL[3]
ENOUGH = 0.99  # of the lines
PERFECT = {"bleu": 100.0, "chrf": 100.0}  # which take seconds to compute
REMEDIES = {
    "subword_nmt": "Moses' rules do not serve this text; give --subwords sentencepiece",
    "wordpiece": "WordPiece loses spaces at punctuation, rare characters and, without --cased, "
    "capitals; give --subwords sentencepiece",
    "sentencepiece": "the vocabulary lacks their characters; give a larger --vocabulary-size",
    None: "white space is unified, and words that training lacks are unknown; give --subwords "
    "sentencepiece",
}


class Sample:
    """Random pairs of a stream, at most :data:`MOST`; the same each time."""

    def __init__(self) -> None:
        self.pairs: list[Sequence[str]] = []
        self.number, self.random = 0, random.Random(1)

    def add(self, pair: Sequence[str]) -> None:
        """Take a pair, perhaps instead of an earlier pair."""
        self.number += 1
        if len(self.pairs) < MOST:
            self.pairs.append(pair)
        elif (index := self.random.randrange(self.number)) < MOST:
            self.pairs[index] = pair


def write_sample(pairs: Iterable[Sequence[str]], folder: Path, sides: Sequence[str]) -> None:
    """Write plain pairs to ``sample.{side}``, for :func:`measure`, with single spaces."""
    for number, side in enumerate(sides):
        with writing(folder / f"sample.{side}") as file:
            file.writelines(f"{single_spaces(pair[number])}\n" for pair in pairs)


def measure(
    folder: Path, rules: Manifest, remedy: str | None = None
) -> dict[str, dict[str, float]]:
    """Return the share of lines that come back, and BLEU and chrF of them all, for each side.

    The sample is in the Unicode form that the user chose. Unknown subwords are a loss. ``remedy``
    ends the warning (default: by the kind of subwords).
    """
    measured: dict[str, dict[str, float]] = {}
    for side, language in zip(SIDES, rules.languages, strict=True):
        split, join = splitter(folder, rules, language), joiner(rules, language)
        known = {*read_symbols(folder / f"dict.{language}.txt")}
        lines = list(file_lines(folder / f"text/sample.{language}", allow_empty=True))
        back = []
        for line in lines:
            subwords = [token if token in known else UNKNOWN for token in split(line).split()]
            back.append(join(whole_words(" ".join(subwords), rules.subwords)))
        changed = [pair for pair in zip(lines, back, strict=True) if pair[0] != pair[1]]
        share = 1 - len(changed) / max(len(lines), 1)
        scores = _scores(back, lines, language) if changed else PERFECT
        measured[side] = {"lines": round(share, 4), **scores}
        if share < ENOUGH:
            before, after = min(changed, key=lambda pair: len(pair[0]))
            say(
                f"warning: {language}: {1 - share:.1%} of the lines do not come back from their "
                f"subwords: {before!r} becomes {after!r}; {remedy or REMEDIES[rules.subwords]}"
            )
    return measured


def tokenizer_for(lines: Sequence[str], language: str) -> str:
    """Return sacreBLEU's tokenizer of a language, or of characters if words are not separated.

    The name of the side of summaries says nothing about their language.
    """
    letters = sum(map(len, lines))
    unspaced = sum(len(UNSPACED.findall(line)) for line in lines)
    tokenize = tokenizer_of(language)[0]
    return "char" if tokenize == "13a" and 2 * unspaced > letters else tokenize


def _scores(back: Sequence[str], lines: Sequence[str], language: str) -> dict[str, float]:
    """Return BLEU and chrF in percent, BLEU by :func:`tokenizer_for`."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    tokenize = tokenizer_for(lines, language)
    metrics = {"bleu": BLEU(tokenize=tokenize, force=True, effective_order=True), "chrf": CHRF()}
    return {
        name: round(metric.corpus_score(back, [lines]).score, 2) for name, metric in metrics.items()
    }


def report(round_trip: Mapping[str, Mapping[str, float]]) -> None:
    for side, scores in round_trip.items():
        print(
            f"round trip of {side}: {scores['lines']:.1%} of the lines, "
            f"BLEU {scores['bleu']:.1f}, chrF {scores['chrf']:.1f}"
        )
