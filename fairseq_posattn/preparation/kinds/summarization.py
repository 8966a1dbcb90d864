"""Preparation of summarization data, from published files to binarised data.

The text folder holds ``{train,valid,test}.{source,target}``, a text or summary a line; the model
learned on both, ``vocab.txt`` (WordPiece) or ``spm.model`` (SentencePiece); and the same files in
subwords, cut to the positions of the models, with the prefix ``wordpiece.`` or ``spm.``.
"""

from dataclasses import replace
from pathlib import Path

from fairseq_posattn.preparation import pairs
from fairseq_posattn.preparation.command import add_count, next_training
from fairseq_posattn.preparation.corpus import SIDES
from fairseq_posattn.preparation.counts import report_pairs
from fairseq_posattn.preparation.segmentation import KINDS


def prepare(corpus, options):
    """Prepare a :class:`.corpus.SummarizationCorpus`; ``options`` is the parsed command line."""
    kind = KINDS[options.subwords](options)
    prefix = pairs.prepare(
        replace(corpus, subwords=options.subwords),
        options,
        kind,
        all_subwords=True,
        lower=corpus.lower or kind.lower,
        cased=not kind.lower,
        longest=options.max_pieces,
    )
    if corpus.recipe is None:
        report_pairs(options.dest / "text", prefix, SIDES)
        flags = training_flags(options.max_pieces)
        next_training(options.dest, flags, ("summarize", "rouge", *SIDES))


def add_options(corpus, parser):
    """Add the options of the vocabulary, and the corpus's own."""
    parser.add_argument(
        "--subwords",
        choices=("sentencepiece", "wordpiece"),
        default=corpus.subwords,
        help="wordpiece: as for BERT and the published Mask Attention Networks, lowercased unless "
        "--cased; sentencepiece: of the unchanged text (default: %(default)s)",
    )
    size = "subwords to learn on texts and summaries together (default: %(default)s)"
    add_count(parser, "--vocabulary-size", size, 30_000)
    parser.add_argument(
        "--wordpiece-vocabulary",
        type=Path,
        metavar="FILE",
        help="with --subwords wordpiece: use this vocabulary, one subword a line, such as BERT's "
        "vocab.txt, as the published models do (default: learn one)",
    )
    parser.add_argument(
        "--cased",
        action="store_true",
        help="with --subwords wordpiece: keep case and accents (default: lowercase)",
    )
    most = "maximum subwords of a line; dman_summarization has 512 positions with the end symbol"
    add_count(parser, "--max-pieces", f"{most} (default: %(default)s)", 511)
    corpus.add_options(parser)


def training_flags(longest):
    """Return the lines of flags that train on custom texts of at most ``longest`` subwords."""
    positions = longest + 1  # with the end symbol
    return [
        "--task translation --arch dman_summarization --dropout 0.1 --share-all-embeddings",
        f"--max-source-positions {positions} --max-target-positions {positions}",
        "--criterion label_smoothed_cross_entropy --label-smoothing 0.1",
        "--optimizer adam --adam-betas '(0.9, 0.98)' --lr 5e-4 --lr-scheduler inverse_sqrt",
        "--warmup-updates 4000 --weight-decay 0.01 --clip-norm 0.1",
        "--max-tokens 4096 --max-update 50000",
    ]
