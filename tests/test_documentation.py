"""Commands, programs, links and names in the documentation are valid.

Each command parses its command lines and stops; programs of other packages (pip, sbatch) are listed
here. Shell scripts are parsed by bash.
"""

import argparse
import importlib
import json
import logging
import os
import re
import runpy
import shlex
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch

try:
    import tomllib
except ImportError:  # Python 3.10
    from pip._vendor import tomli as tomllib

from fairseq_posattn import cli
from fairseq_posattn.model.mechanisms import MECHANISMS
from fairseq_posattn.recipes import custom
from fairseq_posattn.recipes.papers import RECIPES
from fairseq_posattn.text import manifest
from fairseq_posattn.training.plugin import register

ROOT = Path(__file__).resolve().parents[1]
PAGES = ["README.md", "CONTRIBUTING.md"]
for folder in ("docs", "examples"):
    PAGES += [str(page.relative_to(ROOT)) for page in sorted((ROOT / folder).rglob("*.md"))]
# Other tests run these.
SCRIPTS = ("benchmarks/", "examples/quickstart/", "examples/distributed/", "scripts/")
FOREIGN = ("pip", "sbatch", "pre-commit", "source", "echo", "printf")
COMMAND = re.compile(r"(bash|python|posattn|echo|printf|fairseq-[a-z-]+|pip|sbatch|pre-commit) ")
USER_DIR = re.compile(
    r'"?\$\((?:python -m fairseq_posattn|posattn user-dir)\)"?|(?<=--user-dir )fairseq_posattn'
)
LISTINGS = (["--help"], ["recipe"], ["recipe", "--example"])  # of posattn, which parse nothing
PLACEHOLDER = " ..."  # of flags that are as above


def command_lines(page):
    """Return the command lines of a page: indented by four spaces or fenced."""
    text = (ROOT / page).read_text(encoding="utf-8")
    text = re.sub(r"^```python$.*?^```$", "", text, flags=re.S | re.M)
    fenced = re.findall(r"^```(?:bash|sh)?\n(.*?)^```$", text, flags=re.S | re.M)
    rest = re.sub(r"^```.*?^```$", "", text, flags=re.S | re.M)
    indented = [line[4:] for line in rest.splitlines() if line.startswith("    ")]
    code = "\n".join([*fenced, *indented]).replace("\\\n", " ")
    code = re.sub(r"\|\s*\n\s*", "| ", code)
    return [line.strip() for line in code.splitlines() if COMMAND.match(line)]


def measurements_on_a_gpu():
    """Yield the command lines of benchmarks/gpu.py, but those of pytest."""
    parts = runpy.run_path(str(ROOT / "benchmarks/gpu.py"))["parts"]
    for is_tiny in (True, False):
        for step in (step for steps in parts(is_tiny).values() for step in steps):
            if step.command[1] != "-m":
                yield shlex.join(["python", *step.command[1:]])


LINES = {line for page in PAGES for line in command_lines(page)}
LINES = sorted(LINES.union(measurements_on_a_gpu()))
assert len(LINES) > 60


class Parsed(BaseException):
    """Raised when a command has parsed its options, instead of running it."""


@pytest.fixture
def user_folder(monkeypatch, tmp_path):
    """Change to a folder with the folders that a user would have."""
    monkeypatch.chdir(tmp_path)
    folders = "data-bin/fr-en docs/pictures benchmarks/results checkpoints/dman/iwslt14"
    for folder in (*folders.split(), "checkpoints/fr-en"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "own.yaml").write_text(custom.EXAMPLE)
    described = {"languages": ("fr", "en"), "metric": "bleu"}
    manifest.write("data-bin/fr-en", manifest.Manifest("own", "translation", "text", **described))


@pytest.mark.parametrize("line", LINES)
def test_a_command_line_parses(line, user_folder, monkeypatch, capsys):
    line = USER_DIR.sub(str(ROOT / "fairseq_posattn"), line).replace(PLACEHOLDER, "")
    for command in line.split(" | "):
        words = shlex.split(re.sub(r"\s(#|[<>]).*", "", command))
        try_command(words, monkeypatch)


