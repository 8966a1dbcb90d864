"""BLEU in the forms that papers report, chrF, TER, and COMET (Rei et al., 2020, 2022).

``posattn score bleu --help`` explains the forms. compound-split is that of fairseq's
compound_split_bleu.sh.
"""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fairseq_posattn.common.errors import UsageError, shortened
from fairseq_posattn.scoring.outputs import Pairs
from fairseq_posattn.scoring.rouge import UNICODE_WORD
from fairseq_posattn.scoring.significance import Group
from fairseq_posattn.text.languages import code_hint, code_of, is_language, tokenizer_of
from fairseq_posattn.text.moses import Detokenizer

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

__all__ = ["Sides", "bleu_metric", "comet_of_each", "group_of"]
__all__ += ["running_metrics", "running_text", "text_of"]

COMPOUNDS = "compound-split"
FORMS = ("sacrebleu", "tokenised", "tokenised-lowercase", COMPOUNDS)
TEXTS = ("auto", "moses", "running")
HYPHENATED = re.compile(r"(\S)-(\S)")
ESCAPED = re.compile(r"&(?:amp|apos|quot|lt|gt|bar|bra|ket|#91|#93|#124);")
MARKS = frozenset(".,。、，،۔።")
SCRIPTS = {"TIBETAN": "bo", "KHMER": "km", "LAO": "lo", "MYANMAR": "my", "THAI": "th", "YI": "ii"}


def known_language(code: str) -> str:
    """Return the code of a language by which tools know it; UsageError if it is no language's."""
    if not is_language(code):
        raise UsageError(f"language {code!r}: unknown code; {code_hint(code)}")
    return code_of(code)


def language_by_script(lines: Iterable[str]) -> str | None:
    """Return zh, ja, ko or one of SCRIPTS if most words are of that script, else None.

    A letter of a script without spaces is a word, as in ROUGE.
    """
    scripts = Counter(
        unicodedata.name(word[0], "").partition(" ")[0]
        for line in lines
        for word in UNICODE_WORD.findall(line)
        if word[0].isalpha()
    )
    kana, signs = scripts["HIRAGANA"] + scripts["KATAKANA"], scripts["CJK"]
    is_japanese = kana > signs / 10  # Chinese has some in names
    shares = {"zh": signs, "ja": is_japanese * (kana + signs), "ko": scripts["HANGUL"]}
    shares |= {language: scripts[script] for script, language in SCRIPTS.items()}
    language = max(shares, key=lambda name: shares[name])
    return language if 2 * shares[language] > scripts.total() else None


@dataclass(frozen=True)
class Sides:
    """The kind of text of each side: True for Moses' tokens, False for running text."""

    hypotheses: bool
    references: bool


def tokenized_sides(pairs: Pairs, text: str = "auto") -> Sides:
    """Return which sides are Moses' tokens; for ``auto``, one without punctuation as the other."""
    if text != "auto":
        return Sides(text == "moses", text == "moses")
    hypotheses, references = map(looks_tokenized, (pairs.hypotheses, pairs.references))
    return Sides(
        bool(references if hypotheses is None else hypotheses),
        bool(hypotheses if references is None else references),
    )


def looks_tokenized(lines: Sequence[str]) -> bool | None:
    """Return whether punctuation is mostly separate or escaped; None without punctuation.

    Marks in less than a twentieth of the lines decide nothing: plain Thai has hardly any.
    """
    apart = within = 0
    for line in lines:
        words = line.split()
        if ESCAPED.search(line) or "@-@" in words or not MARKS.isdisjoint(words):
            apart += 1
        elif not MARKS.isdisjoint(line):
            within += 1
    if apart > within:
        return True if 20 * apart >= len(lines) else None
    return False if within else None


def detokenize_lines(lines: Sequence[str], language: str) -> list[str]:
    detokenizer = Detokenizer(language)
    return [detokenizer.detokenize(line.split()) for line in lines]


def running_text(
    pairs: Pairs, sides: Sides, language: str | None, raw_references: Sequence[str] | None = None
) -> Pairs:
    """Return the pairs detokenized where ``sides`` say; ``raw_references`` replace references."""
    hypotheses, references = pairs.hypotheses, pairs.references
    if raw_references is not None:
        references = list(raw_references)
    elif sides.references:
        references = detokenize_lines(references, language or "en")
    if sides.hypotheses:
        hypotheses = detokenize_lines(hypotheses, language or "en")
    return replace(pairs, hypotheses=hypotheses, references=references)


def bleu_metric(form: str, language: str | None = None) -> "Metric":
    """Return sacreBLEU's metric for one of :data:`FORMS`; language None takes tokenizer 13a."""
    from sacrebleu.metrics.bleu import BLEU  # slow to import

    # force: no warning about tokenized text.
    if form == "sacrebleu":
        return BLEU(tokenize=tokenizer_of(language)[0], force=True)
    return BLEU(tokenize="none", lowercase=form == "tokenised-lowercase", force=True)


def text_of(form: str, pairs: Pairs, running: Pairs) -> Pairs:
    """Return the text that a form scores: tokens, tokens split at hyphens, or running text."""
    if form == COMPOUNDS:
        hypotheses, references = map(split_compounds, (pairs.hypotheses, pairs.references))
        return replace(pairs, hypotheses=hypotheses, references=references)
    return running if form == "sacrebleu" else pairs


def split_compounds(lines: Sequence[str]) -> list[str]:
    """Return lines in which hyphens within words are separate tokens."""
    joined = (line.replace(" @-@ ", "-") for line in lines)  # which Moses has split
    return [HYPHENATED.sub(r"\1 ##AT##-##AT## \2", line) for line in joined]


def running_metrics() -> dict[str, "Metric"]:
    """Return the metrics chrF2 (Popović, 2015) and TER (Snover et al., 2006; lower is better)."""
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    return {"chrf2": CHRF(), "ter": TER()}


def group_of(metric: "Metric", runs: Sequence[Pairs]) -> Group:
    """Return the statistics of several runs of one system."""
    each = [metric._extract_corpus_statistics(run.hypotheses, [run.references]) for run in runs]
    return Group(metric, each)


def comet_of_each(path: Path, runs: Sequence[tuple[Pairs, Pairs]]) -> list[list[float]]:
    """Return the scores of every sentence of every run, found by its text, plain or detokenized.

    ``path`` is a file of ``comet-score``; the scores are in percent.
    """
    try:
        systems = [
            ([line["mt"] for line in system], [100 * float(line["COMET"]) for line in system])
            for system in json.loads(path.read_text(encoding="utf-8")).values()
        ]
    except (AttributeError, KeyError, TypeError, ValueError):
        command = "comet-score -s SOURCES -t TRANSLATIONS -r REFERENCES --to_json FILE"
        raise UsageError(f"{path}: not a file of scores as of '{command}'") from None
    scores = []
    for forms in runs:
        texts = [[line.strip() for line in form.hypotheses] for form in forms]
        scored = [each for translations, each in systems if translations in texts]
        if not scored:
            start = shortened(texts[-1][0])
            raise UsageError(f"{path}: none of its systems has the translations from {start} on")
        scores.append(scored[0])
    return scores
