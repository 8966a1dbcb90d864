"""WMT14 English to German: Europarl, Common Crawl and News Commentary (Bojar et al., 2014).

Punctuation normalised, tokenised, pairs of 1 to 250 subwords whose numbers differ by no more than a
factor of 1.5; newstest2013 for validation and newstest2014 for test, whole. As fairseq's example,
but for the validation set, which there is a part of the training text. Text is streamed: memory
does not grow with it.
"""

from contextlib import ExitStack
from itertools import chain, islice

from preparation.command import next_command, shown
from preparation.counts import count_lines, report_counts
from preparation.download import Source, obtain
from preparation.errors import DataError
from preparation.lines import parallel_lines, read_lines
from preparation.moses import Tokeniser
from preparation.segments import read_segments
from preparation.stages import Stages
from preparation.translation import (
    PairWriter,
    add_bpe_option,
    binarise,
    count_pairs,
    learn_and_apply_bpe,
    map_pairs,
    text_files,
)

SUMMARY = "WMT14 English to German: news, 4.5 million pairs"
SOURCE_HELP = (
    "a folder that holds the published archives (training-parallel-europarl-v7.tgz, "
    "training-parallel-commoncrawl.tgz, training-parallel-nc-v9.tgz, dev.tgz, test-full.tgz), "
    "or what they unpack to"
)

LANGUAGES = ("en", "de")
STATMT = "https://www.statmt.org"
DATA_STATMT = "https://data.statmt.org"
HUB = "https://huggingface.co/datasets/wmt"  # the same files, packed as zip

EUROPARL = Source(
    "training-parallel-europarl-v7.tgz",
    (
        f"{STATMT}/wmt13/training-parallel-europarl-v7.tgz",
        f"{HUB}/wmt13/resolve/main-zip/training-parallel-europarl-v7.zip",
    ),
)
COMMON_CRAWL = Source(
    "training-parallel-commoncrawl.tgz",
    (
        f"{STATMT}/wmt13/training-parallel-commoncrawl.tgz",
        f"{HUB}/wmt13/resolve/main-zip/training-parallel-commoncrawl.zip",
    ),
)
NEWS_COMMENTARY = {
    "v9": Source(
        "training-parallel-nc-v9.tgz",
        (
            f"{STATMT}/wmt14/training-parallel-nc-v9.tgz",
            f"{HUB}/wmt14/resolve/main-zip/training-parallel-nc-v9.zip",
        ),
    ),
    "v12": Source(
        "training-parallel-nc-v12.tgz",
        (
            f"{DATA_STATMT}/wmt17/translation-task/training-parallel-nc-v12.tgz",
            f"{HUB}/wmt17/resolve/main-zip/translation-task/training-parallel-nc-v12.zip",
        ),
    ),
}
DEVELOPMENT = Source(
    "dev.tgz",
    (
        f"{DATA_STATMT}/wmt17/translation-task/dev.tgz",
        f"{STATMT}/wmt14/dev.tgz",
        f"{HUB}/wmt19/resolve/main-zip/translation-task/dev.zip",
    ),
)
TEST = Source(
    "test-full.tgz",
    (
        f"{STATMT}/wmt14/test-full.tgz",
        f"{HUB}/wmt19/resolve/main-zip/translation-task/dev.zip",
    ),
)

# Pairs before cleaning, by the News Commentary that is in them
PUBLISHED_TRAINING = {"v9": 4_520_620, "v12": 4_590_101}
PUBLISHED = {"valid": 3_000, "test": 3_003}
LONGEST = 250


def add_options(parser):
    add_bpe_option(parser, 32_764)
    parser.add_argument(
        "--news-commentary",
        choices=tuple(NEWS_COMMENTARY),
        default="v9",
        help="the release of 2014 or of 2017 (default: %(default)s)",
    )
    parser.add_argument(
        "--keep-hyphens",
        action="store_true",
        help="do not split a-b into a @-@ b, as the reference text of compound-split BLEU does not",
    )


