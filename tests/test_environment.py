"""scripts/environment.sh and scripts/missing_requirements.py, without a network."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

try:
    import tomllib
except ImportError:  # Python 3.10
    from pip._vendor import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
COMMANDS_NEEDED = ["bash", "cat", "dirname", "find", "flock", "ls", "mkdir", "rmdir"]


def run_script(**variables):
    """Run scripts/environment.sh with pip offline."""
    ours = ("POSATTN_ENV", "PYTHON", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV")
    inherited = {k: v for k, v in os.environ.items() if k not in ours and not k.startswith("PIP_")}
    offline = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}
    return subprocess.run(
        ["bash", ROOT / "scripts/environment.sh"],
        env={**inherited, **offline, **{k: str(v) for k, v in variables.items()}},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


def assert_refused(result, *mentions):
    """Check that the script stopped with one line that has the mentions."""
    assert result.returncode != 0
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1, result.stderr
    for mention in mentions:
        assert str(mention) in result.stderr


def make_stub_python(path, version, others=""):
    """Write an executable that reports Python ``version`` and, but for ``others``, fails."""
    path.parent.mkdir(parents=True, exist_ok=True)
    cases = f"*version_info*) echo {version} ;; {others} *) exit 1 ;;"
    path.write_text(f'#!/bin/sh\nfor last; do :; done\ncase "$*" in {cases} esac\n')
    path.chmod(0o755)
    return path


# A Python that makes environments with pip, lacks requirements, and cannot install them.
WITHOUT_PACKAGES = """
    "-m venv "*) mkdir "$last/bin" && cp "$0" "$last/bin/python" ;;
    *"import pip") ;;
    *missing_requirements.py) echo tqdm ;;
