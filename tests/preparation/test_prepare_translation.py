"""Preparation for translation by scripts/prepare_translation.py, killed and restarted."""

import io
import os
import re
import signal
import subprocess
import sys
from argparse import Namespace
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path

import corpora
import preprocessing
import pytest
from archive_files import tarred, tree, write_folder

from fairseq_posattn.preparation.commands.prepare import prepare
from fairseq_posattn.preparation.corpora import TRANSLATION
from fairseq_posattn.preparation.corpus import SPLITS
from fairseq_posattn.preparation.kinds.translation import PairPreparation
from fairseq_posattn.preparation.stages import Stages

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "prepare_translation.py"


OPTIONS = ["iwslt14", "--bpe-operations", "60"]


def start(*arguments):
    """Start the command for IWSLT14."""
    path = os.pathsep.join(filter(None, sys.path))
    return subprocess.Popen(
        [sys.executable, SCRIPT, *OPTIONS, *arguments],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        # Background processes of a shell ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("source") / "de-en.tgz"
    path.write_bytes(tarred(corpora.iwslt14(), "gz"))
    return path


@pytest.fixture(scope="module")
def prepared(source, tmp_path_factory):
    """Return the folder of an uninterrupted run in this process, and its output."""
    dest, printed, said = tmp_path_factory.mktemp("prepared"), io.StringIO(), io.StringIO()
    arguments = [*OPTIONS, "--source", str(source), "--dest", str(dest), "--jobs", "2"]
    with preprocessing.in_this_process(), redirect_stdout(printed), redirect_stderr(said):
        assert prepare("translation", arguments) == 0
    return dest, printed.getvalue(), said.getvalue()


def test_the_written_files_are_complete(prepared):
    dest, *_ = prepared
    sides = [f"{split}.{side}" for split in SPLITS for side in ("de", "en")]
    files = [f"text/{prefix}{side}" for side in sides for prefix in ("", "bpe.")]
    files += [f"{side.replace('.', '.de-en.')}.{kind}" for side in sides for kind in ("bin", "idx")]
    others = {"text/bpe.codes", "preparation.json", "dict.de.txt", "dict.en.txt"}
    assert set(tree(dest)) == {*files, *others}
    assert (dest / "dict.de.txt").read_text() == (dest / "dict.en.txt").read_text()
    for side in sides:
        subwords = (dest / f"text/bpe.{side}").read_text()
        assert subwords.replace("@@ ", "") == (dest / f"text/{side}").read_text()
    assert "@@ " in (dest / "text/bpe.train.de").read_text()


def test_counts_and_next_command_are_printed(prepared):
    dest, printed, said = prepared
    table = [line.split() for line in printed.splitlines()[1:4]]
    assert table == [["train", "398", "160,239"], ["valid", "18", "7,283"], ["test", "10", "6,750"]]
    assert f"posattn recipe dman/iwslt14 --data {dest}\n" in printed
    assert "warning: valid has 18 pairs, not the 7,283 published" in said
    assert re.search(r"^tokenizing train: 416 lines, [\d,]+ a second$", said, re.MULTILINE)


def test_a_run_after_a_kill_equals_an_uninterrupted_run(prepared, source, tmp_path):
    dest = tmp_path / "dest"
    command = ["--source", source, "--dest", dest, "--jobs", "1"]
    for last_line, stop in (
        ("tokenizing train", signal.SIGKILL),
        ("counting words", signal.SIGINT),
        ("splitting valid", signal.SIGKILL),
        ("Dictionary", signal.SIGKILL),
    ):
        process = start(*command)
        for line in process.stderr:
            if line.startswith(last_line):
                break
        else:
            pytest.fail(f"it never came to {last_line}")
        process.send_signal(stop)
        _, said = process.communicate(timeout=300)
        assert process.returncode == (130 if stop == signal.SIGINT else -stop)
        assert "Traceback" not in said
        assert not (dest / "train.de-en.de.bin").exists()
    process = start(*command)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    done = [f"{stage}: done already" for stage in ("text", "learning subwords", "subwords")]
    assert [line for line in said.splitlines() if "done already" in line] == done
    assert tree(dest) == tree(prepared[0])


@pytest.mark.parametrize(
    ("version", "words", "kept"),
    [("v9", [], 298), ("v12", ["--max-words", "80"], 299), ("v13", [], 300)],
)
def test_wmt14_prints_counts_after_each_step(tmp_path, fairseq_here, capsys, version, words, kept):
    """Add pairs of ratios 12 and 3 to those that every rule keeps."""
    archives = corpora.wmt14(version)
    files = archives["training-parallel-europarl-v7.tgz"]
    for side, uneven in (("de", ["w " * 12, "w w w"]), ("en", ["w", "w"])):
        name = f"training/europarl-v7.de-en.{side}"
        files[name] = corpora.lines(uneven) + b"\n".join(files[name].split(b"\n")[2:])
    for content in archives.values():
        write_folder(tmp_path / "source", content)
    arguments = ["wmt14_en_de", "--source", tmp_path / "source", "--dest", tmp_path / "dest"]
    arguments += ["--news-commentary", version, "--bpe-operations", "300", "--jobs", "1", *words]
    assert prepare("translation", list(map(str, arguments))) == 0
    printed = capsys.readouterr().out
    counts = [line.split()[:2] for line in printed.splitlines()[1:5]]
    assert counts == [["raw", "300"], ["train", str(kept)], ["valid", "7"], ["test", "5"]]
    assert printed.splitlines()[2].split()[2] == "4.5M"
    recipes = {"v9": [], "v12": ["dman/wmt14_base"], "v13": ["mtsa/table6_setup2"]}
    assert re.findall(r"posattn recipe (\S+) --data", printed) == recipes[version]


def test_training_pairs_may_be_cleaned_in_words(tmp_path):
    """Check that cleaning comes before merges: a short pair may have many subwords."""
    train = ["a b c", *["xy xy xy xy"] * 9, "abcdefgh", "abcdefgh"]
    lines = {"train": train, "valid": ["a b c d e"], "test": ["a b c d"]}
    sides = ("en", "de")

    def write_text(work):
        for split, text in lines.items():
            write_folder(work / "text", {f"{split}.{side}": corpora.lines(text) for side in sides})

    def run(corpus):
        options = Namespace(dest=tmp_path, bpe_operations=1, jobs=1, keep_hyphens=False)
        options.template, options.news_commentary = None, "v9"
        preparation = PairPreparation(corpus, options)
        with Stages(tmp_path).locked() as stages:
            stages.run("text", preparation.texts, write_text)
            preparation.split_text(stages)

    corpus = TRANSLATION["wmt14_en_de"]
    run(replace(corpus, longest=None, longest_words=3, ratio=9))
    for side in sides:
        kept = (tmp_path / f"text/bpe.train.{side}").read_text().replace("@@ ", "").splitlines()
        assert kept == ["a b c", "abcdefgh", "abcdefgh"]
    assert "x y" not in (tmp_path / "text/bpe.codes").read_text()  # only dropped pairs have it
    assert (tmp_path / "text/bpe.valid.en").read_text() == "a b c d e\n"
    run(corpus)
    assert "x y" in (tmp_path / "text/bpe.codes").read_text()
