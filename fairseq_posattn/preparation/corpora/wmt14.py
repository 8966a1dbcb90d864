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

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from functools import partial
from typing import IO, Any

from fairseq_posattn.common.cli import positive
from fairseq_posattn.preparation.archives import Archive
from fairseq_posattn.preparation.corpora.iwslt14 import read_segments
from fairseq_posattn.preparation.corpus import Readers, TranslationCorpus
from fairseq_posattn.preparation.download import Source
from fairseq_posattn.preparation.parallel import Rule, read_pairs
from fairseq_posattn.text.lines import read_lines
from fairseq_posattn.text.moses import MOSES_RATIO, RATIO, Tokenizer

LANGUAGES = ("en", "de")
LONGEST = 250
STATMT = "https://www.statmt.org"
DATA_STATMT = "https://data.statmt.org"
HUB = "https://huggingface.co/datasets/wmt"  # the same files, packed as zip
TASK = "translation-task"


def _source(name: str, *folders: str, hub: str, packed: str | None = None) -> Source:
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


def _sources(version: str) -> tuple[Source, ...]:
    return EUROPARL, COMMON_CRAWL, NEWS_COMMENTARY[version], DEVELOPMENT, TEST


# Numbers of pairs: before cleaning, and of the papers
RAW: dict[str, dict[str, int | str]] = {"v9": {"raw": 4_520_620}, "v12": {"raw": 4_590_101}}
PUBLISHED: dict[str, int | str] = {"train": "4.5M", "valid": 3_000, "test": 3_003}


def add_options(parser: ArgumentParser) -> None:
    versions = tuple(NEWS_COMMENTARY)
    about = "version: v9: WMT14; v12: DMAN's release; v13: MTSA's Table 6, where pairs are not "
    about += "cleaned by length ratio (default: %(default)s)"
    parser.add_argument("--news-commentary", choices=versions, default="v9", help=about)
    about = "drop training pairs of more than N words on a side or of a length ratio above "
    about += f"{MOSES_RATIO}, before merges are learned (default: of more than {LONGEST} subwords "
    about += f"or of a ratio above {RATIO})"
    parser.add_argument("--max-words", type=positive, metavar="N", help=about)


def read(archive: Archive, options: Namespace) -> Readers:
    parts = "europarl-v7", "commoncrawl", f"news-commentary-{options.news_commentary}"
    training = [[f"{part}.de-en.{language}" for language in LANGUAGES] for part in parts]
    valid = [_find_newstest(archive, "newstest2013")]
    test = [_find_newstest(archive, "newstest2014-deen")]
    return {
        "train": partial(read_pairs, archive, training, _read_sentences),
        "valid": partial(read_pairs, archive, valid, _read_sentences),
        "test": partial(read_pairs, archive, test, _read_newstest),
    }


def _find_newstest(archive: Archive, name: str) -> list[str]:
    """Return plain text or SGML of each language, which may be source or reference."""
    forms = ("{}.{}", "{}-src.{}.sgm", "{}-ref.{}.sgm")
    return [
        archive.first_of(*(form.format(name, language) for form in forms)) for language in LANGUAGES
    ]


def tokenizers(split: str, options: Namespace) -> list[Rule]:
    # The test set is not normalized, so that references stay as published.
    normalize = split != "test"
    return [Tokenizer(side, normalize, not options.keep_hyphens) for side in LANGUAGES]


def _read_sentences(stream: IO[bytes], name: str) -> Iterator[str]:
    return (read_segments if name.endswith(".sgm") else read_lines)(stream, name)


def _read_newstest(stream: IO[bytes], name: str) -> Iterator[str]:
    """Yield the sentences of a test set with plain apostrophes, as in fairseq's example."""
    for line in _read_sentences(stream, name):
        yield line.replace("’", "'")


def changes(options: Namespace) -> dict[str, Any]:
    changed: dict[str, Any] = {
        "published": {**RAW.get(options.news_commentary, {}), **PUBLISHED},
        "alternatives": (_sources(options.news_commentary),),
    }
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
        alternatives=(_sources("v9"),),
        read=read,
        tokenizers=tokenizers,
        settings=lambda options: {"news_commentary": options.news_commentary},
        add_options=add_options,
        bpe_operations=32_764,
        longest=LONGEST,
        flags={"--keep-hyphens": KEEP_HYPHENS},
        changes=changes,
    ),
)
