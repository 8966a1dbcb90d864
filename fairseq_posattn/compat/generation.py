"""fairseq-generate, fairseq-interactive and ``from_pretrained(...)``."""

import logging
import math
import os
import shutil
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from fairseq import file_utils, search, tokenizer, utils
from fairseq.data import data_utils
from fairseq.data.encoders.moses_tokenizer import MosesTokenizer
from fairseq.data.encoders.sentencepiece_bpe import SentencepieceBPE
from fairseq.hub_utils import GeneratorHubInterface
from fairseq.models import FairseqLanguageModel
from fairseq.models.nat import FairseqNATModel
from fairseq.ngram_repeat_block import NGramRepeatBlock
from fairseq.scoring.bleu import SacrebleuScorer
from fairseq.scoring.chrf import ChrFScorer
from fairseq.scoring.wer import WerScorer
from fairseq.sequence_generator import SequenceGenerator
from fairseq.tasks.translation import TranslationTask
from torch import Tensor

from fairseq_posattn.common.archives import unpack_tar
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import locked, unfinished_folder
from fairseq_posattn.compat.patching import Function, around, generation_loop, instead
from fairseq_posattn.text import manifest
from fairseq_posattn.text.languages import code_of
from fairseq_posattn.text.moses import Detokenizer
from fairseq_posattn.text.plain_text import joiner, splitter
from fairseq_posattn.text.subwords import SPACE, split_marks, whole_words

logger = logging.getLogger(__name__)
# Signs of unknown words in references and in hypotheses: different, and no tokenizer splits them.
UNKNOWN_REFERENCE, UNKNOWN_HYPOTHESIS = "\ue000", "\ue001"
MARKED_TARGETS = ("translation_lev", "translation_multi_simple_epoch")  # tasks


@instead(NGramRepeatBlock, "_no_repeat_ngram")
def forbid_repetition(
    self: Any, tokens: Tensor, lprobs: Tensor, bsz: int, beam_size: int, step: int
) -> Tensor:
    """Forbid tokens that would repeat an n-gram of their hypothesis.

    Without its CUDA extension fairseq compares with the end of its buffer, usually padding. Rows of
    ``tokens`` begin with a token that is not output; ``step`` chosen tokens follow.
    """
    size = self.no_repeat_ngram_size
    chosen = tokens[:, 1 : step + 1]
    if step < size:
        return lprobs
    ngrams = chosen.unfold(1, size, 1)  # [rows, positions, size]
    prefix = chosen[:, None, step - size + 1 :]  # [rows, 1, size - 1]
    rows, positions = (ngrams[..., :-1] == prefix).all(dim=-1).nonzero(as_tuple=True)
    repeating = ngrams[rows, positions, -1]
    before = lprobs[rows, repeating]
    lprobs[rows, repeating] = -math.inf
    if len(rows):  # the given beginning of a text may repeat itself: it leaves one token
        forced = lprobs.amax(dim=-1).isneginf()[rows]
        lprobs[rows[forced], repeating[forced]] = before[forced]
    return lprobs


@around(search.DiverseBeamSearch, "__init__")
def end_hypotheses(init: Function, self: Any, *args: Any, **kwargs: Any) -> None:
    """Find two candidates for each hypothesis: fairseq 0.12 finds one, and goes on after ends."""
    init(self, *args, **{"candidate_multiple": 2, **kwargs})


@around(search.DiverseBeamSearch, "step")
def index_groups_by_batch(
    search: Function,
    self: Any,
    step: int,
    lprobs: Any,
    scores: Any,
    prev_output_tokens: Any,
    original_batch_idxs: Tensor,
) -> Any:
    """Index what beam groups share by position in the batch, where fairseq raises IndexError."""
    if step == 0:
        self.numbers = original_batch_idxs  # some sentences end before others
    positions = (original_batch_idxs[:, None] == self.numbers).int().argmax(dim=1)
    return search(self, step, lprobs, scores, prev_output_tokens, positions)


@around(search.LengthConstrainedBeamSearch, "step")
def end_with_source(
    search: Function, self: Any, step: int, lprobs: Tensor, *args: Any, **kwargs: Any
) -> Any:
    """Count the source without its end for ``--match-source-len``: fairseq adds a token."""
    self.src_lengths = self.src_lengths - 1  # set before each step
    longest = self.max_len_a * self.src_lengths + self.max_len_b
    lprobs[step >= longest] = -math.inf  # but the end, which the search permits
    return search(self, step, lprobs, *args, **kwargs)


@around(search.LexicallyConstrainedBeamSearch, "__init__")
def stop_at_max_length(init: Function, self: Any, *args: Any, **kwargs: Any) -> None:
    """Stop at the maximum length if ``--constraints`` are not met, where fairseq fails."""
    init(self, *args, **kwargs)
    self.stop_on_max_len = True


