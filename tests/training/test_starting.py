"""``posattn train --from``: the model's options, a smaller rate, and data that fits."""

import json
import shlex
import shutil
from argparse import Namespace
from pathlib import Path

import pytest
import torch
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import OmegaConf

from fairseq_posattn.cli import main
from fairseq_posattn.common.cli import value_of
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.checkpoints import read_checkpoint
from fairseq_posattn.compat.checkpoints.settings import saved_group
from fairseq_posattn.training.commands.train import build_command
from fairseq_posattn.training.registered import options as fairseq_options
from fairseq_posattn.training.settings import Prepared
from fairseq_posattn.training.starting import Start, model_flags, without

FIXTURES = Path(__file__).parents[1] / "fixtures"


def parsed(words):
    parser = fairseq_options.get_training_parser()
    return fairseq_options.parse_args_and_arch(parser, ["data", *words])


def options_of(arch, *flags):
    """Return the model's options that a training with these flags saves."""
    words = ["--arch", arch, *flags]
    if arch.endswith("classifier"):
        words += ["--task", "sentence_prediction", "--num-classes", "2"]
        words += ["--criterion", "sentence_classification"]
    settings = OmegaConf.to_container(convert_namespace_to_omegaconf(parsed(words)), resolve=True)
    model = settings["model"]
    return model if isinstance(model, dict) else vars(model)


@pytest.mark.parametrize(
    "arch, flags",
    [
        ("dman_iwslt_de_en", "--encoder-layers 2 --dropout 0.2 --share-all-embeddings"),
        ("dman_iwslt_de_en", "--encoder-sublayers dman,ffn --dman-max-distance 7"),
        ("posattn_transformer", "--decoder-layers 1 --encoder-normalize-before"),
        ("transformer_iwslt_de_en", "--encoder-layers 2 --decoder-learned-pos --dropout 0.3"),
        ("mpsan_classifier", "--encoder-embed-dim 100 --pooling mean_max --no-class-bias"),
    ],
)
def test_flags_build_the_same_model(arch, flags):
    saved = options_of(arch, *flags.split())
    again, words, names = model_flags("x.pt", saved)
    assert again == arch
    assert without(flags.split(), names) == []
    built = options_of(again, *words)
    assert {name: built[name] for name in saved if name in built} == saved


def test_a_preset_that_no_flag_unsets_becomes_the_model_without_presets():
    saved = options_of("dman_iwslt_de_en") | {"encoder_normalize_before": False}
    assert options_of("dman_iwslt_de_en")["encoder_normalize_before"]
    arch, words, _ = model_flags("x.pt", saved)
    assert arch == "posattn_transformer"
    built = options_of(arch, *words)
    assert {**built, "_name": "", "arch": ""} == {**saved, "_name": "", "arch": ""}


def test_an_unknown_architecture_is_one_line():
    with pytest.raises(UsageError, match="x.pt: --arch of_a_plugin is unknown"):
        model_flags("x.pt", {"_name": "of_a_plugin"})


@pytest.fixture
def start(tmp_path, monkeypatch):
    """``start("classification")`` makes data and a copy of a checkpoint, and returns its folder."""
    monkeypatch.chdir(tmp_path)

    def make(kind, **fields):
        task = {"translation": "translation", "classification": "sentence_prediction"}[kind]
        described = {"corpus": "own", "word_rule": "text", "task": task, "metric": "loss"}
        described |= {"criterion": "sentence_classification", "examples": {"train": 20}}
        if kind == "translation":
            described |= {"languages": ["de", "en"], "joined": False}
        Path("data").mkdir()
        Path("data/preparation.json").write_text(json.dumps(described | fields))
        saved = Path("general")
        saved.mkdir()
        shutil.copy(FIXTURES / kind / "checkpoint.pt", saved / "checkpoint_best.pt")
        return saved

    return make


@pytest.mark.parametrize("kind", ["translation", "classification"])
def test_training_starts_from_the_weights_at_a_smaller_rate(kind, start, capsys):
    folder, prepared = start(kind), Prepared(Path("data"))
    saved = saved_group(read_checkpoint(folder / "checkpoint_best.pt"), "model")
    source = Start(folder, prepared, Path("saved"))
    size = prepared.size("tiny", source.apply)
    words = build_command(prepared, size, None, [], Path("saved"), [], source)
    assert value_of(words, "--finetune-from-model") == "general/checkpoint_best.pt"
    args = parsed(words[2:])
    usual = float(value_of(shlex.split(prepared.size("tiny").flags), "--lr"))
    assert args.lr[0] == pytest.approx(min(usual, source.rate) / 10)
    assert args.lr_scheduler == "fixed"
    assert words.count("--lr") == words.count("--arch") == 1
    built = vars(args)
    for name in (
        "encoder_embed_dim",
        "encoder_layers",
        "dropout",
        "share_decoder_input_output_embed",
    ):
        if name in saved and name in built:
            assert built[name] == saved[name], name
    assert main(["train", "data", "--from", "general", "--cpu", "--dry-run"]) == 0
    assert "--finetune-from-model general/checkpoint_best.pt" in capsys.readouterr().out


