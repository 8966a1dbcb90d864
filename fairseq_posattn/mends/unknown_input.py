"""Text of which the model knows hardly a word: fairseq translates it without a word.

It is of another language, or was not made words and pieces as the training data was.
``fairseq-interactive`` tells it at once, ``fairseq-generate`` at the end.
"""

import sys

from fairseq.tasks import FairseqTask

from fairseq_posattn.data.unknown_words import UnknownWords
from fairseq_posattn.mends.patching import around

_given = UnknownWords()


def apply():
    around(FairseqTask, "get_interactive_tokens_and_lengths", _tell_at_once)
    for name in ("fairseq_cli.generate", "__main__"):
        module = sys.modules.get(name)
        if hasattr(module, "get_symbols_to_strip_from_output") and hasattr(module, "_main"):
            around(FairseqTask, "inference_step", _count)
            around(module, "_main", _tell_at_the_end)


def _tell():
    warning = _given.warning()
    if warning:
        print(f"fairseq_posattn: warning: {warning}", file=sys.stderr)  # the log goes elsewhere


def _tell_at_once(get_tokens_and_lengths, self, lines, encode_fn):
    tokens, lengths = get_tokens_and_lengths(self, lines, encode_fn)
    for sentence in tokens:
        _given.add(sentence, self.source_dictionary)
    _tell()
    return tokens, lengths


def _count(inference_step, self, generator, models, sample, *args, **kwargs):
    if self.source_dictionary is not None:
        _given.add(sample["net_input"]["src_tokens"], self.source_dictionary)
    return inference_step(self, generator, models, sample, *args, **kwargs)


def _tell_at_the_end(main, *args, **kwargs):
    result = main(*args, **kwargs)
    _tell()
    return result
