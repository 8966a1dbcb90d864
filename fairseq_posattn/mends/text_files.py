"""Dictionaries, vectors and what splits words, if they cannot be read: one line with the file."""

import os

from fairseq import utils
from fairseq.data import Dictionary, encoders

from fairseq_posattn.errors import UsageError
from fairseq_posattn.mends.checkpoint_reading import in_one_line
from fairseq_posattn.mends.patching import patch


def apply():
    patch(Dictionary, "add_from_file", _name_the_dictionary)
    patch(utils, "parse_embedding", _name_the_vectors)
    patch(encoders, "build_bpe", _name_the_codes)


def _name_the_dictionary(add_from_file):
    """fairseq quotes the line at fault and names no file; a FIFO it waits for; one without words
    it takes, and the model fails in its embedding.
    """

    def add_or_explain(self, file):
        if not isinstance(file, str):
            return add_from_file(self, file)
        if os.path.exists(file) and not os.path.isfile(file):
            raise UsageError(f"{file} is no file that a dictionary can be read from")
        before = len(self)
        try:
            add_from_file(self, file)
        except OSError:
            raise
        except Exception as error:
            raise UsageError(f"{file} is no dictionary ({in_one_line(error)})") from error
        if len(self) == before:
            raise UsageError(f"{file} is a dictionary without words: prepare the data again")

    return add_or_explain


def _name_the_vectors(parse_embedding):
    """Of fairseq's own models; ours read theirs in models/word_vectors.py."""

    def parse_or_explain(embed_path):
        try:
            return parse_embedding(embed_path)
        except OSError:
            raise
        except Exception as error:
            raise UsageError(
                f"{embed_path} holds no word vectors ({in_one_line(error)})"
            ) from error

    return parse_or_explain


def _name_the_codes(build_bpe):
    def build_or_explain(cfg, *args, **kwargs):
        try:
            return build_bpe(cfg, *args, **kwargs)
        except (Exception, SystemExit) as error:  # subword-nmt leaves the program
            settings = dict(cfg) if hasattr(cfg, "keys") else vars(cfg)
            files = [value for value in settings.values() if os.path.isfile(str(value))]
            name = settings.get("_name") or settings.get("bpe")
            raise UsageError(
                f"--bpe {name} cannot be read from {', '.join(files) or 'no file'} "
                f"({in_one_line(error)})"
            ) from error

    return build_or_explain
