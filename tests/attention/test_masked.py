import pytest
import torch
from oracles import loops
from reference import (
    PADDING,
    assert_same_with_gradients,
    leaves,
)

from fairseq_posattn.attention.masked import (
    MaskedDotProductAttention,
)
from fairseq_posattn.attention.masks import mask_by_name

IMPLEMENTATIONS = ["reference", "sdpa"]


def inputs(batch=4, heads=3, queries=5, keys=5, features=3, dtype=torch.float64):
    shapes = ((batch, heads, queries, features), *[(batch, heads, keys, features)] * 2)
    return leaves(*shapes, dtype=dtype)


@pytest.mark.parametrize("impl", IMPLEMENTATIONS)
@pytest.mark.parametrize("queries", [1, 3, 5])
@pytest.mark.parametrize(
    "names", [["past"], ["future", "past+distance"], ["past", "window:2", "distance"]]
)
def test_equals_the_equation(impl, queries, names):
    tensors = inputs(heads=2 * len(names), queries=queries)
    heads = [name for name in names for _ in range(2)]
    module = MaskedDotProductAttention(len(heads), names, impl=impl)
    output = module(None, *tensors, key_padding_mask=PADDING)
    mask = torch.stack([mask_by_name(name, 5)[-queries:] for name in heads])
    arguments = dict(zip(("query", "key", "value"), tensors, strict=True)) | {"mask": mask}
    assert_same_with_gradients(output, loops("masked", arguments, PADDING), tensors)


@pytest.mark.parametrize(
    ("heads", "names", "causal", "message"),
    [
        (3, ["past", "future"], False, "3 heads cannot be divided evenly among 2 masks: past, "),
        (4, [], False, "4 heads cannot be divided evenly among 0 masks"),
        (2, ["past", "later"], False, "mask 'later': unknown part 'later'; known: past, future, "),
        (2, ["past", "future"], True, "mask 'future' looks ahead, .* choose 'past' or a sum with"),
        (2, ["window:2"], True, "mask 'window:2' looks ahead, .* as in 'past.window:3'"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(heads, names, causal, message):
    with pytest.raises(ValueError, match=message) as error:
        MaskedDotProductAttention(heads, names, causal=causal)
    assert "\n" not in str(error.value)
