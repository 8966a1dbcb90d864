"""Codes of languages (ISO 639-1)."""

from difflib import get_close_matches

_CODES = (
    "aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy "
    "da de dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu "
    "hy hz ia id ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb "
    "lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om "
    "or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st su sv sw "
    "ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu"
)
_NAMES = (
    "arabic:ar bulgarian:bg chinese:zh croatian:hr czech:cs danish:da dutch:nl english:en "
    "estonian:et finnish:fi french:fr german:de deutsch:de greek:el hebrew:he hindi:hi "
    "hungarian:hu indonesian:id italian:it japanese:ja korean:ko latvian:lv lithuanian:lt "
    "norwegian:no persian:fa polish:pl portuguese:pt romanian:ro russian:ru serbian:sr "
    "slovak:sk slovenian:sl spanish:es swahili:sw swedish:sv thai:th turkish:tr ukrainian:uk "
    "vietnamese:vi"
)
CODES = frozenset(_CODES.split())


def code_hint(name: str) -> str:
    """Return the fix for an unknown code: the nearest known one, if any."""
    names = dict(one.split(":") for one in _NAMES.split())
    names |= {code: code for code in _CODES.split()}
    nearest = [one for one in names if one.startswith(name.lower())]
    nearest += get_close_matches(name.lower(), names, n=1, cutoff=0.5)
    return f"did you mean {names[nearest[0]]}?" if nearest else "give a code such as fr"
