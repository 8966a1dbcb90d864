"""With what a result was measured: versions and processor."""

import os
import platform
import re
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from fairseq_posattn import __version__

PACKAGES = ["torch", "fairseq-fixed", "sacrebleu", "rouge-score", "sentencepiece", "numpy"]


def versions() -> dict[str, str]:
    """Of this checkout or package, of Python and of the packages that matter."""
    found = {"fairseq_posattn": _commit() or __version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _commit() -> str | None:
    """The commit of this checkout, "-dirty" where it was changed since; None if it is none."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.strip() or None
    except FileNotFoundError:
        return None


def processor() -> str:
    """The processor of this machine."""
    name = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
        name = found[1] if found else name
    return f"CPU: {name}, {os.cpu_count()} cores"
