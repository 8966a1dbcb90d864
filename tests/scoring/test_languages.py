import pytest
from known_scores import bleu, score_of

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.scoring import languages
from fairseq_posattn.scoring.bleu import running_metrics
from fairseq_posattn.scoring.pairs import Pairs


@pytest.mark.parametrize(
    ("code", "language"), [("de", "de"), ("pt_BR", "pt"), ("zh-Hans", "zh"), ("en_XX", "en")]
)
def test_codes(code, language):
    assert languages.known(code) == language


def test_unknown_codes():
    with pytest.raises(UsageError, match="language 'thai': unknown; known are af ar .* zh$"):
        languages.known("thai")


@pytest.mark.parametrize("language", [None, "de", "ar"])
def test_words_between_spaces(language):
    assert languages.tokeniser(language) == ("13a", None)


@pytest.mark.parametrize("language", ["ja", "ko"])
@pytest.mark.parametrize("there", [True, False])
def test_mecab_where_it_is_installed(language, there, monkeypatch):
    monkeypatch.setattr(languages, "find_spec", lambda module: object() if there else None)
    name, warning = languages.tokeniser(language)
    assert name == (f"{language}-mecab" if there else "char")
    assert (warning is None) == there
    if warning:
        assert f"{language}-mecab; pip install 'sacrebleu[{language}]'" in warning


def test_chinese_is_counted_by_character():
    pairs = Pairs(["我爱北京天安门。"], ["我爱北京的天安门。"])
    spaced = Pairs(["我 爱 北京 天安门 。"], ["我 爱 北京 的 天安门 。"])
    assert "tok:zh" in bleu(pairs, "sacrebleu", "zh").signature
    assert bleu(pairs, "sacrebleu", "zh").score > 40
    assert bleu(pairs, "sacrebleu", "zh").score == bleu(spaced, "sacrebleu", "zh").score
    assert bleu(pairs, "sacrebleu", "en").score < 1  # one word, and another
    chrf = running_metrics()["chrf2"]
    assert score_of(chrf, pairs).score == score_of(chrf, spaced).score


@pytest.mark.parametrize(
    ("line", "language"),
    [
        ("我爱北京天安门。", "zh"),
        ("私は北京の天安門が好きです。", "ja"),
        ("나는 베이징을 사랑한다 .", "ko"),
        ("I love 北京 .", None),
        ("1 2 3", None),
        ("", None),
    ],
)
def test_scripts(line, language):
    assert languages.by_script([line]) == language
