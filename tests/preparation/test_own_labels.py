"""Custom labeled text: posattn prepare classification own."""

import json
import random
from argparse import Namespace
from collections import Counter
from datetime import date
from decimal import Decimal
from functools import partial

import pytest
from archive_files import lines
from printed_training import printed_training

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation import held_out
from fairseq_posattn.preparation.commands.prepare import prepare
from fairseq_posattn.preparation.corpus import SPLITS
from fairseq_posattn.preparation.held_out import hold_out
from fairseq_posattn.preparation.own_labels import examples
from fairseq_posattn.text import manifest
from fairseq_posattn.text.plain_text import splitter
from fairseq_posattn.text.subwords import whole_words

pytestmark = pytest.mark.usefixtures("fairseq_here")
main = partial(prepare, "classification")
MOODS = ("glad", "sad", "so so")


def table(path, rows, header="text,mood,stars", between=","):
    rows = [header.replace(",", between), *(between.join(map(str, row)) for row in rows)]
    path.write_text("".join(f"{line}\n" for line in rows), encoding="utf-8")
    return path


def moods(count, start=0):
    return [(f"Text number {n}.", MOODS[n % 3], n % 4) for n in range(start, start + count)]


@pytest.fixture
def custom(tmp_path):
    """Prepare a file; check the status and return the destination."""

    def run(file, *words, target=("--label", "mood"), status=0):
        dest = tmp_path / "data/own"
        words = ["--text", "text", *target, "--dest", str(dest), "--jobs", "1", *map(str, words)]
        assert main(["own", str(file), *words]) == status
        return dest

    return run


def test_unicode_forms_of_texts_and_labels_are_reported(tmp_path, custom, capsys):
    rows = [(f"t\u00f4\u0301t {n}", ["so", "t\u1ed1t"][n % 2], 1) for n in range(30)]
    custom(table(tmp_path / "moods.csv", rows))
    assert "30 of 30 texts are not in Unicode's composed form" in capsys.readouterr().err
    test = table(tmp_path / "test.csv", [rows[1], ("text", "so", 1)])
    custom(table(tmp_path / "moods.csv", moods(30) + rows[:2]), "--test", test, "--force")
    warning = capsys.readouterr().err
    assert f"{test}: 1 of 2 texts" in warning and "moods.csv: 2 of 32 texts" in warning
    texts = [json.dumps({"text": text, "mood": "\u1ed1"}) for text, *_ in rows]  # with escapes
    texts += ['{"text": "a", "mood": "o\u0302\u0301"}']
    (tmp_path / "moods.jsonl").write_text("\n".join(texts))
    custom(tmp_path / "moods.jsonl", "--force", status=1)
    fix = "convert the file, and later the text for posattn predict, by unicodedata.normalize('NFC"
    assert fix in capsys.readouterr().err
    for form in "t\u00f4\u0301t", "t\u1ed1t\u200b":
        custom(table(tmp_path / "moods.csv", [*rows, ("text", form, 1)]), "--force", status=1)
        two = " and ".join(map(ascii, sorted(["t\u1ed1t", form])))
        assert f"{two}; write it in one" in capsys.readouterr().err


def test_a_table_becomes_data_and_prints_the_training_command(tmp_path, custom, capsys):
    rows = [*moods(58), ("Text number 1.", "sad", 3)]
    dest = custom(table(tmp_path / "moods.csv", rows), "--valid", "0.2")
    texts = {split: lines(dest / f"text/{split}.input0") for split in SPLITS}
    assert [len(texts[split]) for split in SPLITS] == [41, 12, 6]
    assert sorted(sum(texts.values(), [])) == sorted(f"text number {n} ." for n in [*range(58), 1])
    assert [line.split()[0] for line in lines(dest / "label/dict.txt")] == ["glad", "sad", "so_so"]
    trained = printed_training(capsys.readouterr().out)
    assert (trained.data, trained.task) == (str(dest), "sentence_prediction")
    assert trained.num_classes == 3


def test_labels_of_json_are_one_class_if_they_are_equal(tmp_path, custom):
    labels = ["0", "0", "0.0", "1.0", "1", '"1"', "true", '"true"', '"01"', "0.5"] * 9
    rows = [f'{{"text": "text {n}", "mood": {label}}}\n' for n, label in enumerate(labels)]
    (tmp_path / "t.jsonl").write_text("".join(rows))
    dest = custom(tmp_path / "t.jsonl")
    named = [line.split()[0] for line in lines(dest / "label/dict.txt")]
    assert named == ["0", "0.5", "01", "1", "true"]


