"""Wrong command lines of fairseq end in one line on standard error and write nothing."""

import random
from pathlib import Path
from types import SimpleNamespace

import forked_commands
import pytest

CLASSIFIER = ["--arch", "mpsan_classifier", "--encoder-embed-dim", "16", "--head-dim", "16"]
CLASSIFIER += ["--optimizer", "adam", "--lr", "0.01", "--cpu", "--num-workers", "0"]
CLASSIFIER += ["--task", "sentence_prediction", "--criterion", "sentence_classification"]
YAML = """
common: {{user_dir: {user_dir}, cpu: true}}
task: {{_name: translation, data: {corpus}, source_lang: de, target_lang: en}}
model: {{_name: posattn_transformer, encoder_layers: 1, decoder_layers: 1, encoder_embed_dim: 16,
  decoder_embed_dim: 16, encoder_attention_heads: 2, decoder_attention_heads: 2, dropout: 0.1}}
criterion: {{_name: cross_entropy}}
optimizer: {{_name: adam, adam_betas: "(0.9, 0.98)"}}
lr_scheduler: {{_name: inverse_sqrt, warmup_updates: 4}}
optimization: {{lr: [0.01], max_update: 2}}
dataset: {{max_tokens: 100, num_workers: 0}}
checkpoint: {{save_dir: {save_dir}}}
"""


@pytest.fixture(scope="module")
def numbers(request):
    """Return the numbers of the mistakes of the selected tests."""
    tests = [item for item in request.session.items if item.path == request.path]
    return [item.callspec.params["number"] for item in tests if "finished" in item.fixturenames]


@pytest.fixture(scope="module")
def world(numbers, corpus, train_arguments, user_dir, write_sentence_data, tmp_path_factory):
    """Return data, checkpoints and correct command lines, to which a mistake is added."""
    folder = tmp_path_factory.mktemp("mistakes")
    paths = {"FOLDER": folder, "DATA": corpus}
    generator = random.Random(1)

    def column(letters):
        return [" ".join(generator.choices(letters, k=5)) for _ in range(20)]

    paths["CLASSES"] = folder / "classes"
    labels = ["bad", "fair", "good"] * 6 + ["bad", "good"]
    split = {"input0": column("abcd"), "label": labels}
    write_sentence_data(paths["CLASSES"], {"train": split, "valid": split})

    paths["MORE"], text = folder / "more", folder / "text"
    for language in ("de", "en"):
        Path(f"{text}.{language}").write_text("\n".join(column("abcdefghijkl")) + "\n")
    options = [f"--{split}pref={text}" for split in ("train", "valid", "test")]
    options += ["--joined-dictionary", "--destdir", paths["MORE"], "-s", "de", "-t", "en"]
    forked_commands.output_of("preprocess", *options)

    train = {
        "train": [*train_arguments, "--max-update", "2"],
        "classify": [paths["CLASSES"], *("--user-dir", user_dir), *CLASSIFIER]
        + ["--num-classes", "3", "--batch-size", "8", "--max-update", "2"],
    }
    for name, arguments in (
        ("MODEL", train["train"]),
        ("MORE_WORDS", [paths["MORE"], *train["train"][1:]]),
        ("CLASSIFIER", train["classify"]),
    ):
        if name == "MODEL" or any(name in MISTAKES[number][1] for number in numbers):
            forked_commands.output_of("train", *arguments, "--save-dir", folder / name.lower())
        paths[name] = folder / name.lower() / "checkpoint_last.pt"

    (folder / "latin.txt").write_bytes("é\n".encode("latin-1"))
    (folder / "long.txt").write_text("a " * 2000 + "\n")
    (folder / "file").write_text("not a folder\n")
    (folder / "empty").mkdir()
    yaml = YAML.format(user_dir=user_dir, corpus=corpus, save_dir="SAVE_DIR")
    (folder / "tiny.yaml").write_text(yaml)
    search = ["--user-dir", user_dir, "--cpu", "--path", paths["MODEL"], "--num-workers", "0"]
    search += ["--max-tokens", "200", "--beam", "2"]
    good = {
        **{name: [*arguments, "--save-dir", "SAVE_DIR"] for name, arguments in train.items()},
        "generate": [corpus, *search],
        "interactive": [corpus, *search],
        "validate": [corpus, *search[:-2], "--task", "translation"],
        "hydra_train": ["--config-dir", folder, "--config-name", "tiny"],
    }
    return SimpleNamespace(paths=paths, good=good)


SKIP = "--skip-invalid-size-inputs-valid-test"

