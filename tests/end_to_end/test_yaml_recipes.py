"""The papers' YAML files train just what ``fairseq-train --arch`` trains with the same settings."""

from pathlib import Path

import forked_commands
import pytest
import torch

from fairseq_posattn.checkpoints.reading import read_checkpoint
from fairseq_posattn.plugin import register

register()

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = {"encoder_layers": 1, "decoder_layers": 1, "max_target_positions": 32}
ADAM = ["--optimizer=adam", "--lr-scheduler=fixed", "--lr=1e-3"]
ADADELTA = ["--optimizer=adadelta", "--adadelta-rho=0.95", "--adadelta-eps=1e-8", "--lr=0.5"]
ADADELTA += ["--lr-scheduler=fixed"]

# By file: settings of the model to make it small or to overrule the preset, and the flags of the
# paper's recipe.
FILES = {
    "dman/iwslt14": (
        {"encoder_embed_dim": 32, "decoder_embed_dim": 32, "activation_dropout": 0.0, **SMALL},
        [
            *("--arch=dman_iwslt_de_en", "--share-all-embeddings", "--dropout=0.3"),
            *("--criterion=label_smoothed_cross_entropy", "--label-smoothing=0.1"),
            *("--optimizer=adam", "--adam-betas=(0.9, 0.98)", "--weight-decay=1e-4"),
            *("--lr-scheduler=inverse_sqrt", "--lr=7e-3"),
            *("--warmup-updates=16000", "--warmup-init-lr=1e-7"),
            *(
                "--max-tokens=8192",
                "--update-freq=2",
                "--task=translation",
                "--source-lang=de",
                "--target-lang=en",
            ),
        ],
    ),
    "mpsan/sst5": (
        {"head_dim": 12},
        [
            *("--arch=mpsan_classifier", "--task=sentence_prediction"),
            *(*ADADELTA, "--l2=1e-7", "--dropout=0.3", "--batch-size=64"),
        ],
    ),
    "mtsa/snli": (
        {"encoder_hidden_dim": 24},
        [
            *("--arch=mtsa_classifier", "--task=sentence_pair_prediction"),
            *(*ADADELTA, "--l2=5e-5", "--dropout=0.35", "--batch-size=128"),
        ],
    ),
    "da_transformer/sst2": (
        {"encoder_ffn_embed_dim": 24},
        [
            *("--arch=da_transformer_classifier", "--task=sentence_prediction"),
            *(*ADAM, "--batch-size=64"),
        ],
    ),
    "cspan/ag_news": (
        {"pooling_queries": 3},
        [
            *("--arch=cspan_classifier", "--task=sentence_prediction"),
            *("--max-positions=512", "--shorten-method=truncate"),
            *(*ADAM, "--l2=1e-4", "--batch-size=64"),
        ],
    ),
}


def test_every_paper_has_a_file():
    files = {str(path.relative_to(EXAMPLES).with_suffix("")) for path in EXAMPLES.glob("*/*.yaml")}
    assert files == set(FILES)


@pytest.fixture
def sentences(write_sentence_data, tmp_path):
    """Pairs of sentences in five classes, and vectors of some of their words."""
    lines = [f"word{number} and word{number % 3}" for number in range(10)]
    columns = {"input0": lines, "input1": lines[::-1]}
    columns["label"] = [str(number % 5) for number in range(10)]
    data = write_sentence_data(tmp_path / "data", dict.fromkeys(("train", "valid"), columns))
    (data / "glove.txt").write_text("".join(f"word{n}" + f" 0.{n}" * 300 + "\n" for n in range(3)))
    return data


@pytest.mark.parametrize("name", FILES)
def test_a_papers_file_trains_as_the_flags_do(name, sentences, corpus, user_dir, tmp_path):
    settings, flags = FILES[name]
    folder, config = name.split("/")
    data, flags = (corpus if folder == "dman" else sentences), list(flags)
    if folder != "dman":
        vectors = f"--encoder-embed-path={data / 'glove.txt'}"
        flags += ["--criterion=sentence_classification", "--num-classes=5", vectors]
    saved = {way: tmp_path / way for way in ("yaml", "flags")}
    overrides = {
        **{"common.user_dir": user_dir, "common.cpu": "true", "common.fp16": "false"},
        **{"task.data": data, "dataset.num_workers": 0, "optimization.max_update": 2},
        **{"checkpoint.save_dir": saved["yaml"]},
        **{f"++model.{option}": value for option, value in settings.items()},
        **({} if folder == "dman" else {"task.num_classes": 5}),
    }
    yaml = ["--config-dir", EXAMPLES / folder, "--config-name", config]
    yaml += [f"{setting}={value}" for setting, value in overrides.items()]
    options = [f"--{option.replace('_', '-')}={value}" for option, value in settings.items()]
    common = [data, "--user-dir", user_dir, "--cpu", "--num-workers=0", "--max-update=2"]
    common += ["--update-epoch-batch-itr=True", "--no-epoch-checkpoints", "--save-dir"]
    commands = {"hydra_train": yaml, "train": [*common, saved["flags"], *flags, *options]}
    for command, arguments in commands.items():
        log = tmp_path / f"{command}.log"
        assert forked_commands.run(command, arguments, log) == 0, log.read_text()
    one, other = (read_checkpoint(saved[way] / "checkpoint_last.pt") for way in saved)
    assert one["cfg"]["model"]["_name"] == other["cfg"]["model"]["_name"]
    assert list(one["model"]) == list(other["model"])
    for parameter, weight in one["model"].items():
        assert torch.equal(weight, other["model"][parameter]), parameter
