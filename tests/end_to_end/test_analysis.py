"""``posattn analysis`` on a checkpoint with all the mechanisms that it shows."""

import json
import shutil
import sys
from pathlib import Path

import forked_commands
import pytest
import torch

from fairseq_posattn.compat.checkpoints import read_checkpoint
from fairseq_posattn.inspection.commands.analysis import main

MPSAN = Path(__file__).parents[1] / "fixtures/classification"


@pytest.fixture(scope="module")
def checkpoint(train_arguments, tmp_path_factory):
    """Return a checkpoint of a few updates, with an encoder of one layer."""
    folder = tmp_path_factory.mktemp("analysis")
    sublayers = ["--encoder-sublayers", "dman,san,da,mtsa,ffn"]
    options = [*sublayers, "--max-update", "3", "--disable-validation", "--save-dir", folder]
    forked_commands.output_of("train", *train_arguments, *options)
    return str(folder / "checkpoint_last.pt")


@pytest.fixture(scope="module")
def other(checkpoint, tmp_path_factory):
    """Return the same checkpoint with another mapping of DA."""
    path = tmp_path_factory.mktemp("other") / "checkpoint.pt"
    state = read_checkpoint(checkpoint)
    state["cfg"]["model"]["da_mapping"] = "linear"
    torch.save(state, path)
    return str(path)


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text"
    path.write_text("a b c d e\n\nf g h\n")
    return str(path)


@pytest.fixture
def table(capsys):
    """Return ``table(checkpoint, *options)``: the output of ``posattn analysis locality``."""

    def table(*arguments):
        assert main(["locality", *map(str, arguments)]) == 0
        return capsys.readouterr().out

    return table


def test_locality(checkpoint, tmp_path, table):
    path = tmp_path / "locality.json"
    options = ["--split", "test", "--sublayers", "dman,san", "--windows", "1,20", "--json", path]
    output = table(checkpoint, *options)
    *_, header, dman, san, dman_all, san_all = output.splitlines()
    assert "mean of 12 sentences" in output
    assert header.split() == ["window", "sublayer", "layer", "1"]
    assert dman_all.split() == ["20", "dman", "100.00"]
    assert san_all.split() == ["20", "san", "100.00"]
    numbers = json.loads(path.read_text())
    assert numbers["sentences"] == 12
    for row, line in zip(numbers["rows"][::2], (dman, san), strict=True):
        assert line.split() == ["1", row["sublayer"], f"{row['percent']:.2f}"]


def test_the_table_of_mpsan(tmp_path, capsys):
    """The model is given by its folder."""
    shutil.copy(MPSAN / "checkpoint.pt", tmp_path / "checkpoint_best.pt")
    text = tmp_path / "text"
    text.write_text(" ".join("abcde" * 3))
    words = [str(tmp_path), "--data", str(MPSAN / "data"), "--sentences", str(text)]
    assert main(["locality", *words, "--windows", "2,20"]) == 0
    output = capsys.readouterr()
    assert "using its checkpoint_best.pt" in output.err
    rows = [line.split()[:2] for line in output.out.splitlines()[2:]]
    assert rows == [["2", "mpsan"], ["20", "mpsan"]]


def test_parameters(checkpoint, tmp_path):
    picture, numbers = tmp_path / "figure.pdf", tmp_path / "figure.json"
    outputs = ["--output", str(picture), "--json", str(numbers)]
    assert main(["parameters", checkpoint, "--plot", "weights", *outputs]) == 0
    assert picture.read_bytes().startswith(b"%PDF")
    written = json.loads(numbers.read_text())
    assert written["checkpoint"] == checkpoint
    assert [sublayer["sublayer"] for sublayer in written["sublayers"]] == ["da"]


def test_parameters_of_several_runs_need_no_matplotlib(checkpoint, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    path, written = tmp_path / "numbers.json", []
    for runs in ([checkpoint] * 3, [checkpoint]):
        assert main(["parameters", *runs, "--plot", "weights", "--json", str(path)]) == 0
        written.append(json.loads(path.read_text()))
    several, single = written
    assert (several["checkpoint"], single["checkpoint"]) == ([checkpoint] * 3, checkpoint)
    for name, bars in single["sublayers"][0]["parameters"].items():
        values = [bar["value"] for bar in several["sublayers"][0]["parameters"][name]]
        assert values == pytest.approx([bar["value"] for bar in bars])


def test_a_file_gives_the_same_as_the_binarized_data(checkpoint, corpus, table):
    expected = table(checkpoint, "--split", "test")
    assert table(checkpoint, "--sentences", corpus.parent / "test.de") == expected


@pytest.mark.parametrize(
    "flag, value",
    [("attention_impl", "sdpa"), ("encoder_embed_path", "moved.txt")],  # sdpa returns no weights
)
def test_training_flags_and_moved_data_change_nothing(
    checkpoint, corpus, text, tmp_path, table, flag, value
):
    state = read_checkpoint(checkpoint)
    assert flag in state["cfg"]["model"]
    state["cfg"]["model"][flag] = value
    torch.save(state, tmp_path / "checkpoint.pt")
    for dictionary in corpus.glob("dict.*"):
        shutil.copy(dictionary, tmp_path)
    options = ["--sentences", text]
    expected = table(checkpoint, *options)
    assert table(tmp_path / "checkpoint.pt", "--data", tmp_path, *options) == expected


SEQUENCE = ["CHECKPOINT", "--sentences", "TEXT"]
LOCALITY = ["locality", "CHECKPOINT"]
PLOT = ["parameters", "CHECKPOINT", "--json", "OUT.json"]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["locality", *SEQUENCE, "--layers", "0"], "--layers 0: choose from 1"),
        (["locality", *SEQUENCE, "--sublayers", "rpr"], "--sublayers rpr: choose from dman, san,"),
        ([*LOCALITY, "--sentences", "MISSING"], "MISSING: No such file or directory"),
        ([*LOCALITY, "--split", "nonesuch"], "--split nonesuch: there is no such split in"),
        (["locality", *SEQUENCE, "--data", "MISSING"], "MISSING: no such folder of dictionaries"),
        ([*PLOT, "--output", "OUT.jpg"], "--output OUT.jpg: the name must end in .png or .pdf"),
        ([*PLOT, "--side", "decoder"], "CHECKPOINT: no DA among the chosen decoder sublayers,"),
        (["parameters", "CHECKPOINT"], "--output, --json: nothing to write"),
        ([*PLOT[:2], "OTHER", *PLOT[2:]], "OTHER: layers, heads or mapping of DA differ from"),
        (["cost", "CHECKPOINT"], "CHECKPOINT: not a classifier of this package; it was trained"),
    ],
)
def test_an_error_is_one_line_and_leaves_no_file(
    checkpoint, other, text, tmp_path, capsys, arguments, message
):
    paths = {"MISSING": str(tmp_path / "MISSING"), "OUT": str(tmp_path / "OUT")}
    paths |= {"CHECKPOINT": checkpoint, "OTHER": other, "TEXT": text}
    for name, path in paths.items():
        arguments = [argument.replace(name, path) for argument in arguments]
        message = message.replace(name, path)
    capsys.readouterr()
    assert main(arguments, "posattn analysis") == 1
    error = capsys.readouterr().err
    assert error.startswith(f"posattn analysis: error: {message}")
    assert error.count("\n") == 1
    assert not list(tmp_path.glob("OUT*"))
