"""Text of which the model knows hardly a word is told in a line."""

import shutil
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
    assert strange.startswith("fairseq_posattn: warning: 2 of 3 words are unknown to the model")
    count = len(numpy.fromfile(tokens, "<u2"))
    assert unknown.startswith(f"fairseq_posattn: warning: {count} of {count} words are unknown")
    assert strange.count("\n") == unknown.count("\n") == 1
    assert half == known == ""
