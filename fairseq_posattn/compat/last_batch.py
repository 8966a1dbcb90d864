"""The last batch of a split, which fairseq leaves out unless its size is a multiple of eight.

So it does by ``--required-batch-size-multiple``; up to 7 sentences of a test set would be neither
translated nor scored.
"""

import numpy
from fairseq.data import data_utils

from fairseq_posattn.compat.patching import around


@around(data_utils, "batch_by_size")
def _keep_last_batch(batch_by_size, indices, *args, **kwargs):
    if not isinstance(indices, numpy.ndarray):
        indices = numpy.fromiter(indices, dtype=numpy.int64)
    if len(indices) == 0:
        return []
    batches = list(batch_by_size(indices, *args, **kwargs))
    left_out = indices[sum(map(len, batches)) :]
    return [*batches, left_out] if len(left_out) else batches
