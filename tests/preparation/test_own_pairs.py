"""Custom pairs: posattn prepare translation own, posattn prepare summarization own."""

import gzip
import json
import re
import shutil
import unicodedata
from argparse import Namespace
from pathlib import Path

import corpora
import pytest
from archive_files import lines, tree
from fairseq.data import Dictionary, data_utils
from printed_training import printed_training

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation import pipeline, round_trip, segmentation
from fairseq_posattn.preparation.commands.prepare import prepare
from fairseq_posattn.preparation.corpus import SPLITS
from fairseq_posattn.preparation.own_pairs import languages
from fairseq_posattn.preparation.stages import Stages
from fairseq_posattn.text import manifest
from fairseq_posattn.text.plain_text import joiner, splitter
from fairseq_posattn.text.subwords import whole_words

pytestmark = pytest.mark.usefixtures("fairseq_here")
LANGUAGES, SIDES = ("de", "en"), ("source", "target")
TEXT_COLUMNS = ("--text", "article", "--summary", "short")


def files(folder, name, pairs, sides=LANGUAGES):
    """Write two files of pairs of lines; return their paths."""
    paths = [folder / f"{name}.{side}" for side in sides]
    for path, texts in zip(paths, zip(*pairs, strict=True), strict=True):
        path.write_bytes(corpora.lines(texts))
    return paths


def pairs(count, start=0):
    return list(zip(*corpora.sentences(count, start), strict=True))


def table(path, rows, names):
    """Write pairs as TSV, or else as JSONL."""
    if path.suffix == ".tsv":
        text = ["\t".join(row) for row in [names, *rows]]
    else:
        text = [json.dumps(dict(zip(names, row, strict=True))) for row in rows]
    path.write_bytes(corpora.lines(text))
    return path


@pytest.fixture
def custom(tmp_path):
    """Prepare files; check the status and return the destination."""

    def run(*words, kind="translation", status=0):
        dest = tmp_path / "data/own"
        words = ["own", *map(str, [*words, "--dest", dest, "--jobs", 1])]
        assert prepare(kind, words) == status
        return dest

    return run


@pytest.fixture
def train(tmp_path):
    return files(tmp_path, "train", pairs(60))


def read(dest, prefix="", sides=LANGUAGES):
    """Return the pairs of each split."""
    texts = {s: [lines(dest / f"text/{prefix}{s}.{side}") for side in sides] for s in SPLITS}
    return {split: list(zip(*columns, strict=True)) for split, columns in texts.items()}


def binarized(dest, split, side, pair="de-en"):
    dictionary = Dictionary.load(str(dest / f"dict.{side}.txt"))
    data = data_utils.load_indexed_dataset(str(dest / f"{split}.{pair}.{side}"), dictionary)
    return [dictionary.string(tokens) for tokens in data]


SUBWORDS = {
    "subword_nmt": (["--bpe-operations", "40"], "bpe."),
    "sentencepiece": (["--vocabulary-size", "80"], "spm."),
    "none": (["--separate-dictionaries"], ""),
}


@pytest.mark.parametrize("subwords", SUBWORDS)
def test_fairseq_reads_all_splits(custom, train, capsys, subwords):
    (options, prefix), joined = SUBWORDS[subwords], subwords != "none"
    words = ["--train", *train, "--valid", 7, "--test", 5, "--subwords", subwords, *options]
    dest = custom(*words)
    texts = read(dest, prefix)
    assert [len(texts[split]) for split in SPLITS] == [48, 7, 5]
    for number, side in enumerate(LANGUAGES):
        assert binarized(dest, "train", side) == [pair[number] for pair in texts["train"]]
        assert [len(binarized(dest, split, side)) for split in SPLITS] == [48, 7, 5]
    german, english = ((dest / f"dict.{side}.txt").read_bytes() for side in LANGUAGES)
    assert (german == english) is joined
    described = manifest.read(dest)
    assert described.languages == ("de", "en")
    assert described.subwords == (subwords if joined else None)
    trained = printed_training(capsys.readouterr().out)
    assert (trained.data, getattr(trained, "share_all_embeddings", False)) == (str(dest), joined)


