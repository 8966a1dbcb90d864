"""Archives of tables: what they contain, and that false numbers and unsafe content are found."""

import hashlib
import io
import json
import re
import shutil
import tarfile
from pathlib import Path

import pytest
import sacrebleu

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.recipes.bundle import verify, write_bundle
from fairseq_posattn.recipes.commands.recipe import find, main, make_plan
from fairseq_posattn.recipes.generation import SCORING
from fairseq_posattn.recipes.papers import RECIPES
from fairseq_posattn.recipes.processes import capture
from fairseq_posattn.recipes.results import scores_in
from fairseq_posattn.recipes.rows import make_rows
from fairseq_posattn.scoring.labels import macro_f1
from fairseq_posattn.text.manifest import Manifest, write

WORDS = [f"word{number}" for number in range(16)]
REFERENCES = [" ".join(WORDS[start : start + 8]) for start in range(8)]
PAIRS = {"task": "translation", "word_rule": "text", "metric": "bleu", "languages": ("fr", "en")}
LABELED = {"task": "sentence_prediction", "word_rule": "moses", "metric": "accuracy"}
FILE = """\
data: data
epochs: 3
baseline: B
rows:
  A: --arch {}
  B: --arch {} --dropout 0
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data/text").mkdir(parents=True)
    (tmp_path / "data/dict.txt").write_text("a 1\n")
    return tmp_path


def result(run, scores, **more):
    described = {"versions": {}, "hardware": "CPU", "date": "2026-01-01", "hours": 0.5, **more}
    content = {"scores": scores, "settings": run.values, "commands": [f"{run.folder}"], **described}
    (run.folder / "result.json").write_text(json.dumps(content))


ARCHIVES = {}  # by the function that fills their runs


def bundled(kind, fill):
    """Write the archive of a table with two seeds, whose runs' folders ``fill`` fills once."""
    path = Path("table.tar.gz")
    if fill not in ARCHIVES:
        write_table(path, kind, fill)
        ARCHIVES[fill] = path.read_bytes()
    path.write_bytes(ARCHIVES[fill])
    return path


def write_table(path, kind, fill, more=""):
    is_pairs = kind["task"] == PAIRS["task"]
    arch = "transformer_iwslt_de_en" if is_pairs else "transformer_classifier"
    Path("own.yaml").write_text(FILE.format(arch, arch) + more)
    write("data", Manifest("own", **kind))
    plan = make_plan(find("own.yaml"), ["--seeds", "2", "--cpu"], "own.yaml", Path())
    for number, run in enumerate(plan.runs()):
        run.folder.mkdir(parents=True)
        fill(run, number)
    rows = make_rows(plan.recipe, list(plan.entries()), "command", plan.title)
    write_bundle(path, plan, rows)


def predicted(run, number):
    labels = ["good", "bad"] * 20
    for index in range(number):
        labels[index * 3] = "bad" if labels[index * 3] == "good" else "good"
    pairs = zip(labels, ["good", "bad"] * 20, strict=True)
    lines = [f"{label}\t{gold}\n" for label, gold in pairs]
    (run.folder / "predictions-test.txt").write_text("".join(lines))
    more = {"examples": {"train": 9, "test": 40}, "parameters without word vectors": 5}
    result(run, {"accuracy": 100 - 2.5 * number, "loss": 1.0}, **more)


def unpaired(run, number):
    """Write predictions of rows with other test sets, and their rounded accuracy."""
    right, examples = 1 + number // 2, 7 + number % 2
    lines = ["a\ta\n"] * right + ["b\ta\n"] * (examples - right)
    (run.folder / "predictions-test.txt").write_text("".join(lines))
    accuracy = {"accuracy": round(100 * right / examples, 2)}
    more = {"examples": {"train": 9, "test": examples}, "parameters without word vectors": 5}
    result(run, accuracy, **more)


