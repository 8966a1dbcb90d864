"""Measurements read from the logs of a run, and the rows, tables and figures made of them."""

import json
from dataclasses import replace
from importlib.metadata import version
from math import nan

import pytest

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.recipes.papers import RECIPES
from fairseq_posattn.recipes.plan import Entry
from fairseq_posattn.recipes.results import record
from fairseq_posattn.recipes.rows import make_rows
from fairseq_posattn.recipes.runs import Run
from fairseq_posattn.recipes.tables import figure_of, name_of, print_tables

GPU = "capabilities =  9.0  ; total memory = 139.8 GB ; name = NVIDIA H200          "
TRANSLATED = f"""\
x | num. shared model params: 1,234,567 (num. trained: 1,234,567)
x | rank   0: {GPU}
x | rank   1: {GPU}
x | training on 2 devices (GPUs/TPUs)
x | INFO | train_inner | {{"epoch": 1, "update": 0.5, "loss": "7", "num_updates": "10"}}
x | INFO | train | {{"epoch": 2, "train_loss": "7", "train_num_updates": "20"}}
"""
SCORED = {
    **{"rouge1": 41.234, "rouge2": 18.0, "rougeL": 37.5, "signature": "rouge|f1"},
    "counts": {"scored": 2, "missing": 0, "empty": 0, "skipped": 0},
    "warnings": [],
}


def validation(epoch, **scores):
    numbers = {"epoch": epoch, "valid_num_updates": str(78 * epoch), "valid_wps": "9"}
    numbers |= {f"valid_{name}": str(score) for name, score in scores.items()}
    return f"x | INFO | valid | {json.dumps(numbers)}\n"


CLASSIFIED = (
    "x |   (embed_tokens): Embedding(100, 30, padding_idx=1)\n"
    "x | num. shared model params: 5,000 (num. trained: 5,000)\n"
    + validation(1, loss=1.5, accuracy=60, macro_f1=51)
    + validation(2, loss=1.25, accuracy=70, macro_f1=62, best_accuracy=70)
    + validation(3, loss=1.5e-05, accuracy=70, macro_f1=63, best_accuracy=70)
    + validation(4, loss=1, accuracy=65, macro_f1=64, best_accuracy=70)
)
TESTED = """\
x | INFO | test | {"test_loss": "0.85", "test_accuracy": "80.6", "test_macro_f1": "68.18", \
"test_wps": "0", "test_wpb": "4258", "test_bsz": "500"}
x | INFO | test1 | {"test1_accuracy": "70.5", "test1_bsz": "9"}
"""


@pytest.fixture
def translated(tmp_path):
    """Return a run that was trained on GPUs, with scored summaries."""
    folder = tmp_path / "model" / "seed1"
    folder.mkdir(parents=True)
    (folder / "score.json").write_text(json.dumps(SCORED))
    (folder / "train.log").write_text(TRANSLATED)
    return Run("A", folder, ("seed 1", "train --arch transformer --lr 1"), (), metric="ROUGE F1")


@pytest.fixture
def classified(tmp_path):
    """Return a tested run with the best accuracy in its second and third epochs."""
    folder = tmp_path / "model" / "seed1"
    folder.mkdir(parents=True)
    (folder / "train.log").write_text(CLASSIFIED)
    (folder / "test.log").write_text(TESTED)
    return Run("A", folder, ("data /no", "seed 1", "train --best-checkpoint-metric accuracy"), ())


def recorded(run):
    record(run)
    return json.loads(run.result.read_text())


# --- A run -------------------------------------------------------------------------------------


def test_a_translation_has_scores_size_and_provenance(translated):
    result = recorded(translated)
    average = round((41.234 + 18.0 + 37.5) / 3, 4)
    scores = {"rouge1": 41.234, "rouge2": 18.0, "rougeL": 37.5, "average": average}
    assert result["scores"] == scores
    assert (result["metric"], result["signature"]) == ("ROUGE F1", "rouge|f1")
    assert (result["parameters"], result["updates"]) == (1234567, 20)
    assert result["counts"]["scored"] == 2
    assert result["settings"] == {"seed": "1", "train": "--arch transformer --lr 1"}
    assert result["hardware"] == "2 x NVIDIA H200"
    assert result["versions"]["torch"] == version("torch")


