"""Print what the environment of this Python lacks, one line of requirements.txt each.

A package that is installed within the range of setup.py is left alone; a package that is absent, or
outside its range, is listed in the version of requirements.txt. Two things are refused with a
line on standard error, because a fix would damage what somebody else installed: a torch
outside its range, and the package ``fairseq``, whose files ``fairseq-fixed`` would overwrite.

``--torch`` only tells, by its exit status, whether this Python has a torch that can be used.
"""

import ast
import sys
import sysconfig
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

try:
    from packaging.requirements import Requirement
except ImportError:  # a bare environment has no packaging but pip's copy
    from pip._vendor.packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent


def supported_ranges():
    """Return the version range of every package that setup.py names, by name."""
    constants = {
        statement.targets[0].id: ast.literal_eval(statement.value)
        for statement in ast.parse((ROOT / "setup.py").read_text(encoding="utf-8")).body
        if isinstance(statement, ast.Assign) and statement.targets[0].id.endswith("_REQUIRES")
    }
    lines = sum(constants.values(), [])
    return {r.name: r.specifier for r in map(Requirement, lines)}


def tested_versions():
    """The requirements of requirements.txt that hold for this Python."""
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    requirements = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return [r for r in requirements if r.marker is None or r.marker.evaluate()]


def installed_version(name):
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def is_met(requirement, supported):
    installed = installed_version(requirement.name)
    if installed is None:
        return False
    # A fairseq that is only seen through --system-site-packages has its commands elsewhere.
    if (
        requirement.name == "fairseq-fixed"
        and not Path(sysconfig.get_path("scripts"), "fairseq-train").exists()
    ):
        return False
    return requirement.name not in supported or supported[requirement.name].contains(
        installed, prereleases=True
    )


def main():
    supported = supported_ranges()
    missing = [r for r in tested_versions() if not is_met(r, supported)]
    torch, fairseq = installed_version("torch"), installed_version("fairseq")
    torch_is_usable = torch is not None and "torch" not in {r.name for r in missing}
    if sys.argv[1:] == ["--torch"]:
        # What is made from a virtual environment shares the packages of its base Python instead.
        is_base = sys.prefix == sys.base_prefix
        return 0 if is_base and torch_is_usable and not fairseq else 1
    other = "or name another environment in POSATTN_ENV"
    if torch and not torch_is_usable:
        return (
            f"torch {torch} in {sys.prefix} is not {supported['torch']}: change it there, {other}"
        )
    if fairseq:
        return (
            f"fairseq {fairseq} in {sys.prefix} stands where fairseq-fixed has to be: "
            f"`pip uninstall fairseq` there, {other}"
        )
    for requirement in missing:
        print(f"{requirement.name}{requirement.specifier}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
