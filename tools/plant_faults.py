"""Break modules in many places, one at a time, and report the faults that no test detects.

    python tools/plant_faults.py                        # modules changed since the branch main
    python tools/plant_faults.py fairseq_posattn/attention/masks.py --most 40
    python tools/plant_faults.py fairseq_posattn/text/lines.py --tests tests/text/test_lines.py

Operators change comparisons, conditions, signs, constants, keywords, statements and results in the
syntax tree. Each fault is planted in a copy of the checkout. Tests are the module's test file, or
without it the files that import the module, or --tests. Exits 1 if a fault survives or the tests
fail without a fault.
"""

import argparse
import ast
import copy
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COPIED = ("fairseq_posattn", "tests", "examples", "scripts", "tools", "pyproject.toml")
COMPARED = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
COMPARED |= {ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is}
COMPARED |= {ast.In: ast.NotIn, ast.NotIn: ast.In}
COMPUTED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
COMPUTED |= {ast.FloorDiv: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd}


@dataclass(frozen=True)
class Fault:
    """A change of one node of a module's syntax tree."""

    line: int
    old: str
    new: str
    text: str  # the changed module


def changes(node: ast.AST) -> Iterator[ast.AST | None]:
    """Yield what may replace a node; None removes a statement."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARED:
        swapped = copy.deepcopy(node)
        swapped.ops[0] = COMPARED[type(node.ops[0])]()
        yield swapped
    elif isinstance(node, ast.BinOp) and type(node.op) in COMPUTED:
        yield ast.BinOp(node.left, COMPUTED[type(node.op)](), node.right)
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    elif isinstance(node, ast.UnaryOp):
        yield node.operand
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
        yield ast.Constant(not node.value if isinstance(node.value, bool) else node.value + 1)
    elif isinstance(node, ast.IfExp):
        yield from (node.body, node.orelse)
    elif isinstance(node, ast.If | ast.While) and not isinstance(node.test, ast.Constant):
        negated = copy.copy(node)
        negated.test = ast.UnaryOp(ast.Not(), node.test)
        yield negated
    elif isinstance(node, ast.Call):
        for index in range(len(node.keywords)):
            kept = [*node.keywords[:index], *node.keywords[index + 1 :]]
            yield ast.Call(node.func, node.args, kept)
        if node.args and isinstance(node.args[0], ast.expr) and not node.keywords:
            yield node.args[0]  # the call is left out
    elif isinstance(node, ast.Assign | ast.AugAssign | ast.Raise) or is_call(node):
        yield None
    elif isinstance(node, ast.Return) and node.value is not None:
        yield ast.Return(ast.Constant(None))


def is_call(node: ast.AST) -> bool:
    """Return whether a statement is a call whose result is unused."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)


def is_code(node: ast.AST) -> bool:
    """Return whether faults may be planted below a node: not in types, messages or imports."""
    ignored = (ast.Raise, ast.Import, ast.ImportFrom, ast.JoinedStr, ast.AnnAssign)
    return not isinstance(node, ignored)


def faults(path: Path) -> list[Fault]:
    """Return all faults of a module."""
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    planted = []

    def visit(parent: ast.AST) -> None:
        for name, value in ast.iter_fields(parent):
            if name in ("annotation", "returns", "decorator_list", "bases", "slice"):
                continue
            for index, node in enumerate(value if isinstance(value, list) else [value]):
                if not isinstance(node, ast.AST):
                    continue
                for new in changes(node):
                    put(parent, name, index, new or ast.Pass())
                    text = ast.unparse(ast.fix_missing_locations(tree))
                    put(parent, name, index, node)
                    line = getattr(node, "lineno", 0)
                    shown = ast.unparse(new) if new else "(left out)"
                    planted.append(Fault(line, _short(ast.unparse(node)), _short(shown), text))
                if is_code(node):
                    visit(node)

    visit(tree)
    return planted


