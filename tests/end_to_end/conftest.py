"""A tiny corpus, a tiny model and generated data sets, shared by the end-to-end tests."""

import functools
import os
import random
from pathlib import Path

import forked_commands
import preprocessing
import pytest
from forked_recipes import forked_checks, recipe_run  # noqa: F401, fixtures

import fairseq_posattn
from fairseq_posattn.recipes import tiny

# Threads of concurrent processes slow each other down many times over.
os.environ["OMP_NUM_THREADS"] = "1"

USER_DIR = str(Path(fairseq_posattn.__file__).parent)


@pytest.fixture(scope="session", autouse=True)
def fairseq_preprocess_here():
    """Prepare data in this process; other tests start fairseq-preprocess."""
    with preprocessing.in_this_process():
        yield


@pytest.fixture(scope="session")
def user_dir():
    """Return the argument of --user-dir."""
    return USER_DIR


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """Return a binarized corpus, "de" to "en": a target is its source in capitals, reversed.

    Every worker of pytest-xdist makes its own.
    """
    folder = tmp_path_factory.mktemp("corpus")
    generator = random.Random(1)
    for split, size in (("train", 100), ("valid", 12), ("test", 12)):
        source = [generator.choices("abcdefgh", k=generator.randint(2, 9)) for _ in range(size)]
        target = [reversed([letter.upper() for letter in line]) for line in source]
        for language, lines in (("de", source), ("en", target)):
            text = "".join(" ".join(line) + "\n" for line in lines)
            (folder / f"{split}.{language}").write_text(text)
    binarized = folder / "binarized"
    texts = [f"--{split}pref={folder / split}" for split in ("train", "valid", "test")]
    options = ["-s", "de", "-t", "en", *texts, "--joined-dictionary", "--destdir", binarized]
    forked_commands.output_of("preprocess", *options)
    return binarized


@pytest.fixture(scope="session")
def generate(tmp_path_factory):
    """Return ``generate(name)``: the folder of a data set of ``recipes/tiny.py``, enlarged."""

    @functools.cache
    def generate(name):
        folder = tmp_path_factory.mktemp("generated") / name
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(tiny, "SIZES", {"train": 200, "valid": 40, "test": 20})
            patched.setattr(tiny, "IMPRESSIONS", 150)
            tiny.make_dataset(name, folder, random.Random(1))
        return folder

    return generate


@pytest.fixture(scope="session")
def train_arguments(corpus):
    """Return arguments of fairseq-train for a tiny DMAN model, about ten updates an epoch.

    Add --save-dir and --max-update.
    """
    flags = (
        "--source-lang de --target-lang en --cpu --seed 1 --num-workers 0 "
        "--arch posattn_transformer --encoder-layers 1 --decoder-layers 1 "
        "--encoder-sublayers dman,san,ffn --decoder-sublayers dman,san,cross,ffn "
        "--optimizer adam --lr 0.01 --lr-scheduler inverse_sqrt --warmup-updates 4 "
        "--criterion label_smoothed_cross_entropy --label-smoothing 0.1 --max-tokens 100 "
        "--no-progress-bar --log-interval 1 --update-epoch-batch-itr True"
    )
    for side in ("encoder", "decoder"):
        flags += f" --{side}-embed-dim=16 --{side}-ffn-embed-dim=16 --{side}-attention-heads=2"
    return [str(corpus), "--user-dir", USER_DIR, *flags.split()]
