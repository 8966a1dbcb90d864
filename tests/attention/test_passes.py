"""Values computed once in a pass of a model."""

import pytest
import torch

from fairseq_posattn.attention.passes import model_pass, once_a_pass


@pytest.fixture
def mask():
    return torch.ones(2)


@pytest.fixture
def make():
    """Return a function of a pass, which lists its calls."""

    @once_a_pass
    def make(mask, factor, *, more=0):
        made.append((mask, factor))
        return mask * factor + more

    make.made = made = []
    return make


def test_equal_arguments_are_computed_once_in_a_pass(make, mask):
    like = torch.ones(2)

    @model_pass
    def layers():
        inner = model_pass(lambda: make(mask, 2))()  # an inner pass shares the cache
        return [inner, make(mask, 2), make(like, 2), make(mask, 3), make(mask, 2, more=1)]

    first, again, of_another, *_ = layers()
    assert first is again and first is not of_another
    assert len(make.made) == 4


def test_the_next_pass_computes_anew(make, mask):
    run = model_pass(lambda: make(mask, 2))
    assert run().tolist() == [2, 2]
    mask.mul_(5)
    assert run().tolist() == [10, 10]


def test_nothing_is_cached_after_a_pass_that_failed(make, mask):
    with pytest.raises(ZeroDivisionError):
        model_pass(lambda: make(mask, 2) / (1 // 0))()
    make(mask, 2)
    make(mask, 2)
    assert len(make.made) == 3


def test_a_traced_pass_caches_nothing(make, mask):
    twice = model_pass(lambda factor: make(mask, factor) + make(mask, factor))
    both = torch.jit.trace(twice, torch.tensor(2.0), check_trace=False)
    assert len(make.made) == 2
    assert both(torch.tensor(3.0)).tolist() == [6, 6]
