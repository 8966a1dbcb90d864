"""Tokenised text of the translation data sets, from their published layouts."""

import io
import itertools
from argparse import Namespace
from functools import partial
from pathlib import Path

import corpora
import pytest
from archive_files import write_folder
from packing import gzipped, tarred, zipped

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.corpora import iwslt14, multi30k, tatoeba, wmt14


def options(source, dest, **others):
    defaults = {
        "jobs": 1,
        "limit": None,
        "force": False,
        "bpe_operations": 30,
        "news_commentary": "v9",
        "keep_hyphens": False,
    }
    return Namespace(source=source, dest=Path(dest), **{**defaults, **others})


def read(folder):
    return {path.name: path.read_text(encoding="utf-8").splitlines() for path in folder.iterdir()}


def text_of(data_set, source, tmp_path, **others):
    """What a data set writes of a source."""
    folder = tmp_path / "text"
    folder.mkdir(exist_ok=True)
    chosen = options(source, tmp_path, **others)
    data_set.write_text(data_set.find_files(chosen), folder, chosen)
    return read(folder)


def refused(write, *arguments):
    with pytest.raises(UsageError) as caught:
        write(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- Segments ----------------------------------------------------------------------------------


def segments(text):
    return list(iwslt14.read_segments(io.BytesIO(text.encode()), "set.xml"))


def test_only_segments_are_read():
    text = """<?xml version="1.0" encoding="UTF-8"?>
<title>Wade Davis</title>
<seg id="1"> Eins & zwei. </seg>
<seg id="2">\u201cIt\u2019s\u201d R&amp;D</seg>
  <seg id=3>drei</seg>
"""
    assert segments(text) == ["Eins & zwei.", "\u201cIt's\u201d R&amp;D", "drei"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '<seg id="1">eins</seg>\n<seg id="2">zwei\n',
            "2: not <seg id=...> ... </seg> on one line",
        ),
        ("<hl><seg id=3>drei</seg></hl>\n", "1: not <seg id=...> ... </seg> on one line"),
        ("<html>moved</html>\n", " holds no <seg id=...>"),
    ],
)
def test_malformed_segments_are_one_line(text, message):
    assert refused(segments, text) == f"set.xml:{message}"


# --- IWSLT14 -----------------------------------------------------------------------------------


iwslt14_text = partial(text_of, iwslt14)


@pytest.fixture
def talks(tmp_path):
    return write_folder(tmp_path / "source", corpora.iwslt14())


def test_iwslt14_takes_titles_and_descriptions_and_no_other_metadata(talks, tmp_path):
    text = iwslt14_text(talks, tmp_path)
    assert text["train.en"][:3] == [
        "al gore : english 0",
        "ted talk english .",
        "a man sees a ball .",
    ]
    assert text["train.de"][:3] == [
        "al gore : deutsch 0",
        "ted talk deutsch .",
        "ein mann sieht einen ball .",
    ]
    everything = "\n".join(line for lines in text.values() for line in lines)
    for trace in ("http", "technology", "gt ;", "no sentence", "not this one"):
        assert trace not in everything


def test_iwslt14_every_23rd_pair_is_for_validation(talks, tmp_path):
    text = iwslt14_text(talks, tmp_path)
    pairs = 400 + 8 * 2  # with titles and descriptions
    assert len(text["valid.de"]) == len(text["valid.en"]) == pairs // 23
    assert len(text["train.de"]) == len(text["train.en"]) == pairs - pairs // 23
    # The 21st sentence: a title and a description come before it.
    assert text["valid.en"][0] == "a man paints the house ."
    assert text["train.en"][21:23] == [
        "a man paints a ball !",
        "a man paints the house , then more .",
    ]


def test_iwslt14_test_sets_come_in_the_published_order(talks, tmp_path):
    text = iwslt14_text(talks, tmp_path)
    assert text["test.en"] == [
        line
        for start in range(5)
        for line in [
            "a man sees a ball .",
            "a man sees a ball , then more .",
            "a man sees a ball &quot; today &quot; .",
            "a man sees a ball !",
            "a man sees the house .",
            "a man sees the house , then more .",
        ][start : start + 2]
    ]


def test_iwslt14_leaves_out_what_is_too_long_or_too_uneven(tmp_path):
    files = corpora.iwslt14(pairs=30)
    german, english = corpora.sentences(30)
    german[3] = english[3] = "w " * 176
    german[4] = "w " * 175
    english[4] = "w " * 117  # 175 / 117 < 1.5
    german[5] = "eins zwei drei vier"
    english[5] = "one two"
    german[6] = ""
    files["de-en/train.tags.de-en.de"] = corpora.talks(german, "deutsch")
    files["de-en/train.tags.de-en.en"] = corpora.talks(english, "english")
    text = iwslt14_text(write_folder(tmp_path / "source", files), tmp_path)
    assert len(text["train.en"]) + len(text["valid.en"]) == 30 + 2 - 3
    assert [len(line.split()) for line in text["train.en"]][5] == 117


