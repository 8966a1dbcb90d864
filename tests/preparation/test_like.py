"""``--like``: data for an existing model, with its rules, subwords and dictionaries."""

import json
import re
import shutil
from functools import cache, partial

import corpora
import pytest
from archive_files import lines

from fairseq_posattn.preparation.commands.prepare import prepare
from fairseq_posattn.preparation.like import TEXT
from fairseq_posattn.text import manifest
from fairseq_posattn.text.plain_text import copy_companions, splitter


def numbered(*texts):
    """Return twenty different texts."""
    return [f"{texts[n % len(texts)]} {n}" for n in range(20)]


RUSSIAN = numbered("Пациент видит врача.", "Это таблетка ☤", "Врач пишет")
ENGLISH = numbered("The patient sees a doctor.", "This is a tablet ☤", "The doctor writes")
# Of the prepared data of a model: options, what all of its data share, prefix.
SUBWORDS = {
    "sentencepiece": (["--vocabulary-size", "80"], "spm."),
    "bytes": (["--vocabulary-size", "400"], "spm."),
    "subword_nmt": (["--subwords", "subword_nmt", "--bpe-operations", "40"], "bpe."),
    "none": (["--subwords", "none", "--separate-dictionaries", "--normalize", "nfkc"], ""),
}


def write_files(folder, name, *texts, sides=("de", "en")):
    """Write parallel files; return their paths."""
    paths = [folder / f"{name}.{side}" for side in sides]
    for path, text in zip(paths, texts, strict=True):
        path.write_bytes(corpora.lines(text))
    return paths


@pytest.fixture
def files(tmp_path):
    return partial(write_files, tmp_path)


def prepare_own(kind, dest, *words, status=0):
    words = ["own", *map(str, words), "--dest", str(dest), "--jobs", "1"]
    assert prepare(kind, words) == status
    return dest


@pytest.fixture
def run(tmp_path, fairseq_here, monkeypatch):
    """Prepare data of a kind in a folder; check the status and return the folder."""
    monkeypatch.chdir(tmp_path)
    return lambda kind, name, *words, **status: prepare_own(kind, tmp_path / name, *words, **status)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Return the prepared data of models of German and English by their options."""
    train = write_files(tmp_path_factory.mktemp("train"), "general", *corpora.sentences(60))

    @cache
    def models(*options):
        folder = tmp_path_factory.mktemp("models")
        return prepare_own("translation", folder, "--train", *train, *options)

    return models


@pytest.fixture
def model(run, models, tmp_path):
    """Return a function that copies the data of a model to ``general``."""
    return lambda *options: shutil.copytree(models(*options), tmp_path / "general")


def saved(data, folder):
    """Make a folder of checkpoints as training does, without weights."""
    folder.mkdir(parents=True)
    copy_companions(data, folder)
    (folder / "checkpoint_best.pt").touch()
    return folder


def share_of_unknown(printed, name):
    unknown, total = re.search(rf"{name}: ([\d,]+) of ([\d,]+) tokens", printed).groups()
    return int(unknown.replace(",", "")) / int(total.replace(",", ""))


@pytest.mark.parametrize("subwords", SUBWORDS)
def test_another_corpus_takes_subwords_dictionaries_and_rules(
    subwords, model, run, files, capsys, tmp_path
):
    options, prefix = SUBWORDS[subwords]
    general = model(*options)
    checkpoints = saved(general, tmp_path / "moved/checkpoints")
    capsys.readouterr()
    train = files("medical", RUSSIAN, ENGLISH)
    for like in (general, checkpoints / "checkpoint_best.pt"):
        medical = run("translation", "medical", "--train", *train, "--like", like)
        for side in ("de", "en"):
            name = f"dict.{side}.txt"
            assert (medical / name).read_bytes() == (general / name).read_bytes()
        rules = manifest.read(general)
        made = manifest.read(medical)
        assert [getattr(made, name) for name in TEXT] == [getattr(rules, name) for name in TEXT]
        written = lines(medical / f"text/{prefix}train.de")
        assert {*written} < {splitter(general, rules, "de")(line) for line in RUSSIAN}
        printed, _ = capsys.readouterr()
        # Characters that training lacked are bytes if the vocabulary has them, else unknown.
        assert (share_of_unknown(printed, "de") > 0) == (subwords != "bytes")
    assert "posattn train medical --from moved/checkpoints/checkpoint_best.pt\n" in printed


def test_data_made_like_a_model_is_like_the_model(model, run, files):
    """It lacks files that only learning writes. Names without languages take the model's."""
    general = model("--vocabulary-size", "80")
    train = files("medical", RUSSIAN, ENGLISH, sides=("txt", "tgt"))
    medical = run("translation", "medical", "--train", *train, "--like", general)
    assert manifest.read(medical).languages == ("de", "en")
    shutil.rmtree(general)
    legal = run("translation", "legal", "--train", *train, "--like", medical)
    name = "train.de-en.de.bin"
    assert (legal / name).read_bytes() == (medical / name).read_bytes()


