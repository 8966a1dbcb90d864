"""An update shared among workers."""

import pytest

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.recipes.update import describe, share


@pytest.mark.parametrize("workers", [1, 2, 3, 5, 7, 8, 16, 24, 48, 100])
def test_no_batch_is_larger_and_hardly_anything_is_lost(workers):
    size, frequency = share(12288, 24, workers)
    assert 0 < size <= 12288
    assert 24 * 12288 - workers * frequency < size * frequency * workers <= 24 * 12288


def test_more_workers_than_tokens_are_refused():
    with pytest.raises(UsageError, match="9 workers cannot share an update of 2 x 4"):
        share(4, 2, 9)


def test_an_even_share_is_told():
    (line,) = describe(12288, 24, 8, "tokens")
    assert line.endswith("8 worker(s) x 3 batch(es) (--update-freq) x 12288 tokens = 294912 tokens")


def test_an_uneven_share_is_told():
    (line,) = describe(12288, 24, 5, "tokens")
    assert "11796 tokens = 294900 tokens, not 294912" in line


@pytest.mark.parametrize("unit, warned", [("tokens", True), ("sentences", False)])
def test_batches_that_long_sentences_do_not_fit_into_are_warned_of(unit, warned):
    lines = describe(2048, 1, 3, unit)
    assert ("warning: a sentence of more than 682 tokens" in lines[-1]) == warned
