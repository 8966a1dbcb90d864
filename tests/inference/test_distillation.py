"""``posattn distill``: a teacher's translations become the targets of a prepared folder."""

import os
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from fairseq.data import Dictionary, data_utils
from sacrebleu.metrics.bleu import BLEU
from small_translator import CHECKPOINT, EXPECTED, FIXTURE, load

from fairseq_posattn.cli import main
from fairseq_posattn.compat.checkpoints import read_checkpoint
from fairseq_posattn.inference import distillation
from fairseq_posattn.inference.distillation import Settings
from fairseq_posattn.text import manifest
from fairseq_posattn.text.manifest import Manifest

TARGETS = ["D E", "E D D", "A"]  # of the original training set, in turn


@pytest.fixture
def data(tmp_path, source, monkeypatch, fairseq_here):
    """Write a prepared folder of words whose training set is the fixture's test set."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(distillation, "PART", 3)
    folder = tmp_path / "data"
    (folder / "text").mkdir(parents=True)
    for path in (FIXTURE / "data").glob("*"):
        shutil.copy(path, folder)
    sides = {"de": source, "en": [TARGETS[n % 3] for n in range(len(source))]}
    for side, lines in sides.items():
        (folder / f"text/train.{side}").write_text("".join(f"{line}\n" for line in lines))
        (folder / f"test.{side}").write_text("raw\n")
    (folder / ".stages.json").write_text("{}")
    rules = Manifest("own", "translation", "spaces", languages=("de", "en"), joined=False)
    manifest.write(folder, rules)
    return folder


def run(*words, teachers=(CHECKPOINT,), dest="new"):
    words = ["distill", *teachers, "--data", "data", "--dest", dest, "--cpu", *words]
    return main(list(map(str, words)))


def content(folder):
    """Return the files of a folder by name, except hidden files."""
    paths = [path for name in ("[!.]*", "text/*") for path in Path(folder).glob(name)]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths if path.is_file()}


class Killed(BaseException):
    """The end of a process."""


class Parts(list):
    """The numbers of the parts that are translated, in order; ``stop_at`` is killed before."""

    stop_at = None


@pytest.fixture
def translated(monkeypatch):
    real, parts = distillation.Teacher.__call__, Parts()

    def translate(self, part):
        if part[0] == parts.stop_at:
            raise Killed
        parts.append(part[0])
        return real(self, part)

    monkeypatch.setattr(distillation.Teacher, "__call__", translate)
    return parts


def binarized(folder, split, side):
    dictionary = Dictionary.load(str(Path(folder) / f"dict.{side}.txt"))
    rows = data_utils.load_indexed_dataset(str(Path(folder) / f"{split}.de-en.{side}"), dictionary)
    return [dictionary.string(row) for row in rows]


def test_targets_are_the_teachers_translations(data, source, capsys):
    assert run() == 0
    assert capsys.readouterr().out == "next:\n    posattn train new\n"
    assert binarized("new", "train", "de") == source
    assert binarized("new", "train", "en") == [translation.text for translation in load()(source)]
    for split in ("valid", "test"):
        for side in ("de", "en"):
            assert binarized("new", split, side) == binarized(data, split, side)
    assert manifest.read("new").examples == {"train": len(source)}
    assert {*content("new")} == {*content(data)}
    assert run() == 0
    assert "distilled data: done already" in capsys.readouterr().err


def test_a_killed_ensemble_goes_on_to_the_same_folder(data, source, translated, tmp_path):
    shutil.copy(CHECKPOINT, tmp_path / "second.pt")
    options = {"teachers": (CHECKPOINT, "second.pt")}
    assert run("--beam", 3, dest="whole", **options) == 0
    whole, translated.stop_at = translated.copy(), 2
    with pytest.raises(Killed):
        run("--beam", 3, dest="killed", **options)
    assert content("killed") == {}
    translated.clear()
    translated.stop_at = None
    assert run("--beam", 3, dest="killed", **options) == 0
    assert translated == whole[2:] != []
    assert content("killed") == content("whole")


def test_other_settings_do_not_take_the_parts_of_a_killed_run(data, translated):
    translated.stop_at = 2
    with pytest.raises(Killed):
        run("--beam", 2)
    translated.clear()
    translated.stop_at = None
    assert run("--beam", 1) == 0
    assert translated[0] == 0


def test_a_preparation_does_not_replace_distilled_data(data, write, capsys):
    assert run("--beam", 1) == 0
    before = content("new")
    table = write("table.tsv", ["de\ten", *(f"a {n}\t{n} A" for n in range(40))])
    prepare = ["prepare", "translation", "own", table, "--columns", "de", "en", "--dest", "new"]
    assert main(list(map(str, prepare))) == 1
    holds = "--dest new: holds another corpus (distilled data); choose another folder, or replace"
    assert holds in capsys.readouterr().err
    assert content("new") == before


def exchange_languages(path):
    rules = manifest.read(path.parent)
    manifest.write(path.parent, replace(rules, languages=rules.languages[::-1]))


@pytest.mark.parametrize(
    "change", [lambda path: path.write_text("word 1\n"), Path.unlink, exchange_languages]
)
def test_distilled_data_of_other_dictionaries_is_not_replaced(change, data, translated, capsys):
    assert run("--beam", 1) == 0
    change(Path("new/dict.de.txt"))
    before = content("new")
    translated.clear()
    assert run("--beam", 1) == 1
    assert "--dest new: holds another corpus; choose another folder" in capsys.readouterr().err
    assert (content("new"), translated) == (before, [])


def test_the_next_command_takes_a_folder_with_spaces(data, capsys):
    assert run("--beam", 1, dest="new é data") == 0
    assert capsys.readouterr().out.endswith("    posattn train 'new é data'\n")


def test_the_last_shard_writes_the_folder(data, capsys):
    assert run(dest="whole") == 0
    assert run("--shard", "2/2") == 0
    assert not Path("new/preparation.json").exists()
    assert "parts are missing" in capsys.readouterr().out
    assert run("--shard", "1/2") == 0
    assert content("new") == content("whole")


@pytest.mark.slow
def test_processes_share_the_work(data, monkeypatch):
    assert run(dest="whole") == 0
    assert run("--processes", 2) == 0
    assert content("new") == content("whole")


def test_original_targets_can_be_kept(data, source):
    assert run("--keep-original") == 0
    translations = [translation.text for translation in load()(source)]
    original = [TARGETS[n % 3] for n in range(len(source))]
    assert binarized("new", "train", "en") == translations + original
    assert binarized("new", "train", "de") == source * 2
    assert manifest.read("new").examples["train"] == 2 * len(source)


def test_the_best_of_the_beam_is_nearest_to_the_reference(data, source):
    assert run("--best-of-beam", "--beam", 4) == 0
    score = BLEU(effective_order=True).sentence_score
    chosen, differing = binarized("new", "train", "en"), 0
    for number, translation in enumerate(load(beam=4, nbest=4, unkpen=float("inf"))(source)):
        texts = [hypothesis.text for hypothesis in translation.hypotheses]
        scores = [score(text, [TARGETS[number % 3]]).score for text in texts]
        assert chosen[number] == texts[scores.index(max(scores))]
        differing += chosen[number] != texts[0]
    assert differing


def test_the_best_of_the_beam_is_nearest_by_characters_where_words_are_not_separated():
    languages = ("source", "target")  # of summaries
    settings = Settings(["teacher"], "data", languages, True, 1, None, {}, (1, 1))
    teacher = distillation.Teacher(settings)
    teacher.translator = SimpleNamespace(lines=SimpleNamespace(plain=str))
    texts = ["今天的天气不好。", "河水上涨，村民离开。"]
    beam = SimpleNamespace(hypotheses=[SimpleNamespace(text=t, pieces=t) for t in texts])
    assert teacher._choose(beam, "河水上涨，村民撤离。", 200) == texts[1]


def test_lines_that_are_too_long_or_blank_keep_their_target(data, source):
    long = " ".join(["a"] * 40)
    (data / "text/train.de").write_text(f"{source[0]}\n{long}\n\n")
    (data / "text/train.en").write_text("A\nB\nC\n")
    assert run() == 0
    assert binarized("new", "train", "en") == [EXPECTED[0], "B", "C"]


def test_translations_of_the_maximum_length_are_not_targets(data, source, capsys):
    longest = max(len(text.split()) for text in EXPECTED)
    assert run("--max-len-b", longest) == 0
    short = [len(text.split()) < longest for text in EXPECTED]
    both = zip(EXPECTED, (TARGETS[n % 3] for n in range(len(source))), short, strict=True)
    expected = [text if is_short else target for text, target, is_short in both]
    assert binarized("new", "train", "en") == expected != EXPECTED
    counts = f"{short.count(False)} of {len(source)} translated now; "
    assert f"lines that keep their target: {counts}" in capsys.readouterr().err


def test_hypotheses_of_the_maximum_length_are_not_chosen_from_the_beam(data, source):
    longest, targets = 5, []
    beams = load(beam=20, nbest=20, max_len_b=longest, unkpen=float("inf"))(source)
    for beam in beams:
        texts = (hypothesis.text for hypothesis in beam.hypotheses)
        targets.append(next((text for text in texts if len(text.split()) == longest), ""))
    (data / "text/train.en").write_text("".join(f"{text}\n" for text in targets))
    assert run("--best-of-beam", "--beam", 20, "--max-len-b", longest) == 0
    rows = zip(binarized("new", "train", "en"), targets, beams, strict=True)
    kept = {(new == target, beam.is_longest) for new, target, beam in rows if target}
    assert kept == {(True, True), (False, False)}


@pytest.mark.parametrize(
    "words, problem",
    [
        (["--dest", "data"], "--dest data: lies in --data data; choose another folder"),
        (["--dest", "other"], "--dest other: holds another corpus; choose another folder"),
        (["--data", "gone"], "--data gone: no such folder or checkpoint"),
        (["--data", "labels"], "--data labels: is for classification; name translations"),
        (["--data", "bare"], "text/train.de: no such file; name the folder of posattn prepare"),
        (["--data", "changed"], "it was trained with"),
    ],
)
def test_a_mistake_is_one_line(words, problem, data, capsys):
    for name in ("bare", "changed", "labels", "other"):
        shutil.copytree(data, name)
    shutil.rmtree("bare/text")
    manifest.write("labels", Manifest("own", "sentence_prediction", "spaces"))
    Path("other/.stages.json").write_text('{"text": {"settings": {"limit": 1}}}')
    for side in ("de", "en"):
        Path(f"changed/dict.{side}.txt").write_text("a 1\nb 1\n")
    assert run(*words) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("posattn distill: error: ") and problem in error


def test_data_of_the_other_direction_is_refused(data, capsys):
    state = read_checkpoint(CHECKPOINT)
    state["cfg"]["task"] |= {"source_lang": "de", "target_lang": "en"}
    torch.save(state, "teacher.pt")
    manifest.write(data, Manifest("own", "translation", "spaces", languages=("en", "de")))
    assert run(teachers=["teacher.pt"]) == 1
    error = capsys.readouterr().err
    assert "teacher.pt: is a model of de-en, --data of en-de; name data of its lang" in error
    assert not os.path.exists("new")


def test_a_missing_teacher_is_one_line(data, capsys):
    assert run(teachers=["gone.pt"]) == 1
    assert capsys.readouterr().err == "posattn distill: error: gone.pt: No such file or directory\n"


@pytest.mark.parametrize("shard", ["0/2", "3/2", "2", "a/b"])
def test_a_shard_is_one_of_several(shard, data, capsys):
    with pytest.raises(SystemExit):
        run("--shard", shard)
    assert "is not I/N, with I from 1 to N" in capsys.readouterr().err