"""


class TestExistingEnvironment:
    def test_complete_environment_is_used_and_a_named_precedes_the_active(self, tmp_path):
        active = make_stub_python(tmp_path / "active/bin/python", "3.8.18").parent.parent
        for variables in ({"VIRTUAL_ENV": sys.prefix}, {"POSATTN_ENV": sys.prefix}):
            result = run_script(**{"VIRTUAL_ENV": active, **variables})
            assert result.stdout == f"{Path(sys.prefix).resolve()}/bin\n"
            assert "making" not in result.stderr and "installing" not in result.stderr

    def test_unsuitable_python_is_refused(self, tmp_path):
        make_stub_python(tmp_path / "bin/python", "3.9.18")
        assert_refused(run_script(POSATTN_ENV=tmp_path), tmp_path, "3.9.18", "3.10", "3.13")

    def test_file_or_other_directory_is_refused_and_left_alone(self, tmp_path):
        (tmp_path / "thesis.tex").write_text("years of work")
        for path in (tmp_path, tmp_path / "thesis.tex"):
            assert_refused(run_script(POSATTN_ENV=path), path)
        assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


class TestNewEnvironment:
    def test_unsuitable_or_missing_python_is_refused(self, tmp_path):
        python = make_stub_python(tmp_path / "python3", "3.8.18")
        for path, reason in ((python, "3.8.18"), (tmp_path / "nowhere", "does not run")):
            result = run_script(PYTHON=path, POSATTN_ENV=tmp_path / "new")
            assert_refused(result, path, reason, "3.10", "3.13")
            assert not (tmp_path / "new").exists()

    def test_first_suitable_python_on_the_path_is_taken(self, tmp_path):
        commands = tmp_path / "bin"
        make_stub_python(commands / "python3", "3.14.0")
        make_stub_python(commands / "python3.10", "3.10.2")
        for command in filter(shutil.which, COMMANDS_NEEDED):
            (commands / command).symlink_to(shutil.which(command))
        result = run_script(PATH=commands, POSATTN_ENV=tmp_path / "new")
        assert "Python 3.10.2" in result.stderr
        # The stub cannot make an environment: that too ends in one line that says so.
        assert "python3.10 -m venv" in result.stderr.splitlines()[-1]

    @pytest.mark.parametrize("python", ["stub", pytest.param("", marks=pytest.mark.nightly)])
    @pytest.mark.parametrize("note", ["unfinished", "/where/it/was"])
    def test_unfinished_or_moved_environment_is_made_anew_and_kept(self, tmp_path, python, note):
        environment = tmp_path / "new"
        environment.mkdir()
        (environment / ".posattn").write_text(f"{note}\n")
        (environment / "half_written").touch()
        stub = make_stub_python(tmp_path / "stub", "3.10.2", WITHOUT_PACKAGES)
        variables = {"PYTHON": stub if python else sys.executable, "POSATTN_ENV": environment}
        first = run_script(**variables)
        assert not (environment / "half_written").exists()
        assert "making" in first.stderr
        # Without packages to be had it must fail, in good order: what was made is kept.
        assert "pip could not install" in first.stderr.splitlines()[-1]
        assert first.returncode != 0 and first.stdout == ""
        second = run_script(**variables)
        assert "making" not in second.stderr
        assert "pip could not install" in second.stderr.splitlines()[-1]


class TestMissingRequirements:
    @pytest.fixture
    def missing(self, tmp_path):
        """Return a function that runs the script as if the given versions were installed."""

        def run(**versions):
            for name, version in versions.items():
                metadata = tmp_path / f"{name}-{version}.dist-info" / "METADATA"
                metadata.parent.mkdir()
                metadata.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
            return subprocess.run(
                [sys.executable, ROOT / "scripts/missing_requirements.py"],
                env={**os.environ, "PYTHONPATH": str(tmp_path)},
                capture_output=True,
                text=True,
            )

        return run

    def test_version_within_range_stays(self, missing):
        """A torch built before its release counts."""
        result = missing(sacrebleu="2.4.0", torch="2.11.0a0+git12345")
        assert (result.stdout, result.returncode) == ("", 0)

    def test_version_outside_range_is_replaced_by_the_tested_version(self, missing):
        (line,) = missing(tqdm="4.1.0").stdout.splitlines()
        assert Requirement(line).name == "tqdm"
        assert not Requirement(line).specifier.contains("4.1.0")

    @pytest.mark.parametrize(
        "name, version, remedy", [("torch", "2.4.1", ">=2.10"), ("fairseq", "0.12.2", "-fixed")]
    )
    def test_old_torch_and_stock_fairseq_are_refused(self, missing, name, version, remedy):
        assert_refused(missing(**{name: version}), f"{name} {version}", remedy, "POSATTN_ENV")


class TestDeclarations:
    def test_environment_script_and_project_agree_on_pythons(self):
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        script = (ROOT / "scripts/environment.sh").read_text()
        (line,) = (line for line in script.splitlines() if line.startswith("suitable="))
        suitable = line.split('"')[1].split()
        every = [f"3.{minor}" for minor in range(30)]
        assert suitable == list(SpecifierSet(project["requires-python"]).filter(every))
        prefix = "Programming Language :: Python :: 3."
        classified = [c.split(":: ")[-1] for c in project["classifiers"] if c.startswith(prefix)]
        assert suitable == classified

    @pytest.mark.parametrize("python", ["3.10", "3.11", "3.12", "3.13"])
    def test_tested_versions_lie_within_the_ranges(self, python):
        files = ("requirements.txt", "requirements-docs.txt")
        lines = [line for file in files for line in (ROOT / file).read_text().splitlines()]
        requirements = [Requirement(line) for line in lines if line and not line.startswith("#")]
        tested = {
            r.name: str(r.specifier).removeprefix("==")
            for r in requirements
            if r.marker is None or r.marker.evaluate({"python_version": python})
        }
        tree = ast.parse((ROOT / "setup.py").read_text())
        constants = {s.targets[0].id: s.value for s in tree.body if isinstance(s, ast.Assign)}
        groups = "INSTALL", "ANALYSIS", "EXPORT", "SERVE", "SLURM", "SUMMARIZATION", "TEST", "DOCS"
        for group in groups:
            for wanted in map(Requirement, ast.literal_eval(constants[f"{group}_REQUIRES"])):
                assert wanted.specifier.contains(tested[wanted.name]), wanted.name


class TestPlugin:
    def test_the_environment_has_the_command_and_the_package_everywhere(self, tmp_path):
        module = [sys.executable, "-m", "fairseq_posattn"]
        for command in ([Path(sys.prefix, "bin/posattn"), "user-dir"], module):
            result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
            (line,) = result.stdout.splitlines()
            assert (Path(line) / "cli.py").is_file()
