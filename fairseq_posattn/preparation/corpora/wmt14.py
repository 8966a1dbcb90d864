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
from fairseq_posattn.preparation.corpus import Readers
from fairseq_posattn.preparation.download import FILES
from fairseq_posattn.preparation.parallel import read_pairs
from fairseq_posattn.text.lines import read_lines
from fairseq_posattn.text.moses import MOSES_RATIO, RATIO

LANGUAGES = ("en", "de")
LONGEST = 250
VERSIONS = ("v9", "v12", "v13")  # of News Commentary
# By version, --max-words and --keep-hyphens
RECIPES = {("v12", 80, False): "dman/wmt14_base", ("v13", None, False): "mtsa/table6_setup2"}
# Numbers of pairs: before cleaning, and of the papers
RAW: dict[str, dict[str, int | str]] = {"v9": {"raw": 4_520_620}, "v12": {"raw": 4_590_101}}
PUBLISHED: dict[str, int | str] = {"train": "4.5M", "valid": 3_000, "test": 3_003}


def add_options(parser: ArgumentParser) -> None:
    about = "version: v9: WMT14; v12: DMAN's release; v13: MTSA's Table 6, where pairs are not "
    about += "cleaned by length ratio (default: %(default)s)"
    parser.add_argument("--news-commentary", choices=VERSIONS, default="v9", help=about)
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


def _read_sentences(stream: IO[bytes], name: str) -> Iterator[str]:
    return (read_segments if name.endswith(".sgm") else read_lines)(stream, name)


def _read_newstest(stream: IO[bytes], name: str) -> Iterator[str]:
    """Yield the sentences of a test set with plain apostrophes, as in fairseq's example."""
    for line in _read_sentences(stream, name):
        yield line.replace("’", "'")


def settings(options: Namespace) -> dict[str, Any]:
    return {"news_commentary": options.news_commentary}


def changes(options: Namespace) -> dict[str, Any]:
    version = options.news_commentary
    names = [f"training-parallel-{end}" for end in ("europarl-v7", "commoncrawl", f"nc-{version}")]
    changed: dict[str, Any] = {
        "published": {**RAW.get(version, {}), **PUBLISHED},
        "alternatives": (tuple(FILES[f"{name}.tgz"] for name in (*names, "dev", "test-full")),),
    }
    if options.keep_hyphens:
        changed["word_rule"] = "moses-escaped"
    if version == "v13":
        changed["ratio"] = None
    if options.max_words:
        changed |= {"longest": None, "longest_words": options.max_words, "ratio": MOSES_RATIO}
    form = version, options.max_words, options.keep_hyphens
    return {**changed, "recipe": RECIPES.get(form, "")}
