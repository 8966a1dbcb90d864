"""Dictionaries, vectors, codes and text that cannot be read: one line with the file.

fairseq names no file where it quotes the line at fault, waits for FIFOs, and reads a line of any
length, and codes of any size, into memory.
"""

import contextlib
import os
import sys

from fairseq import utils
from fairseq.data import Dictionary, encoders

from fairseq_posattn.common.errors import UsageError, in_one_line
from fairseq_posattn.compat.command_loops import interactive_loop
from fairseq_posattn.compat.patching import around, instead
from fairseq_posattn.text.plain_text import LARGEST

LONGEST = 1 << 20  # bytes of a line
# Flags of --bpe that name files.
CODES = ("bpe_codes", "sentencepiece_model", "gpt2_encoder_json", "gpt2_vocab_bpe")
CODES += ("bpe_merges", "bpe_vocab", "bpe_vocab_file")


def _require_lines(path, what):
    """Refuse what is no file, and a line that no file of text has, before either is read."""
    if not os.path.isfile(path):
        raise UsageError(f"{path} is no file that a {what} can be read from")
    with open(path, "rb") as file:
        while line := file.readline(LONGEST):
            if len(line) == LONGEST:
                raise UsageError(f"{path} has a line of {LONGEST:,} bytes or more: it is no {what}")


@around(Dictionary, "add_from_file")
def _name_the_dictionary(add_from_file, self, file):
    """One without words fairseq takes, and the model fails in its embedding."""
    if not isinstance(file, str):
        return add_from_file(self, file)
    if os.path.exists(file):
        _require_lines(file, "dictionary")
    before = len(self)
    try:
        add_from_file(self, file)
    except OSError:
        raise
    except Exception as error:
        raise UsageError(f"{file} is no dictionary ({in_one_line(error)})") from error
    if len(self) == before:
        raise UsageError(f"{file} is a dictionary without words: prepare the data again")


class _Vectors(dict):
    """Of words, all of ``width`` numbers, from the file ``path``."""


@around(utils, "parse_embedding")
def _name_the_vectors(parse_embedding, embed_path):
    """Of fairseq's own models; ours read theirs in training/models/word_vectors.py."""
    if os.path.exists(embed_path):
        _require_lines(embed_path, "list of word vectors")
    try:
        vectors = _Vectors(parse_embedding(embed_path))
        widths = {len(row) for row in vectors.values()}
    except OSError:
        raise
    except Exception as error:
        raise UsageError(f"{embed_path} holds no word vectors ({in_one_line(error)})") from error
    if len(widths) != 1:
        raise UsageError(f"{embed_path} holds vectors of {len(widths)} widths, not of one")
    for word, vector in vectors.items():
        if not vector.isfinite().all():
            raise UsageError(f"{embed_path}: the vector of {word!r} has a number that is none")
    vectors.path, (vectors.width,) = embed_path, widths
    return vectors


@around(utils, "load_embedding")
def _check_the_width(load_embedding, embed_dict, vocab, embedding):
    """fairseq fails at the first word, with the shapes of two tensors."""
    width = getattr(embed_dict, "width", embedding.embedding_dim)
    if width != embedding.embedding_dim:
        raise UsageError(
            f"{embed_dict.path} has vectors of {width} numbers, and the embedding has "
            f"{embedding.embedding_dim}: change --encoder-embed-dim or --decoder-embed-dim"
        )
    return load_embedding(embed_dict, vocab, embedding)


@around(encoders, "build_bpe")
def _name_the_codes(build_bpe, cfg, *args, **kwargs):
    settings = dict(cfg) if hasattr(cfg, "keys") else getattr(cfg, "__dict__", {})
    paths = [str(settings[name]) for name in CODES if settings.get(name)]
    files = [path for path in paths if os.path.exists(path)]
    for path in files:
        if not os.path.isfile(path) or os.path.getsize(path) > LARGEST:
            raise UsageError(f"{path}: what --bpe reads is a file of at most {LARGEST:,} bytes")
    try:
        return build_bpe(cfg, *args, **kwargs)
    except (Exception, SystemExit) as error:  # subword-nmt leaves the program
        name = settings.get("_name") or settings.get("bpe")
        raise UsageError(
            f"--bpe {name} cannot be read from {', '.join(files) or 'no file'} "
            f"({in_one_line(error)})"
        ) from error


def _line_of(file, name):
    try:
        return file.readline(LONGEST)
    except UnicodeDecodeError as error:
        raise UsageError(
            f"--input {name} is not UTF-8 (byte 0x{error.object[error.start]:02x} at place "
            f"{error.start} of what was read): convert it first"
        ) from None


@instead(interactive_loop, "buffered_read")
def read_groups(input, buffer_size):
    """The lines of ``fairseq-interactive --input``, without blanks around them, in groups.

    Args:
        input (str): the file, ``-`` for the standard input.
    """
    with contextlib.ExitStack() as stack:
        file = sys.stdin
        if input != "-":
            file = stack.enter_context(open(input, encoding="utf-8"))
        group = []
        while line := _line_of(file, input):
            if len(line) == LONGEST:
                raise UsageError(f"--input {input} has a line of {LONGEST:,} characters or more")
            group.append(line.strip())
            if len(group) >= buffer_size:
                yield group
                group = []
        if group:
            yield group