@around(SequenceGenerator, "__init__")
def check_models(
    init: Function, self: Any, models: Any, tgt_dict: Any, *args: Any, **kwargs: Any
) -> None:
    """Refuse models of translation_lev, and for ``--lm-path`` one that scores no target tokens.

    fairseq adds the scores of tokens with equal numbers, also if their dictionaries differ.
    """
    init(self, models, tgt_dict, *args, **kwargs)
    if not isinstance(self.lm_model, FairseqLanguageModel | None):
        raise UsageError(f"--lm-path: a {type(self.lm_model).__name__} is no language model")
    if self.lm_model is not None and self.lm_model.decoder.dictionary != tgt_dict:
        fix = "train it on data of fairseq-preprocess --srcdict with the target dictionary"
        raise UsageError(f"--lm-path: its dictionary differs from the target dictionary; {fix}")
    if any(isinstance(model, FairseqNATModel) for model in self.model.models):
        raise UsageError("--path: its model refines translations; give --task translation_lev")


@around(generation_loop, "_main")
def translate_shard(main: Function, cfg: Any, *args: Any, **kwargs: Any) -> Any:
    """Translate one shard with ``--num-shards`` and ``--shard-id``, which fairseq ignores.

    It ignores ``--sacrebleu``, too, although a warning advises it: that is ``--scoring sacrebleu``.
    It divides by zero in a shard without a batch. Its BLEU of tokens counts the language's token of
    each sentence, or the beginning that some tasks add, as a word.
    """
    shards, distributed = cfg.dataset.num_shards, cfg.distributed_training
    if shards > 1:  # fairseq shares the sentences among processes by these two
        distributed.distributed_world_size = shards
        distributed.distributed_rank = cfg.dataset.shard_id
    if cfg.generation.sacrebleu:
        cfg.scoring = "sacrebleu"
    if cfg.common_eval.post_process is None and cfg.task._name in MARKED_TARGETS:
        cfg.common_eval.post_process = "none"  # joins nothing, and scores what is printed
    try:
        return main(cfg, *args, **kwargs)
    except ZeroDivisionError:  # of the timer, which never ran
        if shards <= 1:
            raise
        # fairseq shares batches, and there may be fewer
        subset = f"--gen-subset {cfg.dataset.gen_subset}"
        logger.warning("%s: no batch is left for this shard, whose output is empty", subset)
        return None


@around(ChrFScorer, "add_string")
@around(SacrebleuScorer, "add_string")
@around(WerScorer, "add_string")
def tell_unknown_words_apart(add_string: Function, self: Any, ref: str, pred: str) -> None:
    """Let unknown words of a reference match nothing in ``--scoring sacrebleu``, ``chrf``, ``wer``.

    fairseq marks them ``<<unk>>``, and those of hypotheses ``<unk>``, for metrics of whole words:
    these metrics split both marks, and find equal parts.
    """
    ref = ref.replace("<<unk>>", UNKNOWN_REFERENCE)
    add_string(self, ref, pred.replace("<unk>", UNKNOWN_HYPOTHESIS))


# --- --replace-unk and --post-process -------------------------------------------------------------


@around(utils, "load_align_dict")
def copy_without_file(load_align_dict: Function, replace_unk: str | None) -> Any:
    """Load no file for ``--replace-unk`` without a value, whose default fairseq confuses."""
    return load_align_dict("" if replace_unk == "@@ " else replace_unk)


@around(utils, "post_process_prediction")
def replace_before_joining(
    post_process_prediction: Function,
    hypo_tokens: Tensor,
    src_str: str,
    alignment: Any,
    align_dict: dict[str, str] | None,
    tgt_dict: Any,
    remove_bpe: str | None = None,
    extra_symbols_to_ignore: Any = None,
) -> Any:
    """Replace unknown words before subwords are joined, because alignments are of subwords."""
    arguments = hypo_tokens, src_str, alignment, align_dict, tgt_dict
    if align_dict is None or remove_bpe is None:
        return post_process_prediction(*arguments, remove_bpe, extra_symbols_to_ignore)
    _, subwords, _ = post_process_prediction(*arguments, None, extra_symbols_to_ignore)
    words = data_utils.post_process(subwords, remove_bpe)
    return tgt_dict.encode_line(words, add_if_not_exist=True), words, alignment


@instead(utils, "replace_unk")
def replace_unknown(
    hypo_str: str, src_str: str, alignment: Any, align_dict: dict[str, str], unk: str
) -> str:
    """Replace unknown words by source words; fairseq misreads the pairs (source, translation)."""
    words, source = tokenizer.tokenize_line(hypo_str), tokenizer.tokenize_line(src_str)
    for position, aligned in alignment:
        if words[aligned] == unk:
            words[aligned] = align_dict.get(source[position], source[position])
    return " ".join(words)


