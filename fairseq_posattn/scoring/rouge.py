"""ROUGE-1, ROUGE-2 and ROUGE-L, F1, as files2rouge computes them.

https://github.com/pltrdy/files2rouge hands a line per summary to ROUGE-1.5.5.pl (Lin, 2004) with
``-c 95 -r 1000 -n 2 -a -m``: since July 2020 words are stemmed unless ``--no_stemming`` is given.
ROUGE-L is the summary-level union of longest common subsequences over sentences. Each summary's F1
equals that of ROUGE-1.5.5.pl in all five digits (measured on 1,250 of CNN/DailyMail and Gigaword),
if its list of irregular forms is not empty, as many guides leave it. Averages differ by up to
0.0002 (of 1): ROUGE-1.5.5 prints the mean of 1,000 random resamples.

``posattn score rouge --help`` explains the rules of words.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from functools import cache, partial
from importlib.resources import files
from math import prod
from pathlib import Path
from typing import Any

import regex

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.progress import map_lines
from fairseq_posattn.scoring.outputs import Pairs
from fairseq_posattn.text.words import ALNUM, ALSO_UNSPACED, OTHER_END, split_sentences

__all__ = ["document_sentences", "ignored_share", "rouge_by_files2rouge", "rouge_of_each"]
__all__ += ["sentences"]

METRICS = {"rouge1": "rouge1", "rouge2": "rouge2", "rougeL": "rougeLsum"}  # ours: rouge-score's
AVERAGE = re.compile(r"ROUGE-([12L]) Average_F: ([\d.]+)")
ROUGE_155 = "-c 95 -r 1000 -n 2 -a"  # files2rouge's default options of ROUGE-1.5.5.pl
WORD = re.compile(r"[A-Za-z0-9]+")
LETTER = regex.compile(rf"(?V1)[[{ALNUM}\p{{M}}]--[\u20e3\ufe00-\ufe0f]]")  # no marks of emoji
# Letters of scripts without spaces. SA is Unicode's line-breaking class of South East Asian ones.
_SCRIPTS = rf"\p{{LB=SA}}{ALSO_UNSPACED}\p{{scx=Han}}\p{{scx=Hira}}\p{{scx=Kana}}"
UNSPACED = rf"[[\p{{L}}\p{{N}}]&&[{_SCRIPTS}]]"
UNICODE_WORD = regex.compile(
    rf"(?V1){UNSPACED}\p{{M}}*"
    rf"|[{ALNUM}--{UNSPACED}][[{ALNUM}\p{{M}}\u180e\u200c\u200d]--{UNSPACED}]*"
)
# Words and their lower-casing by rule.
RULES: dict[str, tuple[Any, Callable[[str], str]]] = {
    "rouge155": (WORD, str.lower),
    "unicode": (UNICODE_WORD, str.casefold),
}
# ROUGE-1.5.5 also removes "-ment", "-ent" and "-ion" after Porter's other suffixes of step 4, each
# separately: "internationally" becomes "internat".
FOURTH_STEP = (
    re.compile("(?:al|ance|ence|er|ic|able|ible|ant|ement|ou|ism|ate|iti|ous|ive|ize)$"),
    re.compile("ment$"),
    re.compile("ent$|(?<=[st])ion$"),
)
LARGEST_TABLE = 5_000**2  # product of two sentences' words, a number each in rouge-score's memory


@cache
def stemmer() -> Callable[[str], str]:
    """Return ROUGE's stemmer: WordNet's irregular forms, and Porter's later program."""
    from nltk.stem.porter import PorterStemmer  # NLTK is optional

    class RougeStemmer(PorterStemmer):  # type: ignore[misc]  # NLTK has no types
        def _step4(self, word: str) -> str:
            for suffixes in FOURTH_STEP:
                suffix = suffixes.search(word)
                if suffix and self._measure(word[: suffix.start()]) > 1:
                    word = word[: suffix.start()]
            return word

    text = (files(__package__) / "wordnet_exceptions.txt").read_text(encoding="utf-8")
    irregular = dict(line.split() for line in text.splitlines() if not line.startswith("#"))
    porter = RougeStemmer(PorterStemmer.MARTIN_EXTENSIONS)

    def stem(word: str) -> str:
        if len(word) <= 3 or not word.isascii():
            return word
        return irregular.get(word) or str(porter.stem(word))

    return cache(stem)