def test_the_raw_test_set_is_written_and_the_training_command_printed(custom, train, capsys):
    dest = custom("--train", *train)
    raw = list(zip(*(lines(dest / f"test.{side}") for side in LANGUAGES), strict=True))
    assert len(raw) == 6 and set(raw) < set(pairs(60))
    assert set(sum(read(dest).values(), [])) == set(pairs(60))
    *_, start, train, then, translate = capsys.readouterr().out.splitlines()
    assert (start, train) == ("next:", f"    posattn train {dest}")
    assert then == "then, on the raw test set,"
    files = f"--input {dest}/test.de --output checkpoints/own/test.en"
    assert translate == f"    posattn translate checkpoints/own {files}"


def test_commands_name_the_checkpoints_of_the_current_folder(custom, train, capsys, monkeypatch):
    """posattn train takes the folder's own name, also of ``.`` and of a link."""
    dest = custom("--train", *train)
    monkeypatch.chdir(dest)
    capsys.readouterr()
    assert prepare("translation", ["own", "--train", *map(str, train), "--dest", "."]) == 0
    files = "--input ./test.de --output checkpoints/own/test.en"
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"    posattn translate checkpoints/own {files}"


def test_strip_accents_needs_wordpiece(custom, train, capsys):
    custom("--train", *train, "--strip-accents", kind="summarization", status=1)
    assert "--strip-accents: needs --subwords wordpiece" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("a.zh-TW", "a.yue.gz"), ("zh_TW", "yue")),
        (("a.sr-Latn", "a.quy"), ("sr_Latn", "quy")),
        (("a.pt_BR", "a.EN"), ("pt_BR", "EN")),
        (("a.fr", "a.src"), None),
        (("a.txt", "a.fr"), None),
        (("a.TXT", "a.fr"), None),
        (("a.fr.zst", "a.en.zst"), None),
        (("a.zh-TW", "b.zh_TW"), None),
    ],
)
def test_languages_are_inferred_from_names_of_files(names, expected, capsys):
    options = Namespace(file=None, columns=None, subwords="subword_nmt", train=[*map(Path, names)])
    options.source_lang = options.target_lang = options.template = None
    if expected is None:
        with pytest.raises(UsageError, match="cannot be inferred|are both zh_TW"):
            languages(options)
        return
    assert languages(options) == expected
    hyphens = sum("-" in name for name in names)
    assert capsys.readouterr().err.count("in names of files, as fairseq needs\n") == hyphens


def test_pairs_that_training_leaves_out_are_counted(custom, tmp_path, capsys):
    words = [f"w{n}" for n in range(1024)]
    long = [(f"{n}", " ".join(words[: 1023 + n % 2])) for n in range(4)]
    train = files(tmp_path, "train", [*pairs(60), *long])
    held = files(tmp_path, "held", pairs(9))
    test = files(tmp_path, "test", [*pairs(7), long[1], long[1][::-1]])
    options = ["--valid", *held, "--test", *test, "--subwords", "none"]
    custom("--train", *train, *options)
    line, cut = (line for line in capsys.readouterr().err.splitlines() if "1,023" in line)
    assert "train: 2 examples of 64 (3.1%) have more than 1,023 tokens: training leaves" in line
    assert "test: 1 example of 9 (11.1%) have more than 1,023 tokens: generation cuts" in cut


def test_translations_are_read_from_a_table(custom, tmp_path):
    file = table(tmp_path / "pairs.tsv", pairs(60), LANGUAGES)
    words = [file, "--columns", *LANGUAGES, "--subwords", "none", "--valid", "0.1"]
    dest = custom(*words, "--test", 0.05)
    texts = read(dest)
    assert [len(texts[split]) for split in SPLITS] == [51, 6, 3]
    assert sorted(sum(texts.values(), [])) == sorted(pairs(60))
    custom(*words, "--test", 0.05, "--seed", 2)
    assert read(dest)["test"] != texts["test"]


