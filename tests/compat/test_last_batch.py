"""No sentence of a split is left out."""

import numpy
import pytest
from fairseq.data import data_utils

from fairseq_posattn import compat

compat.apply()


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 20, 100])
@pytest.mark.parametrize("limit", [{"max_tokens": 64}, {"max_sentences": 16}])
@pytest.mark.parametrize("as_list", [False, True])
def test_every_sentence_is_in_one_batch(size, limit, as_list):
    order = numpy.random.default_rng(0).permutation(size)
    lengths = numpy.full(size, 4)
    batches = data_utils.batch_by_size(
        list(order) if as_list else order,
        num_tokens_fn=lambda index: lengths[index],
        num_tokens_vec=lengths,
        required_batch_size_multiple=8,
        **limit,
    )
    assert [index for batch in batches for index in batch] == list(order)
    assert all(0 < len(batch) <= 16 for batch in batches)
    assert all(len(batch) % 8 == 0 for batch in batches[:-1])
