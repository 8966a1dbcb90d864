"""Tokenized text of the translation data sets, from their published layouts."""

import io
import itertools

import corpora
import pytest
from archive_files import gzipped, tarred, write_folder, zipped

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.corpora import TRANSLATION, iwslt14, tatoeba


@pytest.fixture
def text_of(tmp_path):
    """Return a function that writes and returns the text of a source."""

    def text_of(name, source, **changes):
        options = {"jobs": 1, "limit": None, "max_words": None}
        options |= {"news_commentary": "v9", "keep_hyphens": False, **changes}
        return corpora.written_text(TRANSLATION[name], source, tmp_path, **options)

    return text_of


def sizes(text, side):
    return [len(text[f"{split}.{side}"]) for split in ("train", "valid", "test")]


def test_only_segments_are_read():
    text = '<title>Wade Davis</title>\n<seg id="1"> Eins & zwei. </seg>\n'
    text += '<seg id="2">“It’s” R&amp;D</seg>\n  <seg id=3>drei</seg>\n'
    segments = iwslt14.read_segments(io.BytesIO(text.encode()), "set.xml")
    assert list(segments) == ["Eins & zwei.", "“It's” R&amp;D", "drei"]


@pytest.fixture
def talks(tmp_path):
    return write_folder(tmp_path / "talks", corpora.iwslt14())


