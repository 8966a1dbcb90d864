"""WMT14 English to German: Europarl, Common Crawl and News Commentary (Bojar et al., 2014).

Punctuation is normalized and text tokenized; newstest2014 is tokenized only. newstest2013 is the
validation set, newstest2014 the test set; both are complete.

=============  =============================  ==============================================
News Comm.     training pairs kept            as in
=============  =============================  ==============================================
v9             1 to 250 subwords, ratio 1.5   fairseq's example, but for the validation set
v12            1 to 80 words, ratio 9         DMAN's release, with ``--max-words 80``
v13            1 to 250 subwords, any ratio   Tensor2Tensor 1.9 ``translate_ende_wmt32k``
=============  =============================  ==============================================

Tensor2Tensor itself does not clean, but drops pairs of more than 256 subwords in training. Text is
streamed: memory does not grow with it.
"""

from fairseq_posattn.common.cli import positive
from fairseq_posattn.preparation.corpora.iwslt14 import read_segments
from fairseq_posattn.preparation.corpus import TranslationCorpus
from fairseq_posattn.preparation.download import Source, obtain
from fairseq_posattn.preparation.parallel import read_pairs, write_tokenized
from fairseq_posattn.text.lines import read_lines
from fairseq_posattn.text.moses import MOSES_RATIO, RATIO, Tokenizer

LANGUAGES = ("en", "de")
LONGEST = 250
STATMT = "https://www.statmt.org"
DATA_STATMT = "https://data.statmt.org"
HUB = "https://huggingface.co/datasets/wmt"  # the same files, packed as zip
TASK = "translation-task"


def _source(name, *folders, hub, packed=None):
    """Return a published ``.tgz``; ``hub`` is its year at the hub, ``packed`` its name there."""
    urls = [f"{folder}/{name}.tgz" for folder in folders]
    inner = f"{TASK}/" if hub > "wmt14" else ""
    urls.append(f"{HUB}/{hub}/resolve/main-zip/{inner}{packed or name}.zip")
    return Source(f"{name}.tgz", tuple(urls))


EUROPARL = _source("training-parallel-europarl-v7", f"{STATMT}/wmt13", hub="wmt13")
COMMON_CRAWL = _source("training-parallel-commoncrawl", f"{STATMT}/wmt13", hub="wmt13")
NEWS_COMMENTARY = {
    "v9": _source("training-parallel-nc-v9", f"{STATMT}/wmt14", hub="wmt14"),
    "v12": _source("training-parallel-nc-v12", f"{DATA_STATMT}/wmt17/{TASK}", hub="wmt17"),
    "v13": _source("training-parallel-nc-v13", f"{DATA_STATMT}/wmt18/{TASK}", hub="wmt18"),
}
DEVELOPMENT = _source("dev", f"{DATA_STATMT}/wmt17/{TASK}", f"{STATMT}/wmt14", hub="wmt19")
TEST = _source("test-full", f"{STATMT}/wmt14", hub="wmt19", packed="dev")

# Numbers of pairs: before cleaning, and of the papers
RAW = {"v9": {"raw": 4_520_620}, "v12": {"raw": 4_590_101}}
PUBLISHED = {"train": "4.5M", "valid": 3_000, "test": 3_003}


def add_options(parser):
    versions = tuple(NEWS_COMMENTARY)
    about = "version: v9: WMT14; v12: DMAN's release; v13: MTSA's Table 6, where pairs are not "
    about += "cleaned by length ratio (default: %(default)s)"
    parser.add_argument("--news-commentary", choices=versions, default="v9", help=about)
    about = "drop training pairs of more than N words on a side or of a length ratio above "
    about += f"{MOSES_RATIO}, before merges are learned (default: of more than {LONGEST} subwords "
    about += f"or of a ratio above {RATIO})"
    parser.add_argument("--max-words", type=positive, metavar="N", help=about)


def find_files(options):
    """Return ``{split: [((archive, member), (archive, member)), ...]}``, English and German."""
    version = options.news_commentary
    training = {
        "europarl-v7.de-en": EUROPARL,
        "commoncrawl.de-en": COMMON_CRAWL,
        f"news-commentary-{version}.de-en": NEWS_COMMENTARY[version],
    }
    archives = ((name, obtain(source, options)) for name, source in training.items())
    return {
        "train": [
            [(archive, f"{name}.{language}") for language in LANGUAGES]
            for name, archive in archives
        ],
        "valid": [_find_newstest("newstest2013", DEVELOPMENT, options)],
        "test": [_find_newstest("newstest2014-deen", TEST, options)],
    }


def _find_newstest(name, source, options):
    """Return plain text or SGML of each language, which may be source or reference."""
    archive, forms = obtain(source, options), ("{}.{}", "{}-src.{}.sgm", "{}-ref.{}.sgm")
    members = ([form.format(name, side) for form in forms] for side in LANGUAGES)
    return [(archive, archive.first_of(*each)) for each in members]


def write_text(files, folder, options):
    for split, corpora in files.items():
        # The test set is not normalized, so that references stay as published.
        normalize = split != "test"
        pairs = read_pairs(corpora, _read_sentences if normalize else _read_newstest)
        tokenizers = [Tokenizer(side, normalize, not options.keep_hyphens) for side in LANGUAGES]
        write_tokenized({split: pairs}, tokenizers, folder, LANGUAGES, options)


def _read_sentences(stream, name):
    return (read_segments if name.endswith(".sgm") else read_lines)(stream, name)


def _read_newstest(stream, name):
    """Yield the sentences of a test set with plain apostrophes, as in fairseq's example."""
    for line in _read_sentences(stream, name):
        yield line.replace("’", "'")


def changes(options):
    changed = {"published": {**RAW.get(options.news_commentary, {}), **PUBLISHED}}
    if options.keep_hyphens:
        changed["word_rule"] = "moses-escaped"
    if options.news_commentary == "v13":
        changed["ratio"] = None
    if options.max_words:
        changed |= {"longest": None, "longest_words": options.max_words, "ratio": MOSES_RATIO}
    if (options.news_commentary, options.max_words, options.keep_hyphens) == ("v12", 80, False):
        changed["recipe"] = "dman/wmt14_base"
    return changed


KEEP_HYPHENS = (
    "keep a-b, for scores that split compounds themselves (default: a @-@ b, as in fairseq's "
    "example)"
)
CORPORA = (
    TranslationCorpus(
        name="wmt14_en_de",
        summary="WMT14 English to German: news, 4.5 million pairs",
        source="a folder that holds the published archives (training-parallel-europarl-v7.tgz, "
        "training-parallel-commoncrawl.tgz, training-parallel-nc-v9.tgz, dev.tgz, test-full.tgz), "
        "or what they unpack to",
        sides=LANGUAGES,
        word_rule="moses-escaped-hyphens",
        published=RAW["v9"] | PUBLISHED,
        recipe="mtsa/table6_setup2",
        find_files=find_files,
        write_text=write_text,
        settings=lambda options: {"news_commentary": options.news_commentary},
        add_options=add_options,
        bpe_operations=32_764,
        longest=LONGEST,
        flags={"--keep-hyphens": KEEP_HYPHENS},
        changes=changes,
    ),
)
