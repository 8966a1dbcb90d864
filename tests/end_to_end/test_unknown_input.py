"""Text of which the model knows hardly a word, or words that it cannot write, are told."""

import shutil
from functools import partial
from pathlib import Path

import forked_commands
import numpy

FIXTURE = Path(__file__).parents[1] / "fixtures" / "translation"
UNKNOWN = 3  # its number in every dictionary of fairseq's


def test_who_translates_it_is_warned(tmp_path, user_dir):
    for name, line in (("strange", "x y a\n"), ("half", "x a\n")):
        (tmp_path / name).write_text(line)
    data = tmp_path / "data"
    shutil.copytree(FIXTURE / "data", data)
    tokens = data / "test.de-en.de.bin"
    numpy.full(tokens.stat().st_size // 2, UNKNOWN, "<u2").tofile(tokens)
    flags = ["--path", FIXTURE / "checkpoint.pt", "--cpu", "--num-workers", "0", "--beam", "1"]
    flags += ["--user-dir", user_dir, "--batch-size", "4"]
    commands = [
        ("interactive", [FIXTURE / "data", *flags, "--buffer-size", "4"], tmp_path / "strange"),
        ("interactive", [FIXTURE / "data", *flags, "--buffer-size", "4"], tmp_path / "half"),
        ("generate", [data, *flags], "/dev/null"),
        ("generate", [FIXTURE / "data", *flags], "/dev/null"),
    ]
    done = forked_commands.run_all(user_dir, commands, tmp_path)
    assert [code for code, _, _ in done] == [0] * 4
    strange, half, unknown, known = (errors for _, _, errors in done)
    assert strange.startswith("fairseq_posattn: warning: 2 of 3 tokens are unknown to the model")
    count = len(numpy.fromfile(tokens, "<u2"))
    assert unknown.startswith(f"fairseq_posattn: warning: {count} of {count} tokens are unknown")
    assert strange.count("\n") == unknown.count("\n") == 1
    assert half == known == ""


def test_constraints_that_cannot_be_met_cost_the_others_nothing(tmp_path, user_dir):
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