def generated(run, number):
    Path("data/text/test.en").write_text("".join(f"{line}\n" for line in REFERENCES))
    lengths = (8 - number - index % 2 for index in range(len(REFERENCES)))
    hypotheses = [" ".join(WORDS[start : start + length]) for start, length in enumerate(lengths)]
    lines = []
    for index, (line, hypothesis) in enumerate(zip(REFERENCES, hypotheses, strict=True)):
        lines += [f"S-{index}\tx", f"T-{index}\t{line}", f"H-{index}\t-1\t{hypothesis}"]
    (run.folder / "generate-test.txt").write_text("\n".join(lines) + "\n")
    bleu = round(sacrebleu.corpus_bleu(hypotheses, [REFERENCES]).score, 2)
    result(run, {"bleu": bleu}, counts={"scored": 8})


def changed(path, change):
    """Rewrite an archive with the members that ``change`` returns by name and content."""
    with tarfile.open(path) as archive:
        members = {entry.name: archive.extractfile(entry).read() for entry in archive}
    with tarfile.open(path, "w:gz") as archive:
        for name, content in change(members).items():
            member = tarfile.TarInfo(name)
            if content is None:
                member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
            member.size = len(content or b"")
            archive.addfile(member, io.BytesIO(content or b""))
    return path


def replaced(name, old, new):
    """Return a function that replaces ``old`` in a member; None removes the member."""

    def change(members):
        content = members.pop(name)
        assert old in content
        return members if new is None else members | {name: content.replace(old, new, 1)}

    return change


def test_an_archive_has_all_that_its_numbers_come_from(folder):
    write_table(Path("table.tar.gz"), LABELED, predicted)
    with tarfile.open("table.tar.gz") as archive:
        content = {entry.name: archive.extractfile(entry).read() for entry in archive}
    table = json.loads(content["table.json"])
    assert table["data"]["data"]["dict.txt"] == hashlib.sha256(b"a 1\n").hexdigest()
    first, second = table["rows"]
    assert (first["scores"], first["hours"]) == ({"accuracy": [100.0, 95.0]}, 0.5)
    assert first["compared"]["with"] == "B" and "compared" not in second
    assert first["compared"]["metrics"]["accuracy"].keys() >= {"p", "p_holm"}
    assert content["rows/1/seed2/predictions-test.txt"].count(b"\n") == 40
    run = json.loads(content["rows/0/seed1/result.json"])
    assert run["commands"][0].startswith("OUT/data/transformer_classifier-")
    assert str(folder).encode() not in b"".join(content.values())


def test_paths_become_names_except_in_texts():
    path = Path("data").resolve()

    def fill(run, number):
        generated(run, number)
        output = run.folder / "generate-test.txt"
        output.write_text(f"data: {path}\nS-9\t{path}\n{output.read_text()}")
        (run.folder / "predictions-test.txt").write_text(f"{path}\tgood\n")

    with tarfile.open(bundled(PAIRS, fill)) as archive:
        output, predictions = (
            archive.extractfile(f"rows/0/seed1/{name}-test.txt").read().decode().splitlines()
            for name in ("generate", "predictions")
        )
    assert output[:2] == ["data: data", f"S-9\t{path}"] and predictions == [f"{path}\tgood"]


@pytest.mark.parametrize(
    ("kind", "fill"), [(LABELED, predicted), (LABELED, unpaired), (PAIRS, generated)]
)
def test_true_numbers_hold(capsys, kind, fill):
    assert main(["--verify", str(bundled(kind, fill))]) == 0
    printed = capsys.readouterr().out
    assert "DIFFERS" not in printed and "values hold" in printed
    metric = kind["metric"]
    for line in (f"A, seed2: {metric} ", f"A: {metric}, p ", f"A: {metric}, p_benjamini_hochberg "):
        assert f"holds: {line}" in printed


