"""The shared command line of all preparations, printed commands, and calls of a stand-in."""

import dataclasses
import os
import shlex
from pathlib import Path
from types import SimpleNamespace

import pytest

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import write_json
from fairseq_posattn.preparation import report, segmentation
from fairseq_posattn.preparation.binarize import preprocess
from fairseq_posattn.preparation.commands.prepare import KINDS, prepare
from fairseq_posattn.preparation.pipeline import Preparation
from fairseq_posattn.recipes.commands.recipe import main as recipe

CORPORA = [(kind, name) for kind, entry in KINDS.items() for name in entry.corpora]
WITH_RECIPES = [(kind, name) for kind, name in CORPORA if KINDS[kind].corpora[name].recipe]
RETENTION = {"--no-epoch-checkpoints", "--keep-last-epochs"}


@pytest.fixture
def command(monkeypatch):
    """Return a function that runs ``prepare classification trec``: its status and options."""

    def start(*arguments, error=None):
        options = []

        class Recorder(Preparation):
            def prepare(self):
                options.append(self.options)
                if error:
                    raise error

        entry = dataclasses.replace(KINDS["classification"], preparation=Recorder)
        monkeypatch.setitem(KINDS, "classification", entry)
        return prepare("classification", ["trec", *arguments]), *options

    return start


def test_jobs_are_at_most_the_cores(command):
    status, options = command("--jobs", "500")
    assert (status, options.dest) == (0, Path("data-bin/trec"))
    assert options.jobs == len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (UsageError("text:2: bad"), 1, "error: text:2: bad"),
        (OSError(28, "No space left"), 1, "error: data-bin/trec: No space left"),
        (KeyboardInterrupt(), 130, "interrupted; rerun the same command to resume"),
    ],
)
def test_errors_are_one_line(command, error, status, line, capsys):
    assert command(error=error)[0] == status
    (message,) = capsys.readouterr().err.splitlines()
    assert message.endswith(line)