@pytest.mark.parametrize("kind", ["tgz", "zip", "folder of the tgz", "all languages", "IWSLT16"])
def test_iwslt14_is_found_in_whatever_holds_it(talks, tmp_path, kind):
    expected = iwslt14_text(talks, tmp_path)
    files = corpora.iwslt14()
    packed = tarred(files, "gz")
    later = {name.replace("IWSLT14", "IWSLT16"): content for name, content in files.items()}
    folder = write_folder(
        tmp_path / "other",
        {
            "tgz": {"any name": packed},
            "zip": {"any name": zipped(files)},
            "folder of the tgz": {"de-en.tgz": packed},
            "all languages": {"any name": tarred({"2014-01/texts/de/en/de-en.tgz": packed}, "gz")},
            "IWSLT16": later,
        }[kind],
    )
    source = folder / "any name" if (folder / "any name").exists() else folder
    assert iwslt14_text(source, tmp_path) == expected


def test_iwslt14_of_several_years_takes_2014(talks, tmp_path):
    expected = iwslt14_text(talks, tmp_path)
    other = corpora.segments(["something else"])
    write_folder(talks, {"IWSLT16.TED.dev2010.de-en.de.xml": other})
    write_folder(talks, {"IWSLT16.TED.dev2010.de-en.en.xml": other})
    assert iwslt14_text(talks, tmp_path) == expected


def test_iwslt14_quick_look(talks, tmp_path):
    text = iwslt14_text(talks, tmp_path, limit=12)
    assert {name: len(lines) for name, lines in text.items() if name.endswith("de")} == {
        "train.de": 12,
        "valid.de": 12,
        "test.de": 10,
    }
    whole = iwslt14_text(talks, tmp_path)
    assert all(lines == whole[name][: len(lines)] for name, lines in text.items())


def test_iwslt14_parallel_work_is_the_same(talks, tmp_path):
    assert iwslt14_text(talks, tmp_path, jobs=2) == iwslt14_text(talks, tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("train.tags.de-en.en", b"one\n", "train.tags.de-en.de has 416, {file} has 1;"),
        ("train.tags.de-en.en", b"", "{file}: the file is empty"),
        ("train.tags.de-en.en", None, "holds no train.tags.de-en.en"),
        ("train.tags.de-en.de", b"eins\nGr\xf6\xdfe\n", "{file}:2: not UTF-8: byte 3 is 0xf6"),
        ("IWSLT14.TED.tst2011.de-en.de.xml", None, "holds no IWSLT14.TED.tst2011.de-en.de.xml"),
        (
            "IWSLT14.TED.tst2012.de-en.en.xml",
            corpora.segments(["one"]),
            "IWSLT14.TED.tst2012.de-en.de.xml has 2, {file} has 1;",
        ),
        ("IWSLT14.TED.tst2012.de-en.en.xml", b"<html>\n", "{file}: holds no <seg id=...>"),
    ],
)
def test_iwslt14_malformed(talks, tmp_path, name, content, complaint):
    file = talks / "de-en" / name
    file.unlink()
    if content is not None:
        file.write_bytes(content)
    assert complaint.format(file=file) in refused(iwslt14_text, talks, tmp_path)


# --- WMT14 -------------------------------------------------------------------------------------


wmt14_text = partial(text_of, wmt14)


def wmt14_source(folder, **others):
    archives = corpora.wmt14(**others)
    return write_folder(folder, {name: tarred(files, "gz") for name, files in archives.items()})


def test_wmt14_joins_the_corpora_in_order(tmp_path):
    text = wmt14_text(wmt14_source(tmp_path / "source"), tmp_path)
    assert {name: len(lines) for name, lines in text.items()} == {
        f"{split}.{language}": count
        for split, count in (("train", 300), ("valid", 7), ("test", 5))
        for language in ("en", "de")
    }
    assert text["train.de"][0] == "Ein Mann sieht einen Ball ."
    assert text["train.de"][:50] == text["train.de"][:100][:50]
    assert text["train.en"][100:150] == text["train.en"][50:100]  # where Common Crawl begins
    assert text["train.en"][200:250] == text["train.en"][150:200]
    assert text["test.en"][0] == "A man sees two hats , then more ."


