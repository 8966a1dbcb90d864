"""Text of which the model knows hardly a word: fairseq translates it without a word.

It is of another language, or was not made words and pieces as the training data was.
``fairseq-interactive`` tells it at once, ``fairseq-generate`` at the end.
"""

import sys

from fairseq.tasks import FairseqTask

from fairseq_posattn.compat.command_loops import generation_loop
from fairseq_posattn.compat.patching import around
from fairseq_posattn.compat.unknown_tokens import TOKENIZED, UnknownWords

_given = UnknownWords(kind="tokens", hint=TOKENIZED)


def _tell():
    warning = _given.warning()
    if warning:
        print(f"fairseq_posattn: warning: {warning}", file=sys.stderr)  # the log goes elsewhere


@around(FairseqTask, "get_interactive_tokens_and_lengths")
def _tell_at_once(get_tokens_and_lengths, self, lines, encode_fn):
    tokens, lengths = get_tokens_and_lengths(self, lines, encode_fn)
    for sentence in tokens:
        _given.add(sentence, self.source_dictionary)
    _tell()
    return tokens, lengths


@around(lambda: generation_loop() and FairseqTask, "inference_step")
def _count(inference_step, self, generator, models, sample, *args, **kwargs):
    if self.source_dictionary is not None:
        _given.add(sample["net_input"]["src_tokens"], self.source_dictionary)
    return inference_step(self, generator, models, sample, *args, **kwargs)


@around(generation_loop, "_main")
def _tell_at_the_end(main, *args, **kwargs):
    result = main(*args, **kwargs)
    _tell()
    return result