def test_missing_hypotheses_are_an_error(translated):
    scored = {**SCORED, "counts": {**SCORED["counts"], "missing": 1}}
    (translated.folder / "score.json").write_text(json.dumps(scored))
    with pytest.raises(UsageError, match="lacks 1 hypothesis; add"):
        record(translated)
    assert not translated.result.exists()


def test_a_classifier_of_the_user_has_no_word_vectors_to_describe(classified):
    log = classified.folder / "train.log"
    log.write_text(CLASSIFIED.replace("(embed_tokens): Embedding", "(vectors): EmbeddingBag"))
    result = recorded(classified)
    assert result["parameters without word vectors"] == 5000 and "word vectors" not in result


def test_a_classifier_has_its_best_validation(classified, capsys):
    """If accuracies are equal, the later checkpoint is kept."""
    result = recorded(classified)
    scores = {"loss": 0.85, "accuracy": 80.6, "macro_f1": 68.18, "test1_accuracy": 70.5}
    assert result["scores"] == scores
    assert result["examples"] == {"train": None, "test": 500}
    assert (result["updates"], result["word vectors"]) == (312, 30)
    assert (result["parameters"], result["parameters without word vectors"]) == (5000, 2000)
    best = {"loss": 1.5e-05, "accuracy": 70, "macro_f1": 63}
    assert result["validation"] == {"epoch": 3, "updates": 234, "scores": best}
    assert result["hardware"].startswith("CPU: ")
    metrics = ("valid_accuracy", "valid_loss", "test1_accuracy")
    (row,) = rows_of("mpsan/table1_sst", classified.folder.parent, metrics)
    scores = {"valid_accuracy": [70], "valid_loss": [1.5e-05], "test1_accuracy": [70.5]}
    assert row["scores"] == scores
    print_tables([row])
    assert cells(capsys.readouterr().out)[1][1] == "70.00 / 0.0000 / 70.50"


def test_a_table_has_the_share_of_words_with_a_vector(classified, tmp_path):
    (tmp_path / "glove.json").write_text('{"running words": 0.6692}')
    train = f"train --best-checkpoint-metric accuracy --encoder-embed-path {tmp_path}/glove.txt"
    recorded(replace(classified, settings=(*classified.settings[:2], train)))
    (row,) = rows_of("mpsan/table1_sst", classified.folder.parent, ("accuracy",))
    assert row["data"].endswith(" 30 features for 66.9% of the training set's words")
    without = f"{train} --encoder-embed-path "  # '', as for FastText
    recorded(replace(classified, settings=(*classified.settings[:2], without)))
    (row,) = rows_of("mpsan/table1_sst", classified.folder.parent, ("accuracy",))
    assert row["data"].endswith(" 30 features, initialized at random")


@pytest.mark.parametrize(
    "epochs, length, seconds",
    [
        # Epoch 7 is another run's, the last is incomplete: 90 s for 250 updates, 100 an epoch.
        ([(7, 700, 90), (8, 800, 30), (9, 900, 40), (10, 950, 20)], {}, 36.0),
        ([(1, 10, 5)], {"epochs": 1}, 5.0),
        ([(1, 10, 5)], {"updates": 10}, None),
    ],
)
def test_the_seconds_of_an_epoch(classified, epochs, length, seconds):
    log = classified.folder / "train.log"
    for epoch, updates, wall in epochs:
        line = {"epoch": epoch, "train_num_updates": updates, "train_train_wall": str(wall)}
        log.write_text(f"{log.read_text()}x | INFO | train | {json.dumps(line)}\n")
    assert recorded(replace(classified, **length)).get("epoch_s") == seconds


