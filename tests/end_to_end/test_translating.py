"""Translation of plain text equals fairseq-generate; unknown tokens are reported."""

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import fairseq
import forked_commands
import pytest

import fairseq_posattn
from fairseq_posattn.inference.commands import translate
from fairseq_posattn.preparation.commands.prepare import prepare
from fairseq_posattn.text.subwords import BytePairEncoder

PAGE = (Path(__file__).parents[2] / "docs/translation.md").read_text(encoding="utf-8")
SUBJECTS = {"Ein Mann": "A man", "Eine Frau": "A woman", "Das Kind": "The child", "Er": "He"}
VERBS = {"sieht": "sees", "malt": "paints", "kauft": "buys", "trägt": "carries"}
THINGS = {"einen Ball": "a ball", "das Haus": "the house", "zwei Hüte": "two hats"}
ENDS = {", dann noch mehr.": ", then more.", " „heute“.": ' "today".', "!": "!"}
SPLITS = {"train": slice(0, None), "val": slice(0, 9), "test_2016_flickr": slice(0, None, 5)}


def captions():
    """Yield all pairs of sentences that the words above make."""
    parts = itertools.product(*(words.items() for words in (SUBJECTS, VERBS, THINGS, ENDS)))
    for subject, verb, thing, end in parts:
        yield tuple(f"{subject[i]} {verb[i]} {thing[i]}{end[i]}" for i in range(2))


@pytest.fixture(scope="module")
def folder(tmp_path_factory, train_arguments):
    """Prepare ``raw`` to ``data``, train, and move the checkpoints' folder to ``moved``."""
    folder = tmp_path_factory.mktemp("multi30k")
    (folder / "raw").mkdir()
    for split, part in SPLITS.items():
        sides = zip(*list(captions())[part], strict=True)
        for language, lines in zip(("de", "en"), sides, strict=True):
            text = "".join(f"{line}\n" for line in lines)
            (folder / f"raw/{split}.{language}").write_text(text, encoding="utf-8")
    words = ["multi30k", "--source", folder / "raw", "--dest", folder / "data", "--jobs", "1"]
    assert prepare("translation", list(map(str, [*words, "--bpe-operations", "60"]))) == 0
    options = ["--save-dir", folder / "saved", "--max-update", "90", "--max-tokens", "600"]
    options += ["--disable-validation", "--no-epoch-checkpoints", "--save-interval-updates", "47"]
    forked_commands.output_of("train", folder / "data", *train_arguments[1:], *options)
    (folder / "saved").rename(folder / "moved")
    return folder


DECODING = ["--beam", "3", "--lenpen", "0.7"]


def by_fairseq(folder, user_dir, command, *options, paths=("checkpoint_last.pt",), **others):
    """Return the subwords that one of fairseq's commands prints, and their scores, in order."""
    models = ":".join(str(folder / "moved" / path) for path in paths)
    words = ["--path", models, "--user-dir", user_dir, "--cpu", *DECODING, *options]
    log = forked_commands.output_of(command, folder / "data", *words, **others)
    rows = [line[2:].split("\t") for line in log.splitlines() if line[:2] == "H-"]
    rows.sort(key=lambda row: int(row[0]))
    return [(pieces, float(score)) for _, score, pieces in rows]


def by_translate(folder, capsys, *options, paths=("checkpoint_last.pt",)):
    """Return the subwords and scores of posattn translate, and the texts."""
    models = [folder / "moved" / path for path in paths]
    words = [*models, "--cpu", "--json", *DECODING, *options]
    assert translate.main(list(map(str, words))) == 0
    output = capsys.readouterr()
    assert "warning" not in output.err
    rows = [row for line in output.out.splitlines() for row in json.loads(line)["hypotheses"]]
    return [(row["pieces"], row["score"]) for row in rows], [row["text"] for row in rows]


def agree(ours, fairseqs):
    assert [pieces for pieces, _ in ours] == [pieces for pieces, _ in fairseqs]
    scores = [[score for _, score in rows] for rows in (ours, fairseqs)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-3)