def try_command(words, monkeypatch):
    kind, *rest = words
    if kind in FOREIGN:
        return
    if kind == "bash":
        try_script(*rest)
    elif rest in LISTINGS:
        assert not cli.main(rest)
    elif kind == "posattn":
        must_parse(lambda: cli.main(rest))
    elif kind == "python" and rest[0] == "-m":
        monkeypatch.setattr(sys, "argv", rest[1:])
        must_parse(lambda: runpy.run_module(rest[1], run_name="__main__", alter_sys=True))
    elif kind == "python":
        monkeypatch.setattr(sys, "argv", rest)
        monkeypatch.syspath_prepend(str((ROOT / rest[0]).parent))
        must_parse(lambda: runpy.run_path(str(ROOT / rest[0]), run_name="__main__"))
    else:
        try_fairseq(kind.removeprefix("fairseq-").replace("-", "_"), rest)


def must_parse(run):
    """Run a command until it has parsed its options."""
    real = argparse.ArgumentParser.parse_args

    def parse_and_stop(self, *args, **kwargs):
        real(self, *args, **kwargs)
        raise Parsed

    with pytest.MonkeyPatch.context() as patched, pytest.raises(Parsed):
        patched.setattr(argparse.ArgumentParser, "parse_args", parse_and_stop)
        run()


def try_script(script, *options):
    assert (ROOT / script).is_file()
    if script.startswith(SCRIPTS):
        subprocess.run(["bash", "-n", ROOT / script], check=True)
        return
    # tests/recipes/test_documented.py parses the options of recipes.
    assert script.removeprefix("examples/").removesuffix(".sh") in RECIPES


def try_fairseq(command, flags):
    from fairseq import options

    register()
    if command == "hydra_train":
        named = dict(zip(flags, flags[1:], strict=False))
        assert (ROOT / named["--config-dir"] / f"{named['--config-name']}.yaml").is_file()
        return
    parsers = {
        "train": options.get_training_parser,
        "generate": options.get_generation_parser,
        "interactive": lambda: options.get_generation_parser(interactive=True),
        "validate": options.get_validation_parser,
    }
    args = options.parse_args_and_arch(parsers[command](), flags)
    # Custom text keeps its hyphens, which fairseq's tokenizer splits.
    assert getattr(args, "tokenizer", None) != "moses" or args.moses_no_dash_splits
    # A training of 750 epochs would fill a disk.
    assert command != "train" or args.no_epoch_checkpoints or args.keep_last_epochs > 0


# --- The measurements, in miniature ------------------------------------------------------------

PAIRS = "--pairs dman_iwslt_de_en --sentences 2 --source-length 3 --target-length 3 --warmup 0"
MEASUREMENTS = {
    "classification": "--archs cspan_classifier --sentences 2 --length 3 --vocabulary 9"
    " --updates 1 --warmup 0",
    "decoding": f"{PAIRS} --batches 1",
    "sequence_length": "--lengths 3 --sentences 2 --features 24 --steps 1",
    "training": f"{PAIRS} --updates 1",
    "training switches": f"{PAIRS} --updates 1",
    "scale": "--sentences 2 --source-length 3 --target-length 3 --rounds 1",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",  # the switches take seven trainers
    [pytest.param(key, marks=[pytest.mark.nightly] * ("switches" in key)) for key in MEASUREMENTS],
)
def test_a_measurement_runs(name, tmp_path, monkeypatch, capsys):
    program, *named = name.split()
    script, report = ROOT / f"benchmarks/{program}.py", tmp_path / "report.json"
    words = [str(script), *named, *MEASUREMENTS[name].split(), "--json", str(report)]
    monkeypatch.setattr(sys, "argv", words)
    monkeypatch.syspath_prepend(str(script.parent))
    pairs = importlib.import_module("translation_pairs")
    small = pairs.size_flags(embed_dim=64, ffn_embed_dim=64, attention_heads=4, layers=1)
    monkeypatch.setattr(pairs, "EMBEDDINGS", f"{pairs.EMBEDDINGS} {small}")
    monkeypatch.setattr(pairs.PAIRS["dman_iwslt_de_en"], "words", 100)
    monkeypatch.setattr(logging, "disable", lambda level=None: None)
    monkeypatch.setattr(warnings, "filters", list(warnings.filters))
    monkeypatch.setenv("POSATTN_LINEAR", "torch")  # set by the benchmark of scaling
    register()  # as for a script, which imports fairseq before the package
    runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out
    assert json.loads(report.read_text())["torch"] == torch.__version__


