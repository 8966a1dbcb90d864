"""The recipes of the papers' tables: every tiny form runs, every row's commands are right."""

import json
import re
import shutil
import sys
from pathlib import Path

import pytest
import torch
from fairseq import options, tasks
from forked_recipes import EXAMPLES, commands_by_row


def trains_on_pairs_of_texts(path):
    """A recipe over recipe.sh, and not over classification.sh."""
    sourced = re.search(r'^source .*\)/(.+)"$', path.read_text(), re.MULTILINE)[1]
    return sourced == "../recipe.sh" or '/../recipe.sh"' in (path.parent / sourced).read_text()


RECIPES = sorted(
    f"{path.parent.name}/{path.stem}"
    for path in EXAMPLES.glob("*/*.sh")
    if "\nrun_recipe " in path.read_text() and trains_on_pairs_of_texts(path)
)
each_recipe = pytest.mark.parametrize("recipe", RECIPES)


# --- The tiny forms ----------------------------------------------------------------------------


@pytest.fixture(scope="session")
def tiny_out(tmp_path_factory):
    """The --out that a recipe's tiny form shares with others of its paper and regime."""
    folder = tmp_path_factory.mktemp("tiny forms")

    def tiny_out(recipe):
        paper, name = recipe.split("/")
        on_iwslt14 = name.startswith(("iwslt14", "table3", "table4", "table5", "figure"))
        shared = "iwslt14" if on_iwslt14 else name
        return folder / paper / shared

    return tiny_out


@each_recipe
def test_tiny_form(recipe_run, tiny_out, recipe):
    out = tiny_out(recipe)
    printed = recipe_run(recipe, "--tiny", "--out", out)
    assert "error" not in printed
    table = json.loads((out / f"{Path(recipe).name}.json").read_text())
    assert table["tiny"]
    rows = {row["row"]: row for row in table["rows"]}
    assert [row for row in rows if f"| {row} " not in printed] == []
    listed = [line.split("\t") for line in recipe_run(recipe, "--list").splitlines()]
    assert [line[1] for line in listed] == list(rows)
    for _, name, metrics, paper in listed:
        published = ["-" if number is None else number for number in rows[name]["paper"].values()]
        wanted = [word if word == "-" else float(word) for word in paper.split()]
        assert published == wanted[: len(published)]
        assert list(rows[name]["paper"]) == metrics.split(",")[: len(published)]
        assert list(rows[name]["scores"]) == list(rows[name]["paper"])
        assert rows[name]["seeds"] == [1]
    if recipe == "dman/table5_locality":
        assert list(rows) == [
            f"{name} {window}" for window in (1, 2, 4) for name in ("DMAN", "SAN")
        ]
        for name in ("DMAN", "SAN"):  # a wider window holds more
            within = [rows[f"{name} {window}"]["scores"]["layer 1"][0] for window in (1, 2, 4)]
            assert 0 < within[0] < within[1] < within[2] <= 100
        return
    for row in rows.values():
        assert row["updates"] == 4
        assert row["data"].endswith(", 10 sentences of the test set")
        assert f"ours: {row['metric']}, {row['signature']}\n" in printed
        assert row["versions"]["torch"] == torch.__version__
        assert row["hardware"].startswith("CPU: ")


def test_what_is_finished_is_not_done_again(recipe_run, tiny_out):
    recipe, out = "mtsa/table6_setup1", tiny_out("mtsa/table6_setup1")
    first = recipe_run(recipe, "--tiny", "--out", out, "--rows", "MTSA")
    second = recipe_run(recipe, "--tiny", "--out", out, "--rows", "MTSA")
    assert "MTSA is finished" in second
    assert "fairseq-train" not in second
    table = "\n| row"
    assert first.partition(table)[2] == second.partition(table)[2]
    assert recipe_run(recipe, "--table", "--tiny", "--out", out).strip() in second


def test_an_interrupted_run_goes_on(recipe_run, tiny_out, tmp_path):
    out = tiny_out("dman/iwslt14")
    arguments = ["dman/iwslt14", "--tiny", "--rows", "DMAN", "--out"]
    recipe_run(*arguments, out)
    shutil.copytree(out / "dman_iwslt_de_en", tmp_path / "dman_iwslt_de_en")
    interrupted = tmp_path / "dman_iwslt_de_en" / "seed1"
    uninterrupted = json.loads((interrupted / "result.json").read_text())
    (interrupted / "result.json").unlink()
    (interrupted / "average.pt").unlink()
    (interrupted / "checkpoint_2_4.pt").unlink()
    shutil.copy(interrupted / "checkpoint_1_2.pt", interrupted / "checkpoint_last.pt")
    (interrupted / "generate-test.txt").write_text("half of the tran")

    recipe_run(*arguments, tmp_path, "--data", out / "numbers.de-en")
    assert (
        "@ 2 updates" in (interrupted / "train.log").read_text().rpartition("Loaded checkpoint")[2]
    )
    resumed = json.loads((interrupted / "result.json").read_text())
    elsewhere = {"versions": None, "date": None}
    assert {**resumed, **elsewhere} == {**uninterrupted, **elsewhere}