def test_ranges_of_lengths_are_of_whole_texts(capsys):
    """The output has the first words of longer ones."""
    summaries = {**PAIRS, "metric": "rouge1", "languages": ("source", "target"), "longest": 1}
    texts = {"source": ["x"] * 2 + ["x y z"] * 6, "target": REFERENCES}
    for side, lines in texts.items():
        Path(f"data/text/test.{side}").write_text("".join(f"{line}\n" for line in lines))

    def fill(run, number):
        lines = [f"S-{index}\tx\nH-{index}\t-1\t{WORDS[index]}\n" for index in range(8)]
        (run.folder / "generate-test.txt").write_text("".join(lines))
        scored = json.loads(capture(run.steps[-1].command).stdout)
        ranges = [part["sentences"] for part in scored["by_length"]["buckets"]]
        assert ranges == [2, 6]
        result(run, scores_in(scored), counts=scored["counts"])

    more = "scoring: rouge --by-length 2\nmetrics: [rouge1 0 to 2]\n"
    write_table(Path("table.tar.gz"), summaries, fill, more)
    shutil.rmtree("data")
    assert main(["--verify", "table.tar.gz"]) == 0
    assert "holds: A, seed2: rouge1 0 to 2 " in capsys.readouterr().out


def test_large_numbers_hold_which_logs_have_with_six_digits(capsys):
    def fill(run, number):
        error = 64000.4321 + 10.0123 * number
        (run.folder / "predictions-test.txt").write_text(f"{error}\t0\n" * 4)
        more = {"examples": {"train": 9, "test": 4}, "parameters without word vectors": 5}
        result(run, {"mae": float(f"{error:g}"), "loss": 1.0 + number}, **more)

    write_table(Path("table.tar.gz"), LABELED, fill, "metrics: [mae, loss]\n")
    assert verify(Path("table.tar.gz")) == 0
    printed = capsys.readouterr().out
    assert "holds: A, seed1: mae 64000.4" in printed and "holds: A: mae, difference" in printed


def test_an_f1_of_classes_beyond_the_test_set_is_named_where_it_cannot_be_recomputed(capsys):
    def fill(run, number):
        predicted(run, number)
        path = run.folder / "predictions-test.txt"
        if number == 2:
            path.write_text(path.read_text().replace("bad\tgood", "ugly\tgood", 1))
        guesses, labels = zip(*map(str.split, path.read_text().splitlines()), strict=True)
        content = json.loads((run.folder / "result.json").read_text())
        f1 = macro_f1([guesses], labels, ["bad", "good", "ugly"]).mean
        content["scores"]["macro_f1"] = round(f1, 2)
        (run.folder / "result.json").write_text(json.dumps(content))

    write_table(Path("table.tar.gz"), LABELED, fill, "metrics: [accuracy, macro_f1]\n")
    assert verify(Path("table.tar.gz")) == 0
    printed = capsys.readouterr().out
    assert "holds: A, seed1: macro_f1 100" in printed and "A, seed2: macro_f1" not in printed
    assert "no outputs of them: A macro_f1" in printed


def test_the_attention_near_the_query_is_not_recomputed(tmp_path, capsys):
    plan = make_plan(find("multi30k/locality"), ["--out", "out", "--cpu"], "command", tmp_path)
    (run,) = plan.runs()
    run.folder.mkdir(parents=True)
    generated(run, 0)
    rows = [{"sublayer": "dman", "window": 1, "percent": 40.0}]
    (run.folder / "locality.json").write_text(json.dumps({"sentences": 8, "rows": rows}))
    write_bundle(Path("t.gz"), plan, make_rows(plan.recipe, list(plan.entries()), "", plan.title))
    verify(Path("t.gz"))
    printed = capsys.readouterr().out
    assert "DIFFERS" not in printed and "no outputs of them: DMAN 1 layer 1" in printed


def test_the_scores_of_all_packaged_tables_can_be_verified():
    settings = [table.settings for table in RECIPES.values() if hasattr(table, "settings")]
    assert len(settings) > 10
    assert [setting.scoring for setting in settings if not SCORING.fullmatch(setting.scoring)] == []


OUTPUT = "rows/0/seed{}/{}-test.txt"


