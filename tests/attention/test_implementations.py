import pytest

from fairseq_posattn.attention.implementations import select_implementation


def test_auto_takes_the_first_that_can():
    assert select_implementation("auto", {"fast": "is too short", "slow": None}) == "slow"
    assert select_implementation("auto", {"fast": None, "slow": None}) == "fast"


def test_a_named_one_is_taken_though_another_is_better():
    assert select_implementation("slow", {"fast": None, "slow": None}) == "slow"


def test_a_named_one_that_cannot_is_an_error_that_says_why():
    message = "impl='fast' cannot return weights; choose one of: auto, slow"
    with pytest.raises(ValueError, match=f"^{message}$"):
        select_implementation("fast", {"fast": "cannot return weights", "slow": None})


def test_an_unknown_one_is_an_error_that_lists_the_known():
    with pytest.raises(ValueError, match="no implementation 'quick' here.* auto, fast, slow$"):
        select_implementation("quick", {"fast": None, "slow": None})
