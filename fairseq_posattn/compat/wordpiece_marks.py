"""``--post-process wordpiece`` (``--remove-bpe``), by which fairseq runs BERT's words together.

fairseq (0.12.2 and fairseq-fixed 0.12.3.1) takes WordPiece for that of its first paper, whose words
begin with an underscore. In BERT's, words have no mark and their further pieces begin with ``##``.
"""

from fairseq.data import data_utils

from fairseq_posattn.compat.patching import around
from fairseq_posattn.text.subwords import whole_words


@around(data_utils, "post_process")
def _know_berts(post_process, sentence, symbol):
    if symbol != "wordpiece" or _begins_words_with_underscores(sentence):
        return post_process(sentence, symbol)
    return whole_words(sentence, symbol)


def _begins_words_with_underscores(sentence):
    """BERT splits at punctuation, so that an underscore is always a piece of its own."""
    return any(len(piece) > 1 and piece.startswith("_") for piece in sentence.split())