def test_steps_alone(recipe_run, tmp_path):
    """One after the other they come to what a run of all of them comes to."""
    arguments = ["mtsa/table6_setup1", "--tiny", "--rows", "MTSA", "--out", tmp_path]
    too_soon = recipe_run(*arguments, "--steps", "generate", exit_code=1)
    assert_refused(too_soon, "checkpoint_last.pt", "--steps train")
    for step, made in (
        ("train", "checkpoint_last.pt"),
        ("generate", "generate-test.txt"),
        ("score", "result.json"),
    ):
        assert list(tmp_path.glob(f"*/seed1/{made}")) == []
        recipe_run(*arguments, "--steps", step)
        assert len(list(tmp_path.glob(f"*/seed1/{made}"))) == 1
    assert "MTSA is finished" in recipe_run(*arguments)


# --- The commands of all rows ------------------------------------------------------------------


# What sets the rows of the tables apart.
ROWS_DIFFER_IN = re.compile(
    "arch|_name|save_dir|(en|de)coder_(sublayers|ffn_embed_dim)|(sman|da|mtsa)_.*"
)


def parsed(words):
    """The arguments of fairseq-train or fairseq-generate; a wrong one ends the test."""
    # Parsing leaves the flags of the architecture in a parser.
    makers = {
        "fairseq-train": options.get_training_parser,
        "fairseq-generate": options.get_generation_parser,
    }
    return options.parse_args_and_arch(makers[words[0]](), words[1:])


@each_recipe
def test_every_row_is_commands_that_fairseq_takes(recipe_run, corpus, tmp_path, recipe):
    out, data = tmp_path / "o u t", tmp_path / "data"
    data.mkdir()
    for language in ("de", "en", "source", "target"):
        shutil.copy(corpus / "dict.de.txt", data / f"dict.{language}.txt")
    rows = commands_by_row(recipe_run(recipe, "--dry-run", "--data", data, "--out", out))
    assert not out.exists()
    assert len(rows) > 0
    settings = []
    for commands in rows.values():
        train = parsed(commands[0])
        (generate,) = (parsed(words) for words in commands if words[0] == "fairseq-generate")
        with torch.device("meta"):
            tasks.setup_task(train).build_model(train)
        averaged = any("average_checkpoints.py" in words[1] for words in commands)
        checkpoint = "average.pt" if averaged else "checkpoint_last.pt"
        assert generate.path == f"{train.save_dir}/{checkpoint}"
        assert train.max_update % train.save_interval_updates == 0
        settings.append(vars(train))
    # Models of another class have options of their own.
    shared = set.intersection(*map(set, settings))
    differing = {name for name in shared if len({str(row[name]) for row in settings}) > 1}
    assert [name for name in differing if not ROWS_DIFFER_IN.fullmatch(name)] == []


def test_table_3_is_the_papers(recipe_run):
    """With the default of the architecture for C#5."""
    rows = commands_by_row(recipe_run("dman/table3_sublayers", "--dry-run"))
    assert {row: parsed(commands[0]).encoder_sublayers for row, commands in rows.items()} == {
        "C#1": "ffn,san,ffn",
        "C#2": "san,san,ffn",
        "C#3": "dman,dman,ffn",
        "C#4": "san,dman,ffn",
        "C#5": "dman,san,ffn",
    }


@pytest.mark.parametrize(
    "gpus, update_freq, max_tokens",
    [(0, 24, 12288), (1, 24, 12288), (8, 3, 12288), (16, 2, 9216), (48, 1, 6144), (5, 5, 11796)],
)
def test_an_update_has_the_same_size_on_any_machine(recipe_run, gpus, update_freq, max_tokens):
    """24 batches of 12,288 tokens; 294,900 tokens instead of 294,912 on 5 GPUs."""
    printed = recipe_run("dman/wmt14_base", "--dry-run", "--rows", "DMAN", "--gpus", gpus)
    train = parsed(commands_by_row(printed)["DMAN"][0])
    assert train.distributed_world_size == max(gpus, 1)
    assert (train.update_freq, train.max_tokens) == ([update_freq], max_tokens)
    tokens = max(gpus, 1) * update_freq * max_tokens
    assert f"{max_tokens} tokens = {tokens} tokens" in printed
    assert ("not 294912" in printed) == (tokens != 24 * 12288)
    assert (train.cpu, train.fp16) == (gpus == 0, gpus > 0)


