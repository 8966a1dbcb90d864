"""Binarized data, made by fairseq-preprocess in a separate process."""

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.progress import ending_with_this, python_environment, say

SIZES = re.compile(r"\[\w+\] (?:.*/)?(.*(?:types|sents, .*))$")

Tell = Callable[[str], object]  # prints a line


def binarize_files(
    work: Path, targets: Mapping[Path, Path], dictionary: str, jobs: int, tell: Tell = say
) -> None:
    """Binarize text files as ``targets`` (without endings) in one run, which starts slowly.

    ``dictionary`` is copied beside each target.
    """
    files, scratch = ",".join(map(str, targets)), work / "scratch"
    preprocess(scratch, jobs, tell, only_source=True, srcdict=work / dictionary, testpref=files)
    for number, target in enumerate(targets.values()):
        target.parent.mkdir(parents=True, exist_ok=True)
        for ending in ("bin", "idx"):
            (scratch / f"test{number or ''}.{ending}").rename(f"{target}.{ending}")
        shutil.copyfile(work / dictionary, target.parent / "dict.txt")


def preprocess(dest: Path, jobs: int, tell: Tell = say, **options: object) -> None:
    """Run fairseq-preprocess; ``tell`` prints its lines about sizes of dictionaries and data."""
    command = [sys.executable, "-m", "fairseq_posattn.compat.preprocess"]
    for name, value in {"destdir": dest, "workers": jobs, **options}.items():
        if value is not False:
            flag = f"--{name.replace('_', '-')}"
            command.append(flag if value is True else f"{flag}={value}")  # it may begin with -
    last = ""
    shown: set[str] = set()
    with subprocess.Popen(
        command,
        env={**python_environment(), "PYTHONWARNINGS": "ignore", "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        preexec_fn=ending_with_this(signal.SIGKILL),
    ) as process:
        try:
            for line in process.stdout or ():
                last = line.strip() or last
                if (match := SIZES.search(line)) and match[1] not in shown:
                    shown.add(match[1])
                    tell(match[1])
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        raise UsageError(f"fairseq-preprocess failed: {last}")
    (Path(dest) / "preprocess.log").unlink(missing_ok=True)