@pytest.fixture(scope="module")
def generated(folder, user_dir):
    return by_fairseq(folder, user_dir, "generate", "--batch-size", "9", paths=("",))  # the folder


def test_plain_text_is_translated_like_the_prepared_test_set(folder, generated, tmp_path, capsys):
    """The files beside the moved checkpoint suffice, without the training data."""
    moved = tmp_path / "elsewhere"
    shutil.copytree(folder / "moved", moved)
    names = {"dict.de.txt", "dict.en.txt", "bpe.codes", "preparation.json"}
    assert names == {name for name in os.listdir(moved) if not name.startswith(("checkpoint", "."))}
    (folder / "data").rename(folder / "gone")
    words = [moved, "--input", folder / "raw/test_2016_flickr.de", "--cpu"]
    words += [*DECODING, "--buffer-size", "10"]
    try:
        assert translate.main(list(map(str, words))) == 0
        plain = capsys.readouterr()
        assert translate.main(list(map(str, [*words, "--json"]))) == 0
    finally:
        (folder / "gone").rename(folder / "data")
    assert "warning" not in plain.err and "using its checkpoint_last.pt" in plain.err
    rows = [json.loads(line)["hypotheses"][0] for line in capsys.readouterr().out.splitlines()]
    agree([(row["pieces"], row["score"]) for row in rows], generated)
    assert [row["text"] for row in rows] == plain.out.splitlines()
    assert len(set(plain.out.splitlines())) > 3
    assert not any("@@" in row["text"] or " ." in row["text"] for row in rows)


def test_an_ensembles_best_hypotheses_are_fairseqs(folder, user_dir, capsys):
    earlier = next((folder / "moved").glob("checkpoint_*_47.pt")).name
    paths = (earlier, "checkpoint_last.pt")
    fairseqs = by_fairseq(folder, user_dir, "generate", "--nbest", "2", paths=paths)
    text = ["--input", folder / "raw/test_2016_flickr.de", "--nbest", "2"]
    ours, _ = by_translate(folder, capsys, *text, paths=paths)
    agree(ours, fairseqs)
    assert len(ours) == 2 * len(list(captions())[SPLITS["test_2016_flickr"]])
    assert ours != by_translate(folder, capsys, *text)[0]


def test_shards_of_fairseq_generate_are_the_whole(folder, user_dir, generated):
    flags = ["--batch-size", "9", "--num-shards", "2", "--shard-id"]
    shards = [by_fairseq(folder, user_dir, "generate", *flags, number) for number in ("0", "1")]
    assert all(shards)
    agree(sorted(sum(shards, [])), sorted(generated))
    assert by_fairseq(folder, user_dir, "generate", "--num-shards", "99", "--shard-id", "98") == []
    without = partial(forked_commands.leave_out, "translate_shard")
    agree(by_fairseq(folder, user_dir, "generate", *flags, "0", before=without), generated)
    flags += ["0", "--max-source-positions", "1", "--skip-invalid-size-inputs-valid-test"]
    without = partial(forked_commands.leave_out, "translate_shard", "count_left_out")
    with pytest.raises(AssertionError, match="ZeroDivisionError"):  # nothing is left
        by_fairseq(folder, user_dir, "generate", *flags, before=without)


TASKS = {
    "translation_lev": ["--arch", "levenshtein_transformer", "--criterion", "nat_loss"],
    "translation_multi_simple_epoch": ["--arch", "posattn_transformer"],
}