def test_a_launcher_takes_the_place_of_fairseq_train(recipe_run):
    """With an update as on one GPU, which it shares."""
    launcher = ["--launcher", "bash torchrun.sh --nodes 2"]
    printed = recipe_run("dman/wmt14_base", "--dry-run", "--rows", "DMAN", *launcher)
    train, *others = commands_by_row(printed)["DMAN"]
    assert train[:4] == ["bash", "torchrun.sh", "--nodes", "2"]
    settings = parsed(["fairseq-train", *train[4:]])
    assert (settings.update_freq, settings.max_tokens, settings.fp16) == ([24], 12288, True)
    assert [words[0] for words in others] == ["python", "fairseq-generate", "python", "python"]


def test_generation_as_published(recipe_run):
    decoding = {}
    for recipe in ("iwslt14", "wmt14_base", "wmt14_big", "cnn_dailymail", "gigaword"):
        steps = ["--rows", "DMAN", "--steps", "generate"]
        ((command,),) = commands_by_row(recipe_run(f"dman/{recipe}", "--dry-run", *steps)).values()
        settings = parsed(command)
        decoding[recipe] = (settings.beam, settings.lenpen, settings.no_repeat_ngram_size)
        lengths = (settings.min_len, settings.max_len_a, settings.max_len_b)
        if recipe == "gigaword":
            assert lengths == (1, 0, 30)
        if recipe == "cnn_dailymail":
            assert lengths == (50, 0, 200)
    assert decoding == {
        "iwslt14": (5, 1.0, 0),
        "wmt14_base": (4, 0.6, 0),
        "wmt14_big": (4, 0.6, 0),
        "cnn_dailymail": (5, 2.0, 3),
        "gigaword": (5, 1.0, 3),
    }


# --- What is refused ---------------------------------------------------------------------------


def assert_refused(printed, *mentions):
    """The recipe stopped with one line that says why."""
    (error,) = [line for line in printed.splitlines() if "error" in line]
    assert printed.endswith(error + "\n")
    assert [mention for mention in mentions if str(mention) not in error] == []


@pytest.mark.parametrize(
    "arguments, mentions",
    [
        (["--rows", "C#5,C#6"], ["'C#6'", "C#1, C#2, C#3, C#4, C#5"]),
        (["--row", "C#1"], ["--row", "--help"]),
        (["--seed"], ["--seed needs a value"]),
        (["--seed", "one"], ["--seed one"]),
        (["--gpus", "-1"], ["--gpus -1"]),
        (["--steps", "train,test"], ["'test'", "average", "generate"]),
        (["--max-update", "0"], ["--max-update 0"]),
        (
            ["--data", "not here"],
            ["not here", "dict.de.txt", "prepare_translation.py iwslt14 --dest"],
        ),
    ],
)
def test_refused(recipe_run, tmp_path, arguments, mentions):
    out = ["--out", tmp_path / "out"]
    printed = recipe_run("dman/table3_sublayers", *out, *arguments, exit_code=1)
    assert_refused(printed, *mentions)
    assert list(tmp_path.iterdir()) == []


def test_other_settings_are_refused_where_a_run_was_begun(recipe_run, tiny_out):
    out = tiny_out("mtsa/table6_setup2")
    arguments = ["mtsa/table6_setup2", "--tiny", "--out", out, "--rows", "Transformer"]
    recipe_run(*arguments)
    folder = out / "transformer_wmt_en_de" / "seed1"
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert_refused(recipe_run(*arguments, "--max-update", "7", exit_code=1), folder, "--out")
    assert_refused(recipe_run(*arguments, "--", "--dropout", "0", exit_code=1), folder, "--out")
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_training_that_fails_can_be_begun_again(recipe_run, tmp_path):
    arguments = ["dman/iwslt14", "--tiny", "--rows", "DMAN", "--out", tmp_path]
    mistake = ["--", "--encoder-sublayers", "dmann,ffn"]
    assert_refused(recipe_run(*arguments, *mistake, exit_code=1), "dmann", "train.log")
    assert list(tmp_path.glob("*/seed1/result.json")) == []
    recipe_run(*arguments)
    assert len(list(tmp_path.glob("*/seed1/result.json"))) == 1


