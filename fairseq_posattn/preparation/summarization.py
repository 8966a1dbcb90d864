"""What the summarization data sets have in common, from text to binarised data.

The text folder then holds ``{train,valid,test}.{source,target}``, an article or summary a line;
``spm.model`` and ``spm.vocab``, a SentencePiece model of both together; and
``spm.{train,valid,test}.{source,target}``, in its pieces, cut to the positions of the models.
"""

import re
from itertools import islice
from math import ceil

from fairseq_posattn.preparation import manifest
from fairseq_posattn.preparation.command import next_recipe, positive, shown
from fairseq_posattn.preparation.corpus import SIDES
from fairseq_posattn.preparation.pairs import (
    map_pairs,
    run_text,
    text_file,
    text_files,
    text_lines,
    write_pairs,
)
from fairseq_posattn.preparation.pipeline.binarise import binarise_pairs
from fairseq_posattn.preparation.pipeline.counts import count_lines, report_counts
from fairseq_posattn.preparation.pipeline.progress import say
from fairseq_posattn.preparation.pipeline.stages import Stages
from fairseq_posattn.preparation.text.subwords import SentencePieceEncoder, train_sentencepiece

# SentencePiece holds what it learns from in memory, and skips lines of more than 4,192 bytes.
LEARN_FROM = 500_000
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")  # fairseq's own; SentencePiece has no padding
SENTENCE_END = re.compile(r"(?<=[.!?]) ")


def prepare(corpus, options):
    """Go from published files to binarised data.

    Args:
        corpus: a :class:`.corpus.SummarizationCorpus`.
        options: of the command line.
    """
    splits = corpus.splits(options)
    given = options.source and corpus.find_files(options)
    with Stages(options.dest, options.limit, options.force).locked() as stages:
        run_text(corpus, stages, options, given)
        to_pieces(stages, splits, options)
        binarise(stages, splits, options.jobs)
        manifest.stage(stages, corpus, lower=corpus.lower)
        targets = {split: options.dest / f"text/spm.{split}.target" for split in splits}
        counts = {split: count_lines(path) for split, path in targets.items()}
        report_counts(counts, corpus.published, options.limit, "pairs")
    next_recipe(corpus, "--data", shown(options.dest))


def add_options(corpus, parser):
    """The options of its vocabulary, and its own."""
    parser.add_argument(
        "--vocabulary-size",
        type=positive,
        metavar="N",
        default=30_000,
        help="SentencePiece pieces, of articles and summaries together (default: %(default)s)",
    )
    parser.add_argument(
        "--max-pieces",
        type=positive,
        metavar="N",
        default=511,
        help="cut what is longer; with the end mark, dman_summarization has 512 positions "
        "(default: %(default)s)",
    )
    corpus.add_options(parser)


def to_pieces(stages, splits, options):
    """The stages that learn a SentencePiece model of the training text and split all text by it."""
    dest = stages.dest

    def training_sentences():
        for name in text_files(SIDES, splits=["train"]):
            for line in text_lines(dest / name):
                yield from SENTENCE_END.split(line)

    def learn(work):
        # Its own sampling is another one each time.
        step = ceil(sum(1 for _ in training_sentences()) / LEARN_FROM)
        say(f"learning pieces from every sentence in {step:,}" if step > 1 else "learning pieces")
        train_sentencepiece(
            islice(training_sentences(), 0, None, step),
            options.vocabulary_size,
            work / "text/spm",
            # Text comes back as it went in, so that summaries are scored against their references.
            normalization_rule_name="identity",
            hard_vocab_limit=False,  # of a quick look there may not be as many pieces
            # A unigram model would not have the words of tokenised text: its candidates are what
            # different letters follow, and there only spaces follow words.
            model_type="bpe",
            character_coverage=1.0,
        )

    def apply(work):
        encoder = SentencePieceEncoder(dest / "text/spm.model")

        def encode(line):
            return " ".join(encoder(line).split(" ")[: options.max_pieces])

        for split in splits:
            plain = [text_lines(dest / name) for name in text_files(SIDES, splits=[split])]
            pairs = map_pairs(
                [encode] * 2, zip(*plain, strict=True), options.jobs, f"splitting {split}"
            )
            write_pairs(pairs, work / f"text/spm.{split}", SIDES)

    stages.run(
        "learning pieces",
        ["text/spm.model", "text/spm.vocab"],
        learn,
        vocabulary_size=options.vocabulary_size,
    )
    stages.run("pieces", text_files(SIDES, "spm.", splits), apply, max_pieces=options.max_pieces)


def binarise(stages, splits, jobs):
    """The stage that makes what fairseq-train reads, with one dictionary for both sides."""
    outputs = [f"dict.{side}.txt" for side in SIDES]
    outputs += [
        f"{split}.source-target.{side}.{kind}"
        for split in splits
        for side in SIDES
        for kind in ("bin", "idx")
    ]

    def make(work):
        write_dictionary(stages.dest / "text/spm.vocab", work / "dictionary.txt")
        prefixes = {split: stages.dest / f"text/spm.{split}" for split in splits}
        binarise_pairs(
            *SIDES,
            *(prefixes, work, jobs),
            joined_dictionary=True,
            srcdict=work / "dictionary.txt",
        )

    stages.run("binarising", outputs, make)


def write_dictionary(vocabulary, path):
    """Make fairseq's dictionary of all pieces of a model, not just those in the training text."""
    pieces = [line.partition("\t")[0] for line in text_lines(vocabulary)][len(SPECIAL) - 1 :]
    # fairseq makes up words until their number is a multiple of 8, for the GPU's sake; so here.
    made_up = [f"madeupword{number:04}" for number in range(-(len(SPECIAL) + len(pieces)) % 8)]
    with text_file(path) as file:
        file.writelines(f"{piece} 1\n" for piece in pieces + made_up)
