"""Scores by the command, as JSON."""

import json

import pytest

from fairseq_posattn.scoring import significance
from fairseq_posattn.scoring.commands.score import score


@pytest.fixture
def as_json(capsys):
    """Return ``as_json(kind, arguments)``: the result that a score prints, as a dictionary."""

    def as_json(kind, arguments):
        assert score(kind, [*arguments, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return as_json


@pytest.fixture
def few_draws(monkeypatch):
    """Draw 200 samples for intervals and tests, where no value of them is tested."""
    monkeypatch.setattr(significance, "SAMPLES", 200)
    monkeypatch.setattr(significance, "TRIALS", 200)