def test_leaks_and_empty_pairs_of_compressed_files_are_reported(custom, tmp_path, capsys):
    rows = [*pairs(20), pairs(1)[0], pairs(1)[0], ("", "a"), ("b", "\x01\u200b"), pairs(2)[1]]
    train = files(tmp_path, "train", rows, [f"{side}.gz" for side in LANGUAGES])
    for path in train:
        path.write_bytes(gzip.compress(path.read_bytes()))
    valid = files(tmp_path, "valid", [*pairs(2), ("n &apos; eu", "new")])
    test = files(tmp_path, "test", [("eins", "one"), ("", "b")])
    words = ["--train", *train, "--valid", *valid, "--test", *test, "--subwords", "none"]
    dest = custom(*words)
    assert manifest.read(dest).languages == LANGUAGES  # by the files' names
    printed, said = capsys.readouterr()
    table = {line.split()[0]: line.split()[1:4] for line in printed.splitlines() if line.strip()}
    assert table["train"] == ["23", "3", "-"]
    assert table["valid"] == ["3", "0", "2"]
    assert table["test"] == ["1", "0", "0"]
    assert "warning: 2 of the 3 examples of valid are in train, too" in said
    assert "train: left out 2 pairs with an empty side (8.0%)" in said
    assert "test: left out 1 pair with an empty side (50.0%)" in said
    assert "Moses" not in said


def test_only_changed_stages_run_again(custom, train, capsys):
    words = ["--train", *train, "--subwords", "none"]
    custom(*words)
    custom(*words)
    assert capsys.readouterr().err.count("done already") == 3
    for word in ("neu", "alt"):  # of the same size
        train[0].write_bytes(corpora.lines(f"{word} {number}" for number in range(60)))
        dest = custom(*words)
        assert all(line.startswith(word) for line in lines(dest / "text/train.de"))


def test_a_corpus_that_another_run_made_meanwhile_is_not_replaced(
    custom, train, tmp_path, monkeypatch, capsys
):
    rest = ["--test", 5, "--subwords", "none"]

    def after_another(*arguments):
        monkeypatch.setattr(pipeline, "Stages", Stages)
        custom("--train", *files(tmp_path, "other", pairs(60, 5)), *rest)
        return Stages(*arguments)

    monkeypatch.setattr(pipeline, "Stages", after_another)
    custom("--train", *train, *rest, status=1)
    assert (
        "/own: holds another corpus (own, translation, de, en, other.de" in capsys.readouterr().err
    )


def test_another_corpus_is_replaced_by_force_only(custom, train, tmp_path, capsys):
    whole, none = ["--train", *train, "--test", 5], ["--subwords", "none"]
    custom(*whole, *none)
    (tmp_path / "other").mkdir()
    same_names = files(tmp_path / "other", "train", pairs(40))
    others = {
        "files": ["--train", *same_names],
        "direction": ["--train", *train[::-1]],
        "languages": ["--train", *train, "--target-lang", "da"],
        "table": [table(tmp_path / "pairs.tsv", pairs(60), LANGUAGES), "--columns", *LANGUAGES],
    }
    dest = tmp_path / "data/own"
    before = tree(dest)
    holds = f"--dest {dest}: holds another corpus (own, translation, de, en, train.de, train.en); "
    for words in others.values():
        custom(*words, *none, status=1)
        (message,) = capsys.readouterr().err.splitlines()[-1:]
        assert holds in message and message.endswith("or replace it with --force")
        assert tree(dest) == before
    source = ["--text", "de", "--label", "en", "--dest", str(dest)]
    assert prepare("classification", ["own", str(tmp_path / "pairs.tsv"), *source]) == 1
    multi30k = ["multi30k", "--source", str(tmp_path / "other"), *source[4:]]
    assert prepare("translation", multi30k) == 1
    assert capsys.readouterr().err.count(holds) == 2
    made = dest / "test.de"
    (tmp_path / "linked.de").symlink_to(made)
    for path in (made, tmp_path / "linked.de"):
        words = ["--train", path, dest / "test.en", *none, "--force"]
        custom(*words, status=1)
        assert f"{path}: an earlier preparation made it, and this" in capsys.readouterr().err
    assert tree(dest) == before
    train[0].write_bytes(corpora.lines(f"neu {number}" for number in range(60)))
    custom(*whole, *none, "--seed", 2, "--valid", 3)  # the same corpus, changed
    custom(*others["direction"], *none, "--force")
    assert manifest.read(dest).languages == ("en", "de")
    assert not list(dest.glob("*.de-en.*")) and len(lines(dest / "text/train.de")) == 48


