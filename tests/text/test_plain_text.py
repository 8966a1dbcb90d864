"""Plain text is split like the prepared test sets."""

import json
import os

import corpora
import preprocessing
import pytest
from archive_files import lines, tree

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.commands.prepare import prepare
from fairseq_posattn.text import manifest, moses
from fairseq_posattn.text.manifest import SIDES, Manifest
from fairseq_posattn.text.plain_text import CODES, copy_companions, joiner, splitter
from fairseq_posattn.text.subwords import learn_wordpiece, whole_words

CAPTIONS = {
    "de": "Ein Mann sieht „zwei“ Bälle & lacht, in der U-Bahn Nr. {}.",
    "en": "A man sees “two” balls & laughs, in the metro-line No. {}.",
}
SPLITS = {"train": 30, "val": 3, "test_2016_flickr": 12}


def captions(split, language):
    return [CAPTIONS[language].format(number) for number in range(SPLITS[split])]


@pytest.fixture(scope="module")
def multi30k(tmp_path_factory):
    source, dest = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("prepared")
    for split in SPLITS:
        for language in CAPTIONS:
            (source / f"{split}.{language}").write_bytes(corpora.lines(captions(split, language)))
    words = ["multi30k", "--source", source, "--dest", dest, "--jobs", "1"]
    with preprocessing.in_this_process():
        assert prepare("translation", list(map(str, [*words, "--bpe-operations", "40"]))) == 0
    return dest


@pytest.mark.slow
def test_moses_and_byte_pairs_equal_the_prepared_text(multi30k):
    rules = manifest.read(multi30k)
    for language in CAPTIONS:
        split = splitter(multi30k, rules, language)
        result = [split(f"{line} \r\n") for line in captions("test_2016_flickr", language)]
        assert result == lines(multi30k / f"text/bpe.test.{language}")


@pytest.mark.slow
def test_words_are_detokenized(multi30k):
    join = joiner(manifest.read(multi30k), "en")
    plain = lines(multi30k / "text/test.en")[3]
    assert join(plain) == 'a man sees "two" balls & laughs, in the metro-line no. 3.'
    assert joiner(Manifest("own", "translation", "spaces"), "en")("a , b") == "a , b"


MARKED = {
    "hi": "यह ठीक है। हाँ, ठीक है।। (राम।)",
    "ar": "هل هذا صحيح؟ نعم، هذا صحيح؛ شكرا! (حقا؟!)",
    "ur": "یہ کتاب ہے۔ کیا؟",
    "hy": "Սա գիրք է։ Այո։",
    "am": "ይህ መጽሐፍ ነው። አዎ፣ ነው።",
    "my": "ဒါ စာအုပ် ဖြစ်သည်။",
}


@pytest.mark.parametrize("language", MARKED)
@pytest.mark.parametrize("kind", [("moses-escaped",), ("spaces", False, "wordpiece")])
def test_marks_of_other_scripts_join_their_words(language, kind):
    tokens = moses.Tokenizer(language, keep_marks=True)(MARKED[language])
    assert tokens != MARKED[language]
    assert joiner(Manifest("own", "translation", *kind), language)(tokens) == MARKED[language]


def test_word_pieces_are_joined():
    join = joiner(Manifest("own", "translation", "spaces", subwords="wordpiece"), "target")
    assert join("paris ( cnn ) : a storm , at & amp ; t .") == "paris (cnn): a storm, at & amp; t."


@pytest.mark.parametrize("text", ["정부는 오늘", "பொது"])
def test_text_without_accents_is_composed(tmp_path, text):
    learn_wordpiece(lambda: [text] * 9, 60, False, tmp_path / "vocab.txt")
    stripped = Manifest("own", "translation", "spaces", True, "wordpiece", SIDES)
    subwords = splitter(tmp_path, stripped, "source")(text)
    assert joiner(stripped, "target")(whole_words(subwords, "wordpiece")) == text


@pytest.mark.slow
@pytest.mark.parametrize("subwords", ["subword_nmt", "none"])
def test_subwords_of_custom_text_equal_the_preparations(tmp_path, fairseq_here, write, subwords):
    texts = [f"L'été\u00a0n° {number} «\u202fça va\u202f»  !" for number in range(40)]
    train = [write(f"train.{side}", texts) for side in ("fr", "en")]
    words = ["own", "--dest", str(tmp_path / "data"), "--jobs", "1", "--subwords", subwords]
    words += ["--train", *train, "--test", *train, "--source-lang", "fr", "--target-lang", "en"]
    size, prefix = ([], "") if subwords == "none" else (["--bpe-operations", "9"], "bpe.")
    assert prepare("translation", [*words, *size]) == 0
    split = splitter(tmp_path / "data", manifest.read(tmp_path / "data"), "fr")
    assert [split(line) for line in texts] == lines(tmp_path / f"data/text/{prefix}test.fr")