def test_the_costs_of_a_training(translated, capsys):
    """Time includes earlier parts of a resumed training; the memory is the most of all updates."""
    log = translated.folder / "train.log"
    total = "x | INFO | r | rank 0: capabilities = 9.0  ; total memory = 79.1 GB ; name = H100 \n"
    lines = [
        f'x | INFO | train_inner | {{"epoch": 1, "update": 1, "wall": "{wall}", "gb_free": '
        f'"{free}"}}\n'
        for wall, free in ((1800, 60.1), (3600, 70.1))
    ]
    log.write_text("".join([log.read_text(), total, *lines]))
    result = recorded(translated)
    assert (result["hours"], result["gpu_memory_gb"]) == (1.0, 19.0)
    (row,) = rows_of("dman/gigaword", translated.folder.parent, ("rouge1",))
    print_tables([row])
    header, line = cells(capsys.readouterr().out)
    assert header[-2:] == ["hours a run", "GB of GPU memory"] and line[-2:] == ["1", "19"]


def test_a_log_that_a_full_disk_has_cut_within_a_character_is_read(translated):
    log = translated.folder / "train.log"
    expected = recorded(translated)
    log.write_bytes("é".encode()[:1] + b"\n" + log.read_bytes())
    assert recorded(translated) == expected


@pytest.mark.parametrize("log", ["test.log", "train.log"])
def test_an_incomplete_log_is_named(classified, log):
    (classified.folder / log).write_text("killed\n")
    with pytest.raises(UsageError, match=str(classified.folder / log)):
        record(classified)


# --- Rows --------------------------------------------------------------------------------------


def rows_of(name, folder, metrics, paper="-", row="ours", title=""):
    """Return the row of a recipe's table whose runs are in a folder, "seed1" and so on."""
    recipe = RECIPES[name]
    data = "" if hasattr(recipe, "settings") else f": {recipe.datasets[0].name}"
    entry = Entry(recipe.title + data, row, tuple(metrics), tuple(paper.split()), folder)
    return make_rows(recipe, [entry], "command", title or recipe.title)


def with_seeds(run, *scores):
    """Write results of the seeds 1, 2, ... with these scores; return the folder of all."""
    result = recorded(run)
    for seed, numbers in enumerate(scores, 1):
        folder = run.folder.with_name(f"seed{seed}")
        folder.mkdir(exist_ok=True)
        copy = {**result, "scores": numbers, "settings": {**result["settings"], "seed": str(seed)}}
        (folder / "result.json").write_text(json.dumps(copy))
    return run.folder.parent


def cells(printed):
    """Return the cells of the lines of a Markdown table, without the delimiter."""
    lines = [line for line in printed.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in [lines[0], *lines[2:]]]


def test_a_validation_without_a_checkpoint_is_not_the_best(classified):
    log = classified.folder / "train.log"
    for updates in (78, 234):
        saved = f"x | Saved checkpoint seed1/checkpoint_last.pt (epoch 1 @ {updates} updates, score"
        log.write_text(f"{log.read_text()}{saved} 60.0)\n")
    log.write_text(log.read_text().replace('"valid_accuracy": "70"', '"valid_accuracy": "80"', 1))
    assert recorded(classified)["validation"]["scores"]["accuracy"] == 70


def test_updates_are_the_mean_of_runs_that_stopped_early(classified):
    folder = with_seeds(classified, {"accuracy": 70}, {"accuracy": 71})
    result = json.loads((folder / "seed2/result.json").read_text())
    (folder / "seed2/result.json").write_text(json.dumps({**result, "updates": 100}))
    (row,) = rows_of("mpsan/table1_sst", folder, ("accuracy",))
    assert row["updates"] == (312 + 100) / 2


