"""Preparation of pairs of lines, a text and its translation or summary, to binarised data."""

from contextlib import ExitStack
from itertools import chain

from fairseq_posattn.common.files import writing
from fairseq_posattn.common.progress import map_lines
from fairseq_posattn.preparation.binarise import binarise_pairs
from fairseq_posattn.preparation.command import next_recipe, shown
from fairseq_posattn.preparation.corpus import SPLITS
from fairseq_posattn.preparation.counts import count_lines, report_counts, text_lines
from fairseq_posattn.preparation.stages import Stages, write_manifests
from fairseq_posattn.text.lines import one_line, parallel_lines, read_lines
from fairseq_posattn.text.moses import RATIO, is_clean
from fairseq_posattn.text.vocabulary import SPECIAL, write_dictionary


def prepare(corpus, options, kind, joined=True, all_subwords=False, **described):
    """Prepare text, subwords and binarised data; return the prefix of the segmented files.

    Args:
        corpus: a :class:`.corpus.PairCorpus`.
        options: the parsed command line.
        kind: an instance of a class in :data:`.segmentation.KINDS`, or None.
        joined: both sides share one dictionary.
        all_subwords: the dictionary holds all subwords, not only those of the training text.
        described: fields of the manifest.
    """
    given = corpus.find_files(options) if options.source or corpus.source is None else None
    splits = corpus.splits(options)
    with Stages(options.dest, options.limit, options.force).locked() as stages:
        raw = [f"test.{side}" for side in corpus.sides] if corpus.recipe is None else []
        stages.run(
            "text",
            [*text_files(corpus.sides, splits=splits), *raw],
            lambda work: corpus.write_text(
                given or corpus.find_files(options), work / "text", options
            ),
            source=given and corpus.fingerprint(given),
            **corpus.text_settings(options),
        )
        train = "train"
        if corpus.longest_words is not None:
            train = clean_in_words(stages, corpus.sides, corpus.longest_words, corpus.ratio)
        prefix = kind.prefix if kind else ""
        if kind:
            limits = {"longest": corpus.longest, "ratio": corpus.ratio}
            run_subwords(stages, corpus.sides, splits, kind, options, train=train, **limits)
        prefixes = {split: options.dest / f"text/{prefix}{split}" for split in splits}
        _run_binarising(
            stages, corpus.sides, prefixes, options.jobs, joined, kind if all_subwords else None
        )

        def count():
            return {
                split: count_lines(f"{path}.{corpus.sides[0]}") for split, path in prefixes.items()
            }

        write_manifests(
            stages, corpus, count=lambda: {"examples": count()}, joined=joined, **described
        )
        if corpus.recipe is None:
            return prefix
        counts = count()
        if corpus.longest or corpus.longest_words:
            counts = {"raw": count_lines(options.dest / f"text/train.{corpus.sides[0]}"), **counts}
        report_counts(counts, corpus.published, options.limit, "pairs")
    next_recipe(corpus, "--data", shown(options.dest))
    return prefix


def clean_in_words(stages, sides, longest, ratio):
    """Drop training pairs of too many words or of another length ratio; return the text's name."""

    def clean(work):
        pairs = _text_pairs(stages.dest, "train", sides)
        write_pairs(
            (pair for pair in pairs if is_clean(pair, longest, ratio)),
            work / "text/clean.train",
            sides,
        )

    outputs = text_files(sides, "clean.", ["train"])
    stages.run("cleaning", outputs, clean, longest_words=longest, ratio=ratio)
    return "clean.train"


def run_subwords(stages, sides, splits, kind, options, train="train", longest=None, ratio=RATIO):
    """Learn subwords on the text called ``train``, all sides together, and split all text.

    Lines are cut to ``options.max_pieces`` subwords, if present. Training pairs of more than
    ``longest`` subwords or of a larger ``ratio`` are dropped; see :func:`.text.moses.is_clean`.
    """
    dest, most = stages.dest, getattr(options, "max_pieces", None)

    def training():
        return chain.from_iterable(
            text_lines(dest / name) for name in text_files(sides, "", [train])
        )

    def apply(work):
        encoder = kind.encoder(dest)

        def encode(line):
            return " ".join(encoder(line).split(" ")[:most])

        for split in splits:
            pairs = _text_pairs(dest, train if split == "train" else split, sides)
            pairs = map_pairs([encode] * 2, pairs, options.jobs, f"splitting {split}")
            if longest is not None and split == "train":
                pairs = (pair for pair in pairs if is_clean(pair, longest, ratio))
            write_pairs(pairs, work / f"text/{kind.prefix}{split}", sides)

    stages.run(
        "learning subwords", kind.files, lambda work: kind.learn(training, work), **kind.settings
    )
    outputs = text_files(sides, kind.prefix, splits)
    stages.run("subwords", outputs, apply, max_pieces=most, longest=longest, ratio=ratio)


def _run_binarising(stages, sides, prefixes, jobs, joined, subwords):
    pair = "-".join(sides)
    outputs = [f"dict.{side}.txt" for side in sides]
    for split in prefixes:
        outputs += [f"{split}.{pair}.{side}.{kind}" for side in sides for kind in ("bin", "idx")]

    def make(work):
        flags = {"joined_dictionary": joined}
        if subwords:
            flags["srcdict"] = work / "dictionary.txt"
            # fairseq pads dictionaries with such words to a multiple of 8, for speed on GPUs.
            words = subwords.vocabulary(stages.dest)
            words += [f"madeupword{n:04}" for n in range(-(len(SPECIAL) + len(words)) % 8)]
            write_dictionary(flags["srcdict"], dict.fromkeys(words, 1))
        binarise_pairs(*sides, prefixes, work, jobs, **flags)

    stages.run("binarising", outputs, make, joined=joined)


def fingerprint(files):
    """Return a value that changes when the files do; see :meth:`.Stages.run`."""
    members = chain.from_iterable(chain.from_iterable(files.values()))
    return [archive.fingerprint(member) for archive, member in members]


def text_files(sides, prefix="", splits=SPLITS):
    """Return ``text/{prefix}{split}.{side}`` of all splits and sides."""
    return [f"text/{prefix}{split}.{side}" for split in splits for side in sides]


def read_pairs(corpora, reader=read_lines):
    """Yield the pairs of a split's corpora: for each, archive and member of each side.

    ``reader`` maps a stream and its name to sentences.
    """
    for sides in corpora:
        with ExitStack() as stack:
            named = {}
            for archive, member in sides:
                name = archive.label(member)
                named[name] = reader(stack.enter_context(archive.open(member)), name)
            yield from parallel_lines(**named)


def map_pairs(functions, pairs, jobs, title):
    """Yield pairs whose sides are mapped by the function of each side."""

    def apply(pair):
        return tuple(function(line) for function, line in zip(functions, pair, strict=True))

    return map_lines(apply, pairs, jobs, title)


def write_pairs(pairs, prefix, sides):
    """Write pairs of lines to ``{prefix}.{side}``."""
    with PairWriter(prefix, sides) as writer:
        for pair in pairs:
            writer.write(pair)


class PairWriter(ExitStack):
    """Writer of pairs of lines to ``{prefix}.{side}``; counts them."""

    def __init__(self, prefix, sides):
        super().__init__()
        self.files = [self.enter_context(writing(f"{prefix}.{side}")) for side in sides]
        self.count = 0

    def write(self, pair):
        for file, line in zip(self.files, pair, strict=True):
            file.write(f"{one_line(line)}\n")
        self.count += 1


def _text_pairs(dest, name, sides):
    return zip(*(text_lines(dest / f"text/{name}.{side}") for side in sides), strict=True)
