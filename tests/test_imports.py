"""Packages import only from lower levels, read from the source."""

import ast
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

from fairseq_posattn.cli import COMMANDS

PACKAGE = "fairseq_posattn"
ROOT = Path(__file__).parents[1] / PACKAGE

# From the lowest level up; two packages of one level do not import each other.
LEVELS = (  # noqa: SIM905, one package a line would take nine lines
    "common | attention text | model compat preparation scoring | training hugging_face | "
    "inference recipes | inspection export | cli __main__ __init__"
).split(" | ")
LEVEL = {name: level for level, names in enumerate(LEVELS) for name in names.split()}
WITHOUT_FAIRSEQ = {"attention", "model", "hugging_face"}
# They import fairseq's names from training.registered, whose import is quiet and quick.
WITHOUT_FAIRSEQ |= {"inference", "inspection", "export"}
WITHOUT_TORCH = {"common", "text", "preparation", "scoring", "cli"}
FAIRSEQ = {"fairseq", "fairseq_cli", "hydra", "omegaconf"}
COMMAND_NAMES = {name.replace(":", ".") for name, _ in COMMANDS.values()}


@cache
def imported_modules(path):
    names = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import | ast.ImportFrom):
            start = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            names += [f"{start}{alias.name}" for alias in node.names]
    return names


def is_allowed(parts, imported):
    unit, target = parts[0].removesuffix(".py"), imported.split(".")
    if target[0] in FAIRSEQ | {"torch"}:
        return unit not in WITHOUT_TORCH and (unit not in WITHOUT_FAIRSEQ or target[0] == "torch")
    if target[0] != PACKAGE or len(target) == 1 or target[1] == "__version__":
        return True
    is_command = not COMMAND_NAMES.isdisjoint({imported, imported.rpartition(".")[0]})
    if target[1] == unit:
        return not is_command or "commands" in parts
    return LEVEL[target[1]] < LEVEL[unit] and (unit == "cli" or not is_command)


def test_packages_import_only_from_lower_levels():
    wrong = [
        f"{path.relative_to(ROOT)} imports {imported}"
        for path in sorted(ROOT.rglob("*.py"))
        for imported in imported_modules(path)
        if not is_allowed(path.relative_to(ROOT).parts, imported)
    ]
    assert not wrong


def test_no_module_imports_itself_through_others():
    graph = {}
    for path in ROOT.rglob("[!_]*.py"):
        imported = set(imported_modules(path))
        name = ".".join([PACKAGE, *path.relative_to(ROOT).with_suffix("").parts])
        graph[name] = imported | {module.rpartition(".")[0] for module in imported}
    TopologicalSorter(graph).prepare()