def test_a_baseline_is_recorded_from_its_ranking(tmp_path):
    scores = {"auc": 0.5, "mrr": 0.3301, "ndcg5": 0.2, "ndcg10": 0.4}
    result = {**scores, "scored": 9, "skipped": 1, "warnings": ["1 impressions are left out"]}
    folder = tmp_path / "popularity" / "seed1"
    folder.mkdir(parents=True)
    (folder / "ranking.json").write_text(json.dumps(result))
    run = Run("A", folder, ("data /no", "seed 1", "rank popularity"), ())
    assert record(run).startswith("test: auc 0.5, mrr 0.3301, ndcg5 0.2, ")
    result = recorded(run)
    assert result["scores"] == {**scores, "skipped": 1}
    assert result["examples"] == {"train": None, "test": 10}
    (row,) = rows_of("da_transformer/table5_mind", folder.parent, ("auc", "mrr"))
    assert (row["scores"], row["seeds"]) == ({"auc": [50.0], "mrr": [33.01]}, [1])  # percentages
    assert row["data"] == "mind, 10 examples of the test set"
    assert row["metric"] == "test set, nothing is trained"


@pytest.mark.parametrize(
    "subfolder, result, message",
    [
        ("seed1", {"scores": {"rouge1": nan}}, "{}: scores is .*NaN.*; remove the file or"),
        ("seedling", {}, "{}/seedling/result.json is no result of a recipe"),
        ("seed1", {"metric": "\x1b[31m"}, "{}: metric is .*; remove the file or"),
        ("seed1", {"updates": 1e400}, "{}: updates is .*; remove the file or"),
        ("seed1", {"versions": {"torch": "<b>"}}, "{}: versions is .*; remove the file or"),
        ("seed1", {"parameters": "9"}, '{}: parameters is "9".*; remove the file or'),
        ("seed1", {"scores": [40]}, "{}: a result file .*; remove that run's folder"),
        ("seed1", {"scores": {"rouge1": 10**400}}, "{}: a result file .*OverflowError"),
        ("seed1", {"scores": {}}, "{}: a result file .*KeyError: 'rouge1'"),
        ("seed1", {"counts": 5}, "{}: a result file is malformed .*TypeError"),
    ],
)
def test_a_malformed_result_is_one_line_with_its_folder(translated, subfolder, result, message):
    written = recorded(translated) | result
    translated.result.unlink(missing_ok=True)
    folder = translated.folder.parent
    (folder / subfolder).mkdir(exist_ok=True)
    (folder / subfolder / "result.json").write_text(json.dumps(written))
    with pytest.raises(UsageError, match=f"^{message.format(folder)}") as refused:
        rows_of("dman/gigaword", folder, ("rouge1",))
    assert str(refused.value).isprintable()


def test_the_name_of_the_data_is_shown_without_markup(translated):
    settings = ("data /x/a|b\x1b[31m`", *translated.settings)
    recorded(replace(translated, settings=settings))
    (row,) = rows_of("dman/gigaword", translated.folder.parent, ("rouge1",))
    assert row["data"] == "gigaword, --data a?b?[31m?, 2 sentences of the test set"


# --- Tables ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "precision"),
    [
        *[("", "fp32"), (" --bf16", "bf16"), ("\nprecision --fp16", "fp16")],
        *[
            (" --memory-efficient-fp16", "fp16"),
            (" --amp", "amp"),
            (" --fp16-scale-window 9", "fp32"),
        ],
    ],
)
def test_a_table_has_the_precision(translated, capsys, flags, precision):
    settings = f"seed 1\ntrain --lr 1{flags}".split("\n")
    recorded(replace(translated, settings=tuple(settings)))
    (row,) = rows_of("dman/gigaword", translated.folder.parent, ("rouge1",))
    print_tables([row])
    assert row["precision"] == precision
    printed = capsys.readouterr().out
    assert printed.endswith(f"\nPrecision of training: {precision}\nHardware: 2 x NVIDIA H200\n")


