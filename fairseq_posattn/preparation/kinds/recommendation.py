"""Preparation of click logs, from published files to what news_recommendation reads.

A destination holds, binarized, ``titles/all``, in the order of the dictionary ``news.txt``, and
``history``, ``candidates`` and ``labels`` of each impression, whose names are in
``text/{split}.impressions``. Logs are streamed, one line at a time.
"""

from collections import Counter
from contextlib import ExitStack
from functools import partial
from itertools import islice

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import writing
from fairseq_posattn.common.progress import map_lines, say
from fairseq_posattn.preparation import report, vectors
from fairseq_posattn.preparation.binarize import binarize_columns, binarize_files
from fairseq_posattn.preparation.corpus import SPLITS
from fairseq_posattn.preparation.stages import Stages, write_manifests
from fairseq_posattn.text.vocabulary import count_words, write_dictionary
from fairseq_posattn.text.words import PUBLISHED

COLUMNS = ("history", "candidates", "labels")
LABELS = {"0": 0, "1": 0}  # dictionary of ``labels``
UNLABELED = "submission"  # split of the impressions without labels


def add_options(corpus, parser):
    vectors.add_word_options(parser)
    about = "maximum share of clicked and shown articles that news.tsv lacks; these are left out "
    given = {"type": vectors.fraction, "metavar": "X", "default": 0.01}
    parser.add_argument("--max-unknown", help=f"{about}and counted (default: %(default)s)", **given)


def prepare(corpus, options):
    parts = corpus.parts(options.source)
    splits = [*SPLITS, UNLABELED] if "test" in parts else list(SPLITS)

    def count(folder):
        return count_words([folder / "text/titles.words"]), Counter()

    def describe(folder):
        files = {split: folder / f"text/{split}.impressions" for split in splits}
        examples = {split: report.count_lines(file) for split, file in files.items()}
        return {"examples": examples, "features": vectors.features(folder)}

    with Stages(options.dest, options.limit, options.force).locked() as stages:
        downloads = options.dest.parent / "download"
        glove = vectors.find_vectors(options.glove, downloads, options.glove_dim)
        source = {name: archive.fingerprint() for name, archive in parts.items()}
        chosen = {"cased": options.cased, "max_unknown": options.max_unknown}
        make = partial(_write_text, corpus, options, parts)
        stages.run("text", ["text", "news.txt"], make, source, **chosen)
        vectors.run_words(stages, corpus, options, glove, count)
        make = partial(_binarize, options.jobs, splits)
        stages.run("binarized data", ["titles", *COLUMNS], make)
        write_manifests(stages, corpus, count=describe, lower=not options.cased)
    dest = options.dest
    report.report_counts(describe(dest)["examples"], corpus.published, options.limit, "impressions")
    print(f"news: {report.count_lines(dest / 'text/titles.words'):,}")
    return report.next_commands(corpus, dest, by_name=True)


def _write_text(corpus, options, parts, work):
    (work / "text").mkdir()
    news = _write_titles(corpus, options, parts, work)

    def impressions(part):
        return islice(corpus.impressions(parts[part]), options.limit)

    def write(split, chosen):
        write_impressions(chosen, work / "text" / split, news, options.max_unknown)

    last_day = max(one.day for one in impressions("train"))
    write("train", (one for one in impressions("train") if one.day != last_day))
    write("valid", (one for one in impressions("train") if one.day == last_day))
    write("test", impressions("dev"))
    if "test" in parts:
        write(UNLABELED, impressions("test"))


def _write_titles(corpus, options, parts, work):
    """Write all titles, and the articles' names as a dictionary; return the names."""
    titles = {}
    for archive in parts.values():
        for name, title in corpus.titles(archive):
            titles.setdefault(name, title)
    rule, empty = PUBLISHED[corpus.word_rule], 0
    with writing(work / "text/titles.words") as file:
        for line in map_lines(rule, titles.values(), options.jobs, "tokenizing titles"):
            empty += not line
            file.write(f"{line if options.cased else line.lower()}\n")
    if empty:
        say(f"{empty:,} of {len(titles):,} news have no words in their title")
    write_dictionary(work / "news.txt", dict.fromkeys(titles, 0))
    return titles.keys()


def write_impressions(impressions, prefix, news, max_unknown):
    """Write ``{prefix}.{column}`` of a split, without articles that are not ``news``."""
    count, emptied, references, missing, first = 0, 0, 0, 0, None
    with ExitStack() as stack:
        names = [f"{prefix}.{column}" for column in (*COLUMNS, "impressions")]
        files = [stack.enter_context(writing(name)) for name in names]
        for one in impressions:
            labels = map(str, one.labels or [0] * len(one.candidates))
            candidates = zip(one.candidates, labels, strict=True)
            known = [(name, label) for name, label in candidates if name in news]
            named = (*one.history, *one.candidates)
            lacking = [name for name in named if name not in news]
            references += len(named)
            missing += len(lacking)
            first = first or (lacking and f"{one.place}: {lacking[0]}")
            if known:
                count += 1
                history = (name for name in one.history if name in news)
                columns = (history, *zip(*known, strict=True), [one.name])
                for file, words in zip(files, columns, strict=True):
                    file.write(f"{' '.join(words)}\n")
            else:
                emptied += 1
    if missing > max_unknown * references:
        raise UsageError(
            f"{first} is not in news.tsv, as {missing:,} of {references:,} news that were clicked "
            "or shown are not; more than --max-unknown allows"
        )
    if missing:
        lacked = f"left out {missing:,} news that news.tsv lacks"
        say(f"{prefix.name}: {lacked}, and {emptied:,} impressions that showed no other")
    if not count:
        raise UsageError(f"no impression is left for {prefix.name}: raise or drop --limit")


def _binarize(jobs, splits, work):
    write_dictionary(work / "labels.txt", LABELS)
    binarize_columns(work, ("history", "candidates"), "news.txt", splits, jobs)
    binarize_columns(work, ("labels",), "labels.txt", splits, jobs)
    titles = {work / "text/titles.words": work / "titles/all"}
    binarize_files(work, titles, "dict.txt", jobs)
