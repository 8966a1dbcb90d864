"""What the summarization data sets have in common, from text to binarised data.

The text folder then holds ``{train,valid,test}.{source,target}``, an article or summary a line;
``spm.model`` and ``spm.vocab``, a SentencePiece model of both together; and
``spm.{train,valid,test}.{source,target}``, in its pieces, cut to the positions of the models. Or,
of WordPiece, ``vocab.txt`` and ``wordpiece.{train,valid,test}.{source,target}``.
"""

from dataclasses import replace
from pathlib import Path

from fairseq_posattn.common.cli import positive
from fairseq_posattn.common.files import writing
from fairseq_posattn.preparation.command import next_recipe, shown
from fairseq_posattn.preparation.corpus import SIDES
from fairseq_posattn.preparation.counts import count_lines, report_counts
from fairseq_posattn.preparation.custom import training
from fairseq_posattn.preparation.custom.report import report_pairs
from fairseq_posattn.preparation.pairs import named_files, run_binarising, run_text
from fairseq_posattn.preparation.pieces import KINDS, to_pieces
from fairseq_posattn.preparation.stages import Stages
from fairseq_posattn.text import manifest
from fairseq_posattn.text.vocabulary import SPECIAL


def prepare(corpus, options):
    """Go from published files to binarised data.

    Args:
        corpus: a :class:`.corpus.SummarizationCorpus`.
        options: of the command line.
    """
    splits, kind = corpus.splits(options), KINDS[options.subwords](options)
    given = named_files(corpus, options)

    def dictionary(work):
        """One for both sides, of all pieces."""
        path = work / "dictionary.txt"
        write_dictionary(kind.pieces(options.dest), path)
        return {"joined_dictionary": True, "srcdict": path}

    with Stages(options.dest, options.limit, options.force).locked() as stages:
        run_text(corpus, stages, options, given)
        to_pieces(stages, corpus.sides, splits, kind, options)
        prefixes = {split: options.dest / f"text/{kind.prefix}{split}" for split in splits}
        run_binarising(stages, SIDES, prefixes, options.jobs, dictionary)
        described = replace(corpus, subwords=options.subwords)
        manifest.stage(
            *(stages, described),
            lower=corpus.lower or kind.lower,
            cased=not kind.lower,
            longest=options.max_pieces,
        )
        if corpus.recipe is None:
            report_pairs(options.dest / "text", kind.prefix, SIDES)
            training.print_command(options.dest, training.summarization_flags(options.max_pieces))
            return
        counts = {split: count_lines(f"{path}.target") for split, path in prefixes.items()}
        report_counts(counts, corpus.published, options.limit, "pairs")
    next_recipe(corpus, "--data", shown(options.dest))


def add_options(corpus, parser):
    """The options of its vocabulary, and its own."""
    parser.add_argument(
        "--subwords",
        choices=KINDS,
        default=corpus.subwords,
        help="what text is split into: wordpiece, as for BERT, in small letters unless --cased, "
        "which Mask Attention Networks were published with; or sentencepiece, text as it is "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--vocabulary-size",
        type=positive,
        metavar="N",
        default=30_000,
        help="pieces to learn, of articles and summaries together (default: %(default)s)",
    )
    parser.add_argument(
        "--wordpiece-vocabulary",
        type=Path,
        metavar="FILE",
        help="of --subwords wordpiece: take these pieces, one a line, such as the vocab.txt of "
        "BERT uncased, which the published models have (default: learn them)",
    )
    parser.add_argument(
        "--cased",
        action="store_true",
        help="of --subwords wordpiece: keep capitals and accents (default: small letters)",
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


def write_dictionary(pieces, path):
    """Make fairseq's dictionary of all pieces, not just those in the training text."""
    # fairseq makes up words until their number is a multiple of 8, for the GPU's sake; so here.
    made_up = [f"madeupword{number:04}" for number in range(-(len(SPECIAL) + len(pieces)) % 8)]
    with writing(path) as file:
        file.writelines(f"{piece} 1\n" for piece in pieces + made_up)