def test_a_table_of_translations(translated, tmp_path, capsys):
    scores = [{"rouge1": rouge1, "rouge2": 18.0, "rougeL": 37.5} for rouge1 in (41.23, 43.23)]
    folder, metrics = with_seeds(translated, *scores), ("rouge1", "rouge2")
    (ours,) = rows_of("dman/gigaword", folder, metrics, "42.1 18.5", title="T (tiny)")
    (unknown,) = rows_of("dman/gigaword", tmp_path / "no", metrics, title="T (tiny)")
    print_tables([ours, unknown])
    printed = capsys.readouterr().out
    assert printed.startswith("\nT (tiny)\n\n")
    header = ["", "ROUGE-1 / ROUGE-2: paper", "ours", "best", "runs", "parameters", "updates"]
    # the deviation of 41.23 and 43.23 is the square root of 2
    numbers = ["42.10 / 18.50", "42.23 ± 1.41 / 18.00 ± 0.00", "43.23 / 18.00"]
    assert cells(printed) == [header, ["ours", *numbers, "2", "1,234,567", "20"]]
    assert ours["scores"] == {"rouge1": [41.23, 43.23], "rouge2": [18.0, 18.0]}
    assert (ours["seeds"], ours["paper"]) == ([1, 2], {"rouge1": 42.1, "rouge2": 18.5})
    assert (ours["data"], ours["command"]) == ("gigaword, 2 sentences of the test set", "command")
    assert (unknown["scores"], unknown["paper"]) == ({}, {"rouge1": None, "rouge2": None})
    print_tables([unknown])
    assert capsys.readouterr().out == "\nT (tiny): no finished run\n"


def test_metrics_of_translation_have_their_usual_names():
    names = list(map(name_of, ("bleu", "chrf2", "ter", "chrf2 0 to 10")))
    assert names == ["BLEU", "chrF2", "TER", "chrF2 of 0 to 10 words"]


def test_other_forms_of_bleu_are_named_by_their_seed(translated, capsys):
    folder = with_seeds(translated, {"rouge1": 41.0}, {"rouge1": 43.0})
    path = folder / "seed2/result.json"
    result = json.loads(path.read_text())
    result["forms"] = {"tokenised": {"bleu": 33.0}, "sacrebleu": {"bleu": 30.0}}
    result["settings"]["score"] = "bleu --language de --forms tokenised sacrebleu"
    path.write_text(json.dumps(result))
    (row,) = rows_of("dman/gigaword", folder, ("rouge1",))
    assert row["forms of the last seed"] == {"sacrebleu": 30.0}
    print_tables([row])
    assert cells(capsys.readouterr().out)[1][-1] == "BLEU sacrebleu of seed 2: 30.00"


def test_a_table_of_classifiers(classified, tmp_path, capsys):
    """Mean, sample deviation and best of two seeds; the best error is the lowest."""
    folder = with_seeds(classified, {"accuracy": 80, "mse": 0.5}, {"accuracy": 83, "mse": 0.25})
    name, metrics = "mpsan/table6_sentences", ("accuracy", "mse")
    rows = rows_of(name, folder, metrics, "94.8±0.2 -")
    rows += rows_of(name, tmp_path / "no", metrics, "- 0.3", row="not run")
    rows += rows_of(name, tmp_path / "no", metrics, "- -", row="unknown")
    print_tables(rows)
    printed = capsys.readouterr().out
    assert f"\n{RECIPES[name].title}: trec\n" in printed
    assert cells(printed) == [
        ["", "accuracy / mse: paper", "ours", "best", "runs"]
        + ["parameters without word vectors", "updates"],
        ["ours", "94.80 ± 0.20 / -", "81.50 ± 2.12 / 0.3750 ± 0.1768", "83.00 / 0.2500", "2"]
        + ["2,000", "312"],
        ["not run", "- / 0.3000", "", "", "", "", ""],
    ]
    assert rows[0]["paper"] == {"accuracy": 94.8, "mse": None}
    assert rows[0]["paper's deviation"] == {"accuracy": 0.2}
    assert rows[0]["scores"] == {"accuracy": [80, 83], "mse": [0.5, 0.25]}
    data = "trec, 500 examples of the test set, word vectors of 30 features, initialized at random"
    assert rows[0]["data"] == data


