"""Options of commands that use trained models: model, text, beam search, speed."""

import contextlib
import os
import re
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace, _ActionsContainer
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from fairseq_posattn.common.cli import add_count, natural, number_list, positive
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import output_file, writing
from fairseq_posattn.inference.stream import arriving_lines

BATCH_SIZE, MAX_TOKENS = 256, 8000  # of a translator: lines, and subwords with padding
# Defaults, by the names of fairseq's GenerationConfig; and the attention in --json.
DECODING: dict[str, Any] = {"beam": 5, "lenpen": 1.0, "max_len_a": 0, "max_len_b": 200}
DECODING |= {"min_len": 1, "no_repeat_ngram_size": 0, "attention": "words"}
# Those of generation_config.json of an exported model.
EXPORTED = ("beam", "lenpen", "max_len_b", "min_len", "no_repeat_ngram_size")
SEARCH: dict[str, tuple[Callable[[str], float], str]] = {
    "beam": (positive, "beam size"),
    "lenpen": (float, "length penalty: above 1 favors longer outputs, below 1 shorter ones"),
    "max_len_a": (float, "maximum output length is A x source length + B subwords: this is A"),
    "max_len_b": (natural, "maximum output length is A x source length + B subwords: this is B"),
    "min_len": (positive, "minimum output length in subwords"),
    "no_repeat_ngram_size": (natural, "forbid repeated n-grams of N subwords; 0 allows them"),
}


def add_search(
    group: _ActionsContainer, decoding: Mapping[str, Any], names: Iterable[str] = SEARCH
) -> None:
    """Add these of SEARCH to a parser's group; ``decoding`` has their defaults."""
    for name in names:
        kind, about = SEARCH[name]
        if name == "max_len_b" and "max_len_a" not in names:
            about = "maximum output length in subwords"
        about += f" (default: {decoding[name]})"
        options: Any = {"type": kind, "default": decoding[name], "metavar": "N", "help": about}
        group.add_argument(f"--{name.replace('_', '-')}", **options)


def search_settings(args: Namespace, names: Iterable[str] = SEARCH) -> dict[str, Any]:
    """Return the values of these of SEARCH."""
    return {name: getattr(args, name) for name in names}


def add_data(parser: _ActionsContainer) -> None:
    """Add ``--data``, the folder of a trained model's data, and ``--user-dir``."""
    about = "binarized data with the dictionaries and preparation.json (default: beside the "
    about += "checkpoint, else the training data)"
    parser.add_argument("--data", metavar="FOLDER", help=about)
    add_user_dir(parser)


def add_user_dir(parser: _ActionsContainer) -> None:
    """Add ``--user-dir``, a folder that is imported when the option is read."""
    about = "folder of your mechanisms and models, as for fairseq-train"
    parser.add_argument("--user-dir", type=import_user_dir, metavar="FOLDER", help=about)


def import_user_dir(folder: str) -> str:
    """Import a folder as fairseq does, and return it."""
    from fairseq_posattn.training.registered import utils

    if not os.path.isfile(os.path.join(folder, "__init__.py")):
        raise ArgumentTypeError(f"{folder} has no __init__.py; name the folder of a package")
    utils.import_user_module(Namespace(user_dir=folder))
    return folder


def add_checkpoint(parser: ArgumentParser, several: str = "", **options: Any) -> None:
    """Add the argument ``checkpoint``, of which ``several`` says more, and :func:`add_data`."""
    about = f"checkpoint of fairseq-train, or its folder{several}"
    parser.add_argument("checkpoint", help=about, **options)
    add_data(parser)


def add_model(parser: ArgumentParser, several: str = "", **options: Any) -> None:
    """Add a checkpoint (:func:`add_checkpoint`) and which of its sublayers to show."""
    add_checkpoint(parser, several, **options)
    parser.add_argument("--layers", type=number_list, metavar="L,...", help="layers (default: all)")
    about = "sublayers, as in --encoder-sublayers (default: all attention sublayers)"
    names: Any = {"type": lambda names: names.split(","), "metavar": "NAME,..."}
    parser.add_argument("--sublayers", help=about, **names)


def add_text(parser: ArgumentParser) -> None:
    """Add the options that name text, answers and data."""
    about = "text to read (default: standard input)"
    parser.add_argument("--input", default="-", metavar="FILE", help=about)
    about = "file to write, once all lines are answered (default: standard output)"
    parser.add_argument("--output", type=output_file, metavar="FILE", help=about)
    add_data(parser)


def add_shard(parser: ArgumentParser, what: str) -> None:
    """Add ``--shard I/N``, read as two numbers of which the first counts from 0."""
    about = f"translate the part I of N of {what} only, such as 1/2"
    parser.add_argument("--shard", type=_shard, default=(0, 1), metavar="I/N", help=about)


def _shard(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if not (match and 1 <= int(match[1]) <= int(match[2])):
        raise ArgumentTypeError(f"{text!r} is not I/N, with I from 1 to N")
    return int(match[1]) - 1, int(match[2])


def shard_lines(args: Namespace) -> range | None:
    """Return the lines of the input that are in the shard, from 0; None for all."""
    shard, shards = args.shard
    if shards == 1:
        return None
    if args.input == "-" or Path(args.input).is_fifo():  # it is read twice
        raise UsageError("--shard: needs --input FILE, not a pipe")
    with open(args.input, "rb") as file:
        count = sum(1 for _ in file)
    return range(count * shard // shards, count * (shard + 1) // shards)


def add_speed(parser: ArgumentParser, batch_size: int, buffer_size: int) -> None:
    """Add the options of speed, with their defaults."""
    add_count(parser, "--batch-size", batch_size, "lines in a batch, at most")
    about = "lines to read at most before the first is answered; similar lengths share a batch"
    add_count(parser, "--buffer-size", buffer_size, about)
    parser.add_argument("--cpu", action="store_true", help="run on the CPU")


@contextlib.contextmanager
def answering(args: Namespace) -> Iterator[tuple[Iterator[list[bytes]], str, Any]]:
    """Yield groups of lines of the input as they arrive, its name, and the file for the answers."""
    with contextlib.ExitStack() as files:
        file, name = sys.stdin.buffer, "standard input"
        if args.input != "-":
            file, name = files.enter_context(open(args.input, "rb")), args.input
        out = files.enter_context(writing(args.output)) if args.output else sys.stdout
        yield arriving_lines(file.fileno(), args.buffer_size, name), name, out
