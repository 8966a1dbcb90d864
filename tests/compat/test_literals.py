"""Settings are read, not run."""

import argparse
import ast
import importlib
import os
import sys
import warnings
from pathlib import Path

import fairseq
import pytest
import torch
from fairseq import utils
from fairseq.data.audio.raw_audio_dataset import RawAudioDataset
from fairseq.models.wav2vec import wav2vec2
from fairseq.optim.adam import FairseqAdam, FairseqAdamConfig

from fairseq_posattn import compat
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.loading import read_literal

compat.apply()

FAIRSEQ = Path(fairseq.__file__).parent


@pytest.mark.parametrize(
    "text",
    [
        "(0.9, 0.98)",
        "[(512, 3)] * 20",
        "[(1, 64), (2, 128), (-3, 1e-8)]",
        "{'model': ['a', None], 'lr': 0.25}",
        " 0.5,0.25 ",
        "2 - 0.5 / 4",
        "()",
        "{1, 2}",
        "'a' * 3 + 'b'",
    ],
)
def test_literals_have_pythons_value(text):
    assert read_literal(text) == eval(text.strip())


@pytest.mark.parametrize(
    "text",
    [
        "open('canary', 'w')",
        "__import__('os').system('touch canary')",
        "[open('canary', 'w') for _ in [1]]",
        'f\'{open("canary", "w")}\'',
        "[1][0]",
        "{**{}}",
        "9 ** 9 ** 9",
        "1 << 9999999999",
        "[0] * 10 ** 9",
        "1000000000 * 'a'",
        "[[[[[0] * 99] * 99] * 99] * 99] * 99",
        "'" + "a" * 100_001 + "'",
        "-" * 5000 + "1",
        "(" * 5000 + ")" * 5000,
        "1" * 5000,
        "1 / 0",
        "{[]: 1}",
        "b'a'",
        "",
        "1\0",
    ],
    ids=lambda text: text[:30],
)
def test_other_expressions_are_refused(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="^[^\n]*setting [^\n]* (refused|too long)[^\n]*$"):
        read_literal(text)
    assert not os.listdir(tmp_path)


def test_other_types_are_errors_as_for_eval():
    with pytest.raises(TypeError):
        read_literal(True)
    assert utils.eval_bool(True, default="as it was") == "as it was"


# --- fairseq's own functions ---------------------------------------------------------------------

CODE = "open('canary', 'w') and [(4, 3, 2)]"


@pytest.mark.parametrize(
    "evaluate",
    [
        utils.eval_str_list,
        utils.eval_str_dict,
        utils.eval_bool,
        lambda text: FairseqAdam(FairseqAdamConfig(adam_betas=text, lr=[0.1]), []),
        lambda text: wav2vec2.Wav2Vec2Model(wav2vec2.Wav2Vec2Config(conv_feature_layers=text)),
        lambda text: RawAudioDataset(16, compute_mask=True, feature_encoder_spec=text),
    ],
    ids=["list", "dict", "bool", "adam", "wav2vec2", "raw audio"],
)
def test_fairseq_does_not_run_a_setting(evaluate, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="open"):
        evaluate(CODE)
    assert not os.listdir(tmp_path)


def test_fairseq_reads_its_settings():
    assert utils.eval_str_list("[0.5, 0.25]") == [0.5, 0.25]
    assert utils.eval_str_list("7", type=int) == [7]
    assert utils.eval_str_dict("{'a': 1}") == {"a": 1}
    assert utils.eval_bool("False") is False
    config = FairseqAdamConfig(adam_betas="(0.9, 0.98)", lr=[0.1])
    adam = FairseqAdam(config, [torch.nn.Parameter(torch.zeros(1))])
    assert adam.optimizer_config["betas"] == (0.9, 0.98)
    layers = "[(4, 10, 5)] + [(4, 3, 2)] * 2"
    small = {"encoder_layers": 1, "encoder_embed_dim": 8, "encoder_ffn_embed_dim": 8}
    small |= {"encoder_attention_heads": 2, "conv_pos": 4, "conv_pos_groups": 2}
    config = wav2vec2.Wav2Vec2Config(conv_feature_layers=layers, **small)
    model = wav2vec2.Wav2Vec2Model(config)
    assert len(model.feature_extractor.conv_layers) == 3


# --- every place in the installed fairseq --------------------------------------------------------


def files_that_evaluate(folder):
    """Yield the files that mention eval; none may mention exec or builtins."""
    for path in sorted(folder.rglob("*.py")):
        names = names_in(path)
        assert not names & {"exec", "__builtins__", "builtins"}, path
        if "eval" in names:
            yield path


def names_in(path):
    with warnings.catch_warnings():  # of escape sequences in fairseq's strings
        warnings.simplefilter("ignore")
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    used = {ast.Name: "id", ast.alias: "name"}
    return {getattr(node, used[type(node)]) for node in nodes if type(node) in used}


def module_of(path):
    return ".".join(path.relative_to(FAIRSEQ.parent).with_suffix("").parts)


@pytest.mark.slow
def test_every_module_that_evaluates_is_covered():
    places = [path for path in files_that_evaluate(FAIRSEQ) if "examples" not in path.parts]
    places += files_that_evaluate(FAIRSEQ.parent / "fairseq_cli")
    assert len(places) >= 18, "fairseq's source was not found"
    for path in places:
        module = importlib.import_module(module_of(path))
        compat.apply()
        assert module.eval is read_literal, path


def test_examples_are_covered_once_they_are_imported():
    laser = FAIRSEQ / "examples" / "laser" / "laser_src"
    utils.import_user_module(argparse.Namespace(user_dir=str(laser)))
    imported = [name for name in sys.modules if name.startswith("laser_src.")]
    assert "laser_src.laser_lstm" in imported
    for name in imported:
        assert sys.modules[name].eval is read_literal, name