@pytest.mark.parametrize(
    ("dest", "words"),
    [
        ("a,b", "fairseq-preprocess splits it at ','; "),
        ("a:b", "fairseq-train splits it at ':'; "),
        ("source/made", "lies in --source source; "),
        ("link", "lies in --source source; "),
        ("pairs", "holds another corpus (own, translation, de, en); choose another"),
    ],
)
def test_unusable_destinations_are_refused(command, dest, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("source").mkdir()
    Path("link").symlink_to("source")
    Path("pairs").mkdir()
    made = {"corpus": "own", "task": "translation", "languages": ["de", "en"], "limit": None}
    write_json("pairs/.stages.json", {"manifest": {"settings": made, "files": {}}})
    assert command(f"--dest={dest}", "--source", "source") == (1,)
    (message,) = capsys.readouterr().err.splitlines()
    assert f" error: --dest {dest}: {words}" in message


@pytest.mark.parametrize(("kind", "name"), CORPORA)
def test_the_help_of_each_data_set_is_printed(kind, name, capsys):
    with pytest.raises(SystemExit) as end:
        prepare(kind, [name, "--help"])
    assert end.value.code == 0
    assert KINDS[kind].corpora[name].summary in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(("kind", "name"), WITH_RECIPES)
def test_printed_recipes_keep_few_checkpoints(kind, name, capsys):
    corpus, dest = KINDS[kind].corpora[name], Path("data-bin") / name
    report.next_commands(corpus, dest)
    program, command, *words = shlex.split(capsys.readouterr().out.splitlines()[-1])
    assert (program, command) == ("posattn", "recipe")
    assert recipe([*words, "--dry-run"]) == 0
    printed = capsys.readouterr().out.splitlines()
    trainings = [line for line in printed if "--save-dir" in line.split()]
    assert trainings
    assert all(RETENTION & set(line.split()) for line in trainings)
    folders = {Path(shlex.split(line)[1]).resolve() for line in trainings}
    assert all(folder.is_relative_to(dest.resolve()) for folder in folders)


@pytest.mark.parametrize(
    ("kind", "words", "recipe"),
    [
        ("translation", "wmt14_en_de", ""),
        ("translation", "wmt14_en_de --news-commentary v13", "mtsa/table6_setup2"),
        ("classification", "sst2", "da_transformer/table4_sst_snli"),
        ("classification", "sst2 --phrases", ""),
        ("classification", "sst5", ""),
        ("classification", "sst5 --weighted-phrases", "mpsan/table1_sst"),
        ("classification", "trec --fine", ""),
        ("classification", "trec --language-model gpt", ""),
        ("classification", "amazon_electronics --binary", ""),
        ("classification", "snli --released-form", ""),
        ("tagging", "ewt --all-predicates", ""),
    ],
)
def test_a_recipe_is_advised_only_for_its_own_data(kind, words, recipe, monkeypatch):
    """Record the corpus; of snli --released-form the recipe takes another folder by default."""
    advised, entry = [], KINDS[kind]

    def record(preparation):
        advised.append(preparation.corpus.recipe)
        return []

    monkeypatch.setattr(entry.preparation, "prepare", record)
    gpt = SimpleNamespace(settings={})
    monkeypatch.setattr(segmentation, "GptSubwords", lambda options: gpt)
    assert prepare(kind, words.split()) == 0
    assert advised == [recipe]


def test_a_limited_run_warns_of_no_counts(capsys):
    for limit, warns in ((None, True), (5, False)):
        report.report_counts({"train": 7_000}, {"train": 7_283}, limit, what="pairs")
        printed, warning = capsys.readouterr()
        assert ("--limit 5" in printed) is not warns
        assert ("train has 7,000 pairs, not the 7,283 published" in warning) is warns


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """Return a function that makes fairseq-preprocess run other code when it is imported."""
    package = tmp_path / "packages" / "fairseq_cli"
    package.mkdir(parents=True)
    others = "__path__ = __import__('pkgutil').extend_path(__path__, __name__)\n"
    (package / "__init__.py").write_text(others)
    monkeypatch.setenv("PYTHONPATH", str(package.parent), prepend=os.pathsep)
    path = package / "preprocess.py"
    return lambda code: path.write_text(f"{code}\ndef cli_main():\n    pass\n")


def test_sizes_are_printed_once_and_the_log_is_removed(stand_in, tmp_path):
    log = tmp_path / "preprocess.log"
    stand_in(f"""
open({str(log)!r}, "w")
print("INFO:fairseq_cli.preprocess:Namespace(no_progress_bar=False)")
for side in "de", "en":
    print(f"INFO:fairseq_cli.preprocess:[{{side}}] Dictionary: 104 types")
    print(f"INFO:fairseq_cli.preprocess:[{{side}}] /a/b.{{side}}: 9 sents, 81 tokens, 0% ...")
""")
    lines = []
    preprocess(tmp_path, 1, tell=lines.append)
    sizes = [f"b.{side}: 9 sents, 81 tokens, 0% ..." for side in ("de", "en")]
    assert lines == ["Dictionary: 104 types", *sizes]
    assert not log.exists()


def test_folders_may_begin_with_a_dash_and_a_failure_is_one_line(stand_in, tmp_path):
    stand_in("""
import argparse
parser = argparse.ArgumentParser()
for name in ("--destdir", "--workers", "--trainpref"):
    parser.add_argument(name, required=True)
parser.parse_args()
""")
    preprocess(Path("-made/here"), 1, trainpref="-made/text")
    assert report.shown(Path.cwd() / "-made") == "./-made"
    failure = "fairseq-preprocess failed: FileNotFoundError: text/bpe.train.de"
    stand_in("raise FileNotFoundError('text/bpe.train.de')")
    with pytest.raises(UsageError, match=f"^{failure}$"):  # the last line
        preprocess(tmp_path, 1)
