"""BLEU in the forms in which papers report it, chrF and TER, all computed by sacreBLEU.

=====================  ============================================================================
sacrebleu              of running text, tokenised by sacreBLEU as the language wants it. The only
                       form that compares between tokenisers; chrF2 and TER are of the same text
tokenised              of the tokens as they are, what multi-bleu.perl and fairseq-score compute
tokenised-lowercase    the same, case-insensitive, as on IWSLT14
compound-split         of the tokens with words taken apart at hyphens, as on WMT14 English-German:
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
    """What the lines of each side are: Moses' tokens, or running text."""

    hypotheses: bool
    references: bool


def tokenised_sides(pairs: Pairs, text: str = "auto") -> Sides:
    """Which sides are Moses' tokens; ``auto`` goes by what there is, side by side.

    A side that has no marks to go by is as the other one.
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
    """The pairs as people write them.

    Args:
        sides: which of them are Moses' tokens.
        language: whose rules join these; None for English.
        raw_references: the references before they were tokenised, if they are at hand.

    Raises:
        UsageError: there is not one raw reference for each hypothesis.
    """
    hypotheses, references = pairs.hypotheses, pairs.references
    if raw_references is not None:
        if len(raw_references) != len(references):
            raise UsageError(
                f"{len(raw_references):,} raw references for {len(references):,} sentences that "
                "are scored: there must be one for each"
            )
        references = list(raw_references)
    elif sides.references:
        references = moses.detokenise(references, language or "en")
    if sides.hypotheses:
        hypotheses = moses.detokenise(hypotheses, language or "en")
    return replace(pairs, hypotheses=hypotheses, references=references)


def bleu_metric(form: str, language: str | None = None) -> "Metric":
    """sacreBLEU's metric for one form of BLEU.

    Args:
        form: one of :data:`FORMS`.
        language: of the running text; None counts words as 13a does.
    """
    from sacrebleu.metrics.bleu import BLEU  # only here: --help does not wait for it

    # force: sacreBLEU would advise against text that is tokenised already.
    if form == "sacrebleu":
        return BLEU(tokenize=languages.tokeniser(language)[0], force=True)
    return BLEU(tokenize="none", lowercase=form == "tokenised-lowercase", force=True)


def text_of(form: str, pairs: Pairs, running: Pairs) -> Pairs:
    """The text that a form is of: tokens as they are, split at hyphens, or running text."""
    if form == COMPOUNDS:
        hypotheses, references = map(split_compounds, (pairs.hypotheses, pairs.references))
        return replace(pairs, hypotheses=hypotheses, references=references)
    return running if form == "sacrebleu" else pairs


def running_metrics() -> dict[str, "Metric"]:
    """By name, what is computed of running text beside BLEU.

    chrF2 (Popović, 2015) is F2 of the n-grams of characters; TER (Snover et al., 2006) the edits,
    moves among them, that are left to make, for a hundred words: the lower, the better.
    """
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    return {"chrf2": CHRF(), "ter": TER()}


def group_of(metric: "Metric", runs: Sequence[Pairs]) -> Group:
    """Several runs as one system."""
    return Group(
        metric,
        [metric._extract_corpus_statistics(run.hypotheses, [run.references]) for run in runs],
    )


def split_compounds(lines: Sequence[str]) -> list[str]:
    """Hyphens within words as tokens of their own, marked as such.

    What Moses has split, ``rich @-@ text``, is joined first, as its detokeniser does: the @ would
    be taken for words.
    """
    joined = (line.replace(" @-@ ", "-") for line in lines)
    return [HYPHENATED.sub(r"\1 ##AT##-##AT## \2", line) for line in joined]