@pytest.mark.parametrize("subwords", ["subword_nmt", "sentencepiece", "none"])
def test_variants_of_a_sentence_are_not_held_out(custom, tmp_path, subwords):
    """Check sources that differ in a space, a control character or case."""
    sources = [f"{subject} , {number} mal" for number in range(20) for subject in ("er", "sie")]
    variants = [lambda s: s.replace(" , ", ", "), lambda s: s.replace(" mal", "\u202fmal")]
    variants += [lambda s: f"{s}\u200b ", str.upper]
    sources += [variants[n % 4](source) for n, source in enumerate(sources) if n < 36]
    train = files(tmp_path, "train", [(source, f"t{n}") for n, source in enumerate(sources)])
    dest = custom("--train", *train, "--valid", 2, "--test", 2, "--subwords", subwords)
    held = [source for split in ("valid", "test") for source, _ in read(dest)[split]]
    assert sorted(held) == sorted(sources[36:40])  # the only sources without a variant


def test_special_symbols_and_moses_escapes_are_reported(custom, tmp_path, capsys):
    train = files(tmp_path, "train", [*pairs(30), ("c &apos; est", "a <unk> word"), *pairs(9)])
    dest = custom("--train", *train, "--subwords", "none", status=1)
    said = capsys.readouterr().err
    assert f"{train[1]}:31: <unk> is a special symbol of fairseq's dictionaries; " in said
    assert {path.name for path in dest.glob("*")} <= {".lock"}
    words = ["--subwords", "subword_nmt", "--bpe-operations", 40]
    custom("--train", *train, *words)
    assert not any("<unk>" in line.split() for line in lines(dest / "text/bpe.train.en"))
    warning = "1 pair with Moses escapes such as &apos;: unescape tokenized text, or give --subw"
    assert warning in capsys.readouterr().err


ROWS = [(f"Long text,\n{n} lines. ", f"Text {n}.") for n in range(50)]


