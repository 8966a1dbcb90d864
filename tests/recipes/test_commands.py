"""Commands of all recipes, rows and options: fairseq takes them, and folders tell runs apart."""

import functools
import re
import shutil
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest
import torch
from fairseq import options, tasks
from fairseq.data import indexed_dataset

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.recipes.commands.recipe import main
from fairseq_posattn.recipes.options import read_options, result_words
from fairseq_posattn.recipes.papers import DATASETS, RECIPES
from fairseq_posattn.recipes.recipe import GenerationRecipe
from fairseq_posattn.recipes.tiny import write_language_model
from fairseq_posattn.text import manifest
from fairseq_posattn.text.manifest import Manifest
from fairseq_posattn.training import presets
from fairseq_posattn.training.plugin import register

register()

GENERATION = [name for name, recipe in RECIPES.items() if isinstance(recipe, GenerationRecipe)]
CLASSIFICATION = sorted(RECIPES.keys() - GENERATION)
PARSERS = {
    "fairseq-train": options.get_training_parser,
    "fairseq-generate": options.get_generation_parser,
    "fairseq-validate": options.get_validation_parser,
}
TITLES = {"mind": ("titles",)}  # folders beside the columns of all splits
# Options that differ between the rows of a table.
ROWS_DIFFER_IN = re.compile(
    "arch|_name|save_dir|(en|de)coder_(sublayers|ffn_embed_dim)|(sman|da|mtsa|rpr)_.*"
)


def step_of(run, name):
    (step,) = [step for step in run.steps if step.name == name]
    return step


def words_of(run):
    """Return the words of the commands of a run, in a folder called RUN."""
    commands = (step.command for step in run.steps if step.name != "measure")
    return tuple(word.replace(str(run.folder), "RUN") for words in commands for word in words)


@functools.cache
def parse(program, *words):
    """Return the arguments of one of fairseq's commands; a wrong command ends the test."""
    # Parsing leaves the flags of the architecture in a parser.
    return options.parse_args_and_arch(PARSERS[program](), words)


def parsed(run, name="train"):
    """Return the arguments of a step of a run, in a folder called RUN."""
    return parse(*words_of(replace(run, steps=(step_of(run, name),))))


@pytest.fixture(scope="session")
def dictionaries(tmp_path_factory):
    """Return a folder with the files that models of each data set read."""
    folder = tmp_path_factory.mktemp("dictionaries")
    for dataset in DATASETS.values():
        path = folder / dataset.name
        for part in (".", "fold0") if dataset.folds else (".",):
            for kind in (*TITLES.get(dataset.name, ()), *dataset.columns):
                (path / part / kind).mkdir(parents=True)
                words = dataset.classes if kind == "label" else 20
                lines = [f"{kind}{number} 1\n" for number in range(words)]
                (path / part / kind / "dict.txt").write_text("".join(lines) + "<sep> 1\n")
        first, features = (TITLES.get(dataset.name) or dataset.columns)[0], dataset.features
        vectors = [f"{first}{number}{' 0.1' * features}\n" for number in range(20)]
        (path / "glove.txt").write_text(f"20 {features}\n" + "".join(vectors))
    (folder / "snli_released").symlink_to("snli")
    for name in ("snli", "multinli"):
        shutil.copytree(folder / name, folder / f"{name}_gpt")
        for kind in ("input0", "input1"):
            (folder / f"{name}_gpt" / kind / "dict.txt").write_text("b 1\nba</w> 1\n")
    write_language_model(folder / "openai-gpt", "ba")
    titles = indexed_dataset.make_builder(f"{folder}/mind/titles/all.bin", "mmap", vocab_size=99)
    for _ in range(21):  # of each of the news that its dictionary has
        titles.add_item(torch.tensor([4, 5, 2]))
    titles.finalize(f"{folder}/mind/titles/all.idx")
    for language in ("de", "en", "source", "target"):
        (folder / f"dict.{language}.txt").write_text("a 1\nb 1\n")
    return folder


# --- fairseq takes all commands ----------------------------------------------------------------

