"""The recipes of the papers' tables: every tiny form runs, every row's commands are right.

fairseq's start-up takes most of a tiny run, so the recipes run in an environment whose commands are
forked from a process that has imported fairseq already.
"""

import json
import os
import re
import runpy
import shlex
import shutil
import socketserver
import subprocess
import sys
import threading
from pathlib import Path

import forked_commands
import pytest
import torch
from fairseq import options, tasks

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
RECIPES = sorted(
    f"{path.parent.name}/{path.stem}"
    for path in EXAMPLES.glob("*/*.sh")
    if "\nrun_recipe " in path.read_text()
)
each_recipe = pytest.mark.parametrize("recipe", RECIPES)


# --- An environment whose commands start at once -----------------------------------------------

CLIENT = """#!{python} -SE
import json, socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect({address!r})
with connection.makefile("rw") as stream:
    print(json.dumps([{command!r}, *sys.argv[1:]]), file=stream, flush=True)
    exit_code, output = json.loads(stream.readline())
sys.stdout.write(output)
sys.exit(exit_code)
"""
# Of the programs that recipes give to Python, those that import fairseq.
PYTHON = """#!/bin/sh
case "$1 $2" in
    */average_checkpoints.py\\ * | "-m fairseq_posattn.analysis") exec '{bin}/forked-python' "$@" ;;
    *) exec '{python}' "$@" ;;
esac
"""


def run_python(arguments, log):
    """``python SCRIPT ...`` or ``python -m MODULE ...`` in this process."""
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    if arguments[0] == "-m":
        sys.path.insert(0, str(ROOT))
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        runpy.run_path(arguments[0], run_name="__main__")


class RunForked(socketserver.StreamRequestHandler):
    """Runs the command that a client sends, and answers with exit code and output."""

    def handle(self):
        command, *arguments = json.loads(self.rfile.readline())
        log = Path(self.server.folder, f"{threading.get_ident()}.log")
        log.write_text("")
        if command == "python":
            process = forked_commands.FORKSERVER.Process(
                target=run_python, args=(arguments, str(log))
            )
            process.start()
        else:
            process = forked_commands.start(command, arguments, log)
        process.join()
        self.wfile.write(json.dumps([process.exitcode, log.read_text()]).encode() + b"\n")


@pytest.fixture(scope="session")
def environment(tmp_path_factory):
    """The folder of a Python environment, for POSATTN_ENV."""
    folder = tmp_path_factory.mktemp("environment")
    commands = folder / "bin"
    commands.mkdir()
    address = str(folder / "socket")
    for name, command in (
        ("fairseq-train", "train"),
        ("fairseq-generate", "generate"),
        ("fairseq-preprocess", "preprocess"),
        ("forked-python", "python"),
    ):
        client = CLIENT.format(python=sys.executable, address=address, command=command)
        (commands / name).write_text(client)
    (commands / "python").write_text(PYTHON.format(python=sys.executable, bin=commands))
    for command in commands.iterdir():
        command.chmod(0o755)
    with socketserver.ThreadingUnixStreamServer(address, RunForked) as server:
        server.folder = folder
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield folder
        server.shutdown()


