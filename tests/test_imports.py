"""Who may import whom, read from the source: nothing imports upward, and there is no circle."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = "fairseq_posattn"
LONGEST_FILE = 400
MOST_PARAMETERS = 12
KERNELS = "attention.kernels"

# From the ground up. What stands in one line stands side by side and may not import each other;
# an entry may import from every line above its own.
STOREYS = [
    ["errors"],
    ["files", "commands", "child_processes", "training_log"],
    ["architectures", "picture"],
    ["curves"],
    ["curves_command"],
    ["attention", "preparation", "scoring", "data", "checkpoints"],
    ["layers"],
    ["mistakes"],
    ["mends"],
    ["encoders"],
    ["networks"],
    ["hugging_face"],
    ["models", "tasks", "criterions"],
    ["plugin"],
    ["trained_model", "averaging", "line_reader", "alignment", "forced_search"],
    ["role_prediction"],
    ["analysis", "prediction", "news_ranking", "translation"],
    ["analysis_command", "prediction_command", "ranking_command", "training_command"],
    ["translation_command"],
    ["look"],
    ["summarization_command", "export"],
    ["recipes"],
    ["pages"],
    ["__main__", "analysis.__main__"],
    ["command_line"],
]
# Both are work on plain text. That no two of their modules import each other is tested below.
NEIGHBOURS = {"preparation", "scoring"}
# By part of the package: what it may import of nobody.
FORBIDDEN = {
    "attention": ("fairseq", "fairseq_cli", "hydra", "omegaconf"),
    "layers": ("fairseq", "fairseq_cli", "hydra", "omegaconf"),
    "encoders": ("fairseq", "fairseq_cli", "hydra", "omegaconf"),
    "networks": ("fairseq", "fairseq_cli", "hydra", "omegaconf"),
    "hugging_face": ("fairseq", "fairseq_cli", "hydra", "omegaconf"),
    "preparation": ("torch", "fairseq", "fairseq_cli"),
    "scoring": ("torch", "fairseq", "fairseq_cli"),
    "architectures": ("torch", "fairseq", "fairseq_cli"),
    "errors": ("torch", "fairseq", "fairseq_cli"),
    "files": ("torch", "fairseq", "fairseq_cli"),
    "commands": ("torch", "fairseq", "fairseq_cli"),
    "child_processes": ("torch", "fairseq", "fairseq_cli"),
    "picture": ("torch", "fairseq", "fairseq_cli"),
    "training_log": ("torch", "fairseq", "fairseq_cli"),
    "curves": ("torch", "fairseq", "fairseq_cli"),
    "curves_command": ("torch", "fairseq", "fairseq_cli"),
}
EVERYWHERE = ("scripts", "examples", "benchmarks", "tests")


def modules():
    """Every module of the package by its name, parsed."""
    parsed = {}
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        parsed[name] = ast.parse(path.read_text(encoding="utf-8"), str(path))
    return parsed


MODULES = modules()


def imports(tree):
    """Full names of what a module imports, within functions, too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports name the whole path"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in MODULES else node.module


def part(name):
    """The longest entry of the storeys that a module belongs to."""
    inside = name.removeprefix(PACKAGE).removeprefix(".")
    known = [entry for storey in STOREYS for entry in storey]
    found = [entry for entry in known if inside == entry or inside.startswith(f"{entry}.")]
    assert found, f"{name} stands on no storey: say in STOREYS what it may import"
    return max(found, key=len)


def height(entry):
    return next(number for number, storey in enumerate(STOREYS) if entry in storey)


def others():
    """All modules but the package's own face, which registers where fairseq is loaded already."""
    return {name: tree for name, tree in MODULES.items() if name != PACKAGE}


def test_nothing_imports_upward():
    wrong = []
    for name, tree in others().items():
        for imported in imports(tree):
            if imported.startswith(f"{PACKAGE}."):
                own, other = part(name), part(imported)
                if own != other and height(other) >= height(own) and not {own, other} <= NEIGHBOURS:
                    wrong.append(f"{name} imports {imported}")
    assert not wrong


def test_what_a_part_imports_of_nobody():
    wrong = []
    for name, tree in others().items():
        forbidden = EVERYWHERE + FORBIDDEN.get(part(name), ())
        wrong += [f"{name}: {i}" for i in imports(tree) if i.partition(".")[0] in forbidden]
    assert not wrong


def test_kernels_import_no_mechanism():
    face = set(imports(MODULES[f"{PACKAGE}.attention"]))
    mechanisms = face - {f"{PACKAGE}.attention.{name}" for name in ("masks", "mechanism")}
    assert f"{PACKAGE}.attention.dman" in mechanisms
    for name, tree in MODULES.items():
        if KERNELS in name:
            assert not mechanisms.intersection(imports(tree)), name


def test_there_is_no_circle():
    """Imports within functions count: they hide circles, and do not mend them."""
    graph = {
        name: {module for module in imports(tree) if module in MODULES and module != name}
        for name, tree in MODULES.items()
    }
    for name in graph:  # a package's face is run before its modules, whoever asks for them
        graph[name].discard(PACKAGE)
    done, path = set(), []

    def visit(name):
        assert name not in path, " -> ".join([*path[path.index(name) :], name])
        if name not in done:
            path.append(name)
            for other in sorted(graph[name]):
                visit(other)
            path.pop()
            done.add(name)

    for name in graph:
        visit(name)


def test_a_file_can_be_read_in_one_sitting():
    """Kernels are counted otherwise: a kernel and its backward pass stand together."""
    lengths = {}
    for path in (ROOT / PACKAGE).rglob("*.py"):
        if path.parent.name != "kernels":
            lengths[str(path)] = len(path.read_text(encoding="utf-8").splitlines())
    assert {path for path, length in lengths.items() if length > LONGEST_FILE} == set()


def test_a_function_takes_no_more_than_can_be_kept_in_mind():
    wrong = []
    for name, tree in MODULES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and KERNELS not in name:
                arguments = node.args
                named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
                own = [argument for argument in named if argument.arg not in ("self", "cls")]
                if len(own) > MOST_PARAMETERS:
                    wrong.append(f"{name}.{node.name} takes {len(own)}")
    assert not wrong