@pytest.mark.parametrize("task", TASKS)
def test_bleu_counts_the_printed_words(task, corpus, user_dir, tmp_path):
    """Not the beginning or the language's token, which is right in each sentence."""
    common = ["--user-dir", user_dir, "--cpu", "--num-workers", "0", "--task", task]
    if task == "translation_multi_simple_epoch":
        common += ["--langs", "de,en", "--lang-pairs", "de-en", "--decoder-langtok"]
    sizes = ["layers=1", "embed-dim=8", "ffn-embed-dim=8", "attention-heads=1"]
    options = [f"--{side}-{size}" for side in ("encoder", "decoder") for size in sizes]
    options += ["--optimizer", "adam", "--lr", "1e-3", "--max-update", "1", "--disable-validation"]
    options += ["--max-tokens", "600", "--save-dir", tmp_path, *TASKS[task]]
    forked_commands.output_of("train", corpus, *common, *options)
    options = ["-s", "de", "-t", "en", "--path", tmp_path / "checkpoint_last.pt"]

    def counts(**others):
        """Return the numbers of references, of their words, and of those that BLEU counts."""
        log = forked_commands.output_of("generate", corpus, *common, *options, **others)
        words = [line.split("\t")[1].split() for line in log.splitlines() if line[:2] == "T-"]
        return len(words), sum(map(len, words)), int(re.search(r"reflen=(\d+)", log)[1])

    _, printed, counted = counts()
    assert counted == printed
    without = partial(forked_commands.leave_out, "translate_shard")
    sentences, printed, counted = counts(before=without)
    assert counted == printed + sentences


def test_prefixes_are_those_of_fairseq_generate(folder, user_dir, generated, capsys):
    fairseqs = by_fairseq(folder, user_dir, "generate", "--prefix-size", "2")
    raw = folder / "raw/test_2016_flickr"
    options = ["--input", f"{raw}.de", "--prefixes", f"{raw}.en", "--prefix-size", "2"]
    ours, texts = by_translate(folder, capsys, *options)
    agree(ours, fairseqs)
    assert ours != generated


@pytest.mark.parametrize("way", ["ordered", "unordered"])
def test_constraints_are_those_of_fairseq_interactive(way, folder, user_dir, tmp_path, capsys):
    lines = [source for source, _ in list(captions())[SPLITS["test_2016_flickr"]]][:9]
    wanted = [["Hats", "The woman"], [], ["Child", "Ball", "he"]] * 3
    pieces = (folder / "data/text/bpe.test.de").read_text().splitlines()
    cut = BytePairEncoder(folder / "data/text/bpe.codes")
    raw, prepared = tmp_path / "raw", tmp_path / "prepared"
    subwords = [[cut(word.lower()) for word in words] for words in wanted]
    for path, texts, forced in ((raw, lines, wanted), (prepared, pieces[:9], subwords)):
        rows = ["\t".join([text, *words]) for text, words in zip(texts, forced, strict=True)]
        path.write_text("".join(f"{row}\n" for row in rows))
    options = ["--constraints", way]
    fairseqs = by_fairseq(
        *(folder, user_dir, "interactive", *options),
        *("--buffer-size", "9", "--batch-size", "9", "--input", prepared),
    )
    ours, texts = by_translate(folder, capsys, "--input", raw, *options)
    agree(ours, fairseqs)
    for text, words in zip(texts, wanted, strict=True):
        assert all(word.lower() in text for word in words), text


def example(beginning, folder):
    """Return the page's program with this beginning; it prints for the checkpoint of this test."""
    block = re.search(rf"^```python\n({beginning}.*?)\n```$", PAGE, re.S | re.M)[1]
    code = block.replace("checkpoints/iwslt14", str(folder / "moved"))
    code = code.replace("checkpoint_best.pt", "checkpoint_last.pt")
    *program, last = code.replace("Guten Morgen!", "Er malt zwei Hüte!").splitlines()
    return "\n".join([*program, f"print({last})"])


