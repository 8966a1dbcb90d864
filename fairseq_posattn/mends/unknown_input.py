"""Text of which the model knows hardly a word: fairseq translates it without a word.

It is of another language, or was not made words and pieces as the training data was.
``fairseq-interactive`` tells it at once, ``fairseq-generate`` at the end.
"""

import sys

from fairseq.tasks import FairseqTask

from fairseq_posattn.data.unknown_words import UnknownWords
from fairseq_posattn.mends.patching import patch

_given = UnknownWords()


def apply():
    patch(FairseqTask, "get_interactive_tokens_and_lengths", _tell_at_once)
    for name in ("fairseq_cli.generate", "__main__"):
        module = sys.modules.get(name)
        if hasattr(module, "get_symbols_to_strip_from_output") and hasattr(module, "_main"):
            patch(FairseqTask, "inference_step", _count)
            patch(module, "_main", _tell_at_the_end)


def _tell():
    warning = _given.warning()
    if warning:
        print(f"fairseq_posattn: warning: {warning}", file=sys.stderr)  # the log goes elsewhere


def _tell_at_once(get_tokens_and_lengths):
    def get_and_tell(self, lines, encode_fn):
        tokens, lengths = get_tokens_and_lengths(self, lines, encode_fn)
        for sentence in tokens:
            _given.add(sentence, self.source_dictionary)
        _tell()
        return tokens, lengths

    return get_and_tell


def _count(inference_step):
    def count_and_infer(self, generator, models, sample, *args, **kwargs):
        if self.source_dictionary is not None:
            _given.add(sample["net_input"]["src_tokens"], self.source_dictionary)
        return inference_step(self, generator, models, sample, *args, **kwargs)

    return count_and_infer


def _tell_at_the_end(main):
    def main_and_tell(*args, **kwargs):
        result = main(*args, **kwargs)
        _tell()
        return result

    return main_and_tell