@pytest.mark.parametrize("kind", ["unpacked", "zip"])
def test_wmt14_is_found_in_whatever_holds_it(tmp_path, kind):
    expected = wmt14_text(wmt14_source(tmp_path / "source"), tmp_path)
    other = tmp_path / "other"
    for name, files in corpora.wmt14().items():
        write_folder(other, files if kind == "unpacked" else {name: zipped(files)})
    assert wmt14_text(other, tmp_path) == expected


@pytest.mark.parametrize("version", ["v12", "v13"])
def test_wmt14_news_commentary_by_option(tmp_path, version):
    source = wmt14_source(tmp_path / "source", news_commentary=version)
    assert len(wmt14_text(source, tmp_path, news_commentary=version)["train.en"]) == 300
    complaint = refused(wmt14_text, source, tmp_path)
    assert complaint == f"{source}: holds no news-commentary-v9.de-en.en"


def plain_wmt14(version):
    (corpus,) = wmt14.CORPORA
    return corpus.with_options(
        Namespace(news_commentary=version, max_words=None, keep_hyphens=False)
    )


def test_wmt14_of_the_published_dman_run():
    """By its options: pairs cleaned in words, and its own recipe to go on with."""
    (corpus,) = wmt14.CORPORA
    given = {"news_commentary": "v12", "max_words": 80, "keep_hyphens": False}
    dman = corpus.with_options(Namespace(**given))
    assert (dman.longest, dman.longest_words, dman.recipe) == (None, 80, "dman/wmt14_base")
    assert (dman.ratio, plain_wmt14("v9").ratio, plain_wmt14("v13").ratio) == (9, 1.5, None)
    assert dman.published["raw"] == 4_590_101
    plain = corpus.with_options(Namespace(**{**given, "news_commentary": "v9", "max_words": None}))
    assert (plain.longest, plain.longest_words) == (250, None)
    assert plain.recipe.startswith("mtsa/")


def test_wmt14_newstests_as_sgml_of_either_direction(tmp_path):
    """Mirrors pack the sets of the other direction, which are the same sentences."""
    archives = corpora.wmt14()
    german, english = corpora.sentences(7, 3)
    archives["dev.tgz"] = {
        "dev/newstest2013-src.en.sgm": corpora.segments(english),
        "dev/newstest2013-ref.de.sgm": corpora.segments(german),
    }
    turned = {
        name.replace("-ref.de", "-src.de").replace("-src.en", "-ref.en"): content
        for name, content in archives["test-full.tgz"].items()
    }
    source = write_folder(tmp_path / "other", {**archives["dev.tgz"], **turned})
    for name in list(archives)[:3]:
        write_folder(source, archives[name])
    expected = wmt14_text(wmt14_source(tmp_path / "source"), tmp_path)
    assert wmt14_text(source, tmp_path) == expected


def test_wmt14_training_and_validation_are_normalised_and_references_are_not(tmp_path):
    archives = corpora.wmt14()
    archives["dev.tgz"]["dev/newstest2013.de"] = corpora.lines(
        ["„US-Präsident’s Haus“\u200b", *["Satz"] * 6]
    )
    archives["training-parallel-europarl-v7.tgz"]["training/europarl-v7.de-en.de"] = corpora.lines(
        ["„US-Präsident.“"] + ["Satz"] * 99
    )
    archives["test-full.tgz"]["test-full/newstest2014-deen-ref.de.sgm"] = corpora.segments(
        ["„US-Präsident’s Haus“"] + ["Satz"] * 4
    )
    source = tmp_path / "source"
    for files in archives.values():
        write_folder(source, files)
    text = wmt14_text(source, tmp_path)
    assert text["train.de"][0] == "&quot; US @-@ Präsident &quot; ."
    assert text["valid.de"][0] == "&quot; US @-@ Präsident &apos; s Haus &quot;"
    assert text["test.de"][0] == "„ US @-@ Präsident &apos; s Haus “"
    kept = wmt14_text(source, tmp_path, keep_hyphens=True)
    assert kept["train.de"][0] == "&quot; US-Präsident &quot; ."


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("commoncrawl.de-en.de", b"eins\n", "commoncrawl.de-en.en has 100, {file} has 1;"),
        ("commoncrawl.de-en.de", b"\xff\n", "{file}:1: not UTF-8: byte 1 is 0xff"),
        ("commoncrawl.de-en.de", None, "holds no commoncrawl.de-en.de"),
        ("dev/newstest2013.de", b"", "{file}: the file is empty"),
        ("dev/newstest2013.de", None, "holds none of newstest2013.de, newstest2013-src.de.sgm"),
    ],
)
def test_wmt14_malformed(tmp_path, name, content, complaint):
    source = tmp_path / "source"
    for files in corpora.wmt14().values():
        write_folder(source, files)
    (source / name).unlink()
    if content is not None:
        (source / name).write_bytes(content)
    message = refused(wmt14_text, source, tmp_path)
    assert complaint.format(file=source / name) in message


