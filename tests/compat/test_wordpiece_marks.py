import pytest
from fairseq.data import data_utils

from fairseq_posattn import compat

compat.apply()


def test_fairseq_runs_berts_words_together():
    by_itself = data_utils.post_process.__wrapped__
    assert by_itself("un ##want ##ed guests", "wordpiece") == "un##want##edguests"


@pytest.mark.parametrize(
    "pieces, words",
    [
        ("un ##want ##ed guests , run ##ning", "unwanted guests , running"),
        ("guests", "guests"),
        ("two words", "two words"),
        ("##ing ##ing now", "inging now"),  # an untrained model writes it
        ("a _ b", "a _ b"),
        ("", ""),
        ("_un want ed _guests", "unwanted guests"),  # fairseq's own
    ],
)
def test_pieces_are_joined(pieces, words):
    assert data_utils.post_process(pieces, "wordpiece") == words


def test_other_marks_are_fairseqs():
    assert data_utils.post_process("a@@ b ##c", "subword_nmt") == "ab ##c"
    with pytest.raises(NotImplementedError):
        data_utils.post_process("a", "unheard of")
