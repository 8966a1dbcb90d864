"""Text tokenized as by the Moses scripts, the basis of published tokenized BLEU.

sacremoses agrees with ``tokenizer.perl``. Its normalizer agrees with ``normalize-punctuation.perl``
if a line has its end, as here: one rule of the Perl script depends on it.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import regex

from fairseq_posattn.text import languages

RATIO = 1.5  # maximum length ratio of a pair in fairseq's examples
MOSES_RATIO = 9  # the default of clean-corpus-n.perl
# Languages written without spaces between words, which Moses does not split.
WITHOUT_SPACES = (*languages.WITHOUT_SPACES, "ja", "zh")
LONGEST_WORD = 1000  # characters; clean-corpus-n.perl drops pairs with longer words
# A combining mark or a joiner within a word. Variation selectors belong to symbols.
MARK_IN_WORD = regex.compile(r"(?V1)(?<=[\p{L}\p{M}])[[\p{M}\u200c\u200d]--[\ufe00-\ufe0f]]")
# The space before marks of other scripts, such as ।, ؟ and ።; Moses joins those of Latin only.
SPACE_BEFORE_MARK = regex.compile(r"(?V1) (?=[\p{Term}--\p{ASCII}]\p{P}*(?: |$))")


class Tokenizer:
    """Moses tokenizer: a function from a line to its tokens, with spaces between."""

    def __init__(
        self,
        language: str,
        normalize: bool = False,  # quotation marks, dashes, spaces; unprintable characters go
        split_hyphens: bool = False,  # a-b becomes a @-@ b
        escape: bool = True,  # &, |, quotation marks and some brackets become &amp; and so on
        lower: bool = False,  # lower-case first, as for Multi30k
        keep_marks: bool = False,  # do not split words at combining marks and joiners, as Moses
    ) -> None:
        from sacremoses import MosesPunctNormalizer, MosesTokenizer

        language = languages.code_of(language)
        self.normalizer = MosesPunctNormalizer(language, perl_parity=True) if normalize else None
        self.tokenizer = MosesTokenizer(language)
        # sacremoses builds these sets again for every word before a full stop: half of all time.
        self.tokenizer.islower = frozenset(self.tokenizer.IsLower).issuperset
        self.tokenizer.isanyalpha = partial(_has_any, frozenset(self.tokenizer.IsAlpha))
        if keep_marks:
            self.tokenizer.PAD_NOT_ISALNUM = self.tokenizer.PAD_NOT_ISALNUM[0], _pad
        self.options = {"aggressive_dash_splits": split_hyphens, "escape": escape}
        self.lower = lower

    def __call__(self, line: str) -> str:
        if self.lower:
            line = line.strip().lower()
        if self.normalizer:
            line = regex.sub(r"\p{C}", " ", self.normalizer.normalize(line + "\n"))
        return str(self.tokenizer.tokenize(line, return_str=True, **self.options))


class Detokenizer:
    """Moses detokenizer, which here joins marks of all scripts to the word before."""

    def __init__(self, language: str) -> None:
        from sacremoses import MosesDetokenizer  # slow to import

        self.by_rules = MosesDetokenizer(languages.code_of(language))

    def detokenize(self, tokens: Sequence[str], unescape: bool = True) -> str:
        """Return running text; ``unescape`` is of Moses' escapes, such as ``&apos;``."""
        line = self.by_rules.detokenize(tokens, unescape=unescape)
        return str(SPACE_BEFORE_MARK.sub("", line))


def rules_warning(language: str) -> str | None:
    """Return a warning if sacremoses takes the rules of English for a language, else None."""
    from sacremoses.corpus import NonbreakingPrefixes

    if languages.code_of(language) in NonbreakingPrefixes().available_langs.values():
        return None
    return f"{language}: Moses has no rules for this language; it takes those of English"


def _has_any(letters: frozenset[str], text: str) -> bool:
    return not letters.isdisjoint(text)


def _pad(match: regex.Match[str]) -> str:
    is_kept = MARK_IN_WORD.match(match.string, match.start())
    return match[0] if is_kept else f" {match[0]} "


# Tokenizers for a language, by the name of the rule.
RULES: dict[str, Callable[..., Tokenizer]] = {
    "moses-escaped": Tokenizer,
    "moses-escaped-hyphens": partial(Tokenizer, split_hyphens=True),
    "lowered-normalised-moses-escaped": partial(Tokenizer, lower=True, normalize=True),
}


def is_clean(pair: Iterable[str], longest: int, ratio: float | None = RATIO) -> bool:
    """Return whether clean-corpus-n.perl keeps lines of tokens; ``ratio`` is of their lengths."""
    sides = [line.split() for line in pair]
    shorter, longer = sorted(map(len, sides))
    return (
        shorter > 0
        and longer <= longest
        and (ratio is None or longer <= ratio * shorter)
        and all(len(word) <= LONGEST_WORD for side in sides for word in side)
    )