@pytest.mark.parametrize("source", ["table", "files"])
def test_summaries_are_cut_but_aligned_and_complete(custom, tmp_path, capsys, source):
    rows = [*ROWS, ("no summary", " "), ("", "no text")]
    if source == "table":
        train = [table(tmp_path / "news.jsonl", rows, TEXT_COLUMNS[1::2]), *TEXT_COLUMNS]
    else:
        rows = [(text.replace("\n", " "), summary) for text, summary in rows]
        train = ["--train", *files(tmp_path, "train", rows, SIDES)]
    words = [*train, "--valid", 7, "--test", 5, "--max-pieces", 3, "--vocabulary-size", 60]
    dest = custom(*words, kind="summarization")
    output = capsys.readouterr()
    assert "left out 2 pairs with an empty side (5.0%)" in output.err
    assert "train.source: cut after 3 subwords (38 of 38 lines, 100.0%)" in output.err
    assert re.search("^train +38 +0 ", output.out, re.MULTILINE)  # they differ in what is cut
    assert "in train, too" not in output.err
    assert {len(line.split()) for line in lines(dest / "text/spm.train.source")} == {3}
    trained = printed_training(output.out)
    assert (trained.data, trained.arch) == (str(dest), "dman_summarization")
    assert (trained.max_source_positions, trained.max_target_positions) == (4, 4)
    splits = read(dest, "", SIDES)
    assert [len(splits[split]) for split in SPLITS] == [38, 7, 5]
    expected = [(f"Long text, {n} lines.", f"Text {n}.") for n in range(50)]
    assert sorted(sum(splits.values(), [])) == sorted(expected)
    raw = list(zip(*(lines(dest / f"test.{side}") for side in SIDES), strict=True))
    assert [tuple(" ".join(text.split()) for text in pair) for pair in raw] == splits["test"]
    if source == "table":  # another can be a split
        valid = table(tmp_path / "valid.jsonl", [("New text.", "New.")], TEXT_COLUMNS[1::2])
        custom(*words, "--valid", valid, kind="summarization")
        splits = read(dest, "", SIDES)
        assert splits["valid"] == [("New text.", "New.")] and len(splits["train"]) == 45


TRAIN = ["--train", "train.de", "train.en"]
TABLE = ["news.jsonl", *TEXT_COLUMNS]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("news.jsonl", b'{"article": "a", "short": "b"}\n{"article": "a", "short": null}\n',
         "news.jsonl:2: column 'short' is None, no text; correct it, or remove the row"),
        ("news.jsonl", b'{"article": "a", "short": "b"}\n', "has 1 example, too few to hold out 1"),
        ("news.jsonl", b'{"article": "a", "short": ""}\n' * 40, "too few different texts to hold"),
        ("train.en", b"one\n", "line counts differ: train.de has 60, train.en has 1; "),
        ("train.en", None, "train.en: no such file or folder"),
    ],
)  # fmt: skip
def test_malformed_files_give_one_line_errors(
    custom, train, tmp_path, monkeypatch, capsys, name, content, words
):
    monkeypatch.chdir(tmp_path)
    train[1].unlink()
    if content is not None:
        (tmp_path / name).write_bytes(content)
    kind, train = ("summarization", TABLE) if name == "news.jsonl" else ("translation", TRAIN)
    dest = custom(*train, kind=kind, status=1)
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1
    assert {path.name for path in dest.glob("*")} <= {".lock"}


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        ("translation", [*TRAIN, "--source-lang", "en"], "such as --target-lang en_x_new"),
        ("translation", [*TRAIN, "--source-lang", "en", "--target-lang", "de"],
         "--source-lang en: the files or columns are de and en; name them in the other order"),
        ("translation", [*TRAIN, "--source-lang", "pt.br"], "--source-lang pt.br: file names"),
        ("translation", [*TRAIN, "--source-lang", "french", "--subwords", "subword_nmt"],
         "--source-lang french: unknown code, by which Moses cannot tokenize (--subwords "
         "sentencepiece takes any name); did you mean "),
        ("translation", ["--train", "train.de", "train.de", "--target-lang", "en"],
         "--train train.de train.de: both are the same file; name the other side's"),
        ("summarization", [*TRAIN, "--test", "train.de", "soft"], "--test train.de soft: both are"),
        ("summarization", [*TRAIN, "--valid", "hard", "soft"], "--valid hard soft: both are the"),
        ("translation", [*TRAIN, "--test", "soft.en", "train.de"],
         "--test soft.en train.de: the sides are in the other order in --train; swap them"),
        ("translation", ["t.csv", "--columns", "de", "de"], "both columns are 'de'; name the oth"),
        ("translation", ["--train", "train.de", "train"], "--target-lang LANGUAGE: cannot be"),
        ("translation", [*TRAIN, "--subwords", "none", "--bpe-operations", "8"], "-operations 8:"),
        ("translation", [*TRAIN, "--valid", "50", "--test", "10"],
         "has 60 examples, too few to hold out 10 for test and 50"),
        ("translation", [*TRAIN, "--valid", "empty", "empty.en"], "empty: has no pairs for valid"),
        ("translation", [*TRAIN, "--valid", "none"], "--valid none: takes two files, or a number"),
        ("summarization", [], "name the training set: FILE --text COLUMN --summary COLUMN, or two"),
        ("summarization", ["t.csv", *TEXT_COLUMNS, "--valid", "a", "b"],
         "--valid a b: takes a file with the same columns, or a number or share of pairs"),
        ("summarization", [*TRAIN, "--vocabulary-size", "5"],
         "--vocabulary-size 5: the characters of the text and"),
    ],
)  # fmt: skip
def test_wrong_options_give_one_line_errors(
    custom, train, tmp_path, monkeypatch, capsys, kind, options, words
):
    monkeypatch.chdir(tmp_path)
    files(tmp_path, "empty", [("", "")], ("", "en"))
    (tmp_path / "empty.").rename(tmp_path / "empty")
    (tmp_path / "soft").symlink_to("train.de")
    (tmp_path / "hard").hardlink_to("train.de")
    custom(*options, kind=kind, status=1)
    said = capsys.readouterr().err.splitlines()
    assert " error: " in said[-1] and words in said[-1]
    assert not any("error" in line for line in said[:-1])