def test_no_option_is_advised_that_the_model_decides(model, run, files, capsys):
    general = model("--vocabulary-size", "80")
    train = files("medical", numbered("Wie geht&apos;s, Rene\u0301?"), ENGLISH)
    capsys.readouterr()
    run("translation", "medical", "--train", *train, "--like", general)
    warned = capsys.readouterr().err
    assert "escapes such as &apos;" in warned and "composed form" in warned
    assert "give --" not in warned


def test_no_tokenization_is_advised_that_the_model_decides(model, run, files, capsys):
    general = model("--subwords", "none")
    train = files("medical", numbered("Kein <unk> Wort"), ENGLISH)
    run("translation", "medical", "--train", *train, "--like", general, status=1)
    assert capsys.readouterr().err.endswith("dictionaries; write the word otherwise\n")


def test_a_published_model_keeps_its_case_and_tokenization(model, run, files):
    """Multi30k is lower-cased and normalized."""
    general = model("--subwords", "subword_nmt", "--bpe-operations", "40")
    fields = json.loads((general / "preparation.json").read_text())
    fields |= {"corpus": "multi30k", "word_rule": "lowered-normalised-moses-escaped"}
    (general / "preparation.json").write_text(json.dumps(fields | {"lower": True}))
    train = files("medical", numbered("Der «Ball»"), ENGLISH)
    medical = run("translation", "medical", "--train", *train, "--like", general)
    texts = lines(medical / "text/train.de")
    assert all(text.startswith("der &quot; ball &quot; ") for text in texts)
    assert manifest.read(medical).lower


def test_rerun_is_done_and_another_model_is_not(model, run, files, capsys):
    general = model("--vocabulary-size", "80")
    words = ["--train", *files("medical", RUSSIAN, ENGLISH), "--like", general]
    run("translation", "medical", *words)
    capsys.readouterr()
    run("translation", "medical", *words)
    assert capsys.readouterr().err.count("done already") == 5
    general.rename(general.with_name("old"))
    model("--vocabulary-size", "90")
    capsys.readouterr()
    medical = run("translation", "medical", *words)
    assert "done already" not in capsys.readouterr().err
    assert (medical / "dict.de.txt").read_bytes() == (general / "dict.de.txt").read_bytes()


@pytest.mark.parametrize(
    "options",
    [("--subwords", "wordpiece"), ("--subwords", "wordpiece", "--cased"), ()],
    ids=["uncased", "cased", "sentencepiece"],
)
def test_summaries(options, run, files, capsys):
    texts = numbered("Ein Ärzte-Text über viele Dinge"), numbered("Kurz")
    train = files("news", *texts, sides=("text", "short"))
    words = ["--train", *train, "--vocabulary-size", 60, "--max-pieces", 7]
    news = run("summarization", "news", *words, *options)
    texts = numbered("EINE Überschrift, lang und länger")
    train = files("other", texts, numbered("ÜBER"), sides=("text", "short"))
    other = run("summarization", "other", "--train", *train, "--like", news)
    assert capsys.readouterr().err.count("raise --max-pieces") == 3  # without --like
    rules, cased = manifest.read(news), "--cased" in options or not options
    assert manifest.read(other).longest == 7 and manifest.read(other).lower != cased
    prefix = "wordpiece." if options else "spm."
    split = set(map(splitter(news, rules, "source"), texts))
    assert {*lines(other / f"text/{prefix}train.source")} <= split
    assert {len(line.split()) for line in split} == {7}


@pytest.fixture
def classify(run, tmp_path):
    """Prepare rows of a text and a label."""

    def classify(name, rows, *words, target="--label", status=0):
        path = tmp_path / f"{name}.tsv"
        path.write_text("".join("\t".join(map(str, row)) + "\n" for row in [("t", "l"), *rows]))
        words = [path, "--text", "t", target, "l", *words]
        return run("classification", name, *words, status=status)

    return classify


