"""The rule that parts documents into sentences."""

import pytest

from fairseq_posattn.text.sentences import split_sentences


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Mr. Smith, e.g. in the U.S. army, paid 3.5 to J. Doe.", [...]),
        ("It is good... but dear.", [...]),
        ("It works. it lasts! Why? Done", ["It works.", "it lasts!", "Why?", "Done"]),
        ("one\n\n two \nthree", ["one", "two", "three"]),
        ("It is good... But dear.", ["It is good...", "But dear."]),
        ('He said "no!" and left. "Yes." Then', ['He said "no!" and left.', '"Yes."', "Then"]),
        ("Three weeks (yes!) for that. (No.) ", ["Three weeks (yes!) for that.", "(No.)"]),
        ("cons\n..........\nheavy", ["cons ..........", "heavy"]),
        ("see a.com. It", ["see a.com.", "It"]),
        ("bad!!! bad?! ok", ["bad!!!", "bad?!", "ok"]),
        ("... ", ["..."]),
        (" \n ", []),
    ],
)
def test_sentences(text, sentences):
    assert split_sentences(text) == ([text] if sentences == [...] else sentences)