# Marks, joiners, spaces and punctuation of many scripts, decomposed letters, subwords' own symbols.
TEXTS = """
Ọjọ́ dára, ẹ káàárọ̀. E̩ kú is̩é̩.
እኔ እሄዳለሁ፤ አንተስ?
می‌خواهم به مدرسه بروم؛ چرا؟
ذهب الولد، ثم عاد؟
צה"ל ובע"מ – כן.
यह एक अच्छा दिन है। क्या?
ខ្ញុំទៅសាលារៀន។
ຂ້ອຍໄປໂຮງຮຽນ
မင်္ဂလာပါ။
เขาไปโรงเรียนทุกวัน
苹果公司（北京）发布了。10:30，和/或
彼は「はい」と言った。東京　大阪
삼성전자(서울)는 “네”라고 했다.
L’homme qu’il a vu\u202f: «\u00a0oui\u00a0»…
Die Straße über München, Tiếng
<s> <pad> <unk> </s> <0xE1> ▁▂▃ @@ ## &apos; a@-@b
👩‍👩‍👧 🇨🇭 \u00ad\u200b|\ue000| tab\u0009bell\u0007 \U0010000a\U001000a0
""".strip().splitlines()


def comes_back(dest, text, language="en"):
    rules = manifest.read(dest)
    subwords = splitter(dest, rules, language)(text)
    return joiner(rules, language)(whole_words(subwords, rules.subwords))


def test_text_of_every_script_comes_back_by_default(custom, tmp_path, capsys):
    rows = [(f"{text} {n}", f"{n} {text}") for n in range(4) for text in TEXTS]
    dest = custom("--train", *files(tmp_path, "train", rows, ("yo", "en")))
    for text in (*TEXTS, "unseen: ☃ 🧿  wide", "a"):
        assert comes_back(dest, text) == text
        dictionary = Dictionary.load(str(dest / "dict.en.txt"))
        subwords = splitter(dest, manifest.read(dest), "en")(text)
        assert dictionary.unk() not in dictionary.encode_line(subwords, add_if_not_exist=False)
    assert comes_back(dest, "  two \u2028 spaces\r ") == "two spaces"
    for scores in manifest.read(dest).round_trip.values():
        assert scores == {"lines": 1, "bleu": pytest.approx(100), "chrf": pytest.approx(100)}
    output = capsys.readouterr()
    assert "round trip of target: 100.0% of the lines" in output.out
    assert "do not come back" not in output.err


