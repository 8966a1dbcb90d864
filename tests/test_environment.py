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


def make_stub_python(path, version):
    """Write an executable that reports Python ``version`` and fails otherwise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f'#!/bin/sh\ncase "$*" in *version_info*) echo {version} ;; *) exit 1 ;; esac\n'
    )
    path.chmod(0o755)
    return path


def make_unfinished(environment, note="unfinished"):
    environment.mkdir()
    (environment / ".posattn").write_text(note + "\n")
    (environment / "half_written").write_text("")


class TestExistingEnvironment:
    @pytest.mark.parametrize("variable", ["POSATTN_ENV", "VIRTUAL_ENV"])
    def test_complete_one_is_used_as_it_is(self, variable):
        result = run_script(**{variable: sys.prefix})
        assert result.stdout == f"{Path(sys.prefix).resolve()}/bin\n"
        assert "making" not in result.stderr and "installing" not in result.stderr

    def test_named_one_goes_before_active_one(self, tmp_path):
        active = make_stub_python(tmp_path / "active/bin/python", "3.8.18").parent.parent
        result = run_script(VIRTUAL_ENV=active, POSATTN_ENV=sys.prefix)
        assert result.stdout == f"{Path(sys.prefix).resolve()}/bin\n"

    def test_unsuitable_python_is_refused(self, tmp_path):
        make_stub_python(tmp_path / "bin/python", "3.9.18")
        assert_refused(run_script(POSATTN_ENV=tmp_path), tmp_path, "3.9.18", "3.10", "3.13")

    def test_other_directory_is_refused_and_left_alone(self, tmp_path):
        (tmp_path / "thesis.tex").write_text("years of work")
        assert_refused(run_script(POSATTN_ENV=tmp_path), tmp_path)
        assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]

    def test_file_is_refused(self, tmp_path):
        file = tmp_path / "file"
        file.write_text("")
        assert_refused(run_script(POSATTN_ENV=file), file)


class TestNewEnvironment:
    def test_unsuitable_python_is_refused(self, tmp_path):
        python = make_stub_python(tmp_path / "python3", "3.8.18")
        result = run_script(PYTHON=python, POSATTN_ENV=tmp_path / "new")
        assert_refused(result, python, "3.8.18", "3.10", "3.13")
        assert not (tmp_path / "new").exists()

    def test_python_that_does_not_run_is_refused(self, tmp_path):
        result = run_script(PYTHON=tmp_path / "nowhere", POSATTN_ENV=tmp_path / "new")
        assert_refused(result, tmp_path / "nowhere")

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

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "note", ["unfinished", pytest.param("/where/it/was", marks=pytest.mark.nightly)]
    )
    def test_unfinished_or_moved_one_is_made_anew_and_then_kept(self, tmp_path, note):
        environment = tmp_path / "new"
        make_unfinished(environment, note)
        first = run_script(PYTHON=sys.executable, POSATTN_ENV=environment)
        assert not (environment / "half_written").exists()
        assert "making" in first.stderr
        # Without packages to be had it must fail, in good order: what was made is kept.
        assert "pip could not install" in first.stderr.splitlines()[-1]
        assert first.returncode != 0 and first.stdout == ""
        second = run_script(PYTHON=sys.executable, POSATTN_ENV=environment)
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
        assert missing(sacrebleu="2.4.0").stdout == ""

    def test_version_outside_range_is_replaced_by_the_tested_one(self, missing):
        (line,) = missing(tqdm="4.1.0").stdout.splitlines()
        assert Requirement(line).name == "tqdm"
        assert not Requirement(line).specifier.contains("4.1.0")

    def test_torch_built_before_its_release_counts(self, missing):
        assert missing(torch="2.11.0a0+git12345").returncode == 0

    @pytest.mark.parametrize(
        "name, version, remedy", [("torch", "2.4.1", ">=2.10"), ("fairseq", "0.12.2", "-fixed")]
    )
    def test_old_torch_and_stock_fairseq_are_refused(self, missing, name, version, remedy):
        assert_refused(missing(**{name: version}), f"{name} {version}", remedy, "POSATTN_ENV")


class TestDeclarations:
    @pytest.fixture
    def declared(self):
        """Return a function from a constant's name to its value in setup.py."""
        tree = ast.parse((ROOT / "setup.py").read_text())
        found = {s.targets[0].id: s.value for s in tree.body if isinstance(s, ast.Assign)}
        return lambda name: ast.literal_eval(found[name])

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
    def test_tested_versions_lie_within_the_ranges(self, declared, python):
        files = ("requirements.txt", "requirements-docs.txt")
        lines = [line for file in files for line in (ROOT / file).read_text().splitlines()]
        requirements = [Requirement(line) for line in lines if line and not line.startswith("#")]
        tested = {
            r.name: str(r.specifier).removeprefix("==")
            for r in requirements
            if r.marker is None or r.marker.evaluate({"python_version": python})
        }
        groups = ("INSTALL", "ANALYSIS", "EXPORT", "SUMMARIZATION", "TEST", "DOCS")
        for wanted in (Requirement(w) for group in groups for w in declared(f"{group}_REQUIRES")):
            assert wanted.specifier.contains(tested[wanted.name]), wanted.name


class TestPlugin:
    def test_the_environment_has_the_command_and_the_package_everywhere(self, tmp_path):
        module = [sys.executable, "-m", "fairseq_posattn"]
        for command in ([Path(sys.prefix, "bin/posattn"), "user-dir"], module):
            result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
            (line,) = result.stdout.splitlines()
            assert (Path(line) / "cli.py").is_file()
