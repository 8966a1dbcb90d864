"""The commands that a recipe runs."""

import re

import pytest

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.recipes.processes import Processes
from fairseq_posattn.recipes.runs import Step

KILLED = "print('epoch 1', flush=True); import os; os.kill(os.getpid(), 9)"
ENDED = "train was ended by a signal: Killed, as where memory runs out"


@pytest.mark.parametrize(
    ("program", "logged", "message"),
    [
        ("exit('no such file')", True, "train failed: no such file (in {log})"),
        ("exit(3)", False, "train failed (exit code 3; why is said above)"),
        (KILLED, True, f"{ENDED} (its log is {{log}})"),
        (KILLED, False, ENDED),
    ],
)
def test_why_a_step_failed_is_one_line(tmp_path, program, logged, message):
    log = tmp_path / "train.log" if logged else None
    step = Step("train", ("python", "-c", program), log)
    with pytest.raises(UsageError, match=f"^{re.escape(message.format(log=log))}$"):
        Processes({}).run(step, {})
