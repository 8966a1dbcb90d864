"""From logs of clicks on news to what the task news_recommendation reads.

A destination holds, binarised, ``titles/all``, the words of each title, and, of each impression,
``history``, ``candidates`` and ``labels``; their text is in ``text/``. Rows of ``titles`` are in
the order of ``news.txt``, the dictionary of the news. ``text/{split}.impressions`` has their names.
Logs are streamed: of a million users no more is held than one line.
"""

from collections import Counter
from contextlib import ExitStack
from functools import partial
from itertools import islice

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import writing
from fairseq_posattn.common.parallel import map_lines
from fairseq_posattn.common.progress import say
from fairseq_posattn.preparation.binarise import binarise_files
from fairseq_posattn.preparation.command import next_dataset
from fairseq_posattn.preparation.corpus import SPLITS
from fairseq_posattn.preparation.counts import count_lines, report_counts
from fairseq_posattn.preparation.stages import Stages
from fairseq_posattn.preparation.word_options import add_seed, add_word_options, fraction
from fairseq_posattn.preparation.words_stage import asked_vectors, run_words
from fairseq_posattn.text import manifest
from fairseq_posattn.text.vocabulary import count_words, write_dictionary
from fairseq_posattn.text.words import PUBLISHED

COLUMNS = ("history", "candidates", "labels")
LABELS = {"0": 0, "1": 0}  # the dictionary of ``labels``
UNLABELLED = "submission"  # what the impressions without labels are called


def add_options(corpus, parser):
    """The options of recommendation beside those that all preparations share."""
    add_word_options(parser)
    add_seed(parser)
    parser.add_argument(
        "--max-unknown",
        type=fraction,
        metavar="X",
        default=0.01,
        help="share of clicked and shown news that news.tsv may lack; they are left out and "
        "counted (default: %(default)s)",
    )


def prepare(corpus, options):
    """Do all of it.

    Args:
        corpus: a :class:`.corpus.RecommendationCorpus`.
        options: the parsed command line.

    Raises:
        UsageError: the data cannot be had or used.
    """
    if options.source is None:
        raise UsageError(f"{corpus.name} cannot be downloaded: --source takes {corpus.source}")
    parts = corpus.parts(options.source)
    stages = Stages(options.dest, options.limit, options.force)
    with stages.locked():
        vectors = asked_vectors(options, options.dest.parent / "download")
        stages.run(
            "text",
            ["text", "news.txt"],
            partial(_write_text, corpus, options, parts),
            source={name: archive.fingerprint() for name, archive in parts.items()},
            cased=options.cased,
            max_unknown=options.max_unknown,
        )
        count = partial(_count_words, corpus, options)
        run_words(stages, options, vectors, corpus.min_count, count)
        stages.run(
            "binarised data", ["titles", *COLUMNS], partial(_binarise, options, sorted(parts))
        )
        manifest.stage(stages, corpus, lower=not options.cased)
    _report(corpus, options, parts)


# --- Text ------------------------------------------------------------------------------------


def _write_text(corpus, options, parts, work):
    text = work / "text"
    text.mkdir()
    news = _write_titles(corpus, options, parts, work)

    def impressions(part):
        return islice(corpus.impressions(parts[part]), options.limit)

    held_out = max(impression.day for impression in impressions("train"))
    for split, part, wanted in _days(parts, held_out):
        found = filter(wanted, impressions(part))
        _write_impressions(found, text / split, news, options.max_unknown)


def _days(parts, held_out):
    """``(split, part, which of its impressions)``."""
    yield "train", "train", lambda impression: impression.day != held_out
    yield "valid", "train", lambda impression: impression.day == held_out
    yield "test", "dev", lambda impression: True
    if "test" in parts:
        yield UNLABELLED, "test", lambda impression: True


def _write_titles(corpus, options, parts, work):
    """Write the titles of all news, and their names as a dictionary; returns the names."""
    found = {}
    for archive in parts.values():
        for name, title in corpus.titles(archive):
            found.setdefault(name, title)
    rule = PUBLISHED[corpus.word_rule]
    words = map_lines(rule, found.values(), options.jobs, "tokenising titles")
    empty = 0
    with writing(work / "text/titles.words") as file:
        for line in words:
            empty += not line
            file.write(f"{line if options.cased else line.lower()}\n")
    if empty:
        say(f"{empty:,} of {len(found):,} news have no words in their title")
    write_dictionary(work / "news.txt", dict.fromkeys(found, 0))
    return found.keys()


def _write_impressions(impressions, prefix, news, max_unknown):
    """Write the columns of a split.

    Raises:
        UsageError: there is none, or too many of the news are not in news.tsv.
    """
    count, emptied, references, missing, first = 0, 0, 0, 0, None
    with ExitStack() as stack:
        files = [
            stack.enter_context(writing(f"{prefix}.{column}"))
            for column in (*COLUMNS, "impressions")
        ]
        for impression in impressions:
            references += len(impression.history) + len(impression.candidates)
            row, lacking = _known(impression, news)
            missing += len(lacking)
            if lacking and first is None:
                first = f"{impression.place}: {lacking[0]}"
            if not row[1]:
                emptied += 1
                continue
            count += 1
            for file, words in zip(files, (*row, [impression.name]), strict=True):
                file.write(f"{' '.join(words)}\n")
    if missing > max_unknown * references:
        raise UsageError(
            f"{first} is not in news.tsv, as {missing:,} of {references:,} news that were clicked "
            "or shown are not; more than --max-unknown allows"
        )
    if missing:
        say(
            f"{prefix.name}: left out {missing:,} news that news.tsv lacks, and {emptied:,} "
            "impressions that showed no other"
        )
    if not count:
        raise UsageError(f"no impression is left for {prefix.name}: give a larger --limit, or none")


def _known(impression, news):
    """The history, the candidates and their labels without news that are not known; and these."""
    history = [name for name in impression.history if name in news]
    labels = impression.labels or [0] * len(impression.candidates)
    shown = [
        (name, str(label))
        for name, label in zip(impression.candidates, labels, strict=True)
        if name in news
    ]
    lacking = [name for name in (*impression.history, *impression.candidates) if name not in news]
    return (history, [name for name, _ in shown], [label for _, label in shown]), lacking


def _splits(parts):
    """Those that a destination has."""
    return [*SPLITS, UNLABELLED] if "test" in parts else list(SPLITS)


# --- Vocabulary and binarised data -----------------------------------------------------------


def _count_words(corpus, options):
    """Of training and of the other splits."""
    return count_words([options.dest / "text/titles.words"]), Counter()


def _binarise(options, parts, work):
    text = options.dest / "text"
    splits = _splits(parts)
    write_dictionary(work / "labels.txt", LABELS)
    news = options.dest / "news.txt"
    titles = {text / "titles.words": work / "titles/all"}
    clicks = {
        text / f"{split}.{column}": work / column / split
        for column in ("history", "candidates")
        for split in splits
    }
    labels = {text / f"{split}.labels": work / "labels" / split for split in splits}
    for targets, dictionary in (
        (titles, options.dest / "dict.txt"),
        (clicks, news),
        (labels, work / "labels.txt"),
    ):
        binarise_files(targets, dictionary, options.jobs, work / "scratch")


def _report(corpus, options, parts):
    text = options.dest / "text"
    splits = _splits(parts)
    counts = {split: count_lines(text / f"{split}.impressions") for split in splits}
    report_counts(counts, corpus.published, options.limit, "impressions")
    print(f"news: {count_lines(text / 'titles.words'):,}")
    next_dataset(corpus, options.dest)