def test_the_data_of_a_cross_validation_are_those_of_all_folds(classified):
    result = recorded(classified)
    for fold, (seed, test) in enumerate([(1, 9), (1, 8), (2, 9)]):
        folder = classified.folder.with_name(f"fold{fold % 2}-seed{seed}")
        folder.mkdir()
        settings = {**result["settings"], "seed": str(seed), "fold": str(fold % 2)}
        content = {**result, "settings": settings, "examples": {"train": 70, "test": test}}
        (folder / "result.json").write_text(json.dumps(content))
    classified.result.unlink()
    (row,) = rows_of("mpsan/table6_sentences", classified.folder.parent, ("accuracy",))
    data = "trec, 17 examples of the test set in 2 folds, 70 of the training set in the last, "
    assert row["data"].startswith(data)


def test_means_are_of_scores_with_more_decimals_than_the_table(translated, capsys):
    for seed, rouge1 in enumerate((41.234, 41.234, 41.24), 1):
        run = replace(translated, folder=translated.folder.with_name(f"seed{seed}"))
        run = replace(run, settings=(f"seed {seed}", *run.settings[1:]))
        run.folder.mkdir(exist_ok=True)
        (run.folder / "score.json").write_text(json.dumps(SCORED | {"rouge1": rouge1}))
        (run.folder / "train.log").write_text(TRANSLATED)
        record(run)
    print_tables(rows_of("dman/gigaword", translated.folder.parent, ("rouge1",)))
    assert cells(capsys.readouterr().out)[1][1].startswith("41.24 ± 0.00")


def test_a_table_of_costs(classified, capsys):
    """A cost that one of two runs lacks is left out; the hardware of both runs is named."""
    folder = with_seeds(classified, {"accuracy": 80}, {"accuracy": 82})
    first = json.loads((folder / "seed1" / "result.json").read_text()) | {"hardware": "1 x A100"}
    (folder / "seed1" / "result.json").write_text(json.dumps(first))
    costs = [{"inference_s": 1.5, "memory_mb": 500.4, "gpu": "NVIDIA H200"}]
    costs.append({"inference_s": 2.5, "gpu": None})
    for seed, cost in enumerate(costs, 1):
        (folder / f"seed{seed}" / "cost.json").write_text(json.dumps(cost))
    metrics = ("accuracy", "parameters_m", "epoch_s", "inference_s", "memory_mb")
    (row,) = rows_of("mtsa/table1_snli", folder, metrics, "86.3 2.9 180 1.6 558")
    measured = {"accuracy": [80, 82], "parameters_m": [0.002, 0.002], "inference_s": [1.5, 2.5]}
    assert row["scores"] == measured
    assert row["paper"]["memory_mb"] == 558
    assert row["hardware"].startswith("1 x A100; CPU: ")
    assert row["hardware"].endswith("; inference and memory: NVIDIA H200")
    print_tables([row])
    header, line = cells(capsys.readouterr().out)
    assert header[1].endswith("seconds an epoch / seconds of inference / MB: paper")
    assert line[1:3] == [
        "86.30 / 2.90 / 180.0 / 1.60 / 558",
        "81.00 ± 1.41 / 0.00 ± 0.00 / - / 2.00 ± 0.71 / -",
    ]


def test_a_table_of_attention_near_the_query(tmp_path, capsys):
    for seed, percent in ((1, 70.004), (2, 72)):
        (tmp_path / f"seed{seed}").mkdir()
        rows = [{"sublayer": "dman", "window": 1, "layer": 1, "percent": percent}]
        rows += [{"sublayer": "san", "window": 1, "layer": 1, "percent": 9}]
        measured = json.dumps({"rows": rows, "sentences": 10})
        (tmp_path / f"seed{seed}" / "locality.json").write_text(measured)
        made = json.dumps({"hardware": "CPU", "versions": {}, "date": f"2020-01-0{seed}"})
        (tmp_path / f"seed{seed}" / "result.json").write_text(made)
    numbers = "76.58 60.43"
    (row,) = rows_of("dman/table5_locality", tmp_path, ("layer 1",), numbers, row="DMAN 1")
    assert row["scores"] == {"layer 1": [70.0, 72]}
    assert row["paper"] == {"layer 1": 76.58}
    assert (row["hardware"], row["date"]) == ("CPU", "2020-01-02")
    print_tables([row])
    assert cells(capsys.readouterr().out)[1] == ["DMAN 1", "76.58", "71.00 ± 1.41", "72.00", "2"]