@pytest.mark.parametrize("script", ["predict", "fill_numbers", "prepare_classification"])
def test_a_script_runs_from_a_checkout(script):
    """The checkout is not on Python's path."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, f"scripts/{script}.py", "--help"]
    finished = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert (finished.returncode, finished.stdout[:6]) == (0, "usage:"), finished.stderr


def python_blocks(page):
    """Return the Python programs of a page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(r"^```python$\n(.*?)^```$", text, flags=re.S | re.M)


@pytest.mark.parametrize("program", python_blocks("docs/mechanisms.md"))
def test_a_program_of_the_mechanisms_runs(program):
    names = {}
    exec(program, names)
    assert next(reversed(names.values())).isfinite().all()


def test_the_readmes_function_runs():
    exec(next(block for block in python_blocks("README.md") if "import torch" in block), {})


def test_modules_of_the_api_page_name_their_public_parts():
    documented = re.findall(r"^::: (\S+)", (ROOT / "docs/api.md").read_text(), re.M)
    scoring = importlib.import_module("fairseq_posattn.scoring")
    names = {re.sub(r"\.(register|call\.Options)$", "", name) for name in documented}
    names |= {f"{scoring.__name__}.{name}" for name in scoring.__all__}
    for name in sorted(names, reverse=True):  # modules before their packages
        module = importlib.import_module(name)
        assert all(hasattr(module, part) for part in module.__all__), name


def test_every_sublayer_has_a_section():
    sections = re.findall(r"^## (.+)$", (ROOT / "docs/mechanisms.md").read_text(), re.M)
    assert {*MECHANISMS} <= {name for title in sections for name in title.split(", ")}


def test_links_of_the_readme_are_absolute_and_lead_to_files():
    """The package index shows README.md without the files beside it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)]+)\)|^\[[^]]+\]: (\S+)$", text, re.M)
    urls = ["".join(pair) for pair in links]
    assert all(url.startswith("https://") for url in urls)
    home = re.escape(project["urls"]["Homepage"])
    files = [match[1] for url in urls if (match := re.match(rf"{home}/\w+/main/(.+)", url))]
    assert len(files) > 15
    assert [file for file in files if not (ROOT / file).exists()] == []
    assert f"repo_url: {project['urls']['Homepage']}\n" in (ROOT / "mkdocs.yml").read_text()


def test_the_package_names_its_authors_and_ships_its_types():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert all(settings["project"][name] for name in ("authors", "keywords", "urls"))
    assert "py.typed" in settings["tool"]["setuptools"]["package-data"]["fairseq_posattn"]
    assert (ROOT / "fairseq_posattn" / "py.typed").exists()


@pytest.mark.parametrize("page", PAGES)
def test_relative_links_lead_to_files(page):
    text = re.sub(r"^```.*?^```$", "", (ROOT / page).read_text("utf-8"), flags=re.S | re.M)
    paths = re.findall(r"\]\((?!\w+:|#)([^)\s#]+)", text)
    assert [path for path in paths if not ((ROOT / page).parent / path).exists()] == []


def test_the_traces_of_the_design_exist():
    """Each step names a file of the package and what it defines."""
    design = (ROOT / "DESIGN.md").read_text(encoding="utf-8")
    traces = design.partition("## Traces")[2].partition("\n## ")[0]
    steps = re.findall(r"`(\w[\w/]*/\w+\.py)`((?:\s+`\w+`)+)", traces)
    assert len(steps) > 20
    for path, names in steps:
        text = (ROOT / "fairseq_posattn" / path).read_text(encoding="utf-8")
        for name in re.findall(r"\w+", names):
            assert re.search(rf"^ *(?:def |class )?{name}\b *[(:=]", text, re.M), f"{path}: {name}"
