"""BLEU in the forms in which papers report it, chrF and TER, all computed by sacreBLEU.

=====================  ============================================================================
sacrebleu              of detokenized text, with sacreBLEU's tokenizer for the language; the only
                       form that is comparable between tokenizers. chrF2 and TER use the same text
tokenised              of the tokens, as by multi-bleu.perl and fairseq-score
tokenised-lowercase    the same, case-insensitive, as reported on IWSLT14
compound-split         of the tokens, split at hyphens, as reported on WMT14 English-German:
                       "rich-text" becomes "rich ##AT##-##AT## text" (tensor2tensor's
                       get_ende_bleu.sh, fairseq's compound_split_bleu.sh)
=====================  ============================================================================
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.scoring import languages, moses
from fairseq_posattn.scoring.pairs import Pairs
from fairseq_posattn.scoring.significance import Group

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

COMPOUNDS = "compound-split"
FORMS = ("sacrebleu", "tokenised", "tokenised-lowercase", COMPOUNDS)
TEXTS = ("auto", "moses", "running")
HYPHENATED = re.compile(r"(\S)-(\S)")


@dataclass(frozen=True)
class Sides:
    """The kind of text of each side: True for Moses' tokens, False for running text."""

    hypotheses: bool
    references: bool


def tokenised_sides(pairs: Pairs, text: str = "auto") -> Sides:
    """Return which sides are Moses tokens; ``auto`` detects them.

    A side without punctuation is taken to be like the other.
    """
    if text != "auto":
        return Sides(text == "moses", text == "moses")
    hypotheses, references = map(moses.looks_tokenised, (pairs.hypotheses, pairs.references))
    return Sides(
        bool(references if hypotheses is None else hypotheses),
        bool(hypotheses if references is None else references),
    )


def running_text(
    pairs: Pairs, sides: Sides, language: str | None, raw_references: Sequence[str] | None = None
) -> Pairs:
    """Return the pairs as detokenized text.

    Args:
        pairs: hypotheses and references.
        sides: which of them are Moses' tokens.
        language: of the detokenizer; None for English.
        raw_references: the references before tokenization, if available.

    Raises:
        UsageError: the numbers of raw references and hypotheses differ.
    """
    hypotheses, references = pairs.hypotheses, pairs.references
    if raw_references is not None:
        if len(raw_references) != len(references):
            raise UsageError(
                f"--raw-references: {len(raw_references):,} lines for {len(references):,} scored "
                "sentences; give one line for each"
            )
        references = list(raw_references)
    elif sides.references:
        references = moses.detokenise(references, language or "en")
    if sides.hypotheses:
        hypotheses = moses.detokenise(hypotheses, language or "en")
    return replace(pairs, hypotheses=hypotheses, references=references)


def bleu_metric(form: str, language: str | None = None) -> "Metric":
    """Return sacreBLEU's metric for one form of BLEU.

    Args:
        form: one of :data:`FORMS`.
        language: of the text; None for the tokenizer 13a.
    """
    from sacrebleu.metrics.bleu import BLEU  # slow to import

    # force: no warning about tokenized text.
    if form == "sacrebleu":
        return BLEU(tokenize=languages.tokeniser(language)[0], force=True)
    return BLEU(tokenize="none", lowercase=form == "tokenised-lowercase", force=True)


def text_of(form: str, pairs: Pairs, running: Pairs) -> Pairs:
    """Return the text that a form scores: tokens, tokens split at hyphens, or running text."""
    if form == COMPOUNDS:
        hypotheses, references = map(split_compounds, (pairs.hypotheses, pairs.references))
        return replace(pairs, hypotheses=hypotheses, references=references)
    return running if form == "sacrebleu" else pairs


def running_metrics() -> dict[str, "Metric"]:
    """Return the metrics of running text other than BLEU, by name.

    chrF2 (Popović, 2015) is the F2 of character n-grams; TER (Snover et al., 2006) the number of
    edits for a hundred words: lower is better.
    """
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    return {"chrf2": CHRF(), "ter": TER()}


def group_of(metric: "Metric", runs: Sequence[Pairs]) -> Group:
    """Return the statistics of several runs of one system."""
    return Group(
        metric,
        [metric._extract_corpus_statistics(run.hypotheses, [run.references]) for run in runs],
    )


def split_compounds(lines: Sequence[str]) -> list[str]:
    """Return lines in which hyphens within words are separate tokens.

    Hyphens that Moses has split, ``rich @-@ text``, are joined first: the @ would count as words.
    """
    joined = (line.replace(" @-@ ", "-") for line in lines)
    return [HYPHENATED.sub(r"\1 ##AT##-##AT## \2", line) for line in joined]
