"""``scripts/test.sh --fast`` skips slow tests and still covers every package."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "fairseq_posattn"


def is_slow(node):
    return any("pytest.mark.slow" in ast.unparse(decorator) for decorator in node.decorator_list)


def has_quick_tests(tree):
    marks = (ast.unparse(node) for node in tree.body if isinstance(node, ast.Assign))
    return "pytestmark = pytest.mark.slow" not in marks and any(
        isinstance(node, ast.FunctionDef) and node.name.startswith("test") and not is_slow(node)
        for node in ast.walk(tree)
    )


def imports(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_every_folder_of_the_package_has_quick_tests(slow_folders):
    """Quick tests of a folder import it, or are in the test folder of its name."""
    seen = set()
    for path in TESTS.rglob("test_*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        folder = path.relative_to(TESTS).parent
        if folder.parts[:1] not in [(slow,) for slow in slow_folders] and has_quick_tests(tree):
            own = ".".join(["fairseq_posattn", *folder.parts, ""])
            seen.update([own, *(f"{name}." for name in imports(tree))])
    folders = [path.parent.relative_to(PACKAGE.parent) for path in PACKAGE.rglob("__init__.py")]
    names = {".".join(folder.parts) for folder in folders}
    assert "fairseq_posattn.attention.kernels" in names
    missing = {name for name in names if not any(other.startswith(f"{name}.") for other in seen)}
    assert not missing, "none of their tests is quick"


def test_quick_tests_are_neither_slow_nor_nightly():
    """An expression on the command line replaces that of pyproject.toml."""
    script = (TESTS.parent / "scripts" / "test.sh").read_text(encoding="utf-8")
    (expression,) = re.findall(r'selection=\(-m "(.*)"\)', script)
    for slow, nightly in ((False, False), (False, True), (True, False)):
        assert eval(expression, {"slow": slow, "nightly": nightly}) is not (slow or nightly)


def test_names_of_test_modules_are_unique():
    """Two modules of one name are an error of pytest's."""
    names = [path.name for path in TESTS.rglob("test_*.py")]
    assert len(names) == len(set(names)), {name for name in names if names.count(name) > 1}