# --- Figures -----------------------------------------------------------------------------------


def drawn(name, *scores, **more):
    return {"table": "T", "row": name, "scores": {"bleu": list(scores)}, **more}


DRAWN = [
    drawn("Transformer", 36, 37, intervals={"bleu": [35, 38]}),
    drawn("DMAN", 38, 39, compared={"with": "Transformer", "metrics": {"bleu": {"p": 0.01}}}),
    drawn("SMAN", 36, 38, compared={"with": "Transformer", "metrics": {"bleu": {"p": 0.2}}}),
    drawn("one run", 35),
    drawn("not run"),
]


def test_a_figure_of_ranges_of_lengths_has_a_line_for_each_row():
    pytest.importorskip("matplotlib")
    shorter = {"table": "T", "row": "RoPE", "scores": {"bleu 0 to 9": [30, 32]}}
    both = {"ter": [60], "bleu 0 to 9": [31], "bleu 10 to 19": [20]}
    interval = {"bleu 0 to 9": [29, 33]}
    rows = [{**shorter, "intervals": interval}, {"table": "T", "row": "T5", "scores": both}]
    (axis,) = figure_of(rows).axes
    assert [list(line.get_ydata()) for line in axis.lines] == [[31], [31, 20]]
    names = ["BLEU of 0 to 9 words", "BLEU of 10 to 19 words"]
    assert [label.get_text() for label in axis.get_xticklabels()] == names
    assert [text.get_text() for text in axis.get_legend().get_texts()] == ["RoPE", "T5"]
    (segments,) = (collection.get_segments() for collection in axis.collections)
    assert segments[0][:, 1].tolist() == [29, 33]
    assert "intervals" in axis.get_xlabel()
    (axis,) = figure_of([shorter]).axes
    assert axis.get_xlabel() == ""


def test_a_figure_has_the_rows_of_several_runs():
    pytest.importorskip("matplotlib")
    (axis,) = figure_of(DRAWN).axes
    assert axis.get_title(loc="left") == "T: BLEU"
    names = [label.get_text() for label in axis.get_yticklabels()]
    assert names == ["Transformer", "DMAN *", "SMAN"]  # from above
    assert "\n* significant difference from Transformer (p < 0.05)" in axis.get_xlabel()
    points = [list(line.get_xdata()) for line in axis.lines]
    assert points == [[36, 37], [36.5], [38, 39], [38.5], [36, 38], [37]]
    assert axis.collections[0].get_segments()[0].tolist() == [[35, 0], [38, 0]]
    assert figure_of(DRAWN[-2:]) is None


@pytest.mark.parametrize(
    ("seeds", "dots", "points"),
    [([1, 2], "runs", [35, 37]), ([1], "runs, or the folds of a single run", [34, 38])],
)
def test_a_dot_of_a_cross_validation_is_a_run_or_a_fold_of_a_single_run(seeds, dots, points):
    pytest.importorskip("matplotlib")
    scores = [34, 34, 36, 40] if len(seeds) == 2 else [34, 38]  # by fold, then by seed
    rows = [drawn(name, *scores, seeds=seeds, folds=[0, 1]) for name in ("RoPE", "T5")]
    (axis,) = figure_of(rows).axes
    assert list(axis.lines[0].get_xdata()) == points
    assert axis.get_xlabel() == f"dots: {dots}; large dots: means"