def prepare(options):
    given = options.source and find_files(options)
    with Stages(options.dest, options.limit, options.force).locked() as stages:
        stages.run(
            "text",
            text_files(LANGUAGES),
            lambda work: write_text(*(given or find_files(options)), work / "text", options),
            source=given and fingerprint(*given),
            keep_hyphens=options.keep_hyphens,
            news_commentary=options.news_commentary,
        )
        learn_and_apply_bpe(stages, LANGUAGES, options.bpe_operations, options.jobs, LONGEST)
        binarise(stages, *LANGUAGES, options.jobs)
        before = {"train before cleaning": count_lines(options.dest / "text/train.en")}
        published = {"train before cleaning": PUBLISHED_TRAINING[options.news_commentary]}
        counts = before | count_pairs(stages, "en")
        report_counts(counts, published | PUBLISHED, options.limit, "pairs")
    next_command(
        *("fairseq-train", shown(options.dest), "--user-dir", "fairseq_posattn"),
        *("--arch", "dman_wmt_en_de", "--share-all-embeddings", "--max-tokens", 12288),
        *("--optimizer", "adam", "--adam-betas", "(0.9, 0.98)", "--lr", "1e-3"),
        *("--lr-scheduler", "inverse_sqrt", "--warmup-updates", 8000, "--fp16"),
        *("--criterion", "label_smoothed_cross_entropy", "--label-smoothing", 0.1),
        *("--update-freq", 8, "--max-update", 80_000),
    )


def find_files(options):
    """Archive and files of each training corpus, and of the newstests by split."""
    downloads = options.dest / "download"
    corpora = find_corpora(options.source, downloads, options.news_commentary)
    return corpora, find_evaluation(options.source, downloads)


def fingerprint(corpora, evaluation):
    return [archive.fingerprint(*files) for archive, files in [*corpora, *evaluation.values()]]


def find_corpora(given, downloads, news_commentary):
    """``(archive, (English file, German file))`` of each training corpus."""
    corpora = {
        "europarl-v7": EUROPARL,
        "commoncrawl": COMMON_CRAWL,
        f"news-commentary-{news_commentary}": NEWS_COMMENTARY[news_commentary],
    }
    return [
        (obtain(source, given, downloads), tuple(f"{name}.de-en.{side}" for side in LANGUAGES))
        for name, source in corpora.items()
    ]


def find_evaluation(given, downloads):
    """``{split: (archive, (English file, German file))}`` of the newstests."""
    found = {}
    for split, source, name in (
        ("valid", DEVELOPMENT, "newstest2013"),
        ("test", TEST, "newstest2014-deen"),
    ):
        archive = obtain(source, given, downloads)
        found[split] = archive, tuple(find_side(archive, name, side) for side in LANGUAGES)
    return found


def find_side(archive, name, language):
    """The file of one language: plain text, or SGML, where it may be source or reference."""
    files = [f"{name}.{language}", f"{name}-src.{language}.sgm", f"{name}-ref.{language}.sgm"]
    names = {path.rpartition("/")[2] for path in archive.names()}
    for file in files:
        if file in names:
            return file
    raise DataError(f"{archive.name}: holds none of {', '.join(files)}")


def write_text(corpora, evaluation, folder, options):
    """Write ``{train,valid,test}.{en,de}``, tokenised; nothing is left out."""
    training = chain.from_iterable(read_pairs(*corpus, read_lines) for corpus in corpora)
    write_split("train", training, True, folder, options)
    for split, newstest in evaluation.items():
        # Not normalised, so that the references stay as published.
        write_split(split, read_pairs(*newstest, read_sentences), False, folder, options)


def write_split(split, pairs, normalise, folder, options):
    tokenisers = [Tokeniser(side, normalise, not options.keep_hyphens) for side in LANGUAGES]
    pairs = islice(pairs, options.limit)
    with PairWriter(folder / split, LANGUAGES) as writer:
        for pair in map_pairs(tokenisers, pairs, options.jobs, f"tokenising {split}"):
            writer.write(pair)


def read_pairs(archive, members, reader):
    with ExitStack() as stack:
        sides = {}
        for member in members:
            name = archive.label(member)
            sides[name] = reader(stack.enter_context(archive.open(member)), name)
        yield from parallel_lines(**sides)


def read_sentences(stream, name):
    """The sentences of a newstest, plain or SGML."""
    if name.endswith(".sgm"):
        yield from read_segments(stream, name)
    else:
        for line in read_lines(stream, name):
            yield line.replace("’", "'")
