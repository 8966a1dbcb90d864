"""``posattn analysis`` on a checkpoint with all the mechanisms it looks into."""

import io
import json
import shutil
import sys

import forked_commands
import pytest
import torch

from fairseq_posattn.compat.checkpoints.reading import read_checkpoint
from fairseq_posattn.inspection.commands.analysis import main

MODULE = ["-m", "fairseq_posattn.cli", "analysis"]


@pytest.fixture(scope="module")
def checkpoint(train_arguments, tmp_path_factory):
    """Of a few updates, of an encoder of one layer that takes 20 tokens."""
    folder = tmp_path_factory.mktemp("analysis")
    sublayers = ["--encoder-sublayers", "dman,san,da,mtsa,ffn", "--max-source-positions", "20"]
    options = [*sublayers, "--max-update", "3", "--disable-validation", "--save-dir", folder]
    log = folder / "log"
    assert forked_commands.run("train", [*train_arguments, *options], log) == 0, log.read_text()
    return str(folder / "checkpoint_last.pt")


@pytest.fixture(scope="module")
def other(checkpoint, tmp_path_factory):
    """The same with another mapping of DA's."""
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


# --- As a user runs it -------------------------------------------------------------------------


def test_locality(run, checkpoint, tmp_path):
    path = tmp_path / "locality.json"
    options = ["--split", "test", "--sublayers", "dman,san", "--windows", "1,20", "--json", path]
    output = run(sys.executable, *MODULE, "locality", checkpoint, *options)
    *_, header, dman, san, dman_all, san_all = output.splitlines()
    assert "mean of 12 sentences" in output
    assert header.split() == ["window", "sublayer", "layer", "1"]
    assert dman_all.split() == ["20", "dman", "100.00"]
    assert san_all.split() == ["20", "san", "100.00"]
    numbers = json.loads(path.read_text())
    assert numbers["sentences"] == 12
    for row, line in zip(numbers["rows"][::2], (dman, san), strict=True):
        assert line.split() == ["1", row["sublayer"], f"{row['percent']:.2f}"]


# --- In this process, which saves the imports --------------------------------------------------