FORMS = {"paper": ("relu_in_dman", 0.0, "fairseq")}
TRANSLATION = FORMS | {"released": ("relu", 0.0, "mans")}
SUMMARIZATION = FORMS | {"released": ("gelu", 0.1, "bert")}
# On Multi30k rows without a form in their name have the released form.
FORMS_OF = {
    **{f"dman/{name}": SUMMARIZATION for name in ("cnn_dailymail", "gigaword")},
    **{f"dman/{name}": TRANSLATION for name in ("iwslt14", "wmt14_big", "table3_sublayers")},
    **{f"multi30k/{name}": TRANSLATION for name in ("mechanisms", "run", "static_masks")},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", GENERATION)
def test_fairseq_takes_every_row_of_translation(runs_of, dictionaries, name):
    runs = runs_of(name, data=dictionaries)
    assert len(runs) == len(RECIPES[name].rows)
    settings = []
    for run, row in zip(runs, RECIPES[name].rows, strict=True):
        if row.lead:
            continue
        train, generate = parsed(run), parsed(run, "generate")
        with torch.device("meta"):
            model = tasks.setup_task(train).build_model(train)
        if name in FORMS_OF and re.match(r"[SD]MAN|C#", row.name):
            form = "paper" if "(paper form)" in row.name else "released"
            actual = model.cfg.heads_activation, model.cfg.heads_dropout, model.cfg.start
            assert actual == FORMS_OF[name][form], row.name
        assert generate.path.startswith("RUN/") and train.save_dir == "RUN"
        assert (run.updates, run.epochs) == (train.max_update, train.max_epoch or 0)
        # Neither a model of Transformers nor a model that is trained as the others are.
        if row.name not in ("Dynamic Conv", "Scaling NMT"):
            settings.append(vars(train))
    # Models of another class have options of their own.
    shared = set.intersection(*map(set, settings))
    differing = {key for key in shared if len({str(row[key]) for row in settings}) > 1}
    assert [key for key in differing if not ROWS_DIFFER_IN.fullmatch(key)] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", CLASSIFICATION)
def test_fairseq_takes_every_row_of_classifiers(runs_of, dictionaries, name):
    """All rows on the first data set, the first row on the others."""
    datasets = {dataset.name: dataset for dataset in RECIPES[name].datasets}
    runs = runs_of(name, "--seeds", 1, "--folds", 1, data=dictionaries)
    assert len(runs) == len(RECIPES[name].rows) * len(datasets)
    runs = [run for run in runs if run.steps[0].name == "train"]
    for number, run in enumerate(runs):
        if number % len(RECIPES[name].rows) and number >= len(RECIPES[name].rows):
            continue
        train, test = parsed(run), parsed(run, "test")
        dataset = run.name.partition(",")[0]
        with torch.device("meta"):
            tasks.setup_task(train).build_model(train)
        assert train.data == test.data
        data = f"{dictionaries}/{datasets[dataset].folder or dataset}"
        assert train.data.startswith(data)
        without = "FastText" in run.name or "Transfer" in run.name
        vectors = "" if without else f"{data}/glove.txt"
        assert vars(train).get("encoder_embed_path", "") == vectors
        assert (train.task, train.criterion) == (test.task, test.criterion)
        assert vars(train).get("max_positions") == vars(test).get("max_positions")
        assert test.path == f"{train.save_dir}/checkpoint_best.pt" == "RUN/checkpoint_best.pt"
        assert test.valid_subset.split(",") == list(datasets[dataset].tests)
        assert (run.updates, run.epochs) == (train.max_update, train.max_epoch)


def test_the_small_form_of_a_table_of_classifiers(runs_of):
    """Its data, settings and seeds; recipes share models as in the full form."""
    masks, fusion = (runs_of(f"mpsan/{t}", "--small") for t in ("table2_masks", "table3_fusion"))
    full = runs_of("mpsan/table2_masks")
    assert {run.name for run in masks} < {run.name for run in full}
    assert len(full) / len(masks) == 10 / 3  # seeds
    train = parsed(masks[0])
    assert train.data == "/data/sst5_small"
    assert (train.optimizer, train.max_epoch, train.encoder_hidden_dim) == ("adam", 15, 0)
    small, shared, whole = ({run.folder for run in runs} for runs in (masks, fusion, full))
    assert len(small & shared) == 2 * 3 and not small & whole


@pytest.mark.slow
@pytest.mark.parametrize("form", [[], ["--small"]])
def test_mechanisms_in_translation_have_as_many_parameters(runs_of, dictionaries, form):
    """Counted with a dictionary of two words."""
    sizes = {}
    for run in runs_of("multi30k/mechanisms", *form, data=dictionaries):
        train = parsed(run)
        with torch.device("meta"):
            model = tasks.setup_task(train).build_model(train)
        sizes[run.name] = sum(parameter.numel() for parameter in model.parameters())
    plain = sizes.pop("Transformer")
    assert {name: size for name, size in sizes.items() if abs(size / plain - 1) > 1 / 50} == {}


@pytest.mark.parametrize(
    "name, checkpoint, file",
    [
        ("dman/iwslt14", "", "checkpoint_best.pt"),
        ("dman/gigaword", "", "checkpoint_best.pt"),
        ("mtsa/table6_setup1", "", "checkpoint_last.pt"),
        ("multi30k/run", "", "average.pt"),
        ("dman/iwslt14", "average", "average.pt"),
        ("dman/iwslt14", "last", "checkpoint_last.pt"),
        ("mtsa/table6_setup1", "best", "checkpoint_best.pt"),
    ],
)
def test_the_scored_checkpoint(runs_of, name, checkpoint, file):
    """The best checkpoint is selected after epochs; an average has enough checkpoints."""
    run = runs_of(name, *(["--checkpoint", checkpoint] if checkpoint else []))[-1]
    train, generate = parsed(run), parsed(run, "generate")
    assert generate.path == f"RUN/{file}"
    assert any(step.name == "average" for step in run.steps) == (file == "average.pt")
    assert train.best_checkpoint_metric == "loss" and not train.no_save
    if file == "checkpoint_best.pt":
        assert (train.save_interval_updates, train.validate_interval) == (0, 1)
        return
    assert train.keep_interval_updates == (5 if file == "average.pt" else 1)
    assert train.save_interval_updates > 0
    if train.max_update:
        assert train.max_update % train.save_interval_updates == 0
        assert train.max_update >= train.save_interval_updates * train.keep_interval_updates


DMAN = "--rows|DMAN (released form)"
TEXTS = "--hypotheses /data/text/test.source --references /data/text/test.target"


@pytest.mark.parametrize(
    "recipe, options, step, words, present",
    [
        ("dman/cnn_dailymail", "--rows|LEAD-3", "score", f"rouge155 --lead 3 {TEXTS}", True),
        ("dman/gigaword", DMAN, "score", "--remove-bpe wordpiece", True),  # as the hypotheses are
        ("dman/iwslt14", DMAN, "score", "--remove-bpe wordpiece", False),
        ("dman/wmt14_base", f"{DMAN}|--launcher|sh 'my run' -n", "train", "sh my run -n /d", True),
        ("dman/wmt14_base", f"{DMAN}|--launcher|sh", "train", "12288 --update-freq 24 --s", True),
        ("dman/wmt14_base", f"{DMAN}|--gpus|16", "train", "9216 --update-freq 2 --s", True),
        ("dman/wmt14_base", f"{DMAN}|--gpus|0", "train", "12288 --update-freq 24 --cpu", True),
        ("mpsan/table1_sst", "--rows|MPSAN", "test", "--results-path /out/sst5/mpsan_", True),
        ("da_transformer/figure3_ratings", "", "test", "--results-path", True),
        ("da_transformer/figure3_ratings", "", "train", "--hierarchical", True),
        ("da_transformer/figure3_ratings", "", "train", "--maximize-best-checkpoint", False),
        ("mtsa/table4_roles", "", "test", "--results-path", False),
        ("da_transformer/table5_mind", "--rows|NRMS", "test", "--results-path", False),
        # fairseq would take 24 by its default, 8
        ("da_transformer/table5_mind", "", "train", "30 --required-batch-size-multiple 1", True),
        ("mtsa/table1_snli", "", "train", "--required-batch-size-multiple", False),
    ],
)
def test_words_of_steps(runs_of, recipe, options, step, words, present):
    run = runs_of(recipe, *filter(None, options.split("|")))[0]
    assert (words in " ".join(step_of(run, step).command)) == present


def test_rows_that_need_text_are_left_out_without_it(runs_of, tmp_path):
    def names(*arguments):
        runs = runs_of("dman/cnn_dailymail", "--gpus", 0, *arguments, data=tmp_path, looks=False)
        return [run.name for run in runs]

    trained = names()
    assert len(trained) == 4 and "LEAD-3" not in trained
    assert names("--rows", "LEAD-3") == ["LEAD-3"]
    (tmp_path / "text").mkdir()
    (tmp_path / "text/test.target").touch()
    assert names() == ["LEAD-3", *trained]


def test_subwords_are_joined_as_the_data_has_them(runs_of, tmp_path):
    manifest.write(tmp_path, Manifest("gigaword", "translation", "text", subwords="sentencepiece"))
    (run,) = runs_of("dman/gigaword", "--rows", "Transformer", "--seed", 1, data=tmp_path)
    assert parsed(run, "generate").post_process == "sentencepiece"  # as published, wordpiece


def test_snli_is_prepared_as_released_beside_the_plain_data(plan_of):
    (step,) = plan_of("mtsa/table1_snli", "--prepare").preparation()
    assert step.shown().endswith("--dest /data/snli_released --released-form")


@pytest.mark.parametrize(
    "recipe, row, expected",
    [
        ("dman/iwslt14 --max-update 9", "DMAN (paper form)", {"max_update": 9, "max_epoch": 0}),
        ("dman/iwslt14 -- --dropout 0.25", "DMAN (paper form)", {"dropout": 0.25}),
        # The row's training replaces the table's.
        ("cspan/table2_documents", "CSPAN (big)", {"max_epoch": 60, "l2": 1e-4}),
    ],
)
def test_flags_of_rows(runs_of, recipe, row, expected):
    name, *options = recipe.split()
    train = vars(parsed(runs_of(name, "--rows", row, *options)[0]))
    assert {flag: train.get(flag) for flag in expected} == expected


@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("recipe", ["dman/iwslt14", "mpsan/table7_sick"])
def test_the_precision_is_the_options(runs_of, recipe, precision):
    run = runs_of(recipe, "--rows", RECIPES[recipe].rows[-1].name, "--precision", precision)[0]
    train, test = parsed(run), parsed(run, run.steps[1].name)
    assert (train.fp16, train.bf16) == (precision == "fp16", precision == "bf16")
    assert (test.fp16, test.bf16, test.cpu) == (precision == "fp16", False, False)


@pytest.mark.parametrize("name", RECIPES)
def test_each_row_can_be_chosen(plan_of, name):
    """Names may have commas: alone, and among others in any case of letters."""
    rows = RECIPES[name].rows
    for row in (rows[-1], *(row for row in rows if "," in row.name)):
        assert plan_of(name, "--rows", row.name).rows == (row,)
    names = ",".join(row.name.upper() for row in rows[::-1])
    assert plan_of(name, "--rows", names).rows == rows[::-1]


@pytest.mark.parametrize("name", RECIPES)
def test_each_recipe_takes_seeds_and_devices(runs_of, capsys, name):
    with pytest.raises(SystemExit, match="0"):
        runs_of(name, "--help")
    printed = capsys.readouterr().out
    assert "%%" not in printed and "%(" not in printed
    flags = set(re.findall(r"^  (--[a-z]+)", printed, re.M))
    assert {"--seed", "--seeds", "--gpus", "--cpu"} <= flags
    rows = RECIPES[name].rows
    row = next(row for row in rows if not row.lead and not row.baseline)
    chosen = ["--rows", row.name, "--folds", 1] if name in CLASSIFICATION else ["--rows", row.name]
    for words, seeds in ((["--seeds", 2], ["1", "2"]), (["--seed", 0], ["0"])):
        runs = runs_of(name, *chosen, "--cpu", *words)
        assert list(dict.fromkeys(run.values["seed"] for run in runs)) == seeds
        assert runs == runs_of(name, *chosen, "--gpus", 0, *words)
        for run in runs:
            train = step_of(run, "train").command
            assert train[train.index("--seed") + 1] == run.values["seed"]
            assert "--cpu" in train
            assert run.folder.name.endswith(f"seed{run.values['seed']}")
        on_gpu = runs_of(name, *chosen, "--gpus", 1, *words)
        assert "--cpu" not in step_of(on_gpu[0], "train").command


def test_runs_without_training_are_not_repeated(runs_of, tmp_path):
    (tmp_path / "text").mkdir()
    (tmp_path / "text/test.target").touch()
    runs = runs_of("dman/cnn_dailymail", "--seeds", 2, data=tmp_path)
    trained = len(RECIPES["dman/cnn_dailymail"].rows) - 1
    assert len({run.name for run in runs}) == len(runs) == 2 * trained + 1
    news = runs_of("da_transformer/table5_mind", "--rows", "NRMS,Popularity", "--seed", 4)
    assert [run.values["seed"] for run in news] == ["4", "1"]


def test_runs_are_rows_seeds_and_folds(runs_of):
    """The first seed of all rows is first; a cross validation has a run for each fold."""
    names = [run.name for run in runs_of("mpsan/table6_sentences", "--rows", "mpsan,disan")]
    assert len(names) == 2 * (5 + 3 * 10)
    assert names[:3] == ["trec, MPSAN, seed 1", "trec, DiSAN, seed 1", "cr, MPSAN, seed 1, fold 0"]
    assert names[-1] == "trec, DiSAN, seed 5"
    tiny = [run.name for run in runs_of("mpsan/table6_sentences", "--rows", "mpsan", "--tiny")]
    assert len(tiny) == 1 + 3 * 2
    # A baseline has one run without training.
    news = runs_of("da_transformer/table5_mind", "--rows", "NRMS,Popularity")
    assert [run.name for run in news if run.steps[0].name == "rank"] == ["mind, Popularity"]
    assert len(news) == 5 + 1


@pytest.mark.parametrize("name", ["dman/iwslt14", "mpsan/table6_sentences"])
def test_one_recipe_at_a_time_generates_tiny_data(plan_of, tmp_path, name):
    arguments = [name, "--tiny", "--out", tmp_path]
    first, second = (plan_of(*arguments, data=tmp_path / "data", looks=False) for _ in range(2))
    making, started = first.tiny_data(), []
    next(making)
    waiting = Thread(target=lambda: started.extend(second.tiny_data()))
    waiting.start()
    waiting.join(0.3)
    assert waiting.is_alive()
    for dataset in ("trec", "cr", "mpqa", "subj"):
        (tmp_path / "data" / dataset).mkdir(parents=True)
    making.close()
    waiting.join(30)
    assert not waiting.is_alive() and started == []


# --- Folders -----------------------------------------------------------------------------------


def test_different_commands_have_different_folders(runs_of):
    """Recipes with the same --out share equal commands only."""
    folders = {}
    for name in RECIPES:
        for run in runs_of(name, *(["--folds", 2] if name in CLASSIFICATION else [])):
            assert folders.setdefault(run.folder, words_of(run)) == words_of(run), name
    assert len(folders) > 300
    # fairseq-generate and fairseq-validate split --path at colons.
    assert [folder for folder in folders if ":" in str(folder)] == []


TRANSLATOR = ("dman/iwslt14", "--rows", "DMAN (released form)")
CLASSIFIER = ("cspan/table3_components", "--rows", "+ self-att", "--seeds", 1)
BASELINE = ("da_transformer/table5_mind", "--rows", "Popularity")
SETTINGS = {
    TRANSLATOR: "|--seed 2|--max-update 70000|--checkpoint average|--checkpoint last|--data other"
    "|--gpus 0|--gpus 3|--precision fp16|--tiny|-- --dropout 0",
    CLASSIFIER: "|--epochs 7|--precision bf16|--tiny|-- --no-such-value",
    BASELINE: "|--data other",
}


@pytest.mark.parametrize("arguments", SETTINGS)
def test_other_settings_are_another_folder(runs_of, arguments):
    settings = SETTINGS[arguments].split("|")
    folders = {runs_of(*arguments, *other.split())[0].folder for other in settings}
    assert len(folders) == len(settings)


def test_a_changed_architecture_is_another_folder(runs_of, monkeypatch):
    models = presets.ARCHITECTURES["posattn_transformer"]
    before = runs_of(*TRANSLATOR)[0]
    changed = {**models["dman_iwslt_de_en"], "dropout": 0.9}
    monkeypatch.setitem(models, "dman_iwslt_de_en", changed)
    after = runs_of(*TRANSLATOR)[0]
    assert after.folder != before.folder
    assert not set(before.settings) <= set(after.settings)


def test_seeds_and_folds_are_beside_each_other(runs_of):
    seeds = [run for seed in (1, 2) for run in runs_of(*TRANSLATOR, "--seed", seed)]
    folds = runs_of("mpsan/table6_sentences", "--datasets", "cr", "--rows", "MPSAN", "--folds", 2)
    assert [run.folder.name for run in seeds] == ["seed1", "seed2"]
    assert [run.folder.name for run in folds] == ["fold0-seed1", "fold1-seed1"]
    assert len({run.folder.parent for run in (*seeds, *folds)}) == 2


def test_an_evenly_shared_update_has_the_same_folder(runs_of):
    row = ("dman/wmt14_base", "--rows", "DMAN (released form)")
    (shared,) = {runs_of(*row, "--gpus", gpus)[0].folder.parent.name for gpus in (1, 8)}
    assert re.fullmatch(r"dman_wmt_en_de-relu-mans-[0-9a-f]{8}", shared)
    flag_without_value = runs_of(*CLASSIFIER)[0].folder.parent.name
    assert "cspan-no-residual-1-" in flag_without_value


# --- Data and options --------------------------------------------------------------------------


def test_existing_binarized_data_stays(plan_of, tmp_path):
    """It may be prepared with other settings."""

    def prepared(*arguments):
        plan = plan_of("multi30k/run", "--small", *arguments, data=tmp_path)
        return [step.name for step in plan.preparation()]

    parts = [f"{split}.de-en.{{}}" for split in ("train", "valid", "test")]
    patterns = ["dict.{}.txt", *(f"{part}.{end}" for part in parts for end in ("bin", "idx"))]
    for name in [pattern.format(side) for pattern in patterns for side in ("de", "en")]:
        assert prepared() == prepared("--prepare") == ["prepare"]
        (tmp_path / name).touch()
    assert prepared() == prepared("--prepare") == []
    assert prepared("--source", "published") == ["prepare"]
    (tmp_path / ".stages.json").touch()  # an unfinished preparation
    assert prepared() == ["prepare"]
    manifest.write(tmp_path, Manifest("multi30k", "translation", "text"))
    assert prepared() == []


def test_word_vectors_are_the_prepared_vectors(runs_of, tmp_path):
    def features():
        (run,) = runs_of(
            *("classifiers/compare", "--rows", "cnn", "--datasets", "trec", "--seeds", 1),
            data=tmp_path,
        )
        train = vars(parsed(run))
        return train.get("encoder_embed_path"), train["encoder_embed_dim"]

    (tmp_path / "trec").mkdir()
    assert features() == (None, 300)
    (tmp_path / "trec/glove.txt").write_text("1 50\n")
    assert features() == (f"{tmp_path}/trec/glove.txt", 50)


def test_the_command_of_a_table_has_the_options_of_its_numbers():
    def words_of(recipe, *arguments):
        options = read_options(RECIPES[recipe], arguments, "", Path())
        return " ".join(result_words(options))

    words = "--small --checkpoint best --max-update 40 -- --dropout 0.3"
    where = "--gpus 0 --data d --out o --rows DMAN --seed 2 --jobs 2"
    assert words_of("multi30k/run", *f"{where} {words}".split()) == words
    tuned = "--epochs 3 --precision bf16 --tune {} --tune-updates 9 --tune-seeds 2"
    typed = f"--seeds 2 --folds 3 {tuned.format('1e-3,3e-3')}".split()
    assert words_of("classifiers/compare_small", *typed) == tuned.format("0.001,0.003")
    assert words_of("mpsan/table7_sick") == ""


def test_a_list_has_the_chosen_rows_and_data_sets(capsys):
    arguments = ["--list", "--datasets", "snli", "--rows", "DA-Transformer,Transformer"]
    assert main(["da_transformer/table4_sst_snli", *arguments]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    table = "DA-Transformer, Table 4: SST with two classes, and SNLI: snli"
    assert [line[:2] for line in lines] == [[table, "DA-Transformer"], [table, "Transformer"]]
    assert lines[0][2:] == ["accuracy,macro_f1", "84.18±0.27 84.16±0.29"]


TUNE = "--tune|1e-3,2e-3|--tune-updates|9"


@pytest.mark.parametrize(
    "recipe, arguments, mentions",
    [
        ("dman/table3_sublayers", "--rows|C#5 (paper form),C#6", ["'C#6'", "C#1 (released form);"]),
        ("dman/table3_sublayers", "--row|C#1", ["--row", "--help"]),
        ("dman/table3_sublayers", "--seed", ["--seed needs a value"]),
        ("dman/table3_sublayers", "--steps|train,test", ["'test'", "average", "generate"]),
        ("dman/table3_sublayers", "--max-update|0", ["--max-update '0' is not a positive"]),
        ("dman/table3_sublayers", "--small", ["--small"]),
        ("dman/iwslt14", "--gpus|0|--precision|fp16", ["fp16 needs a GPU", "bf16"]),
        ("mpsan/table7_sick", "--precision|fp8", ["--precision", "'fp32', 'fp16', 'bf16'"]),
        ("mpsan/table6_sentences", "--datasets|trec,sst", ["'sst'", "trec; cr; mpqa; subj"]),
        ("dman/iwslt14", "--tune|1e-3|--tune-updates|9", ["--tune 1e-3: give two or more"]),
        ("dman/iwslt14", "--tune|1e-3,nan|--tune-updates|9", ["positive numbers"]),
        ("dman/iwslt14", "--tune|1e-3,2e-3", ["--tune-updates N"]),
        ("dman/iwslt14", "--tune-seeds|2", ["--tune-seeds 2 needs --tune LIST"]),
        ("dman/iwslt14", f"{TUNE}|--|--lr|1e-3", ["remove --lr"]),
        ("dman/iwslt14", f"{TUNE}|--|--max-epoch|9", ["after -- ", "give --max-update before --"]),
        ("dman/iwslt14", "--out|runs/10:30", ["--out ", "runs/10:30: fairseq-train splits it at"]),
        ("dman/iwslt14", "--data|a:b", ["--data a:b: fairseq-train splits it at"]),
        ("cspan/table4_sizes", "--rows|1 layers, 9 queries", ["'1 layers'", "; 2 layers, 8 q"]),
        ("dman/iwslt14", "--seed|2|--seeds|3", ["--seed 2, --seeds 3: give only one"]),
        ("dman/iwslt14", "--|--seed|2", ["--seed after --: ", "give --seed or --seeds before --"]),
        ("mpsan/table7_sick", "--cpu|--gpus|1", ["--cpu, --gpus 1: give only one"]),
        ("mpsan/table7_sick", "--gpus|2", ["--gpus 2: a model trains on one; --jobs "]),
        ("dman/table9", "", ["'dman/table9'", "dman/table"]),
    ],
)
def test_mistakes_are_one_line(runs_of, recipe, arguments, mentions):
    with pytest.raises(UsageError) as refused:
        runs_of(recipe, *filter(None, arguments.split("|")))
    message = str(refused.value)
    assert "\n" not in message
    assert [mention for mention in mentions if mention not in message] == []
