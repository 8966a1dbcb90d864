"""``--replace-unk``, which copies the source's word where the translation has an unknown one.

In fairseq 0.12.2 and fairseq-fixed 0.12.3.1 it fails in each of its ways: without a file it looks
for one named '@@ ', as its flag has the value of another's; it takes the alignment, a list of pairs
of places, for a list of places; and these are of pieces, which it joins before.
"""

from fairseq import tokenizer, utils
from fairseq.data import data_utils

from fairseq_posattn.compat.patching import around, instead

VALUE_WITHOUT_FILE = "@@ "


@around(utils, "load_align_dict")
def _copy_without_file(load_align_dict, replace_unk):
    return load_align_dict("" if replace_unk == VALUE_WITHOUT_FILE else replace_unk)


@around(utils, "post_process_prediction")
def _join_afterwards(
    post_process_prediction,
    hypo_tokens,
    src_str,
    alignment,
    align_dict,
    tgt_dict,
    remove_bpe=None,
    extra_symbols_to_ignore=None,
):
    given = (hypo_tokens, src_str, alignment, align_dict, tgt_dict)
    if align_dict is None or remove_bpe is None:
        return post_process_prediction(*given, remove_bpe, extra_symbols_to_ignore)
    _, pieces, _ = post_process_prediction(*given, None, extra_symbols_to_ignore)
    words = data_utils.post_process(pieces, remove_bpe)
    return tgt_dict.encode_line(words, add_if_not_exist=True), words, alignment


@instead(utils, "replace_unk")
def replace_unknown(hypo_str, src_str, alignment, align_dict, unk):
    """A translation with its unknown words replaced.

    Args:
        hypo_str, src_str (str): the translation and what it is of.
        alignment: pairs of a place in the source and one in the translation, from 0.
        align_dict (dict): of the source's words; others are copied.
        unk (str): the unknown word.
    """
    words, source = tokenizer.tokenize_line(hypo_str), tokenizer.tokenize_line(src_str)
    for place, aligned in alignment:
        if words[aligned] == unk:
            words[aligned] = align_dict.get(source[place], source[place])
    return " ".join(words)
