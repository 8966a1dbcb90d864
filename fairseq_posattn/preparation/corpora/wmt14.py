"""WMT14 English to German: Europarl, Common Crawl and News Commentary (Bojar et al., 2014).

Punctuation is normalised and text tokenised, newstest2014 excepted, which is tokenised only.
newstest2013 is the validation set, newstest2014 the test set; both are kept whole.

=============  =============================  ==============================================
News Comm.     training pairs kept            as in
=============  =============================  ==============================================
v9             1 to 250 subwords, ratio 1.5   fairseq's example, but for the validation set
v12            1 to 80 words, ratio 9         DMAN's release, with ``--max-words 80``
v13            1 to 250 subwords, any ratio   Tensor2Tensor 1.9 ``translate_ende_wmt32k``
=============  =============================  ==============================================

Tensor2Tensor itself does not clean, but drops pairs of more than 256 subwords while it trains.
Text is streamed: memory does not grow with it.
"""

from itertools import islice

from fairseq_posattn.common.cli import positive
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.corpus import Flag, TranslationCorpus
from fairseq_posattn.preparation.download import Source
from fairseq_posattn.preparation.pairs import fingerprint, map_pairs, read_pairs, write_pairs
from fairseq_posattn.preparation.segments import read_segments
from fairseq_posattn.preparation.sources import obtain
from fairseq_posattn.text.lines import read_lines
from fairseq_posattn.text.moses import MOSES_RATIO, RATIO, Tokeniser

LANGUAGES = ("en", "de")
LONGEST = 250
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
    "v13": Source(
        "training-parallel-nc-v13.tgz",
        (
            f"{DATA_STATMT}/wmt18/translation-task/training-parallel-nc-v13.tgz",
            f"{HUB}/wmt18/resolve/main-zip/translation-task/training-parallel-nc-v13.zip",
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


def add_options(parser):
    parser.add_argument(
        "--news-commentary",
        choices=tuple(NEWS_COMMENTARY),
        default="v9",
        help="v9: WMT14's; v12: that of DMAN's release; v13: that of MTSA's Table 6, for which "
        "pairs are not cleaned by length ratio (default: %(default)s)",
    )
    parser.add_argument(
        "--max-words",
        type=positive,
        metavar="N",
        help="drop training pairs of more than N words on a side or of a length ratio above "
        f"{MOSES_RATIO}, before merges are learned (default: of more than {LONGEST} subwords or of "
        f"a ratio above {RATIO})",
    )


def find_files(options):
    """``{split: [((archive, member), (archive, member)), ...]}``, English and German."""
    news_commentary = NEWS_COMMENTARY[options.news_commentary]
    return {
        "train": [
            find_corpus("europarl-v7.de-en", EUROPARL, options),
            find_corpus("commoncrawl.de-en", COMMON_CRAWL, options),
            find_corpus(
                f"news-commentary-{options.news_commentary}.de-en", news_commentary, options
            ),
        ],
        "valid": [find_newstest("newstest2013", DEVELOPMENT, options)],
        "test": [find_newstest("newstest2014-deen", TEST, options)],
    }


def find_corpus(name, source, options):
    archive = obtain(source, options)
    return [(archive, f"{name}.{language}") for language in LANGUAGES]


def find_newstest(name, source, options):
    """Of each language plain text or SGML, in which it may be source or reference."""
    archive = obtain(source, options)
    names = {path.rpartition("/")[2] for path in archive.names()}
    sides = []
    for language in LANGUAGES:
        forms = [f"{name}.{language}", f"{name}-src.{language}.sgm", f"{name}-ref.{language}.sgm"]
        found = [form for form in forms if form in names]
        if not found:
            raise UsageError(f"{archive.name}: holds none of {', '.join(forms)}")
        sides.append((archive, found[0]))
    return sides


def write_text(files, folder, options):
    """Write ``{train,valid,test}.{en,de}``, tokenised; no pair is left out."""
    for split, corpora in files.items():
        # The test set is not normalised, so that the references stay as published.
        normalise = split != "test"
        reader = read_newstest if split == "test" else read_sentences
        pairs = islice(read_pairs(corpora, reader), options.limit)
        tokenisers = [Tokeniser(side, normalise, not options.keep_hyphens) for side in LANGUAGES]
        pairs = map_pairs(tokenisers, pairs, options.jobs, f"tokenising {split}")
        write_pairs(pairs, folder / split, LANGUAGES)


def read_sentences(stream, name):
    """Return the sentences of a file, plain or SGML."""
    return (read_segments if name.endswith(".sgm") else read_lines)(stream, name)


def read_newstest(stream, name):
    """Yield the sentences of a test set with plain apostrophes, as fairseq's example has them."""
    for line in read_sentences(stream, name):
        yield line.replace("’", "'")


def settings(options):
    return {
        "keep_hyphens": options.keep_hyphens,
        "news_commentary": options.news_commentary,
        "normalised": ["train", "valid"],
    }


def changes(options):
    word_rule = {"word_rule": "moses-escaped"} if options.keep_hyphens else {}
    cleaning = {"ratio": None} if options.news_commentary == "v13" else {}
    if options.max_words:
        cleaning = {"longest": None, "longest_words": options.max_words, "ratio": MOSES_RATIO}
    recipe = {"recipe": "dman/wmt14_base"} if is_published_dman(options) else {}
    return {"published": published(options.news_commentary), **word_rule, **cleaning, **recipe}


def is_published_dman(options):
    """Return whether these are the options of DMAN's recipes."""
    return (options.news_commentary, options.max_words, options.keep_hyphens) == ("v12", 80, False)


def published(news_commentary):
    """Return the published numbers of pairs: ``raw`` before cleaning, ``train`` of the papers."""
    raw = {"v9": {"raw": 4_520_620}, "v12": {"raw": 4_590_101}}.get(news_commentary, {})
    return {**raw, "train": "4.5M", "valid": 3_000, "test": 3_003}


CORPORA = (
    TranslationCorpus(
        name="wmt14_en_de",
        summary="WMT14 English to German: news, 4.5 million pairs",
        source="a folder that holds the published archives (training-parallel-europarl-v7.tgz, "
        "training-parallel-commoncrawl.tgz, training-parallel-nc-v9.tgz, dev.tgz, test-full.tgz), "
        "or what they unpack to",
        sides=LANGUAGES,
        word_rule="moses-escaped-hyphens",
        published=published("v9"),
        recipe="mtsa/table6_setup2",
        find_files=find_files,
        fingerprint=fingerprint,
        write_text=write_text,
        settings=settings,
        add_options=add_options,
        bpe_operations=32_764,
        longest=LONGEST,
        flag=Flag(
            "--keep-hyphens",
            "leave a-b as it is, for scores that split compounds themselves (default: a @-@ b, as "
            "in fairseq's example)",
        ),
        changes=changes,
    ),
)