@around(data_utils, "post_process")
def join_subwords(post_process: Function, sentence: str, symbol: str) -> Any:
    """Join SentencePiece's subwords with bytes and BERT's WordPiece, which fairseq misreads."""
    underscores = any(len(token) > 1 and token.startswith("_") for token in sentence.split())
    if symbol == "sentencepiece" or (symbol == "wordpiece" and not underscores):
        return whole_words(sentence, symbol)
    return post_process(sentence, symbol)


@around(SentencepieceBPE, "encode")
def split_marks_of_text(encode: Function, self: Any, x: str) -> Any:
    """Split SentencePiece's mark in the text into bytes, as in training, not at it as a space."""
    has_bytes = self.sp.is_byte(self.sp.piece_to_id("<0x00>"))
    return split_marks(partial(encode, self), x) if SPACE in x and has_bytes else encode(self, x)


@instead(SentencepieceBPE, "decode")
def join_sentencepieces(self: Any, x: str) -> str:
    """Join SentencePiece's subwords with bytes for ``--bpe sentencepiece``."""
    return whole_words(x, "sentencepiece")


@instead(MosesTokenizer, "__init__")
def read_region_codes(self: Any, cfg: Any) -> None:
    """Take Moses' rules of fr for fr_CA, as ``posattn prepare``; fairseq takes those of English."""
    import sacremoses

    self.cfg = cfg
    self.tok = sacremoses.MosesTokenizer(code_of(cfg.source_lang))
    self.detok = Detokenizer(cfg.target_lang)


# --- from_pretrained: archives are unpacked safely, and plain text is translated ------------------


@instead(file_utils, "load_archive_file")
def load_archive_file(archive_file: str) -> str | None:
    """Return a model's folder, of an archive ``NAME.unpacked``, where fairseq leaves the folder."""
    try:
        path = file_utils.cached_path(archive_file, cache_dir=None)
    except OSError:
        logger.info(f"there is no folder or archive {archive_file}")
        return None
    if os.path.isdir(path):
        return str(path)
    path, folder = str(path), f"{path}.unpacked"
    parent, name = os.path.split(os.path.abspath(path))
    with locked(os.path.join(parent, f".{name}.lock"), path):
        status = os.stat(path)  # an archive that replaces another may be older
        state = f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"
        note = Path(parent, f".{name}.state")
        if not (os.path.isdir(folder) and note.is_file() and note.read_text() == state):
            note.unlink(missing_ok=True)
            _unpack_into(folder, path)
            note.write_text(state)
    return folder


def _unpack_into(folder: str, path: str) -> None:
    with unfinished_folder(Path(os.path.abspath(folder))) as temporary:
        content = os.path.join(temporary, "content")
        os.mkdir(content)
        unpack_tar(path, content)
        inside = os.listdir(content)
        if len(inside) == 1 and os.path.isdir(os.path.join(content, inside[0])):
            content = os.path.join(content, inside[0])
        shutil.rmtree(folder, ignore_errors=True)
        os.rename(content, folder)


@around(GeneratorHubInterface, "__init__")
def tokenize_by_manifest(init: Function, self: Any, cfg: Any, task: Any, models: Any) -> None:
    """Tokenize plain text by the data's manifest, where fairseq wants tokenizer and codes named."""
    init(self, cfg, task, models)
    if isinstance(task, TranslationTask) and self.tokenizer is None and self.bpe is None:
        folder = Path(utils.split_paths(task.cfg.data)[0])
        record = manifest.read(folder)
        if record is not None:
            subwords, join = record.subwords, joiner(record, task.cfg.target_lang)
            self.tokenizer = SimpleNamespace(  # it splits into subwords, too
                encode=splitter(folder, record, task.cfg.source_lang),
                decode=lambda tokens: join(data_utils.post_process(tokens, subwords)),
            )


def read_languages(cfg: Any) -> None:
    """Read unnamed languages from the data's manifest; fairseq infers them from sentences.

    They must agree with a named one, which fairseq replaces silently.
    """
    named = cfg.source_lang, cfg.target_lang
    if None in named:
        folder = utils.split_paths(cfg.data)[0]
        record = manifest.read(folder)
        recorded = record.languages if record else ()
        pair = recorded if len(recorded) == 2 else data_utils.infer_language_pair(folder)
        compared = zip(named, pair, strict=True)
        if any(known is None or language not in (None, known) for language, known in compared):
            fix = "give both --source-lang and --target-lang, or prepare the data"
            raise UsageError(f"{folder}: its files do not name this pair of languages; {fix}")
        cfg.source_lang, cfg.target_lang = pair
