"""BLEU in the forms in which papers report it, all computed by sacreBLEU.

=====================  ============================================================================
sacrebleu              of running text, detokenised by sacremoses where that is asked for; sacreBLEU
                       tokenises it itself. The only form that compares between tokenisers.
tokenised              of the tokens as they are, what multi-bleu.perl and fairseq-score compute
tokenised-lowercase    the same, case-insensitive, as on IWSLT14
compound-split         of the tokens with words taken apart at hyphens, as on WMT14 English-German:
                       "rich-text" becomes "rich ##AT##-##AT## text" (tensor2tensor's
                       get_ende_bleu.sh, fairseq's compound_split_bleu.sh)
=====================  ============================================================================
"""

import re
from dataclasses import dataclass

from fairseq_posattn.errors import UsageError

FORMS = ("sacrebleu", "tokenised", "tokenised-lowercase", "compound-split")
HYPHENATED = re.compile(r"(\S)-(\S)")


@dataclass(frozen=True)
class Bleu:
    """A score in percent, with sacreBLEU's signature."""

    score: float
    signature: str


def bleu(pairs, form, language=None, raw_references=None):
    """One form of BLEU.

    Args:
        pairs: a :class:`scoring.pairs.Pairs`.
        form: one of :data:`FORMS`.
        language: two letters; the form ``sacrebleu`` detokenises the text by its Moses rules. None:
            the text is running text already.
        raw_references: for the form ``sacrebleu``, the references before they were tokenised.
    """
    from sacrebleu.metrics import BLEU  # only here: --help does not wait for it

    hypotheses, references = pairs.hypotheses, pairs.references
    # force: sacreBLEU would advise against text that is tokenised already.
    if form == "sacrebleu":
        if language is not None:
            hypotheses = detokenise(hypotheses, language)
            if raw_references is None:
                references = detokenise(references, language)
        if raw_references is not None:
            references = _as_many(raw_references, references)
        metric = BLEU(force=True)
    else:
        if form == "compound-split":
            hypotheses, references = split_compounds(hypotheses), split_compounds(references)
        metric = BLEU(tokenize="none", lowercase=form == "tokenised-lowercase", force=True)
    score = metric.corpus_score(hypotheses, [references]).score
    return Bleu(score, str(metric.get_signature()))


def detokenise(lines, language):
    """Running text out of Moses tokens."""
    from sacremoses import MosesDetokenizer

    detokenizer = MosesDetokenizer(lang=language)
    return [detokenizer.detokenize(line.split()) for line in lines]


def split_compounds(lines):
    """Hyphens within words as tokens of their own, marked as such."""
    return [HYPHENATED.sub(r"\1 ##AT##-##AT## \2", line) for line in lines]


def looks_tokenised(lines):
    """Whether most lines that hold a full stop or comma hold it as a token of its own."""
    tokens = sum(bool({".", ","} & set(line.split())) for line in lines)
    return tokens > sum("." in line or "," in line for line in lines) / 2


def _as_many(raw_references, references):
    if len(raw_references) != len(references):
        raise UsageError(
            f"{len(raw_references):,} raw references for {len(references):,} sentences that are "
            "scored: there must be one for each"
        )
    return raw_references