class Tokenizer:
    """The words of a rule, for rouge-score."""

    def __init__(self, rule: str, stemming: bool):
        self.pattern, self.lower = RULES[rule]
        self.stem: Callable[[str], str] = stemmer() if stemming else str

    def tokenize(self, text: str) -> list[str]:
        return [self.stem(self.lower(word)) for word in self.pattern.findall(text)]


def ignored_share(lines: Iterable[str]) -> float:
    """Return the share of letters, marks and digits that ROUGE-1.5.5 ignores."""
    counts = [(len(LETTER.findall(line)), sum(map(len, WORD.findall(line)))) for line in lines]
    every, seen = map(sum, zip(*counts, strict=True)) if counts else (0, 0)
    return 1 - seen / every if every else 0.0


def sentences(summary: str, eos: str = ".", rule: str = "rouge155") -> list[str]:
    """Return a summary's sentences, by ``eos`` as in files2rouge, or by marks such as 。।؟."""
    if rule == "unicode" and eos == ".":
        summary = OTHER_END.sub(f" {eos} ", summary)
    return [part.strip() for part in f" {summary} ".split(f" {eos} ") if part.strip()]


def document_sentences(text: str, eos: str = ".") -> list[str]:
    """Return a text's sentences, by ``eos`` or, if it has none, by marks of any script."""
    if eos != "." and f" {eos} " in f" {text} ":
        return sentences(text, eos)
    return split_sentences(text, any_script=True)


def rouge_of_each(
    pairs: Pairs,
    eos: str = ".",
    jobs: int = 1,
    stemming: bool = True,
    name: object = "text",
    rule: str = "rouge155",
) -> dict[str, list[float]]:
    """Return each summary's F1 in percent by metric; a long one is a UsageError of ``name``."""
    from rouge_score.rouge_scorer import RougeScorer  # only here: --help does not wait for it

    scorer = RougeScorer(list(METRICS.values()), tokenizer=Tokenizer(rule, stemming))
    numbered = enumerate(zip(pairs.hypotheses, pairs.references, strict=True), start=1)
    score = partial(_score, scorer, eos, rule, name)
    each = list(map_lines(score, numbered, jobs, "scoring", len(pairs.hypotheses), chunk=100))
    return {name: [100 * scores[name] for scores in each] for name in METRICS}


def _score(
    scorer: Any, eos: str, rule: str, name: object, numbered: tuple[int, tuple[str, str]]
) -> dict[str, float]:
    number, pair = numbered
    sides = [sentences(text, eos, rule) for text in pair]
    words = RULES[rule][0].findall
    longest = [max((len(words(sentence)) for sentence in side), default=0) for side in sides]
    if prod(longest) > LARGEST_TABLE:
        fix = f"end sentences by {eos!r} between spaces, or give another --eos"
        raise UsageError(f"{name}: summary {number}: {max(longest):,} words in a sentence; {fix}")
    hypothesis, reference = map("\n".join, sides)
    scores = scorer.score(reference, hypothesis)
    return {ours: scores[theirs].fmeasure for ours, theirs in METRICS.items()}


def rouge_by_files2rouge(pairs: Pairs, eos: str = ".", stemming: bool = True) -> dict[str, float]:
    """Return the means by the real files2rouge, which fails on ``--no_stemming`` before 2020."""
    folders = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    command = shutil.which("files2rouge", path=folders)
    if command is None:
        raise UsageError(
            "--implementation files2rouge: there is no command files2rouge; install it"
        )
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("references", "summaries")]  # in its order
        for path, lines in zip(paths, (pairs.references, pairs.hypotheses), strict=True):
            # It wraps sentences in HTML, where ROUGE ends them at a "<"; a space is as good to it.
            text = "".join(line.replace("<", " ") + "\n" for line in lines)
            path.write_text(text, encoding="utf-8")
        # It stems whatever --args has; --no_stemming alone turns that off.
        stems = [] if stemming else ["--no_stemming"]
        run = subprocess.run(
            [command, *map(str, paths), f"--eos={eos}", f"--args={ROUGE_155}", *stems],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
        )
    means = {f"rouge{name}": 100 * float(f1) for name, f1 in AVERAGE.findall(run.stdout)}
    if run.returncode or means.keys() != METRICS.keys():
        raise UsageError(f"files2rouge failed: {run.stdout.strip().rpartition(chr(10))[2]}")
    return means
