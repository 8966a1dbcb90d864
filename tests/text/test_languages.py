"""Names of languages, and the rules of tools for them."""

import pytest

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.scoring.bleu import known_language
from fairseq_posattn.text import languages
from fairseq_posattn.text.languages import CODES, file_code, is_language
from fairseq_posattn.text.moses import rules_warning


@pytest.mark.parametrize(
    ("name", "code", "tokenizer"),
    [
        *(("de", "de", "13a"), ("pt_BR", "pt", "13a"), ("sr-Latn", "sr", "13a")),
        *(("eng_Latn", "en", "13a"), ("ger", "de", "13a"), ("swa", "sw", "13a")),
        *(("zh-Hans", "zh", "zh"), ("zh_TW", "zh", "zh"), ("cmn", "zh", "zh"), ("yue", "zh", "zh")),
        *(("th", "th", "char"), ("khm_Khmr", "km", "char"), ("ii", "ii", "char")),
        *(("ja", "ja", "ja-mecab"), ("kor", "ko", "ko-mecab")),
        *(("bbj", "bbj", None), ("fon", "fon", None)),
    ],
)
@pytest.mark.parametrize("there", [True, False])
def test_the_name_selects_the_tokenizer(name, code, tokenizer, there, monkeypatch):
    monkeypatch.setattr(languages, "find_spec", lambda module: object() if there else None)
    assert is_language(name) and known_language(name) == code
    if not there and "mecab" in str(tokenizer):
        tokenizer = "char"
    result, warning = languages.tokenizer_of(name)
    assert result == (tokenizer or "13a")
    assert bool(warning) == (tokenizer in ("char", None))
    if code == "ja" and not there:
        assert "ja-mecab; pip install 'sacrebleu[ja]'" in warning


def test_every_code_of_two_letters_is_its_own():
    assert len(CODES) > 180 and all(known_language(code) == code for code in CODES)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        *[("englsh", "en"), ("german", "de"), ("jp", "ja"), ("french-fr", "fr"), ("xx", "")],
        *[("", "ar"), ("iw", "he"), ("sh", "sr")],
    ],
)
def test_what_is_no_name_gets_a_suggestion(name, nearest):
    advice = f"did you mean {nearest}" if nearest else "did you mean|give a code"
    with pytest.raises(UsageError, match=f"unknown code; {advice}"):
        known_language(name)


def test_languages_without_rules_of_moses_are_named():
    assert file_code("zh-Hant-TW") == "zh_Hant_TW"  # hyphens separate the languages of a file
    assert rules_warning("deu_AT") is rules_warning("zh_TW") is None
    assert "bbj: Moses has no rules" in rules_warning("bbj")