def test_sizes_duplicates_leaks_and_shares_are_printed(tmp_path, custom, capsys):
    train = table(tmp_path / "train.csv", [*moods(9), *moods(2)])
    valid = table(tmp_path / "valid.csv", [*moods(3, start=2), *moods(1, start=20)])
    test = table(tmp_path / "test.csv", [*moods(2, start=30), *moods(1, start=20)])
    custom(train, "--valid", valid, "--test", test)
    printed, said = capsys.readouterr()
    rows = {line.split()[0]: line.split()[1:] for line in printed.splitlines() if line.strip()}
    assert rows["train"] == ["11", "2", "-", "4,", "4"]
    assert rows["valid"] == ["4", "0", "3", "4,", "4"]
    assert rows["test"] == ["3", "0", "0", "4,", "4"]
    assert rows["glad"] == ["4", "(36.4%)", "1", "(25.0%)", "1", "(33.3%)"]
    assert "warning: 3 of the 4 examples of valid are in train, too" in said
    assert "warning: 1 of the 3 examples of test are in valid, too: its scores will be" in said


def test_texts_that_training_cuts_are_counted(tmp_path, custom, capsys):
    train = table(tmp_path / "train.csv", [*moods(6), *[("a " * 512, "sad", 1)] * 2])
    held = table(tmp_path / "held.csv", [*moods(2, start=20), ("b " * 600, "sad", 1)])
    custom(train, "--valid", held, "--test", table(tmp_path / "t.csv", moods(3)))
    cuts = [line for line in capsys.readouterr().err.splitlines() if "will be cut" in line]
    assert cuts[0].startswith("warning: train.input0: 2 of 8 texts (25.0%) will be cut to 512 tok")
    assert cuts[1].startswith("warning: valid.input0: 1 of 3 texts (33.3%)") and len(cuts) == 2


def test_pairs_are_prepared_for_regression(tmp_path, custom, capsys):
    rows = [(f"one {n}", n + 0.5, f"other {n}") for n in range(20)]
    file = table(tmp_path / "pairs.tsv", rows, "text,likeness,with", "\t")
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("one 1 2\nother 3 4\n")
    dest = custom(file, "--text-pair", "with", "--glove", vectors, target=("--score", "likeness"))
    for split in SPLITS:
        columns = [f"text/{split}.input0", f"text/{split}.input1", f"label/{split}.label"]
        for first, second, score in zip(*(lines(dest / name) for name in columns), strict=True):
            assert float(score) - 0.5 == float(first.split()[1]) == float(second.split()[1])
    trained = printed_training(capsys.readouterr().out)
    assert (trained.task, trained.num_classes) == ("sentence_pair_prediction", 1)
    assert (trained.criterion, trained.encoder_embed_dim) == ("rating_regression", 2)


THAI = ["ที่", "นี้", "ดี", "แย่", "มาก"]
HINDI = ["यह", "है", "अच्छा", "हिन्दी"]
WORDS_OF = {  # and what stands between them
    "Thai": (THAI, ""),
    "Yi": (["ꊿꂷ", "ꃅꄿ", "ꐨꐥ，", "ꌅꅍ"], ""),
    "Hindi": (HINDI, " "),
    "Japanese": (["これ", "は", "本", "です"], ""),
    "Lao": (["ພາ", "ສາ", "ລາວ"], ""),
    "Korean": (["안녕", "하세요", "나는"], " "),
    "decomposed Yoruba": (["O\u0323jo\u0323\u0301", "ni", "E\u0323", "wa"], " "),
    "Turkish": (["Işık", "ılık", "İyi", "bir", "gün"], " "),
    "Mongolian": (["ᠬᠠᠷ\u180eᠠ", "ᠮᠣᠷᠢ", "ᠭᠡᠷ"], " "),
    "of private use": (["\uf8d0\uf8d1", "\uf8d2\uf8d3\uf8d4", "\uf8d5"], " "),
    "French": (["L'\u00e9t\u00e9", "est", "beau,", "non?"], " "),
}


@pytest.mark.parametrize("language", WORDS_OF)
def test_text_that_words_do_not_suit_gets_subwords_that_lose_nothing(
    language, tmp_path, custom, capsys
):
    words, between = WORDS_OF[language]
    generator = random.Random(1)
    chosen = [generator.choices(words, k=12) for _ in range(60)]
    rows = [(between.join(some), MOODS[number % 2], 0) for number, some in enumerate(chosen)]
    file = table(tmp_path / "moods.tsv", rows, between="\t")
    dest = custom(file)
    described = manifest.read(dest)
    if language == "French":
        assert (described.word_rule, described.subwords) == ("moses-marks", None)
        assert "--subwords none: 0.0% of the letters" in capsys.readouterr().err
        return
    assert described.subwords == "sentencepiece"
    assert ("by python -c" in capsys.readouterr().err) == language.startswith("decomposed")
    split = splitter(dest, described, "")
    written = lines(dest / "text/test.input0")
    known = {line.split()[0] for line in lines(dest / "dict.txt")}
    assert all(split(whole_words(line, "sentencepiece")) == line for line in written)
    assert {whole_words(line, "sentencepiece") for line in written} <= {text for text, *_ in rows}
    assert all(set(line.split()) <= known for line in written)
    texts = (line for split in SPLITS for line in lines(dest / f"text/{split}.input0"))
    assert described.longest_text == max(len(line.split()) for line in texts) > 1
    custom(file, *(["--cased"] if language == "Turkish" else ["--subwords", "none"]))
    assert manifest.read(dest).word_rule == "moses-marks"


