"""Values computed once in a pass of a model."""

import pytest
import torch

from fairseq_posattn.attention.passes import model_pass, once_a_pass


@pytest.fixture
def made():
    return []


@pytest.fixture
def make(made):
    @once_a_pass
    def make(mask, factor, *, more=0):
        made.append((mask, factor))
        return mask * factor + more

    return make


def test_equal_arguments_are_computed_once_in_a_pass(make, made):
    mask, like = torch.ones(2), torch.ones(2)

    @model_pass
    def layers():
        inner = model_pass(lambda: make(mask, 2))()  # an inner pass shares the cache
        return [inner, make(mask, 2), make(like, 2), make(mask, 3), make(mask, 2, more=1)]

    first, again, of_another, *_ = layers()
    assert first is again and first is not of_another
    assert len(made) == 4


def test_the_next_pass_computes_anew(make):
    mask = torch.ones(2)
    run = model_pass(lambda: make(mask, 2))
    before = run()
    mask.mul_(5)
    assert torch.equal(before, torch.tensor([2.0, 2]))
    assert torch.equal(run(), torch.tensor([10.0, 10]))


def test_nothing_is_cached_after_a_pass_that_failed(make, made):
    mask = torch.ones(2)

    @model_pass
    def failing():
        make(mask, 2)
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        failing()
    make(mask, 2)
    make(mask, 2)
    assert len(made) == 3


def test_a_traced_pass_caches_nothing(make, made):
    mask = torch.ones(2)

    def twice(factor):
        return make(mask, factor) + make(mask, factor)

    both = torch.jit.trace(model_pass(twice), torch.tensor(2.0), check_trace=False)
    assert len(made) == 2
    assert torch.equal(both(torch.tensor(3.0)), torch.tensor([6.0, 6]))
