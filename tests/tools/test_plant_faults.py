"""Faults are planted in the syntax tree, and the tests of a module detect them or not."""

import ast

import pytest

from tools import plant_faults
from tools.plant_faults import ROOT, covering, faults, main


@pytest.mark.parametrize(
    "line, changed",
    [
        ("x = a < b", {"x = a <= b", "pass"}),
        ("x = a + b", {"x = a - b", "pass"}),
        ("f(not a)", {"f(a)", "pass", "not a"}),
        ("x = a and b", {"x = a or b", "pass"}),
        ("x = 3", {"x = 4", "pass"}),
        ("f(a, b=c)", {"f(a)", "pass"}),
        ("x = a if b else c", {"x = a", "x = c", "pass"}),
        ("if a:\n    f()", {"if not a:\n    f()", "if a:\n    pass"}),
        ("raise ValueError(1 + 1)", {"pass"}),
        ("x: int = 1", set()),
        ('"""Text."""', set()),
    ],
)
def test_operators(line, changed, tmp_path):
    path = tmp_path / "module.py"
    path.write_text(line)
    assert {fault.text for fault in faults(path)} == changed


def test_a_function_returns_early(tmp_path):
    path = tmp_path / "module.py"
    path.write_text("def f(a: int = 1) -> int:\n    return a\n")
    texts = {fault.text for fault in faults(path)}
    assert "def f(a: int=1) -> int:\n    return None" in texts
    assert all(ast.parse(text) for text in texts)


def test_tests_are_those_that_import_the_module():
    assert covering(ROOT / "fairseq_posattn/text/lines.py") == ["tests/text/test_lines.py"]
    assert "tests/preparation/test_archives.py" in covering(
        ROOT / "fairseq_posattn/common/archives.py"
    )


@pytest.mark.nightly
def test_faults_survive_only_where_no_test_looks(tmp_path, monkeypatch, capsys):
    (tmp_path / "fairseq_posattn").mkdir()
    module = tmp_path / "fairseq_posattn/sums.py"
    module.write_text("def add(a, b):\n    return a + b\n\n\ndef less(a, b):\n    return a < b\n")
    test = "from sums import *\n\ndef test_both():\n    assert add(1, 1) == 2 and less(1, 2)"
    (tmp_path / "test_sums.py").write_text(test)
    (tmp_path / "conftest.py").write_text("import sys\nsys.path.insert(0, 'fairseq_posattn')\n")
    monkeypatch.setattr(plant_faults, "ROOT", tmp_path)
    monkeypatch.setattr(plant_faults, "COPIED", ("fairseq_posattn", "test_sums.py", "conftest.py"))
    assert main([str(module), "--tests", "test_sums.py"]) == 1
    lines = capsys.readouterr().out.splitlines()
    name = "fairseq_posattn/sums.py"
    assert lines == [f"{name}:6: SURVIVED: a < b -> a <= b", f"{name}: 3 of 4 detected"]