def test_subwords_have_a_space_for_each_tab_as_in_prediction(tmp_path, custom):
    rows = [(f"a\tb {n % 7}", MOODS[n % 2], 0) for n in range(60)]
    dest = custom(table(tmp_path / "moods.csv", rows), "--subwords", "sentencepiece")
    texts = {whole_words(line, "sentencepiece") for line in lines(dest / "text/train.input0")}
    assert texts <= {f"a b {n}" for n in range(7)}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--subwords", "sentencepiece", "--words", "moses"], "--words: cannot be combined with"),
        (["--subwords", "sentencepiece", "--glove", "6B.50d"], "--glove: cannot be combined with"),
        (["--vocabulary-size", "50"], "--vocabulary-size 50: needs --subwords sentencepiece"),
        (["--text-pair", "text"], "--text-pair text: is the column of --text; name another one"),
        (["--text-pair", "mood"], "--label mood: is the column of --text-pair; name another one"),
    ],
)
def test_options_that_exclude_each_other_are_refused(flags, message, tmp_path, custom, capsys):
    dest = custom(table(tmp_path / "moods.csv", moods(30)), *flags, status=1)
    assert message in capsys.readouterr().err
    assert not dest.exists()


def test_special_symbols_in_words_are_refused(tmp_path, custom, capsys):
    train = table(tmp_path / "train.csv", [*moods(20), ("a <PAD> b", "glad", 1)])
    custom(train, "--words", "spaces", status=1)
    assert f"{train}:22: column 'text': <pad> is a special symbol" in capsys.readouterr().err
    dest = custom(train)
    words = " ".join(line for split in SPLITS for line in lines(dest / f"text/{split}.input0"))
    assert "<pad>" not in words.split()


def test_held_out_examples_are_stratified_and_leave_all_classes_in_training():
    examples = [("a" if number < 60 else "b", number) for number in range(90)]
    for indices in hold_out(examples, 1, {"test": 9, "valid": 9}, "file").values():
        assert Counter(index < 60 for index in indices) == {True: 6, False: 3}
    labels = ["often"] * 31 + [f"alone {number}" for number in range(12)]
    examples, sizes = list(zip(labels, range(43), strict=True)), {"test": 20, "valid": 10}
    by_seed = [hold_out(examples, seed, sizes, "file") for seed in (1, 1, 2, 3, 4)]
    assert by_seed[0] == by_seed[1] != by_seed[2]
    for chosen in by_seed:
        assert not chosen["test"] & chosen["valid"]
        held = chosen["test"] | chosen["valid"]
        assert {label for i, label in enumerate(labels) if i not in held} == set(labels)