# A command, the mistake, and words of the message. "without FLAG" removes a flag and its value,
# "data=" replaces the data folder, "stdin=" is the standard input.
MISTAKES = [
    ("train", "--restore-file MORE_WORDS", "MORE_WORDS DATA words"),
    ("train", "--restore-file FOLDER/long.txt", "FOLDER/long.txt cannot be read"),
    ("train", "--save-dir FOLDER/file/below", "FOLDER/file/below: Not a directory"),
    ("train", "--criterion news_recommendation", "unrecognized --label-smoothing --criterion"),
    ("train", "data=FOLDER/empty", "FOLDER/empty/dict.de.txt: No such file"),
    ("train", "--encoder-sublayers dmam,ffn", "--encoder-sublayers dmam,ffn: dman"),
    ("train", "--dman-max-distence=4", "unrecognized --dman-max-distence=4 --dman-max-distance"),
    ("train", "without --arch", "--arch is missing"),
    ("train", "--valid-subset dev", "DATA has no split dev"),
    ("classify", "--encoder-embed-path nowhere.txt", "nowhere.txt: cannot be read: No such file"),
    ("classify", "data=DATA", "DATA/input0/dict.txt: No such file"),
    ("generate", "--path FOLDER/none.pt", "FOLDER/none.pt no such checkpoint"),
    ("generate", "--path MODEL:MORE_WORDS", "MORE_WORDS DATA words"),
    ("generate", "--sampling", "--sampling --nbest --beam"),
    ("generate", "--model-overrides {'beem':2}", "--model-overrides 'beem': no such beam"),
    ("generate", "--lm-path MODEL", "--lm-path: PosAttnTransformer"),
    ("generate", f"--max-source-positions 1 {SKIP}", "test: 12 of 12 too long (1, 1024)"),
    ("interactive", "--input FOLDER/latin.txt", "not UTF-8 0xe9"),
    ("interactive", "stdin=FOLDER/latin.txt", "not UTF-8 0xe9"),
    ("interactive", "stdin=FOLDER/long.txt", "too long 2001 1024"),
    ("validate", "without --task", "--task is missing"),
    ("hydra_train", "task.data=FOLDER/none", "FOLDER/none: no such folder"),
    ("hydra_train", "+model.encoder_layer=2", "--encoder-layer no such setting"),
]


def arguments_of(world, command, mistake):
    """Return the correct command line with a mistake added, and its standard input."""
    arguments = [str(argument) for argument in world.good[command]]
    words = replace_names(world, mistake).split()
    if words[0] == "without":
        index = arguments.index(words[1])
        return arguments[:index] + arguments[index + 2 :], "/dev/null"
    stdin = "/dev/null"
    for word in list(words):
        name, _, value = word.partition("=")
        if name == "data":
            arguments[0] = value
        elif name == "stdin":
            stdin = value
        else:
            continue
        words.remove(word)
    return arguments + words, stdin


def replace_names(world, text):
    for name in sorted(world.paths, key=len, reverse=True):
        text = text.replace(name, str(world.paths[name]))
    return text


@pytest.fixture(scope="module")
def finished(world, numbers):
    """Run the commands of the selected tests; return exit code, output and errors by number."""
    folder, ends = world.paths["FOLDER"] / "runs", {}
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)  # Hydra writes there
        for number in numbers:
            command, mistake, _ = MISTAKES[number]
            arguments, stdin = arguments_of(world, command, mistake)
            save_dir = folder / f"save_{number}"
            if command == "hydra_train":
                arguments += [f"checkpoint.save_dir={save_dir}"]
            arguments = [argument.replace("SAVE_DIR", str(save_dir)) for argument in arguments]
            program = "train" if command == "classify" else command
            output, errors = (folder / f"{number}.{end}" for end in ("out", "err"))
            code = forked_commands.run(program, arguments, output, errors=errors, stdin=stdin)
            ends[number] = code, output.read_text(), errors.read_text()
    return ends


@pytest.mark.parametrize(
    "number", range(len(MISTAKES)), ids=[" ".join(mistake[:2]) for mistake in MISTAKES]
)
def test_a_mistake_is_one_line(world, finished, number):
    code, output, errors = finished[number]
    _, _, words = MISTAKES[number]
    assert code in (1, 2), output + errors
    line, *more = errors.splitlines() or [""]
    assert not more, errors
    assert "error: " in line
    assert "Traceback" not in output
    missing = [word for word in replace_names(world, words).split() if word not in line]
    assert not missing, line
    assert not list((world.paths["FOLDER"] / "runs" / f"save_{number}").glob("*.pt"))


@pytest.mark.parametrize("arch", [None, "transformer_iwslt_de_en"])
def test_a_training_that_diverges_ends_in_one_line(train_arguments, tmp_path, arch):
    flags = ["--lr", "1e30", "--warmup-updates", "1", "--max-update", "9", "--save-dir", tmp_path]
    words = [*train_arguments, *flags]
    if arch:
        words = [word for word in words if "sublayers" not in str(word) and "san" not in str(word)]
        words[words.index("--arch") + 1] = arch
    log = tmp_path / "log"
    assert forked_commands.run("train", words, log) == 1
    lines = log.read_text().splitlines()
    assert lines[-1].startswith("fairseq_posattn: error: the training has diverged (gradients are")
    assert "Traceback" not in log.read_text()
