"""What the translation data sets have in common, from tokenised text to binarised data.

The text folder then holds ``{train,valid,test}.{de,en}``, tokenised; ``clean.train.{de,en}``, if
pairs are cleaned in words; ``bpe.codes``, the merges learned on both languages together; and
``bpe.{train,valid,test}.{de,en}``, in subwords. Of a corpus of one's own these may be
SentencePiece's, as for summarization, or none.
"""

from fairseq_posattn.common.cli import positive
from fairseq_posattn.common.files import writing
from fairseq_posattn.preparation.command import next_recipe, shown
from fairseq_posattn.preparation.corpus import SPLITS
from fairseq_posattn.preparation.counts import count_lines, report_counts
from fairseq_posattn.preparation.custom import training
from fairseq_posattn.preparation.custom.report import report_pairs
from fairseq_posattn.preparation.pairs import (
    map_pairs,
    named_files,
    run_binarising,
    run_text,
    text_files,
    text_lines,
    write_pairs,
)
from fairseq_posattn.preparation.pieces import SentencePieces, to_pieces
from fairseq_posattn.preparation.stages import Stages
from fairseq_posattn.text import manifest
from fairseq_posattn.text.moses import RATIO, is_clean
from fairseq_posattn.text.subwords import BytePairEncoder, count_words, learn_bpe


def prepare(corpus, options):
    """Go from published files to binarised data.

    Args:
        corpus: a :class:`.corpus.TranslationCorpus`.
        options: of the command line.
    """
    given = named_files(corpus, options)
    with Stages(options.dest, options.limit, options.force).locked() as stages:
        run_text(corpus, stages, options, given)
        prefix = to_subwords(corpus, stages, options)
        joined = corpus.recipe is not None or not options.separate_dictionaries
        text = options.dest / "text"
        run_binarising(
            *(stages, corpus.sides, {split: text / f"{prefix}{split}" for split in SPLITS}),
            options.jobs,
            lambda work: {"joined_dictionary": joined},
            # What was prepared before there was a choice has no setting of it.
            **({} if joined else {"joined": False}),
        )
        manifest.stage(stages, corpus, lower=corpus.lower)
        if corpus.recipe is None:
            report_pairs(text, prefix, corpus.sides)
            training.print_command(options.dest, training.translation_flags(joined))
            return
        counts = {split: count_lines(text / f"bpe.{split}.{corpus.sides[0]}") for split in SPLITS}
        if corpus.longest or corpus.longest_words:
            counts = {"raw": count_lines(text / f"train.{corpus.sides[0]}"), **counts}
        report_counts(counts, corpus.published, options.limit, "pairs")
    next_recipe(corpus, "--data", shown(options.dest))


def add_options(corpus, parser):
    """The options of its subwords, and its own."""
    parser.add_argument(
        "--bpe-operations",
        type=positive,
        metavar="N",
        default=corpus.bpe_operations,
        help="byte-pair merges, learned on both languages together (default: %(default)s)",
    )
    corpus.add_options(parser)


def to_subwords(corpus, stages, options):
    """The stages that split all text; returns the prefix of the files that they make."""
    if corpus.subwords is None:
        return ""
    if corpus.subwords == "sentencepiece":
        kind = SentencePieces(options)
        to_pieces(stages, corpus.sides, SPLITS, kind, options)
        return kind.prefix
    train = "train"
    if corpus.longest_words is not None:
        train = clean_in_words(stages, corpus.sides, corpus.longest_words, corpus.ratio)
    learn_and_apply_bpe(
        *(stages, corpus.sides, options.bpe_operations, options.jobs),
        train=train,
        longest=corpus.longest,
        ratio=corpus.ratio,
    )
    return "bpe."


def clean_in_words(stages, languages, longest, ratio):
    """Run the stage that drops training pairs of more words or of another length ratio.

    Returns:
        The name of the training text that is left.
    """

    def clean(work):
        plain = [text_lines(stages.dest / name) for name in text_files(languages, "", ["train"])]
        pairs = (pair for pair in zip(*plain, strict=True) if is_clean(pair, longest, ratio))
        write_pairs(pairs, work / "text/clean.train", languages)

    outputs = text_files(languages, "clean.", ["train"])
    stages.run("cleaning", outputs, clean, longest_words=longest, ratio=ratio)
    return "clean.train"


def learn_and_apply_bpe(
    stages, languages, operations, jobs, train="train", longest=None, ratio=RATIO
):
    """Run the stages that learn byte-pair merges on the training text and split all text.

    Args:
        train: name of the training text.
        longest: training pairs of more subwords on a side, or of another length ratio, are left
            out. None keeps all.
        ratio: of :func:`.text.moses.is_clean`.
    """
    dest = stages.dest

    def learn(work):
        training = (
            line
            for name in text_files(languages, splits=[train])
            for line in text_lines(dest / name)
        )
        with writing(work / "text/bpe.codes") as codes:
            learn_bpe(count_words(training), operations, codes)

    def apply(work):
        encoders = [BytePairEncoder(dest / "text/bpe.codes")] * len(languages)
        for split in SPLITS:
            source = train if split == "train" else split
            plain = [text_lines(dest / name) for name in text_files(languages, splits=[source])]
            pairs = zip(*plain, strict=True)
            pairs = map_pairs(encoders, pairs, jobs, f"splitting {split}")
            if longest is not None and split == "train":
                pairs = (pair for pair in pairs if is_clean(pair, longest, ratio))
            write_pairs(pairs, work / f"text/bpe.{split}", languages)

    stages.run("learning merges", ["text/bpe.codes"], learn, operations=operations)
    # Folders prepared before the ratio was a choice have no setting of it.
    ratios = {} if ratio == RATIO else {"ratio": ratio}
    stages.run("subwords", text_files(languages, "bpe."), apply, longest=longest, **ratios)
