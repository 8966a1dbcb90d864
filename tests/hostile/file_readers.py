"""Every command that reads a file other than a checkpoint, and hostile files for it.

``FILES[kind][name](path, canary)`` makes a file at ``path``; the file ``canary`` must not appear
when it is read.
"""

import os
import pickle
import shutil
from functools import partial

import entry_points
import forked_commands
from entry_points import GENERATION, TRAINING, fairseq_command, posattn
from hostile_checkpoints import touch
from kill_and_resume import FIXTURES, MAKE

LOAD = "load_model_ensemble_and_task"

TRANSLATION = "{data}/translation/data"
MODEL = ["--path", "{data}/translation/checkpoint.pt", *GENERATION[3:]]
TRAINING = [TRANSLATION, *TRAINING[1:], "--max-update", "1"]
CLASSIFIER = ["{data}/classification/data", *MAKE["CLASSIFICATION"], "--encoder-embed-dim", "12"]
CLASSIFIER += ["--max-update", "1", "--no-save", "--save-dir", "{folder}/saved"]


def interactive(*arguments):
    return fairseq_command("interactive", TRANSLATION, *MODEL, "--buffer-size", "8", *arguments)


PREDICT = ("predict", "{data}/classification/checkpoint.pt", "--cpu")
PREDICT += ("--data", "{data}/classification/data")
train = fairseq_command("train", *TRAINING)
classify = fairseq_command("train", *CLASSIFIER)
LOCALITY = ("analysis", "locality", "{data}/translation/checkpoint.pt")
# By the kind of file, the commands and where they look for it.
READERS = {
    "vectors": {
        "classify": ("file", fairseq_command("train", *CLASSIFIER, "--encoder-embed-path={path}"))
    },
    "dictionary": {
        "train": ("translation/data/dict.de.txt", train),
        "interactive": ("translation/data/dict.en.txt", interactive()),
        "classify": ("classification/data/label/dict.txt", classify),
        "predict": ("classification/data/input0/dict.txt", posattn(*PREDICT)),
        "preprocess": (
            "file",
            fairseq_command(
                *("preprocess", "--source-lang", "de", "--target-lang", "en", "--srcdict"),
                *("{path}", "--testpref", "{data}/text", "--destdir", "{folder}/out"),
            ),
        ),
    },
    "codes": {"interactive": ("file", interactive("--bpe=subword_nmt", "--bpe-codes={path}"))},
    "sentencepiece": {
        "interactive": ("file", interactive("--bpe=sentencepiece", "--sentencepiece-model={path}"))
    },
    "manifest": {"predict": ("classification/data/preparation.json", posattn(*PREDICT))},
    "text": {
        "predict": ("file", posattn(*PREDICT, "--input", "{path}")),
        "documents": ("file", posattn(*PREDICT, "--input", "{path}", "--tokenizer", "documents")),
        "analysis": ("file", posattn(*LOCALITY, "--data", TRANSLATION, "--sentences", "{path}")),
        "bleu": ("file", posattn("score", "bleu", "--generated", "{path}")),
    },
}


# --- Hostile files --------------------------------------------------------------------------------


def of(content):
    """Return a function that writes contents: bytes, or a function of the canary."""
    return lambda path, canary: path.write_bytes(content(canary) if callable(content) else content)


def endless(path, canary):
    """Write a sparse file of a terabyte."""
    path.touch()
    os.truncate(path, 1 << 40)


ANY = {
    "nothing": of(b""),
    "bytes": of(bytes(range(256)) * 40),
    "pickle": of(lambda canary: pickle.dumps(touch(canary), protocol=0)),
    "endless": endless,
}
FILES = {
    "vectors": {
        "width": of(b"2 1000000000000\na 1 2\nb 1 2\n"),
        "long": of(b"1 12\na" + b" 1" * 5_000_000 + b"\n"),
    },
    "dictionary": {"code": of(b"a __import__('os').system('touch canary')\n")},
    "codes": {"version": of(b"#version: 9999999999.x\na b\n")},
    "sentencepiece": {
        "long field": of(b"\x0a\xff\xff\xff\xff\x0f" + b"a" * 100),
        "deep": of(b"\x0b" * 100_000),
    },
    "manifest": {
        "deep": of(b"[" * 100_000),
        "rule": of(b'{"corpus": "a", "task": "b", "word_rule": "os.system"}'),
    },
    "text": {  # of more work than its length, to who looks back for each of these
        "dots": of(b"." * 500_000),
        "abbreviations": of(b"e.g. " * 120_000),
        "marks": of(b"! " * 300_000),
        "words": of(b"a " * 300_000),
    },
}


# --- Trials ---------------------------------------------------------------------------------------


def try_all(kind, reader, folder):
    """Give each hostile file of a kind to a command, as :func:`entry_points.try_all`."""
    results = entry_points.run(_try_all, kind, reader, folder)
    return folder / "world" / READERS[kind][reader][0], results


def _try_all(kind, reader, folder):
    import fairseq_cli.interactive  # noqa: F401, before it is patched, as by its command
    from fairseq import checkpoint_utils, tasks

    from fairseq_posattn.inference import prediction  # noqa: F401, registers

    os.chdir(folder)
    world, (location, call) = folder / "world", READERS[kind][reader]
    path, waiting = world / location, [ANY | FILES[kind]]
    shutil.copytree(FIXTURES, world)
    path.parent.mkdir(exist_ok=True)

    def prepare(write):
        path.unlink(missing_ok=True)
        write(path, folder / "canary")

    def try_each():
        if waiting:
            entry_points.fork_for_each(waiting.pop(), prepare, folder)

    if call.__qualname__.startswith("fairseq_command") and reader != "preprocess":
        for module, name in ((tasks, "setup_task"), (checkpoint_utils, LOAD)):
            setattr(module, name, after(try_each, getattr(module, name)))  # its flags are parsed
    else:
        try_each()
    call = partial(call, path=path, data=world, folder=folder)
    os._exit(forked_commands.exit_code(call))


def after(first, function):
    def call_both(*args, **kwargs):
        first()
        return function(*args, **kwargs)

    return call_both