def test_repeated_texts_are_not_held_out_unless_each_is():
    examples = [("a", number // 2 if number < 40 else number) for number in range(60)]
    chosen = hold_out(examples, 1, {"test": 10, "valid": 9}, "file")
    assert [len(chosen[split]) for split in ("test", "valid")] == [10, 9]
    assert min(chosen["test"] | chosen["valid"]) >= 40
    with pytest.raises(UsageError, match="too few different texts to hold some out for"):
        hold_out([(None, "one")] * 20, 1, {"test": 4, "valid": 4}, "file")
    with pytest.raises(
        UsageError, match="has 60 examples, too few .* 10 for test and 50 for valid"
    ):
        hold_out(examples, 1, {"test": 10, "valid": 50}, "file")

    examples = [("ab"[number % 2], number % 30) for number in range(60)]
    chosen = hold_out(examples, 1, {"test": 10, "valid": 6}, "file")
    assert [len(chosen[split]) for split in ("test", "valid")] == [10, 6]
    for split, other in (("test", "valid"), ("valid", "test")):
        texts = {examples[index][1] for index in chosen[split]}
        rest = set(range(60)) - chosen[split]
        assert not texts & {examples[index][1] for index in rest}
        assert not chosen[split] & chosen[other]
    assert hold_out(examples, 1, {}, "file") == {}  # files are given for the other splits
    rare = [*examples, ("c", 0), ("c", 1)]  # the texts of a class that is in no other stay
    for seed in range(20):
        held = hold_out(rare, seed, {"test": 20, "valid": 20}, "file").values()
        assert "c" in {rare[index][0] for index in set(range(62)).difference(*held)}


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("t.csv", "text,mood\n", "t.csv: holds no rows"),
        ("t.csv", "text,feeling\na,b\n", "t.csv:2: no column 'mood'; choose from 'text'"),
        ("t.csv", 'text,mood\na,b\n"a,b\nc,d\n', "t.csv:3: not in CSV format"),
        ("t.tsv", "text\tmood\na\tb\tc\n", "t.tsv:2: 3 fields in a table of 2 columns; separate"),
        ("t.csv", "text,mood\na,\u200b\n", "t.csv:2: no label in column 'mood'"),
        ("t.csv", "text,mood\na,<unk>\n", "t.csv:2: '<unk>' in column 'mood' cannot be a label"),
        ("t.jsonl", '{"text": "a", "mood": "b"}\n{\n', "t.jsonl:2: not a JSON object"),
        ("t.jsonl", '{"text": "a", "mood": NaN}\n', "t.jsonl:1: no label in column 'mood'"),
        ("t.jsonl", '{"text": 3, "mood": "b"}\n', "t.jsonl:1: column 'text' is 3, no text; corr"),
        ("s.csv", "text,mood\na,nan\n", "s.csv:2: 'nan' in column 'mood' is not a number; c"),
        ("s.csv", "text,mood\na,1_000\n", "s.csv:2: '1_000' in column 'mood' is not a number; c"),
        ("s.jsonl", '{"text": "a", "mood": true}\n', "s.jsonl:1: True in column 'mood' is not a n"),
        ("t.txt", "text,mood\na,b\n", "t.txt: unknown format; name a .csv, .tsv, .jsonl or .parq"),
    ],
)
def test_a_malformed_table_gives_a_one_line_error(tmp_path, custom, capsys, name, content, words):
    file = tmp_path / name
    file.write_text(content)
    dest = custom(file, target=("--score" if name[0] == "s" else "--label", "mood"), status=1)
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1
    assert not dest.exists()


def test_labels_of_parquet_are_text_or_numbers(tmp_path):
    pyarrow, parquet = (pytest.importorskip(name) for name in ("pyarrow", "pyarrow.parquet"))
    path = tmp_path / "t.parquet"
    options = Namespace(text="text", text_pair=None, label="mood", score=None, words=None)
    for label, name in ("b c", "b_c"), (Decimal("2.00"), "2"), (b"b", None), (date.today(), None):
        parquet.write_table(pyarrow.table({"text": ["a"], "mood": [label]}), path)
        try:
            assert [example.label for example in examples(path, options)] == [name]
        except UsageError as error:
            assert name is None and "row 1" in str(error) and "cannot be a label" in str(error)


def test_splits_without_words_and_labels_without_training_are_refused(tmp_path, custom, capsys):
    rows = [(" ", "glad", 1), *moods(9)]
    train, valid = (table(tmp_path / f"{split}.csv", rows) for split in ("train", "valid"))
    test = table(tmp_path / "test.csv", [(" ", "sad", 1), ("\u200b\u3000", "glad", 2)])
    custom(train, "--valid", valid, "--test", test, status=1)
    assert "no example for test: 2 texts without words\n" in capsys.readouterr().err
    table(test, [*moods(2), ("hm", "angry", 1)])
    dest = custom(train, "--valid", valid, "--test", test, status=1)
    said = capsys.readouterr().err.splitlines()[-1]
    assert f"{test}:4: the label 'angry' is in no example of {train}; correct it" in said
    assert not (dest / "text").exists()
    table(train, [*moods(9), *[(f"so {n}", "\u00e9", 1) for n in range(9)]])
    custom(train, "--test", table(test, [*moods(2), ("hm", "e\u0301", 1)]), status=1)
    assert "'e\u0301' has another Unicode form in the classes; convert" in capsys.readouterr().err
    rows = [(text, "glad", 1) for text, *_ in moods(40)]
    custom(table(train, rows), status=1)
    assert "--label: all texts have the class 'glad'" in capsys.readouterr().err
    assert not (dest / "preparation.json").exists()


LABELS = ["a"] * 61 + ["b"] * 37 + ["c"] * 5


@pytest.mark.parametrize("seed", [1, 2])
def test_folds_are_complete_and_stratified(seed):
    folds = list(held_out.cross_validation(LABELS, seed, 0.1))
    tested = [index for fold in folds for index in fold["test"]]
    assert sorted(tested) == list(range(len(LABELS)))
    for fold in folds:
        assert not fold["valid"] & fold["test"]
        assert len(fold["test"]) in (10, 11)
        assert len(fold["valid"]) == 9
        counts = Counter(LABELS[index] for index in fold["test"])
        assert counts["a"] in (6, 7) and counts["b"] in (3, 4) and counts["c"] in (0, 1)
    assert held_out.held_out_size(0.1, 2) == 1  # at least
