"""Constraints of fairseq-interactive that no translation meets."""

from functools import partial
from pathlib import Path

import forked_commands

FIXTURE = Path(__file__).parents[1] / "fixtures" / "translation"


def test_unmet_constraints_do_not_stop_other_sentences(tmp_path, user_dir):
    (tmp_path / "text").write_text("a b\ta b\na b\tC C C C C C\nb a\n")
    flags = [FIXTURE / "data", "--path", FIXTURE / "checkpoint.pt", "--cpu", "--beam", "2"]
    flags += ["--user-dir", user_dir, "--buffer-size", "3", "--max-len-b", "4", "--constraints"]
    commands = [("interactive", flags, tmp_path / "text")]
    [(code, output, errors)] = forked_commands.run_all(user_dir, commands, tmp_path)
    assert code == 0, errors
    assert [line[:3] for line in output.splitlines() if line.startswith("H-")] == ["H-0", "H-2"]

    log = tmp_path / "fairseq.log"
    without = partial(forked_commands.leave_out, "stop_at_max_length")
    options = {"stdin": tmp_path / "text", "before": without}
    assert forked_commands.run("interactive", flags, log, **options) != 0
    assert "AssertionError: 4 < 4" in log.read_text()
