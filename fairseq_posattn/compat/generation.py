"""fairseq-generate and fairseq-interactive."""

import math

import torch
from fairseq import search, tokenizer, utils
from fairseq.data import data_utils
from fairseq.ngram_repeat_block import NGramRepeatBlock

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.patching import around, generation_loop, instead
from fairseq_posattn.text.subwords import whole_words

# --- Search --------------------------------------------------------------------------------------


@instead(NGramRepeatBlock, "_no_repeat_ngram")
def forbid_repetition(self, tokens, lprobs, bsz, beam_size, step):
    """Forbid tokens that would repeat an n-gram of their hypothesis.

    Without its CUDA extension fairseq ignores ``--no-repeat-ngram-size``: it compares with the last
    tokens of a buffer of the longest possible output, which are usually padding. The rows of
    ``tokens`` begin with one that is not output, then come ``step`` chosen ones.
    """
    size = self.no_repeat_ngram_size
    chosen = tokens[:, 1 : step + 1]
    if step < size:
        return lprobs
    ngrams = chosen.unfold(1, size, 1)  # [rows, places, size]
    prefix = chosen[:, None, step - size + 1 :]  # [rows, 1, size - 1]
    rows, places = (ngrams[..., :-1] == prefix).all(dim=-1).nonzero(as_tuple=True)
    lprobs[rows, ngrams[rows, places, -1]] = -math.inf
    return lprobs


@around(search.DiverseBeamSearch, "step")
def index_groups_by_batch(
    step_of_search, self, step, lprobs, scores, prev_output_tokens=None, original_batch_idxs=None
):
    """Index what diverse beam groups share by the sentence's place in the batch.

    fairseq looks it up by the sentence's number in the data: ``--diverse-beam-groups`` raises
    IndexError on data of more than one batch.
    """
    if original_batch_idxs is None:
        original_batch_idxs = torch.arange(len(lprobs), device=lprobs.device)
    if step == 0:
        self.numbers = original_batch_idxs  # some sentences end before others
    places = (original_batch_idxs[:, None] == self.numbers).int().argmax(dim=1)
    return step_of_search(self, step, lprobs, scores, prev_output_tokens, places)


@around(search.LexicallyConstrainedBeamSearch, "__init__")
def stop_at_max_length(init, self, *args, **kwargs):
    """Stop a sentence whose ``--constraints`` are not met at the maximum length.

    fairseq fails an assertion, ``200 < 200``, and loses the other sentences of the batch, too.
    """
    init(self, *args, **kwargs)
    self.stop_on_max_len = True


@around(generation_loop, "_main")
def translate_shard(main, cfg, *args, **kwargs):
    """Translate one shard with ``--num-shards`` and ``--shard-id``, which fairseq ignores.

    fairseq divides by zero if there is nothing to translate: an empty shard, or all sentences left
    out by ``--skip-invalid-size-inputs-valid-test``.
    """
    shards, distributed = cfg.dataset.num_shards, cfg.distributed_training
    if shards > 1:  # fairseq shares the sentences among processes by these two
        distributed.distributed_world_size = shards
        distributed.distributed_rank = cfg.dataset.shard_id
    try:
        return main(cfg, *args, **kwargs)
    except ZeroDivisionError as error:  # of the timer, which never ran
        raise UsageError(
            f"--gen-subset {cfg.dataset.gen_subset}: there is nothing to translate: all sentences "
            "are longer than the model's positions, or --num-shards is more than there are batches"
        ) from error


# --- --replace-unk and --post-process -------------------------------------------------------------

VALUE_WITHOUT_FILE = "@@ "


@around(utils, "load_align_dict")
def copy_without_file(load_align_dict, replace_unk):
    """Load no file for ``--replace-unk`` without a value, whose default fairseq confuses."""
    return load_align_dict("" if replace_unk == VALUE_WITHOUT_FILE else replace_unk)


@around(utils, "post_process_prediction")
def replace_before_joining(post_process_prediction, remove_bpe=None, **given):
    """Replace unknown words before subwords are joined, because alignments are of subwords."""
    if given["align_dict"] is None or remove_bpe is None:
        return post_process_prediction(remove_bpe=remove_bpe, **given)
    _, subwords, _ = post_process_prediction(remove_bpe=None, **given)
    words = data_utils.post_process(subwords, remove_bpe)
    tokens = given["tgt_dict"].encode_line(words, add_if_not_exist=True)
    return tokens, words, given["alignment"]


@instead(utils, "replace_unk")
def replace_unknown(hypo_str, src_str, alignment, align_dict, unk):
    """Return a translation with its unknown words replaced by aligned source words.

    ``alignment`` has pairs of places in the source and in the translation, which fairseq reads as a
    list of places. Words without a translation in ``align_dict`` are copied.
    """
    words, source = tokenizer.tokenize_line(hypo_str), tokenizer.tokenize_line(src_str)
    for place, aligned in alignment:
        if words[aligned] == unk:
            words[aligned] = align_dict.get(source[place], source[place])
    return " ".join(words)


@around(data_utils, "post_process")
def join_wordpieces(post_process, sentence, symbol):
    """Join BERT's WordPiece subwords for ``--post-process wordpiece``.

    fairseq knows only the format of the first paper, whose words begin with an underscore, and
    joins BERT's words, too. BERT splits at punctuation: an underscore is a subword there.
    """
    underscores = any(len(one) > 1 and one.startswith("_") for one in sentence.split())
    if symbol != "wordpiece" or underscores:
        return post_process(sentence, symbol)
    return whole_words(sentence, symbol)