def test_iwslt14_splits_pairs_and_skips_metadata(text_of, talks):
    text = text_of("iwslt14", talks)
    start = ["al gore : english 0", "ted talk english .", "a man sees a ball ."]
    assert text["train.en"][:3] == start
    start = ["al gore : deutsch 0", "ted talk deutsch .", "ein mann sieht einen ball ."]
    assert text["train.de"][:3] == start
    everything = "\n".join(line for lines in text.values() for line in lines)
    for trace in ("http", "technology", "gt ;", "no sentence", "not this one"):
        assert trace not in everything
    pairs = 400 + 8 * 2  # with titles and descriptions
    assert sizes(text, "de") == sizes(text, "en") == [pairs - pairs // 23, pairs // 23, 10]
    # The 23rd pair is the 21st sentence, after a title and a description.
    assert text["valid.en"][0] == "a man paints the house ."
    assert text["train.en"][21] == "a man paints a ball !"
    tests = ["", " , then more", " &quot; today &quot;"]
    tests = [f"a man sees a ball{end} ." for end in tests]
    tests += ["a man sees a ball !", "a man sees the house .", "a man sees the house , then more ."]
    assert text["test.en"] == [line for first in range(5) for line in tests[first : first + 2]]
    assert text_of("iwslt14", talks, jobs=2) == text
    quick = text_of("iwslt14", talks, limit=12)
    assert sizes(quick, "de") == [12, 12, 10]
    assert all(lines == text[name][: len(lines)] for name, lines in quick.items())


def test_iwslt14_drops_pairs_by_length_and_ratio(text_of, tmp_path):
    files = corpora.iwslt14(pairs=30)
    german, english = corpora.sentences(30)
    german[3] = english[3] = "w " * 176
    german[4], english[4] = "w " * 175, "w " * 117  # 175 / 117 < 1.5
    german[5], english[5] = "eins zwei drei vier", "one two"
    german[6] = ""
    files["de-en/train.tags.de-en.de"] = corpora.talks(german, "deutsch")
    files["de-en/train.tags.de-en.en"] = corpora.talks(english, "english")
    text = text_of("iwslt14", write_folder(tmp_path / "source", files))
    assert len(text["train.en"]) + len(text["valid.en"]) == 30 + 2 - 3
    assert [len(line.split()) for line in text["train.en"]][5] == 117


def test_iwslt14_is_read_from_all_archives(text_of, talks, tmp_path):
    expected = text_of("iwslt14", talks)
    files = corpora.iwslt14()
    packed = {"de-en.tgz": tarred(files, "gz")}
    renamed = {name.replace("IWSLT14", "IWSLT16"): content for name, content in files.items()}
    (tmp_path / "all").write_bytes(tarred({"2014-01/texts/de/en/de-en.tgz": packed["de-en.tgz"]}))
    assert text_of("iwslt14", tmp_path / "all") == expected
    assert text_of("iwslt14", write_folder(tmp_path / "tgz", packed)) == expected
    assert text_of("iwslt14", write_folder(tmp_path / "renamed", renamed)) == expected
    other = corpora.segments(["something else"])
    sets = {f"IWSLT16.TED.dev2010.de-en.{side}.xml": other for side in ("de", "en")}
    assert text_of("iwslt14", write_folder(talks, sets)) == expected  # that of 2014


def unpacked_wmt14(folder, archives=None):
    for files in (archives or corpora.wmt14()).values():
        write_folder(folder, files)
    return folder


def test_wmt14_concatenates_the_corpora(text_of, tmp_path):
    packed = {name: tarred(files, "gz") for name, files in corpora.wmt14().items()}
    text = text_of("wmt14_en_de", write_folder(tmp_path / "source", packed))
    assert sizes(text, "de") == sizes(text, "en") == [300, 7, 5]
    assert text["train.de"][0] == "Ein Mann sieht einen Ball ."
    assert text["train.en"][100:150] == text["train.en"][50:100]  # where Common Crawl begins
    assert text["train.en"][200:250] == text["train.en"][150:200]
    assert text["test.en"][0] == "A man sees two hats , then more ."
    assert text_of("wmt14_en_de", unpacked_wmt14(tmp_path / "unpacked")) == text


def test_wmt14_newstests_of_either_direction_are_read(text_of, tmp_path):
    """Read the sets of the other direction, which mirrors pack: the same sentences."""
    expected = text_of("wmt14_en_de", unpacked_wmt14(tmp_path / "source"))
    archives = corpora.wmt14()
    german, english = corpora.sentences(7, 3)
    archives["dev.tgz"] = {
        "dev/newstest2013-src.en.sgm": corpora.segments(english),
        "dev/newstest2013-ref.de.sgm": corpora.segments(german),
    }
    archives["test-full.tgz"] = {
        name.replace("-ref.de", "-src.de").replace("-src.en", "-ref.en"): content
        for name, content in archives["test-full.tgz"].items()
    }
    assert text_of("wmt14_en_de", unpacked_wmt14(tmp_path / "other", archives)) == expected


def test_wmt14_normalizes_all_but_the_test_set(text_of, tmp_path):
    quoted, rest = "„US-Präsident’s Haus“", ["Satz"]
    files = {
        "training/europarl-v7.de-en.de": corpora.lines(["„US-Präsident.“", *rest * 99]),
        "dev/newstest2013.de": corpora.lines([f"{quoted}\u200b", *rest * 6]),
        "test-full/newstest2014-deen-ref.de.sgm": corpora.segments([quoted, *rest * 4]),
    }
    source = write_folder(unpacked_wmt14(tmp_path / "source"), files)
    text = text_of("wmt14_en_de", source)
    assert text["train.de"][0] == "&quot; US @-@ Präsident &quot; ."
    assert text["valid.de"][0] == "&quot; US @-@ Präsident &apos; s Haus &quot;"
    assert text["test.de"][0] == "„ US @-@ Präsident &apos; s Haus “"
    kept = text_of("wmt14_en_de", source, keep_hyphens=True)
    assert kept["train.de"][0] == "&quot; US-Präsident &quot; ."


def test_multi30k_is_lowercased_normalized_and_tokenized(text_of, tmp_path):
    packed = {f"{name}.gz": gzipped(text) for name, text in corpora.multi30k().items()}
    text = text_of("multi30k", write_folder(tmp_path / "source", packed))
    assert text["test.de"][:2] == ["ein mann sieht das haus !", "ein mann sieht zwei hüte ."]
    assert text["valid.en"][3] == "a man sees two hats &quot; today . &quot;"
    assert sizes(text, "en") == [60, 5, 4]
    tokenized = {name: corpora.lines(lines) for name, lines in text.items()}
    assert text_of("multi30k", write_folder(tmp_path / "outer/text", tokenized)) == text
    with pytest.raises(UsageError, match="outer: holds no val.de"):  # not tokenized again
        text_of("multi30k", tmp_path / "outer")


def test_joined_sentences_of_multi30k_are_tested(text_of, tmp_path):
    source = write_folder(tmp_path / "source", corpora.multi30k())
    text = text_of("multi30k_length", source)["test.en"]
    single = text_of("multi30k", source)["test.en"]
    assert text == [*single, " ".join(single[:2]), " ".join(single[2:]), " ".join(single)]


def tatoeba_source(folder, lines):
    path = folder / "deu-eng.zip"
    path.write_bytes(zipped({"_about.txt": b"terms", "deu.txt": corpora.lines(lines)}))
    return path


def english_of(split, count):
    """Return sentences of a split."""
    candidates = (f"He has {number} hats." for number in itertools.count())
    chosen = (sentence for sentence in candidates if tatoeba.split_of(sentence) == split)
    return list(itertools.islice(chosen, count))


def test_tatoeba_is_divided_by_english_words(text_of, tmp_path):
    trained, valid = (english_of(split, 1)[0] for split in ("train", "valid"))
    test, other = english_of("test", 2)
    pairs = [
        (trained, "Er hat Hüte."),
        (trained, "Hüte hat er."),
        (test, "Hat er Hüte?"),
        (test.upper().replace(".", "!"), "Noch mehr Hüte!"),  # the same words
        (other, "Er hat Hüte!"),  # words of a training sentence
        (valid, "Ein Hut."),
    ]
    lines = [f"{english}\t{german}\tCC-BY 2.0 (tatoeba.org)" for english, german in pairs]
    text = text_of("tatoeba", tatoeba_source(tmp_path, lines))
    assert text["train.de"] == ["er hat hüte .", "hüte hat er ."]
    assert text["test.de"] == ["hat er hüte ?"]
    assert text["test.en"] == [test.lower().replace(".", " .")]
    assert text["valid.de"] == ["ein hut ."]


def test_a_larger_tatoeba_keeps_its_splits():
    pairs = [(f"Er hat {number} Hüte.", f"He has {number} hats.") for number in range(4000)]
    few, many = tatoeba.divide(pairs[::2]), tatoeba.divide(pairs)
    for split, shares in {"valid": (20, 60), "test": (20, 60), "train": (3880, 3960)}.items():
        assert set(few[split]) < set(many[split])
        assert shares[0] < len(many[split]) < shares[1]


@pytest.mark.parametrize("line", ["Hi.", "\tHallo!", "Hi.\t "])
def test_malformed_tatoeba_gives_a_one_line_error(text_of, tmp_path, line):
    with pytest.raises(UsageError, match="zip/deu.txt:2: must be English, a TAB and German$"):
        text_of("tatoeba", tatoeba_source(tmp_path, ["Hi.\tHallo!", line]))


@pytest.mark.parametrize(
    ("corpus", "name", "content", "words"),
    [
        ("iwslt14", "de-en/train.tags.de-en.en", b"one\n", "tags.de-en.de has 416, {} has 1;"),
        ("iwslt14", "de-en/train.tags.de-en.en", None, "holds no train.tags.de-en.en"),
        ("iwslt14", "de-en/IWSLT14.TED.tst2011.de-en.de.xml", None, "holds no IWSLT14.TED.tst2011"),
        ("iwslt14", "de-en/IWSLT14.TED.tst2012.de-en.en.xml", b'<hl>\n<seg id="2">zwei\n',
         "{}:2: not <seg id=...> ... </seg> on one line"),
        ("iwslt14", "de-en/IWSLT14.TED.tst2012.de-en.en.xml", b"<html>moved</html>\n",
         "{}: holds no <seg id=...>"),
        ("iwslt14", "de-en/IWSLT14.TED.tst2012.de-en.en.xml", corpora.segments(["one"]),
         "IWSLT14.TED.tst2012.de-en.de.xml has 2, {} has 1;"),
        ("wmt14_en_de", "commoncrawl.de-en.de", b"eins\n", "crawl.de-en.en has 100, {} has 1;"),
        ("wmt14_en_de", "dev/newstest2013.de", b"", "{}: the file is empty"),
        ("wmt14_en_de", "dev/newstest2013.de", None, "holds none of newstest2013.de, newstest2013"),
        ("multi30k", "val.de", b"eins\n", "{} has 1, "),
    ],
)  # fmt: skip
def test_malformed_files_give_one_line_errors(text_of, tmp_path, corpus, name, content, words):
    source = tmp_path / "source"
    if corpus == "wmt14_en_de":
        unpacked_wmt14(source)
    else:
        write_folder(source, getattr(corpora, corpus)())
    (source / name).unlink()
    if content is not None:
        (source / name).write_bytes(content)
    with pytest.raises(UsageError) as caught:
        text_of(corpus, source)
    assert words.format(source / name) in str(caught.value)
    assert "\n" not in str(caught.value)
