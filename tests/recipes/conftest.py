"""Plans of recipes in the tests' own process."""

from pathlib import Path

import pytest
from forked_recipes import forked_checks  # noqa: F401, a fixture

from fairseq_posattn.recipes.commands.recipe import find, make_plan


@pytest.fixture
def plan_of():
    """``plan_of("dman/iwslt14", "--seed", 2)``: its plan, on a machine with one GPU."""

    def plan_of(name, *arguments, data="/data", looks=True):
        words = ["--data", data, "--out", "/out", *(["--dry-run"] if looks else []), *arguments]
        return make_plan(find(name), list(map(str, words)), name, Path())

    return plan_of


@pytest.fixture
def runs_of(plan_of):
    """Return the runs of such a plan."""
    return lambda *arguments, **options: plan_of(*arguments, **options).runs()
