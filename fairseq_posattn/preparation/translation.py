"""What the translation data sets have in common, from tokenised text to binarised data.

The text folder then holds ``{train,valid,test}.{de,en}``, tokenised; ``bpe.codes``, the merges that
were learned on both languages together; and ``bpe.{train,valid,test}.{de,en}``, in subwords.
"""

from contextlib import ExitStack
from itertools import chain

from fairseq_posattn.preparation.command import positive
from fairseq_posattn.preparation.pipeline.binarise import binarise_pairs
from fairseq_posattn.preparation.pipeline.counts import count_lines, report_counts
from fairseq_posattn.preparation.pipeline.parallel import map_lines
from fairseq_posattn.preparation.pipeline.stages import Stages
from fairseq_posattn.preparation.text.lines import parallel_lines, read_lines
from fairseq_posattn.preparation.text.moses import is_clean
from fairseq_posattn.preparation.text.subwords import BytePairEncoder, count_words, learn_bpe

SPLITS = ("train", "valid", "test")


def prepare_pairs(options, languages, find_files, write_text, published, longest=None, **settings):
    """Go from published files to binarised data.

    Args:
        options: of the command line.
        languages: source and target.
        find_files: called with the options, gives ``{split: [(file, file), ...]}``: for each corpus
            of a split, in each language, the archive and its member.
        write_text: called with these files, a folder and the options, writes ``{split}.{language}``
            to the folder, tokenised.
        published: counts by split; ``raw`` is that of the training text before it is cleaned.
        longest: if it is cleaned in subwords, how many of them a side may have.
        settings: what else the text depends on.
    """
    given = options.source and find_files(options)
    with Stages(options.dest, options.limit, options.force).locked() as stages:
        stages.run(
            "text",
            text_files(languages),
            lambda work: write_text(given or find_files(options), work / "text", options),
            source=given and fingerprint(given),
            **settings,
        )
        learn_and_apply_bpe(stages, languages, options.bpe_operations, options.jobs, longest)
        binarise(stages, *languages, options.jobs)
        text = options.dest / "text"
        counts = {split: count_lines(text / f"bpe.{split}.{languages[0]}") for split in SPLITS}
        if "raw" in published:
            counts = {"raw": count_lines(text / f"train.{languages[0]}"), **counts}
        report_counts(counts, published, options.limit, "pairs")


def fingerprint(files):
    """What tells these files from others, for :meth:`Stages.run`."""
    members = chain.from_iterable(chain.from_iterable(files.values()))
    return [archive.fingerprint(member) for archive, member in members]


def add_bpe_option(parser, default):
    """``--bpe-operations``, for the command line."""
    parser.add_argument(
        "--bpe-operations",
        type=positive,
        metavar="N",
        default=default,
        help="byte-pair merges, learned on both languages together (default: %(default)s)",
    )


def text_files(languages, prefix="", splits=SPLITS):
    """``text/{split}.{language}``, relative to the destination."""
    return [f"text/{prefix}{split}.{language}" for split in splits for language in languages]


def read_pairs(corpora, reader=read_lines):
    """The pairs of all corpora of a split, one after the other.

    Args:
        corpora: of each, the archive and its member in each language.
        reader: called with a stream and its name, gives sentences.
    """
    for sides in corpora:
        with ExitStack() as stack:
            named = {}
            for archive, member in sides:
                name = archive.label(member)
                named[name] = reader(stack.enter_context(archive.open(member)), name)
            yield from parallel_lines(**named)


def map_pairs(functions, pairs, jobs, title):
    """Each side of each pair, by the function of its language."""

    def apply(pair):
        return tuple(function(line) for function, line in zip(functions, pair, strict=True))

    return map_lines(apply, pairs, jobs, title)


def text_file(path):
    return open(path, "w", encoding="utf-8", newline="\n")


def write_pairs(pairs, prefix, languages):
    """Write pairs of lines to ``{prefix}.{language}``."""
    with PairWriter(prefix, languages) as writer:
        for pair in pairs:
            writer.write(pair)


class PairWriter:
    """Writes pairs of lines to ``{prefix}.{language}`` for each language, and counts them."""

    def __init__(self, prefix, languages):
        self.paths = [f"{prefix}.{language}" for language in languages]
        self.count = 0
        self.stack = ExitStack()

    def __enter__(self):
        self.files = [self.stack.enter_context(text_file(path)) for path in self.paths]
        return self

    def write(self, pair):
        for file, line in zip(self.files, pair, strict=True):
            file.write(f"{line}\n")
        self.count += 1

    def __exit__(self, *exception):
        self.stack.close()


def text_lines(path):
    """The lines of a text file that was made here."""
    with open(path, "rb") as stream:
        yield from read_lines(stream, path)


def learn_and_apply_bpe(stages, languages, operations, jobs, longest=None):
    """The stages that learn byte-pair merges on the training text and split all text by them.

    Args:
        longest: training pairs of more subwords on a side, or of lengths too different, are left
            out; None keeps all.
    """
    dest = stages.dest

    def learn(work):
        training = (
            line
            for name in text_files(languages, splits=["train"])
            for line in text_lines(dest / name)
        )
        with text_file(work / "text/bpe.codes") as codes:
            learn_bpe(count_words(training), operations, codes)

    def apply(work):
        encoders = [BytePairEncoder(dest / "text/bpe.codes")] * len(languages)
        for split in SPLITS:
            plain = [text_lines(dest / name) for name in text_files(languages, splits=[split])]
            pairs = map_pairs(encoders, zip(*plain, strict=True), jobs, f"splitting {split}")
            if longest is not None and split == "train":
                pairs = (pair for pair in pairs if is_clean(pair, longest))
            write_pairs(pairs, work / f"text/bpe.{split}", languages)

    stages.run("learning merges", ["text/bpe.codes"], learn, operations=operations)
    stages.run("subwords", text_files(languages, "bpe."), apply, longest=longest)


def binarise(stages, source, target, jobs):
    """The stage that makes what fairseq-train reads, with one dictionary for both languages."""
    text = stages.dest / "text"
    outputs = [f"dict.{language}.txt" for language in (source, target)]
    outputs += [
        f"{split}.{source}-{target}.{language}.{kind}"
        for split in SPLITS
        for language in (source, target)
        for kind in ("bin", "idx")
    ]

    def make(work):
        prefixes = {split: text / f"bpe.{split}" for split in SPLITS}
        binarise_pairs(source, target, prefixes, work, jobs, joined_dictionary=True)

    stages.run("binarising", outputs, make)