@pytest.mark.parametrize(
    ("name", "old", "new", "difference"),
    [
        ("table.json", b"95.0", b"96.0", "A, seed2: accuracy 96.0, recomputed 95.0"),
        ("table.json", b'"p_holm": ', b'"p_holm": 1', "A: accuracy, p_holm "),
        ("table.json", b'"p": ', b'"p": 1', "A: accuracy, p "),
        ("table.json", b'"difference": ', b'"difference": 1', "A: accuracy, difference "),
        ("table.json", b'"with": "B"', b'"with": "C"', "A: accuracy, difference "),
        ("table.json", b'"compared": ', b'"x": ', "A: accuracy, difference None, recomputed "),
        ("table.json", b'"interval": [', b'"interval": [9,', "A, difference: accuracy, interval"),
        ("table.json", b'"intervals": ', b'"intervals": {}, "x": ', "A: accuracy, interval's end "),
        ("table.json", b"95.0", b"95.0, 99.0", "A, more runs: accuracy 99.0, recomputed None"),
        (OUTPUT.format(1, "predictions"), b"good\tgood", b"bad\tgood", "A, seed1: accuracy "),
        (OUTPUT.format(2, "predictions"), b"", None, "A, seed2: accuracy 95.0, recomputed None"),
        (OUTPUT.format(1, "generate"), b"\t-1\tword0 ", b"\t-1\tno ", "A, seed1: bleu "),
    ],
)
def test_a_false_or_missing_number_is_reported(capsys, name, old, new, difference):
    data = (PAIRS, generated) if "generate" in name else (LABELED, predicted)
    assert verify(changed(bundled(*data), replaced(name, old, new))) == 1
    assert f"DIFFERS: {difference}" in capsys.readouterr().out


def test_a_false_bleu_of_other_tokens_is_reported(capsys):
    def fill(run, number):
        generated(run, number)
        path = run.folder / "result.json"
        content = json.loads(path.read_text())
        forms = {"tokenised": {"bleu": content["scores"]["bleu"]}}  # words without punctuation
        path.write_text(json.dumps({**content, "forms": forms}))

    path = Path("table.tar.gz")
    write_table(path, PAIRS, fill, "scoring: bleu --forms sacrebleu tokenised\n")
    assert verify(path) == 0
    changed(path, replaced("table.json", b'"tokenised": ', b'"tokenised": 1'))
    assert verify(path) == 1
    assert "DIFFERS: A, seed2: BLEU tokenised 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("kind", "fill", "name"), [(LABELED, predicted, "predictions"), (PAIRS, generated, "generate")]
)
def test_a_row_without_any_output_does_not_hold(capsys, kind, fill, name):
    path = bundled(kind, fill)
    for seed in (1, 2):
        changed(path, replaced(OUTPUT.format(seed, name), b"", None))
    assert verify(path) == 1
    assert re.search(
        rf"DIFFERS: A, seed1: {kind['metric']} .*, recomp.* None", capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda members: members | {"link": None}, "table.tar.gz is refused: 'link' is a link"),
        (lambda members: members | {"../x": b""}, "table.tar.gz is refused: '../x' is a link or"),
        (lambda members: {"x": b""}, "table.tar.gz is no archive of --bundle: "),
        (lambda members: members | {"table.json": b"[]"}, "table.json is no result of a recipe"),
        (replaced("table.json", b'"rows"', b'"row"'), "no archive of --bundle: KeyError: 'rows'"),
        (replaced("table.json", b'"A"', b'"\\u001b[2J"'), "table.tar.gz: row is "),
        (
            replaced("rows/0/seed1/result.json", b"--forms sacrebleu", b"--statistics /tmp/x"),
            "its scoring 'bleu --statistics /tmp/x --language en' is refused",
        ),
        (
            replaced("rows/0/seed1/result.json", b"--forms sacrebleu", b"--forms a --comet x"),
            "its scoring 'bleu --forms a --comet x --language en' is refused",
        ),
    ],
)
def test_an_archive_of_a_stranger_is_refused(change, message):
    path = changed(bundled(PAIRS, generated), change)
    with pytest.raises(UsageError) as refused:
        verify(path)
    assert message in str(refused.value)