# --- Results -----------------------------------------------------------------------------------


@pytest.fixture
def results(run):
    """Run recipe_results.py."""

    def results(*arguments, **options):
        return run(sys.executable, EXAMPLES / "recipe_results.py", *arguments, **options)

    return results


SCORED = {
    "rouge1": 41.234,
    "rouge2": 18.0,
    "rougeL": 37.5,
    "signature": "rouge|f1",
    "counts": {"scored": 2, "missing": 0, "empty": 0, "skipped": 0},
}


@pytest.fixture
def finished_run(tmp_path):
    """The folder of a run that was trained on GPUs, and whose translations were scored."""
    folder = tmp_path / "model" / "seed1"
    folder.mkdir(parents=True)
    (folder / "score.json").write_text(json.dumps(SCORED))
    (folder / "settings").write_text("seed 1\ntrain --arch transformer --lr 1\n")
    gpu = "capabilities =  9.0  ; total memory = 139.8 GB ; name = NVIDIA H200          "
    (folder / "train.log").write_text(
        "| num. shared model params: 1,234,567 (num. trained: 1,234,567)\n"
        f"| rank   0: {gpu}\n| rank   1: {gpu}\n| training on 2 devices (GPUs/TPUs)\n"
        "| Saved checkpoint x.pt (epoch 1 @ 10 updates, score 7)\n"
        "| Saved checkpoint x.pt (epoch 2 @ 20 updates, score 6)\n"
    )
    return folder


def test_record(results, finished_run):
    results("record", finished_run, "--metric", "ROUGE F1")
    result = json.loads((finished_run / "result.json").read_text())
    assert result["scores"] == {"rouge1": 41.23, "rouge2": 18.0, "rougeL": 37.5}
    assert (result["metric"], result["signature"]) == ("ROUGE F1", "rouge|f1")
    assert (result["parameters"], result["updates"]) == (1234567, 20)
    assert result["counts"]["scored"] == 2
    assert result["settings"] == {"seed": "1", "train": "--arch transformer --lr 1"}
    assert result["hardware"] == "2 x NVIDIA H200"


def test_record_of_half_a_translation(results, finished_run):
    scored = {**SCORED, "counts": {"scored": 2, "missing": 1, "empty": 0, "skipped": 0}}
    (finished_run / "score.json").write_text(json.dumps(scored))
    error = results("record", finished_run, "--metric", "ROUGE F1", exit_code=1)
    (line,) = error.splitlines()
    assert line.startswith(f"recipe_results: error: {finished_run}: 1 of the hypotheses")
    assert not (finished_run / "result.json").exists()


def test_table_of_several_seeds(results, finished_run, tmp_path):
    results("record", finished_run, "--metric", "ROUGE F1")
    result = json.loads((finished_run / "result.json").read_text())
    other = finished_run.with_name("seed2")
    other.mkdir()
    scores = {"rouge1": 43.23, "rouge2": 18.0, "rougeL": 37.5}
    again = {**result, "scores": scores, "settings": {"seed": "2"}}
    (other / "result.json").write_text(json.dumps(again))
    printed = results(
        *("table", "--title", "Scores", "--metrics", "rouge1,rouge2", "--data", "news"),
        *("--output", tmp_path / "table.json"),
        *("--row", "ours", "42.1 18.5", finished_run.parent),
        *("--row", "not run", "-", tmp_path / "no"),
    )
    assert printed.splitlines()[:7] == [
        "",
        "Scores",
        "",
        "| row     |       paper |                      ours | runs | parameters |",
        "|---------|-------------|---------------------------|------|------------|",
        # the deviation of 41.23 and 43.23 is the square root of 2
        "| ours    | 42.10 18.50 | 42.23 ± 1.41 18.00 ± 0.00 |    2 |  1,234,567 |",
        "| not run |         - - |                         - |    0 |          - |",
    ]
    ours, not_run = json.loads((tmp_path / "table.json").read_text())["rows"]
    assert ours["scores"] == {"rouge1": [41.23, 43.23], "rouge2": [18.0, 18.0]}
    assert (ours["seeds"], ours["paper"]) == ([1, 2], {"rouge1": 42.1, "rouge2": 18.5})
    assert (not_run["scores"], not_run["paper"]) == ({}, {"rouge1": None, "rouge2": None})