def test_heatmap(checkpoint, tmp_path, monkeypatch):
    picture, numbers = tmp_path / "heatmap.png", tmp_path / "heatmap.json"
    options = ["--sentences", "-", "--line", "2", "--heads", "1"]
    outputs = ["--output", picture, "--json", numbers]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\nb c z\n")))
    assert main(["heatmap", checkpoint, *options, *map(str, outputs)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    written = json.loads(numbers.read_text())
    assert written["tokens"] == ["b", "c", "<unk>", "</s>"]
    assert [sublayer["sublayer"] for sublayer in written["sublayers"]] == [
        "dman",
        "san",
        "da",
        "mtsa",
    ]


@pytest.mark.parametrize("command", ["locality", "heatmap", "parameters"])
def test_help(command, capsys):
    with pytest.raises(SystemExit) as exit_:
        main([command, "--help"])
    assert exit_.value.code == 0
    assert "--data FOLDER" in capsys.readouterr().out


@pytest.mark.parametrize(
    "plot, layers",
    [
        (["weights"], ["da"]),
        (["curves", "--distance", "5"], ["da"]),
        (["matrices", "--distance", "5"], ["da"]),
        (["mask"], ["dman"]),
        (["mask", "--split", "test"], ["dman"]),
        (["mask", "--side", "decoder"], ["dman"]),
    ],
)
def test_parameters(checkpoint, tmp_path, plot, layers):
    picture, numbers = tmp_path / "figure.pdf", tmp_path / "figure.json"
    outputs = ["--output", str(picture), "--json", str(numbers)]
    assert main(["parameters", checkpoint, "--plot", *plot, *outputs]) == 0
    assert picture.read_bytes().startswith(b"%PDF")
    written = json.loads(numbers.read_text())
    assert written["checkpoint"] == checkpoint
    assert [sublayer["sublayer"] for sublayer in written["sublayers"]] == layers


def test_parameters_of_several_runs(checkpoint, tmp_path):
    numbers = tmp_path / "numbers.json"
    runs = [checkpoint, checkpoint, checkpoint]
    assert main(["parameters", *runs, "--plot", "weights", "--json", str(numbers)]) == 0
    several = json.loads(numbers.read_text())
    assert main(["parameters", checkpoint, "--plot", "weights", "--json", str(numbers)]) == 0
    one = json.loads(numbers.read_text())
    assert (several["checkpoint"], one["checkpoint"]) == (runs, checkpoint)
    for name, bars in one["sublayers"][0]["parameters"].items():
        values = [bar["value"] for bar in several["sublayers"][0]["parameters"][name]]
        assert values == pytest.approx([bar["value"] for bar in bars])


def test_numbers_without_a_picture_need_no_matplotlib(checkpoint, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    path = tmp_path / "numbers.json"
    assert main(["parameters", checkpoint, "--plot", "weights", "--json", str(path)]) == 0
    assert json.loads(path.read_text())["sublayers"]


def test_sentences_of_a_file_and_of_the_binarised_data_are_the_same(
    checkpoint, corpus, tmp_path, capsys
):
    tables = []
    for options in (["--split", "test"], ["--sentences", str(corpus.parent / "test.de")]):
        assert main(["locality", checkpoint, *options]) == 0
        tables.append(capsys.readouterr().out)
    assert tables[0] == tables[1]


def test_data_that_has_moved(checkpoint, corpus, text, tmp_path, capsys):
    moved = tmp_path / "moved"
    moved.mkdir()
    for dictionary in corpus.glob("dict.*"):
        shutil.copy(dictionary, moved)
    assert main(["locality", checkpoint, "--data", str(moved), "--sentences", text]) == 0
    assert "mean of 2 sentences" in capsys.readouterr().out


@pytest.mark.parametrize(
    "flag, value",
    [
        ("attention_impl", "sdpa"),  # which has no weights to return
        ("encoder_embed_path", "moved.txt"),
    ],
)
def test_flags_of_the_training_that_do_not_matter_here(
    checkpoint, text, tmp_path, capsys, flag, value
):
    state = read_checkpoint(checkpoint)
    assert flag in state["cfg"]["model"]
    state["cfg"]["model"][flag] = value
    path = tmp_path / "checkpoint.pt"
    torch.save(state, path)
    tables = []
    for trained in (checkpoint, str(path)):
        assert main(["locality", trained, "--sentences", text]) == 0
        tables.append(capsys.readouterr().out)
    assert tables[0] == tables[1]


# --- Errors ------------------------------------------------------------------------------------


def locality(*options):
    return ["locality", "CHECKPOINT", *options]


def heatmap(*options):
    return ["heatmap", "CHECKPOINT", "--sentences", "TEXT", "--json", "OUT.json", *options]


def parameters(*options):
    return ["parameters", "CHECKPOINT", "--json", "OUT.json", *options]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (locality("--sentences", "TEXT", "--layers", "0"), "--layers 0: there are layers 1 to 1"),
        (
            locality("--sentences", "TEXT", "--sublayers", "rpr"),
            "--sublayers rpr: layers attend by dman, san, da, mtsa",
        ),
        (locality("--sentences", "MISSING"), "--sentences MISSING: No such file or directory"),
        (locality("--sentences", "EMPTY"), "--sentences EMPTY: no sentences in it"),
        (locality("--sentences", "LATIN"), "--sentences LATIN:1: not UTF-8: byte 2 is 0xe9; conv"),
        (locality("--split", "nonesuch"), "--split nonesuch: there is no such split in"),
        (locality("--sentences", "LONG"), "--sentences LONG:1: 31 tokens, its end included, where"),
        (
            locality("--sentences", "TEXT", "--data", "MISSING"),
            "MISSING: no such folder of dictionaries",
        ),
        (
            locality("--sentences", "TEXT", "--data", "FOLDER"),
            "FOLDER/dict.de.txt: no such dictionary",
        ),
        (heatmap("--heads", "3"), "--heads 3: there are heads 1 to 2"),
        (heatmap("--line", "2"), "--line 2: TEXT has no sentence there; its last line is 3"),
        (heatmap("--line", "4"), "--line 4: TEXT has no sentence there; its last line is 3"),
        (heatmap("--output", "OUT.jpg"), "--output OUT.jpg: the name must end in .png or .pdf"),
        (
            parameters("--plot", "mask", "--sublayers", "san"),
            "--plot mask: needs DynamicMaskAttention, but the chosen",
        ),
        (
            parameters("--plot", "weights", "--side", "decoder"),
            "--plot weights: needs DistanceAwareAttention",
        ),
        (
            parameters("--plot", "weights", "--split", "test"),
            "--sentences, --split: only for --plot mask",
        ),
        (["parameters", "CHECKPOINT", "--plot", "mask"], "--output, --json: nothing to write"),
        (
            ["parameters", "CHECKPOINT", "CHECKPOINT", "--plot", "curves", "--json", "OUT.json"],
            "--plot curves: takes one checkpoint",
        ),
        (
            ["parameters", "CHECKPOINT", "OTHER", "--plot", "weights", "--json", "OUT.json"],
            "OTHER: layers, heads or mapping of DA differ from CHECKPOINT",
        ),
        (
            ["parameters", "MISSING", "--plot", "mask", "--json", "OUT.json"],
            "MISSING: no such checkpoint",
        ),
    ],
)
def test_what_cannot_be_served(checkpoint, other, text, tmp_path, capsys, arguments, message):
    (tmp_path / "EMPTY").write_text("\n \n")
    (tmp_path / "LONG").write_text("a " * 30)
    (tmp_path / "LATIN").write_bytes(b"t\xe9\n")
    (tmp_path / "FOLDER").mkdir()
    paths = {name: str(tmp_path / name) for name in ("MISSING", "EMPTY", "LONG", "LATIN", "FOLDER")}
    paths |= {"CHECKPOINT": checkpoint, "OTHER": other, "TEXT": text, "OUT": str(tmp_path / "OUT")}
    for name, path in paths.items():
        arguments = [argument.replace(name, path) for argument in arguments]
        message = message.replace(name, path)
    capsys.readouterr()
    assert main(arguments, "posattn analysis") == 1
    said = capsys.readouterr().err
    assert said.startswith(f"posattn analysis: error: {message}")
    assert said.count("\n") == 1
    assert not list(tmp_path.glob("OUT*"))


@pytest.mark.parametrize(
    "options, told",
    [
        (
            locality("--split", "test", "--windows", "1,-1"),
            "--windows: 1,-1: a window must be 0 tokens",
        ),
        (locality("--split", "test", "--windows", "a"), "--windows: invalid list of numbers value"),
        (
            parameters("--plot", "mask", "--distance", "1001"),
            "1001 is more than 1,000",
        ),
    ],
)
def test_numbers_that_cannot_be_shown(options, told, capsys):
    with pytest.raises(SystemExit):
        main(options)
    assert told in capsys.readouterr().err


def test_dictionaries_of_another_training(checkpoint, corpus, text, tmp_path, capsys):
    for dictionary in corpus.glob("dict.*"):
        (tmp_path / dictionary.name).write_text(dictionary.read_text() + "another 1\n")
    assert main(["locality", checkpoint, "--data", str(tmp_path), "--sentences", text]) == 1
    assert f"source words in {tmp_path} differs from the one" in capsys.readouterr().err
