"""Preparation of translation data, from published files to binarised data.

The text folder holds ``{train,valid,test}.{de,en}``, tokenized; ``clean.train.{de,en}`` if pairs
are cleaned in words; ``bpe.codes``, merges learned on both languages; and
``bpe.{train,valid,test}.{de,en}``, in subwords. Custom corpora may have SentencePiece's subwords
(``spm.*``), or none.
"""

from fairseq_posattn.preparation import pairs
from fairseq_posattn.preparation.command import add_count, next_training
from fairseq_posattn.preparation.counts import report_pairs
from fairseq_posattn.preparation.segmentation import KINDS


def prepare(corpus, options):
    """Prepare a :class:`.corpus.TranslationCorpus`; ``options`` is the parsed command line."""
    kind = KINDS[corpus.subwords](options) if corpus.subwords else None
    joined = corpus.recipe is not None or not options.separate_dictionaries
    prefix = pairs.prepare(corpus, options, kind, joined, lower=corpus.lower)
    if corpus.recipe is None:
        report_pairs(options.dest / "text", prefix, corpus.sides)
        next_training(options.dest, training_flags(joined), ("translate", "bleu", *corpus.sides))


def add_options(corpus, parser):
    """Add the options of subwords, and the corpus's own."""
    merges = "byte-pair merges, learned on both languages together (default: %(default)s)"
    add_count(parser, "--bpe-operations", merges, corpus.bpe_operations)
    corpus.add_options(parser)


def training_flags(joined):
    """Return the lines of flags that train on custom data; ``joined``: of one dictionary."""
    shared = " --share-all-embeddings" if joined else ""
    return [
        f"--task translation --arch dman_iwslt_de_en --dropout 0.3{shared}",
        "--criterion label_smoothed_cross_entropy --label-smoothing 0.1",
        "--optimizer adam --adam-betas '(0.9, 0.98)' --lr 5e-4 --lr-scheduler inverse_sqrt",
        "--warmup-updates 4000 --weight-decay 1e-4 --max-tokens 4096 --max-update 50000",
        "--skip-invalid-size-inputs-valid-test",
    ]