@pytest.fixture(scope="session")
def recipe_run(environment, tmp_path_factory):
    """Run a recipe from some other folder; return its output, or fail and show it."""
    elsewhere = tmp_path_factory.mktemp("else where")

    def recipe_run(recipe, *arguments, exit_code=0):
        finished = subprocess.run(
            ["bash", EXAMPLES / f"{recipe}.sh", *map(str, arguments)],
            cwd=elsewhere,
            env={**os.environ, "POSATTN_ENV": str(environment)},
            stdin=subprocess.DEVNULL,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert finished.returncode == exit_code, finished.stdout
        return finished.stdout

    return recipe_run


# --- The tiny forms ----------------------------------------------------------------------------


@pytest.fixture(scope="session")
def tiny_out(tmp_path_factory):
    """The --out that a recipe's tiny form shares with others of its paper and regime."""
    folder = tmp_path_factory.mktemp("tiny forms")

    def tiny_out(recipe):
        paper, name = recipe.split("/")
        shared = name if name.startswith(("wmt14", "table6")) else "iwslt14"
        return folder / paper / shared

    return tiny_out


@each_recipe
def test_tiny_form(recipe_run, tiny_out, recipe):
    out = tiny_out(recipe)
    printed = recipe_run(recipe, "--tiny", "--out", out)
    assert "error" not in printed
    table = json.loads((out / f"{Path(recipe).name}.json").read_text())
    rows = {row["row"]: row for row in table["rows"]}
    assert [row for row in rows if f"| {row} " not in printed] == []
    if recipe == "dman/table5_locality":
        assert list(rows) == [
            f"{name} {window}" for window in (1, 2, 4) for name in ("DMAN", "SAN")
        ]
        for name in ("DMAN", "SAN"):  # a wider window holds more
            within = [rows[f"{name} {window}"]["ours"][0] for window in (1, 2, 4)]
            assert 0 < within[0] < within[1] < within[2] <= 100
        return
    for row in rows.values():
        (result,) = row["runs"]
        assert row["ours"] == result["bleu"]
        assert (result["updates"], result["sentences"]) == (4, 10)
        assert result["settings"]["seed"] == "1"
        assert f"ours: {result['metric']}, {result['signature']}\n" in printed
        assert result["versions"]["torch"] == torch.__version__
        assert result["hardware"].startswith("CPU: ")


def test_what_is_finished_is_not_done_again(recipe_run, tiny_out):
    recipe, out = "mtsa/table6_setup1", tiny_out("mtsa/table6_setup1")
    first = recipe_run(recipe, "--tiny", "--out", out, "--rows", "MTSA")
    second = recipe_run(recipe, "--tiny", "--out", out, "--rows", "MTSA")
    assert "MTSA is finished" in second
    assert "fairseq-train" not in second
    table = "\n| row"
    assert first.partition(table)[2] == second.partition(table)[2]
    assert recipe_run(recipe, "--table", "--tiny", "--out", out).strip() in second


def test_an_interrupted_run_goes_on(recipe_run, tiny_out, tmp_path):
    out = tiny_out("dman/iwslt14")
    arguments = ["dman/iwslt14", "--tiny", "--rows", "DMAN", "--out"]
    recipe_run(*arguments, out)
    shutil.copytree(out / "dman_iwslt_de_en", tmp_path / "dman_iwslt_de_en")
    interrupted = tmp_path / "dman_iwslt_de_en" / "seed1"
    uninterrupted = json.loads((interrupted / "result.json").read_text())
    (interrupted / "result.json").unlink()
    (interrupted / "average.pt").unlink()
    (interrupted / "checkpoint_2_4.pt").unlink()
    shutil.copy(interrupted / "checkpoint_1_2.pt", interrupted / "checkpoint_last.pt")
    (interrupted / "generate-test.txt").write_text("half of the tran")

    recipe_run(*arguments, tmp_path, "--data", out / "numbers.de-en")
    assert (
        "@ 2 updates" in (interrupted / "train.log").read_text().rpartition("Loaded checkpoint")[2]
    )
    resumed = json.loads((interrupted / "result.json").read_text())
    assert {**resumed, "versions": None} == {**uninterrupted, "versions": None}


# --- The commands of all rows ------------------------------------------------------------------


def commands_by_row(dry_run):
    """What --dry-run printed: the words of the commands of each row."""
    rows = {}
    for line in dry_run.splitlines():
        if line.startswith("# "):
            words = rows.setdefault(line[2:], [])
        elif rows and line:
            words.append(shlex.split(line))
    return rows


# What sets the rows of the tables apart.
ROWS_DIFFER_IN = re.compile(
    "arch|_name|save_dir|(en|de)coder_(sublayers|ffn_embed_dim)|(sman|da|mtsa)_.*"
)


def parsed(words):
    """The arguments of fairseq-train or fairseq-generate; a wrong one ends the test."""
    # Parsing leaves the flags of the architecture in a parser.
    makers = {
        "fairseq-train": options.get_training_parser,
        "fairseq-generate": options.get_generation_parser,
    }
    return options.parse_args_and_arch(makers[words[0]](), words[1:])


@each_recipe
def test_every_row_is_commands_that_fairseq_takes(recipe_run, corpus, tmp_path, recipe):
    out = tmp_path / "o u t"
    rows = commands_by_row(recipe_run(recipe, "--dry-run", "--data", corpus, "--out", out))
    assert not out.exists()
    assert len(rows) > 0
    settings = []
    for commands in rows.values():
        train = parsed(commands[0])
        (generate,) = (parsed(words) for words in commands if words[0] == "fairseq-generate")
        with torch.device("meta"):
            tasks.setup_task(train).build_model(train)
        averaged = any("average_checkpoints.py" in words[1] for words in commands)
        checkpoint = "average.pt" if averaged else "checkpoint_last.pt"
        assert generate.path == f"{train.save_dir}/{checkpoint}"
        assert train.max_update % train.save_interval_updates == 0
        settings.append(vars(train))
    # Models of another class have options of their own.
    shared = set.intersection(*map(set, settings))
    differing = {name for name in shared if len({str(row[name]) for row in settings}) > 1}
    assert [name for name in differing if not ROWS_DIFFER_IN.fullmatch(name)] == []


def test_table_3_is_the_papers(recipe_run):
    """With the default of the architecture for C#5."""
    rows = commands_by_row(recipe_run("dman/table3_sublayers", "--dry-run"))
    assert {row: parsed(commands[0]).encoder_sublayers for row, commands in rows.items()} == {
        "C#1": "ffn,san,ffn",
        "C#2": "san,san,ffn",
        "C#3": "dman,dman,ffn",
        "C#4": "san,dman,ffn",
        "C#5": "dman,san,ffn",
    }


@pytest.mark.parametrize("gpus", [0, 1, 3, 8, 48])
def test_an_update_has_the_same_size_on_any_machine(recipe_run, gpus):
    """24 batches of 12,288 tokens; on 48 GPUs, half a batch each."""
    printed = recipe_run("dman/wmt14_base", "--dry-run", "--rows", "DMAN", "--gpus", gpus)
    train = commands_by_row(printed)["DMAN"][0]
    size = [
        int(train[train.index(flag) + 1])
        for flag in ("--distributed-world-size", "--update-freq", "--max-tokens")
    ]
    assert size[0] == max(gpus, 1)
    assert size[0] * size[1] * size[2] == 24 * 12288
    assert ("--cpu" in train, "--fp16" in train) == (gpus == 0, gpus > 0)


# --- What is refused ---------------------------------------------------------------------------


def assert_refused(printed, *mentions):
    """The recipe stopped with one line that says why."""
    (error,) = [line for line in printed.splitlines() if "error" in line]
    assert printed.endswith(error + "\n")
    assert [mention for mention in mentions if str(mention) not in error] == []


@pytest.mark.parametrize(
    "arguments, mentions",
    [
        (["--rows", "C#5,C#6"], ["'C#6'", "C#1, C#2, C#3, C#4, C#5"]),
        (["--row", "C#1"], ["--row", "--help"]),
        (["--seed"], ["--seed needs a value"]),
        (["--seed", "one"], ["--seed one"]),
        (["--gpus", "-1"], ["--gpus -1"]),
        (["--max-update", "0"], ["--max-update 0"]),
        (["--data", "not here"], ["not here", "dict.de.txt", "fairseq-preprocess"]),
    ],
)
def test_refused(recipe_run, tmp_path, arguments, mentions):
    out = ["--out", tmp_path / "out"]
    printed = recipe_run("dman/table3_sublayers", *out, *arguments, exit_code=1)
    assert_refused(printed, *mentions)
    assert list(tmp_path.iterdir()) == []


def test_other_settings_are_refused_where_a_run_was_begun(recipe_run, tiny_out):
    out = tiny_out("mtsa/table6_setup2")
    arguments = ["mtsa/table6_setup2", "--tiny", "--out", out, "--rows", "Transformer"]
    recipe_run(*arguments)
    folder = out / "transformer_wmt_en_de" / "seed1"
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert_refused(recipe_run(*arguments, "--max-update", "7", exit_code=1), folder, "--out")
    assert_refused(recipe_run(*arguments, "--", "--dropout", "0", exit_code=1), folder, "--out")
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_training_that_fails_can_be_begun_again(recipe_run, tmp_path):
    arguments = ["dman/iwslt14", "--tiny", "--rows", "DMAN", "--out", tmp_path]
    mistake = ["--", "--encoder-sublayers", "dmann,ffn"]
    assert_refused(recipe_run(*arguments, *mistake, exit_code=1), "dmann", "train.log")
    assert list(tmp_path.glob("*/seed1/result.json")) == []
    recipe_run(*arguments)
    assert len(list(tmp_path.glob("*/seed1/result.json"))) == 1


# --- Results -----------------------------------------------------------------------------------


@pytest.fixture
def results(run):
    """Run recipe_results.py."""

    def results(*arguments, **options):
        return run(sys.executable, EXAMPLES / "recipe_results.py", *arguments, **options)

    return results


GENERATED = """\
S-1\td e f
T-1\tD E F G
H-1\t-0.5\tD E F G
D-1\t-0.5\tD E F G
P-1\t-0.5 -0.5
S-0\ta b c
T-0\tA B C D
H-0\t-0.5\ta B C D
D-0\t-0.5\ta B C D
P-0\t-0.5 -0.5
"""


@pytest.fixture
def finished_run(tmp_path):
    """The folder of a run whose test set has two sentences, one letter's case wrong."""
    folder = tmp_path / "model" / "seed1"
    folder.mkdir(parents=True)
    (folder / "generate-test.txt").write_text(GENERATED)
    (folder / "settings").write_text("seed 1\ntrain --arch transformer --lr 1\n")
    (folder / "train.log").write_text(
        "| num. shared model params: 1,234,567 (num. trained: 1,234,567)\n"
        "| Saved checkpoint x.pt (epoch 1 @ 10 updates, score 7)\n"
        "| Saved checkpoint x.pt (epoch 2 @ 20 updates, score 6)\n"
    )
    return folder


def test_record(results, finished_run):
    results("record", finished_run, "--lowercase")
    result = json.loads((finished_run / "result.json").read_text())
    assert result["bleu"] == 100
    assert "case:lc" in result["signature"] and "tok:none" in result["signature"]
    assert (result["parameters"], result["updates"], result["sentences"]) == (1234567, 20, 2)
    assert result["settings"] == {"seed": "1", "train": "--arch transformer --lr 1"}

    results("record", finished_run)
    result = json.loads((finished_run / "result.json").read_text())
    # By hand: 7 of 8 words, 5 of 6 pairs, 3 of 4 triples and 1 of 2 quadruples are right.
    assert result["bleu"] == round(100 * (7 / 8 * 5 / 6 * 3 / 4 * 1 / 2) ** 0.25, 2)
    assert "case:mixed" in result["signature"]


def test_record_of_half_a_translation(results, finished_run):
    path = finished_run / "generate-test.txt"
    path.write_text(GENERATED.rpartition("D-0")[0])
    error = results("record", finished_run, exit_code=1)
    assert error.splitlines() == [f"recipe_results: error: {path}: 1 hypotheses for 2 references"]
    assert not (finished_run / "result.json").exists()


def test_table_of_several_seeds(results, finished_run, tmp_path):
    results("record", finished_run, "--lowercase")
    result = json.loads((finished_run / "result.json").read_text())
    other = finished_run.with_name("seed2")
    other.mkdir()
    (other / "result.json").write_text(json.dumps({**result, "bleu": 97.5}))
    printed = results(
        *("table", "--title", "Scores", "--output", tmp_path / "table.json"),
        *("--row", "ours", "98.7", finished_run.parent, "--row", "not run", "-", tmp_path / "no"),
    )
    assert printed.splitlines()[:6] == [
        "",
        "Scores",
        "",
        "| row     | paper |  ours | runs | parameters |",
        "|---------|-------|-------|------|------------|",
        "| ours    |  98.7 | 98.75 |    2 |  1,234,567 |",
    ]
    rows = json.loads((tmp_path / "table.json").read_text())["rows"]
    assert [(row["row"], row["paper"], row["ours"], len(row["runs"])) for row in rows] == [
        ("ours", 98.7, 98.75, 2),
        ("not run", None, None, 0),
    ]
