import pytest

from fairseq_posattn.scoring.stemming import stem

pytest.importorskip("nltk")


@pytest.mark.parametrize(
    ("word", "expected"),
    [  # as the Perl program stems them
        ("accidentally", "accid"),
        ("congressional", "congress"),
        ("document", "docum"),
        ("internationally", "internat"),
        ("settlement", "settlem"),
        ("technologies", "technolog"),
        ("relational", "relat"),
        ("yesterday", "yesterdai"),
        ("controlling", "control"),
        ("10000", "10000"),
    ],
)
def test_stems_are_those_of_rouge_155(word, expected):
    assert stem(word) == expected


def test_irregular_forms_come_before_stems():
    assert [stem(word) for word in ("children", "geese", "flew", "taught")] == [
        "child",
        "goose",
        "fly",
        "teach",
    ]


def test_words_of_three_letters_stay():
    assert [stem(word) for word in ("was", "ran", "ads", "men")] == ["was", "ran", "ads", "men"]