@pytest.mark.parametrize("kind", ["translation", "summarization"])
def test_text_that_does_not_come_back_is_reported(custom, tmp_path, capsys, kind):
    rows = [(f"Text {n}.", f"Qu’il vienne à {n}:30.") for n in range(60)]
    flags = ["--subwords", "subword_nmt" if kind == "translation" else "wordpiece"]
    sides = ("en", "fr") if kind == "translation" else SIDES
    dest = custom("--train", *files(tmp_path, "train", rows, sides), *flags, kind=kind)
    measured = manifest.read(dest).round_trip["target"]
    assert measured["lines"] == 0 and measured["bleu"] < 90
    error = capsys.readouterr().err
    assert f"{sides[1]}: 100.0% of the lines do not come back from their subwords: " in error
    assert "--subwords sentencepiece" in error
    assert ("rare characters" in error) == (kind == "summarization")


@pytest.mark.parametrize(
    ("text", "lost"),
    [("很去书。 读猫。", False), ("วันนี้ ไป", False), ("नमस्ते यह है", True), ("a b c d", True)],
)
def test_spaces_count_in_scores_of_scripts_that_separate_words(text, lost):
    assert (round_trip._scores([text.replace(" ", "")], [text], "source")["bleu"] < 99) == lost


@pytest.mark.parametrize(("language", "lost"), [("zh_TW", False), ("fr", True)])
def test_the_round_trip_has_the_tokenizer_by_which_translations_are_scored(language, lost):
    text = "在 Windows 中 Firefox 和 Chrome"  # fewer than half are Chinese characters
    back = text.replace("在 ", "在").replace(" 和 ", "和")
    assert (round_trip._scores([back], [text], language)["bleu"] < 99) == lost


@pytest.mark.parametrize("cased", [True, False])
@pytest.mark.parametrize(
    "words",
    [
        "정부는 오늘 정책을 발표했다",
        "सरकार ने आज नीति की घोषणा",
        "chính phủ hôm nay đẹp",
        "می‌خواهم به مدرسه",
    ],
)
def test_wordpiece_keeps_marks_accents_and_spaces(custom, tmp_path, words, cased):
    rows = [(f"{words} {n}.", f"{words}.") for n in range(60)]
    train = ["--train", *files(tmp_path, "train", rows, SIDES)]
    flags = [*train, "--subwords", "wordpiece", *(["--cased"] if cased else [])]
    custom(*flags, kind="summarization")
    assert comes_back(tmp_path / "data/own", f"{words}.", "target") == f"{words}."
    if not cased and words.startswith("ch"):
        custom(*flags, "--strip-accents", kind="summarization")
        assert comes_back(tmp_path / "data/own", "đẹp hôm", "target") == "đep hom"


@pytest.mark.parametrize("flags, count", [((), 3), (("--cased",), 1)])
def test_leaks_are_found_in_the_case_of_the_model(custom, tmp_path, capsys, flags, count):
    train = files(tmp_path, "train", [(f"Text {n}", f"t {n}") for n in range(30)], SIDES)
    test = files(tmp_path, "test", [("Text 1", "t"), ("TEXT 2", "t"), ("text 3", "t")], SIDES)
    words = ["--train", *train, "--test", *test, "--valid", 5, "--subwords", "wordpiece", *flags]
    custom(*words, kind="summarization")
    assert f"{count} of the 3 examples of test are in train, too" in capsys.readouterr().err


def test_unicode_forms_are_reported_and_unified(custom, tmp_path, capsys):
    rows = [(f"Mu\u0308nchen {n}", f"M\u00fcnchen {n}\u00a0 \ufb01") for n in range(60)]
    train = ["--train", *files(tmp_path, "train", rows)]
    custom(*train)
    warning = "lines of de (100.0%) are not in Unicode's composed form, NFC"
    assert warning in capsys.readouterr().err
    for form, expected in (("nfc", "M\u00fcnchen \ufb01"), ("nfkc", "M\u00fcnchen fi")):
        dest = custom(*train, "--normalize", form)
        assert manifest.read(dest).normalize == form
        assert {scores["lines"] for scores in manifest.read(dest).round_trip.values()} == {1}
        assert comes_back(dest, "Mu\u0308nchen \ufb01") == expected
        assert "Unicode" not in capsys.readouterr().err
        test = "".join([*lines(dest / "test.de"), *lines(dest / "test.en")])
        assert unicodedata.is_normalized(form.upper(), test), "no translation equals another form"