def put(parent: ast.AST, name: str, index: int, node: ast.AST) -> None:
    """Set a field of a node, or an element of it."""
    value = getattr(parent, name)
    if isinstance(value, list):
        value[index] = node
    else:
        setattr(parent, name, node)


def _short(text: str) -> str:
    line = text.splitlines()[0]
    return line if len(line) <= 70 else f"{line[:69]}…"


def covering(path: Path) -> list[str]:
    """Return a module's test file, or without it the files that import the module."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    mirrored = Path("tests", *parts[1:-1], f"test_{parts[-1]}.py")
    if (ROOT / mirrored).exists():
        return [str(mirrored)]
    name = ".".join(parts).removesuffix(".__init__")
    package, _, last = name.rpartition(".")
    tests = []
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        text = file.read_text(encoding="utf-8")
        if f"from {name} import" in text or (f"from {package} import" in text and last in text):
            tests.append(str(file.relative_to(ROOT)))
    return tests


def changed_modules() -> list[Path]:
    """Return the modules of the package that differ from the branch main."""
    command = ["git", "-C", str(ROOT), "diff", "--name-only", "--diff-filter=d", "main", "--"]
    command.append("fairseq_posattn/*.py")
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return [ROOT / name for name in names]


FORKSERVER = multiprocessing.get_context("forkserver")


def passes(folder: str, tests: Sequence[str], patience: float) -> bool:
    """Return whether the tests pass in a copy of the checkout, within so many seconds."""
    process = FORKSERVER.Process(target=_test, args=(folder, list(tests)))
    process.start()
    process.join(patience)
    if process.is_alive():
        process.kill()
        process.join()
    return process.exitcode == 0


def _test(folder: str, tests: list[str]) -> None:
    import pytest

    output = os.open(Path(folder, "log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.chdir(folder)
    sys.path.insert(0, folder)
    sys.dont_write_bytecode = True  # faults of one second and size would share it
    status = pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests])
    sys.stdout.flush()
    os._exit(status)


def main(arguments: Sequence[str] | None = None) -> int:
    """Plant the faults; return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("modules", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--tests", nargs="+", metavar="TEST", help="test files, or pytest's names")
    about = "plant a random sample of so many faults of each module (default: all)"
    parser.add_argument("--most", type=int, metavar="N", help=about)
    about = "seconds after which a fault counts as detected (default: %(default)s)"
    parser.add_argument("--patience", type=float, default=300, metavar="N", help=about)
    options = parser.parse_args(arguments)
    FORKSERVER.set_forkserver_preload(["fairseq_cli.train", "fairseq.models.transformer"])
    survived = 0
    for path in [path.resolve() for path in options.modules] or changed_modules():
        name = path.relative_to(ROOT)
        tests = options.tests or covering(path)
        planted = faults(path)
        if options.most is not None and len(planted) > options.most:
            planted = random.Random(1).sample(planted, options.most)
        with tempfile.TemporaryDirectory() as folder:
            for part in COPIED:
                copying = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
                copying(ROOT / part, Path(folder, part))
            if not tests or not passes(folder, tests, options.patience):
                survived += 1
                log = Path(folder, "log").read_text(encoding="utf-8") if tests else "no tests"
                print(f"{name}: {' '.join(tests)}: fails without a fault:\n{log[-2000:]}")
                continue
            detected = 0
            for fault in sorted(planted, key=lambda fault: fault.line):
                Path(folder, name).write_text(fault.text, encoding="utf-8")
                if passes(folder, tests, options.patience):
                    change = f"{fault.old} -> {fault.new}"
                    print(f"{name}:{fault.line}: SURVIVED: {change}", flush=True)
                else:
                    detected += 1
        survived += len(planted) - detected
        print(f"{name}: {detected} of {len(planted)} detected", flush=True)
    return int(survived > 0)


if __name__ == "__main__":
    sys.exit(main())