def test_the_programs_of_the_page_translate_alike(folder, tmp_path, capsys):
    exec(example("from fairseq_posattn.inference import translation", folder), {})
    expected = capsys.readouterr().out
    assert len(expected.split()) > 1
    # both in one folder, as if installed
    site = tmp_path / "site"
    (site / "fairseq").mkdir(parents=True)
    for file in Path(fairseq.__file__).parent.iterdir():
        (site / "fairseq" / file.name).symlink_to(file)
    (site / "fairseq_posattn").symlink_to(Path(fairseq_posattn.__file__).parent)
    finished = subprocess.run(
        [sys.executable, "-c", example("from fairseq.models.transformer", folder)],
        **{"capture_output": True, "text": True, "cwd": tmp_path},
        env={**os.environ, "PYTHONPATH": str(site)},
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout == expected


def test_failing_copies_stop_no_training(folder, train_arguments):
    (folder / "read").mkdir()
    (folder / "read" / "dict.de.txt").mkdir()  # at the copy's path
    options = ["--save-dir", folder / "read", "--max-update", "1", "--disable-validation"]
    log = forked_commands.output_of("train", folder / "data", *train_arguments[1:], *options)
    assert "dictionaries and manifest are not copied to the checkpoint: " in log
    assert (folder / "read/checkpoint_last.pt").is_file()
    assert not (folder / "read/preparation.json").exists()


def stories(split):
    """Yield sentences and headlines like Gigaword's, which SentencePiece can restore."""
    for number in range({"train": 60, "dev": 6, "test": 20}[split]):
        city, thing = ("paris", "lagos", "lima")[number % 3], ("storm", "vote")[number % 2]
        yield f"a {thing} ( no. {number} ) hit {city} & its port today .", f"{thing} hits {city}"


@pytest.fixture(scope="module")
def summarized(tmp_path_factory, train_arguments):
    """Prepare and train summarization with SentencePiece."""
    folder = tmp_path_factory.mktemp("gigaword")
    (folder / "raw").mkdir()
    for split in ("train", "dev", "test"):
        for side, lines in zip(("src", "tgt"), zip(*stories(split), strict=True), strict=True):
            (folder / f"raw/{split}.{side}.txt").write_text("".join(f"{line}\n" for line in lines))
    words = ["gigaword", "--source", folder / "raw", "--dest", folder / "data", "--jobs", "1"]
    words += ["--subwords", "sentencepiece", "--vocabulary-size", "90", "--max-pieces", "20"]
    assert prepare("summarization", list(map(str, words))) == 0
    arguments = [folder / "data", *train_arguments[1:], "--source-lang=source"]
    arguments += ["--target-lang=target", "--save-dir", folder / "saved", "--max-update", "60"]
    arguments += ["--max-tokens", "600", "--disable-validation", "--no-epoch-checkpoints"]
    forked_commands.output_of("train", *arguments)
    return folder


def test_plain_text_is_summarized_like_the_prepared_test_set(summarized, user_dir, capsys):
    path = summarized / "saved/checkpoint_last.pt"
    options = ["--user-dir", user_dir, "--cpu", "--max-len-b", "12", "--no-repeat-ngram-size", "3"]
    arguments = [summarized / "data", "--path", path, *options, "--remove-bpe", "sentencepiece"]
    log = forked_commands.output_of("generate", *arguments)
    rows = [line[2:].split("\t") for line in log.splitlines() if line[:2] == "D-"]
    expected = [text for _, _, text in sorted(rows, key=lambda row: int(row[0]))]
    words = ["--input", summarized / "raw/test.src.txt", "--cpu", "--max-len-b", "12"]
    assert translate.summarize(list(map(str, [path, *words]))) == 0
    output = capsys.readouterr()
    assert output.out.splitlines() == expected
    assert len(set(expected)) > 3
    assert "warning" not in output.err


FIXTURE = Path(__file__).parents[1] / "fixtures" / "translation"


def test_unsatisfiable_constraints_affect_no_other_line(tmp_path, user_dir):
    (tmp_path / "text").write_text("a b\ta b\na b\tC C C C C C\nb a\n")
    flags = [FIXTURE / "data", "--path", FIXTURE / "checkpoint.pt", "--cpu", "--beam", "2"]
    flags += ["--user-dir", user_dir, "--buffer-size", "3", "--max-len-b", "4", "--constraints"]
    output = forked_commands.output_of("interactive", *flags, stdin=tmp_path / "text")
    assert [line[:3] for line in output.splitlines() if line.startswith("H-")] == ["H-0", "H-2"]

    log = tmp_path / "fairseq.log"
    without = partial(forked_commands.leave_out, "stop_at_max_length")
    options = {"stdin": tmp_path / "text", "before": without}
    assert forked_commands.run("interactive", flags, log, **options) != 0
    assert "AssertionError: 4 < 4" in log.read_text()