@pytest.mark.parametrize(
    ("rule", "subwords", "size", "message"),
    [
        ("moses-escaped", "subword_nmt", None, ": has no bpe.codes"),
        ("moses-escaped", "morphemes", None, "/preparation.json: subwords 'morphemes' is none of"),
        ("of a later version", None, None, "/preparation.json: word_rule 'of a later version' is"),
        ("spaces", "subword_nmt", 8, "/bpe.codes: not a file of subword_nmt; copy it again"),
        ("spaces", "sentencepiece", 8, "/spm.model: not a file of sentencepiece; copy it"),
        ("spaces", "wordpiece", 8, "/vocab.txt: not a file of wordpiece; copy it again"),
        ("spaces", "wordpiece", 1 << 26, "/vocab.txt: not a file of wordpiece, which has at most"),
    ],
)
def test_unusable_rules_and_codes_are_reported(tmp_path, rule, subwords, size, message, capfd):
    if size:
        (tmp_path / CODES[subwords]).write_text("a b c d\n")
        os.truncate(tmp_path / CODES[subwords], size)
    with pytest.raises(UsageError) as error:
        splitter(tmp_path, Manifest("own", "translation", rule, subwords=subwords), "de")
    assert str(error.value).startswith(f"{tmp_path}{message}")
    assert "\n" not in str(error.value)
    assert capfd.readouterr().err == ""


def test_codes_that_changed_since_the_preparation_are_refused(tmp_path):
    (tmp_path / "vocab.txt").write_text("[UNK]\nA\n")
    (tmp_path / ".stages.json").write_text('{"learning": {"files": {"vocab.txt": 5}}}')
    with pytest.raises(UsageError, match="/vocab.txt: has 8 bytes, its preparation 5; prepare the"):
        splitter(tmp_path, Manifest("own", "translation", "spaces", subwords="wordpiece"), "de")


def test_wordpiece_without_cased_in_its_manifest_follows_lower(tmp_path):
    (tmp_path / "vocab.txt").write_text("[UNK]\nA\na\n")
    for lower, encoded in ((True, "a a"), (False, "A a")):
        rules = {"corpus": "c", "task": "t", "word_rule": "spaces", "lower": lower}
        path = tmp_path / manifest.NAME
        path.write_text(json.dumps({**rules, "subwords": "wordpiece"}))
        assert splitter(tmp_path, manifest.read(tmp_path), "source")("A a") == encoded


PAIRS = {"word_rule": "moses-escaped", "languages": ("de", "en")}


def write_data(folder, rules, names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    manifest.write(folder, rules)


@pytest.mark.parametrize(
    ("rules", "names", "expected"),
    [
        (Manifest("own", "translation", subwords="subword_nmt", **PAIRS),
         ["dict.de.txt", "dict.en.txt", "train.de-en.de.bin", "text/bpe.codes", "text/test.de"],
         {"dict.de.txt", "dict.en.txt", "bpe.codes", "preparation.json"}),
        (Manifest("sst2", "sentence_prediction", "treebank"),
         ["input0/dict.txt", "label/dict.txt", "label/train.bin", "text/train.input0"],
         {"input0/dict.txt", "label/dict.txt", "preparation.json"}),
        (Manifest("mind", "news_recommendation", "moses"), ["titles/dict.txt"], set()),
    ],
)  # fmt: skip
def test_manifest_dictionaries_and_codes_are_copied_beside_a_checkpoint(
    tmp_path, rules, names, expected
):
    write_data(tmp_path / "data", rules, names)
    (tmp_path / "saved").mkdir()
    copy_companions(tmp_path / "data", tmp_path / "saved")
    copies = tree(tmp_path / "saved")
    assert copies.keys() == expected and all(copies.values())


def test_missing_codes_leave_no_manifest(tmp_path):
    rules = Manifest("own", "translation", subwords="sentencepiece", **PAIRS)
    write_data(tmp_path / "data", rules, ["dict.de.txt"])
    (tmp_path / "saved").mkdir()
    with pytest.raises(UsageError, match="spm.model"):
        copy_companions(tmp_path / "data", tmp_path / "saved")
    assert not (tmp_path / "saved/preparation.json").exists()