# --- Multi30k ----------------------------------------------------------------------------------


multi30k_text = partial(text_of, multi30k)


def test_multi30k_is_lower_cased_normalised_and_tokenised(tmp_path):
    packed = {f"{name}.gz": gzipped(text) for name, text in corpora.multi30k().items()}
    text = multi30k_text(write_folder(tmp_path / "source", packed), tmp_path)
    assert text["test.de"][:2] == ["ein mann sieht das haus !", "ein mann sieht zwei hüte ."]
    assert text["valid.en"][3] == "a man sees two hats &quot; today . &quot;"
    assert {name: len(lines) for name, lines in text.items() if name.endswith("en")} == {
        "train.en": 60,
        "valid.en": 5,
        "test.en": 4,
    }


def test_multi30k_unpacked_and_tokenised_already(tmp_path):
    packed = {f"{name}.gz": gzipped(text) for name, text in corpora.multi30k().items()}
    expected = multi30k_text(write_folder(tmp_path / "packed", packed), tmp_path)
    unpacked = write_folder(tmp_path / "unpacked", corpora.multi30k())
    assert multi30k_text(unpacked, tmp_path) == expected
    tokenised = write_folder(
        tmp_path / "tokenised", {name: corpora.lines(text) for name, text in expected.items()}
    )
    assert multi30k_text(tokenised, tmp_path) == expected


def test_multi30k_malformed(tmp_path):
    source = write_folder(tmp_path / "source", corpora.multi30k())
    (source / "val.de").write_bytes(b"eins\n")
    message = refused(multi30k_text, source, tmp_path)
    assert f"{source / 'val.de'} has 1, {source / 'val.en'} has 5" in message
    (source / "val.de").unlink()
    assert refused(multi30k_text, source, tmp_path) == f"{source}: holds no val.de"


# --- Tatoeba -----------------------------------------------------------------------------------


def tatoeba_text(content, tmp_path):
    source = tmp_path / "deu-eng.zip"
    source.write_bytes(zipped({"_about.txt": b"terms", "deu.txt": content}))
    return text_of(tatoeba, source, tmp_path)


def english_of(split, count):
    """Sentences that belong to a split."""
    candidates = (f"He has {number} hats." for number in itertools.count())
    return list(itertools.islice((s for s in candidates if tatoeba.split_of(s) == split), count))


def test_tatoeba_is_divided_by_english_words(tmp_path):
    (trained,), (valid,), (test, other) = (
        english_of(split, count) for split, count in (("train", 1), ("valid", 1), ("test", 2))
    )
    pairs = [
        (trained, "Er hat Hüte."),
        (trained, "Hüte hat er."),
        (test, "Hat er Hüte?"),
        (test.upper().replace(".", "!"), "Noch mehr Hüte!"),  # the same words
        (other, "Er hat Hüte!"),  # words that are in training
        (valid, "Ein Hut."),
    ]
    lines = [f"{english}\t{german}\tCC-BY 2.0 (tatoeba.org)" for english, german in pairs]
    text = tatoeba_text(corpora.lines(lines), tmp_path)
    assert text["train.de"] == ["er hat hüte .", "hüte hat er ."]
    assert text["test.de"] == ["hat er hüte ?"]
    assert text["test.en"] == [test.lower().replace(".", " .")]
    assert text["valid.de"] == ["ein hut ."]


def test_tatoeba_stays_divided_as_it_grows():
    sentences = [f"He has {number} hats." for number in range(4000)]
    pairs = [(f"Er hat {number} Hüte.", english) for number, english in enumerate(sentences)]
    few, many = tatoeba.divide(pairs[::2]), tatoeba.divide(pairs)
    for split, shares in {"valid": (20, 60), "test": (20, 60), "train": (3880, 3960)}.items():
        assert set(few[split]) < set(many[split])
        assert shares[0] < len(many[split]) < shares[1]


@pytest.mark.parametrize("line", ["Hi.", "\tHallo!", "Hi.\t "])
def test_tatoeba_malformed(line, tmp_path):
    content = corpora.lines(["Hi.\tHallo!", line])
    message = refused(tatoeba_text, content, tmp_path)
    assert message.endswith("deu-eng.zip/deu.txt:2: must be English, a TAB and German")