@pytest.mark.parametrize("subwords", ["none", "sentencepiece"])
def test_labeled_text(subwords, classify, capsys, tmp_path):
    sizes = {"pos": 20, "neg": 20, "x": 9}
    rows = [(f"Text {n} is {label}", label) for label, size in sizes.items() for n in range(size)]
    reviews = classify("reviews", rows, "--subwords", subwords)
    checkpoints = saved(reviews, tmp_path / "checkpoints/reviews")
    capsys.readouterr()
    rows = [(text, ("pos", "neg")[n % 2]) for n, text in enumerate(numbered("GOOD Таблетка"))]
    medical = classify("medical", rows, "--like", checkpoints)
    printed = capsys.readouterr().out
    for name in ("input0", "label"):
        files = [lines(folder / name / "dict.txt") for folder in (medical, reviews)]
        names = [[line.split()[0] for line in file] for file in files]
        assert names[0] == names[1]
    assert manifest.read(medical).classes == 3
    split = splitter(reviews, manifest.read(reviews), "")
    assert {*lines(medical / "text/train.input0")} <= {split(text) for text, _ in rows}
    assert "posattn train medical --from checkpoints/reviews\n" in printed
    assert 0 < share_of_unknown(printed, "train") < 1 or subwords == "sentencepiece"


def test_what_the_model_decides_is_named(classify, capsys):
    rows = [(text, ("pos", "neg")[n % 2]) for n, text in enumerate(ENGLISH)]
    reviews = classify("reviews", rows)
    classify("medical", [*rows, ("odd", "angry")], "--like", reviews, status=1)
    assert "medical.tsv:22: the label 'angry' is no class of --like" in capsys.readouterr().err
    spaced = classify("spaced", rows, "--words", "spaces")
    classify("medical", [*rows, ("a <unk>", "pos")], "--like", spaced, status=1)
    assert capsys.readouterr().err.endswith("dictionaries; write the word otherwise\n")
    rows = [(text, 1) for text in ENGLISH]
    classify("scores", rows, "--like", reviews, target="--score", status=1)
    error = capsys.readouterr().err.splitlines()[-1]
    assert "is of sentence_prediction by sentence_classification, these columns of" in error


MISTAKES = {
    "subwords": (["--subwords", "sentencepiece"], "--subwords sentencepiece: --like general"),
    "size": (["--vocabulary-size", "90"], "--vocabulary-size 90: --like general decides that"),
    "dictionaries": (["--separate-dictionaries"], "--separate-dictionaries: --like general"),
    "form": (["--normalize", "nfc"], "--normalize nfc: --like general decides that"),
    "language": (["--target-lang", "fr"], "--target-lang fr: the target language of --like gen"),
    "no language": (["--target-lang", "fx"], "--target-lang fx: the target language of --like"),
    "dest": (["--dest", "general"], "--dest general: lies in --like general"),
    "missing": (["--like", "gone"], "--like gone: no such folder or checkpoint"),
    "file": (["--like", "general/dict.de.txt"], "dict.de.txt: not a checkpoint (.pt)"),
    "not prepared": (["--like", "."], "with its dictionaries as --srcdict, --tgtdict\n"),
    "without codes": (["--like", "stripped"], "stripped: has no bpe.codes"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line(mistake, model, run, files, capsys, tmp_path):
    general = model("--subwords", "subword_nmt", "--bpe-operations", "40")
    (tmp_path / "stripped").mkdir()
    shutil.copy(general / "preparation.json", tmp_path / "stripped")
    capsys.readouterr()
    words, expected = MISTAKES[mistake]
    train = files("medical", RUSSIAN, ENGLISH)
    words = ["own", "--train", *train, "--dest", "medical", "--like", "general", *words]
    assert prepare("translation", list(map(str, words))) == 1
    error = capsys.readouterr().err
    assert expected in error and error.count("\n") == 1
    assert not (tmp_path / "medical/preparation.json").exists()


def test_languages_in_the_other_order_and_other_kinds_are_refused(model, run, files, capsys):
    general = model("--vocabulary-size", "80")
    english, german = files("swapped", ENGLISH, RUSSIAN, sides=("en", "de"))
    run("translation", "a", "--train", english, german, "--like", general, status=1)
    error = capsys.readouterr().err.splitlines()[-1]
    assert f"--source-lang en: the source language of --like {general} is de" in error
    assert error.endswith("; name the de side's file or column")  # no flag makes English German
    run("summarization", "b", "--train", german, english, "--like", general, status=1)
    error = capsys.readouterr().err.splitlines()[-1]
    assert "was prepared for translation, not for summarization" in error