def test_a_training_that_began_keeps_its_rate_and_needs_no_start(start):
    folder, prepared = start("translation"), Prepared(Path("data"))
    Path("saved").mkdir()
    (folder / "checkpoint_best.pt").rename("saved/checkpoint_last.pt")
    source = Start(folder, prepared, Path("saved"))
    assert source.is_resumed
    size = prepared.size("tiny", source.apply)
    assert float(value_of(shlex.split(size.flags), "--lr")) == source.rate
    assert "--finetune-from-model" not in source.fit(["--task", "translation"])


def test_old_checkpoints_with_a_namespace_are_starts(start):
    folder = start("translation")
    state = read_checkpoint(folder / "checkpoint_best.pt")
    args = {**state["cfg"]["model"], "lr": [0.5], "task": "translation", "arch": "transformer"}
    del args["_name"]
    torch.save({**state, "cfg": None, "args": Namespace(**args)}, "old.pt")
    source = Start(Path("old.pt"), Prepared(Path("data")), Path("saved"))
    assert (source.arch, source.rate) == ("transformer", 0.5)


@pytest.mark.parametrize("arch", ["lstm", "fconv"])
def test_other_models_of_fairseq_have_no_flags_of_transformers(arch, start):
    folder, prepared = start("translation"), Prepared(Path("data"))
    state = read_checkpoint(folder / "checkpoint_best.pt")
    args = {**options_of(arch), "lr": [0.5], "task": "translation", "arch": arch}
    args["_name"] = "translation"
    torch.save({**state, "cfg": None, "args": Namespace(**args)}, "other.pt")
    source = Start(Path("other.pt"), prepared, Path("saved"))
    size = prepared.size("tiny", source.apply)
    words = build_command(prepared, size, None, [], Path("saved"), [], source)
    assert parsed(words[2:]).arch == arch  # else an error of unrecognized arguments


@pytest.mark.parametrize(
    "words, problem",
    [
        (["--from", "gone.pt"], "--from gone.pt: no such checkpoint or folder of checkpoints"),
        (["--from", "data"], "data: the folder has no checkpoint_best.pt"),
        (["--from", "general", "--save-dir", "general"], "--from general: is in the folder of"),
        (["--from", "general", "--arch", "rpr"], "--arch rpr: --from has its own"),
        (["--from", "other.pt"], "--from other.pt: is of task sentence_prediction, data of tran"),
    ],
)
def test_a_mistake_is_one_line(words, problem, start, capsys):
    start("translation")
    shutil.copy(FIXTURES / "classification/checkpoint.pt", "other.pt")
    assert main(["train", "data", "--cpu", *words]) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("posattn train: error: ") and problem in error
    assert not Path("checkpoints").exists()


@pytest.mark.parametrize("language", ["en", None])
@pytest.mark.parametrize("folder", ["general", "old-data"])
def test_data_with_other_dictionaries_is_named_before_training(folder, language, start, capsys):
    """fairseq's own checkpoints name the folder of their dictionaries only."""
    path = start("translation") / "checkpoint_best.pt"
    state = read_checkpoint(path)
    state["cfg"]["task"] |= {"data": "old-data", "source_lang": "de", "target_lang": language}
    torch.save(state, path)
    Path("old-data").mkdir()
    for side in ("de", "en"):
        Path(f"{folder}/dict.{side}.txt").write_text("a 2\nb 1\n")
        Path(f"data/dict.{side}.txt").write_text("a 9\nb 8\n")
    command = ["train", "data", "--from", "general", "--cpu", "--dry-run"]
    assert main(command) == 0
    Path("data/dict.en.txt").write_text("b 2\na 1\n")
    capsys.readouterr()
    assert main(command) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert f"--from general: {folder}/dict.en.txt differs from data/dict.en.txt; prepare" in error
    assert error.endswith(f"--like {folder}")


def test_folders_of_pairs_that_share_dictionaries_train_in_turn(start, capsys):
    start("translation")
    for side in ("de", "en"):
        Path(f"data/dict.{side}.txt").write_text("a 1\n")
    shutil.copytree("data", "more")
    assert main(["train", "data:more", "--cpu", "--dry-run"]) == 0
    assert capsys.readouterr().out.startswith("fairseq-train data:more ")
    Path("more/dict.en.txt").write_text("b 1\n")
    for other in ("more", "gone"):
        assert main(["train", f"data:{other}", "--cpu", "--dry-run"]) == 1
        error = capsys.readouterr().err
        assert error.startswith(f"posattn train: error: {other}: has not the dict.")
        assert "--like data" in error and error.count("\n") == 1


def test_labeled_data_is_one_folder(start, capsys):
    start("classification")
    assert main(["train", "data:data", "--cpu", "--dry-run"]) == 1
    assert "fairseq reads one folder of classification" in capsys.readouterr().err
