"""Tables of users from their corpus to a verified archive."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fairseq_posattn.preparation.commands.prepare import prepare
from fairseq_posattn.recipes import tiny
from fairseq_posattn.recipes.bundle import verify
from fairseq_posattn.recipes.commands.recipe import main

DOCUMENTED = Path(__file__).parents[2] / "docs/recipes.md"
CLASSIFIERS = """\
data: reviews
updates: 4
seeds: 2
training: --optimizer adam --lr 1e-2 --lr-scheduler fixed
metrics: [accuracy, macro_f1, parameters_m]
user_dir: mine
rows:
  Multi-head: --arch multi_head_classifier
  Sharp: --arch transformer_classifier --encoder-sublayers sharp,ffn
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.nightly
def test_the_printed_example_trains_as_it_is(recipe_run, forked_checks, capfd):
    """After the preparation of the README, in the tiny form."""
    tiny.main(["text", ".", "--train", "300", "--valid", "10", "--test", "10"])
    for suffix, language in (("de", "fr"), ("en", "en")):
        Path(f"train.{suffix}").rename(f"corpus.{language}")
    words = "own --train corpus.fr corpus.en --source-lang fr --target-lang en"
    assert prepare("translation", [*words.split(), "--dest", "data-bin/fr-en"]) == 0
    capfd.readouterr()
    assert main(["--example"]) == 0
    Path("own.yaml").write_text(capfd.readouterr().out)
    printed = recipe_run("own.yaml", "--tiny", "--seeds", 2, "--bundle", "own.tar.gz")
    assert "ALiBi beside the Transformer (tiny form: numbers mean nothing)\n" in printed
    assert " hours a run |" in printed and "\nHardware: CPU: " in printed
    table = Path("checkpoints/custom/own-tiny/own.json")
    assert f"figure: {table.resolve().with_suffix('.png')}\n" in printed
    assert table.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    rows = json.loads(table.read_text())["rows"]
    seeds = {row["row"]: row["seeds"] for row in rows}
    assert seeds == {"Transformer": [1, 2], "ALiBi": [1, 2]}
    assert rows[0]["command"] == "posattn recipe own.yaml" and "compared" in rows[1]
    assert verify(Path("own.tar.gz")) == 0


def test_a_mechanism_of_the_user_is_a_row(recipe_run, capfd):
    lines = [f"{'fine' if index % 2 else 'bad'} {index},{index % 2}" for index in range(60)]
    Path("reviews.csv").write_text("\n".join(["text,mood", *lines]) + "\n")
    words = "own reviews.csv --text text --label mood --dest reviews"
    assert prepare("classification", words.split()) == 0
    Path("mine").mkdir()
    (code,) = re.findall(r"```python\n(.*?)```", DOCUMENTED.read_text(), re.S)
    Path("mine/__init__.py").write_text(code)
    Path("own.yaml").write_text(CLASSIFIERS)
    printed = recipe_run("own.yaml", "--tiny", "--seeds", 1, "--bundle", "own.tar.gz")
    assert printed.count(" --user-dir ") == 4 and f"--user-dir {Path('mine').resolve()} " in printed
    rows = json.loads(Path("checkpoints/custom/own-tiny/own.json").read_text())["rows"]
    assert [len(row["scores"]["macro_f1"]) for row in rows] == [1, 1]
    capfd.readouterr()
    assert verify(Path("own.tar.gz")) == 0
    assert "Sharp, seed1: macro_f1 " in capfd.readouterr().out
    (checkpoint,) = Path("checkpoints").rglob("transformer_classifier-*/*/checkpoint_best.pt")
    posattn = [sys.executable, "-m", "fairseq_posattn.cli", "predict", checkpoint, "--cpu"]
    for options, status in (["--user-dir", "mine"], 0), ([], 1), (["--user-dir", "none"], 2):
        predicted = subprocess.run([*posattn, *options], input=b"fine 7\n", capture_output=True)
        assert predicted.returncode == status, predicted.stderr
        assert predicted.stdout.startswith((b"0\t", b"1\t")) == (status == 0)
    assert predicted.stderr.endswith(b"none has no __init__.py; name the folder of a package\n")