def test_characters_of_private_use_are_text(custom, tmp_path, capsys):
    rows = [(chr(0xF8D0 + n), f"word {n}") for n in range(40)]
    dest = custom("--train", *files(tmp_path, "train", rows), "--valid", "8")
    assert "left out" not in capsys.readouterr().err
    assert [len(lines(dest / f"text/{split}.de")) for split in SPLITS] == [28, 8, 4]


def test_pairs_without_a_visible_character_are_left_out(custom, tmp_path, capsys):
    train = files(tmp_path, "train", [*pairs(30), ("Ein Haus", "\x01\u200b"), *pairs(9, 30)])
    for subwords in ("sentencepiece", "subword_nmt", "none"):
        dest = custom("--train", *train, "--subwords", subwords)
        assert "left out 1 pair with an empty side" in capsys.readouterr().err
        assert not any(line == "" for line in lines(dest / "text/train.en"))


def test_the_same_file_on_both_sides_is_a_warning(custom, tmp_path, capsys):
    rows = pairs(40)
    twice = [(source, source) for source, _ in rows]
    for copied, expected in ((twice[:19] + rows[19:], []), (twice, ["32 pairs of 32"])):
        words = ["--train", *files(tmp_path, "train", copied), "--valid", "4", "--test", "4"]
        custom(*words)
        counts = re.findall("train: (.*) have equal sides", capsys.readouterr().err)
        assert counts == expected


def test_many_characters_are_learned_by_default(custom, tmp_path):
    characters = list(map(chr, range(0x4E00, 0x4E00 + 2400)))
    rows = [("".join(characters[20 * n : 20 * n + 20]), f"t{n}") for n in range(120)]
    dest = custom("--train", *files(tmp_path, "train", rows, ("zh", "en")))
    assert manifest.read(dest).round_trip["source"]["lines"] == 1


@pytest.mark.parametrize("subwords", ["sentencepiece", "subword_nmt"])
def test_unknown_subwords_do_not_come_back(custom, tmp_path, subwords):
    rows = [(f"\u0434\u043e\u043c {n}", f"house {n}") for n in range(60)]
    train = ["--train", *files(tmp_path, "train", rows), "--test"]
    test = files(tmp_path, "test", [("\u0434\u043e\u043c", "\u0434\u043e\u043c \u2603")] * 60)
    dest = custom(*train, *test, "--separate-dictionaries", "--subwords", subwords)
    share = manifest.read(dest).round_trip["target"]["lines"]
    assert share == 1 if subwords == "sentencepiece" else share < 0.6


def test_the_vocabulary_follows_the_size_of_the_text():
    sizes = [segmentation.choose_size(10**n) for n in range(3, 11)]
    assert sizes == sorted(sizes) and sizes[0] == segmentation.FEWEST
    assert sizes[-1] == segmentation.MOST


def test_moses_reports_languages_that_it_does_not_know(custom, tmp_path, capsys):
    train = files(tmp_path, "train", pairs(40), ("th", "yo"))
    general = shutil.move(custom("--train", *train, "--subwords", "subword_nmt"), tmp_path)
    error = capsys.readouterr().err
    assert error.count("th: Moses has no rules for this language; it splits no words;") == 1
    assert error.count("yo: Moses has no rules for this language; it takes those of English;") == 1
    custom("--train", *train, "--like", general)  # which decides the subwords
    assert "Moses has no rules" not in capsys.readouterr().err
