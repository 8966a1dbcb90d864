"""Tables of users: files, their mistakes, and the runs that they describe."""

import json
import os
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.recipes import custom
from fairseq_posattn.recipes.commands.recipe import _print_table, find, main, make_plan
from fairseq_posattn.recipes.recipe import Training
from fairseq_posattn.text.manifest import Manifest, write

ROOT = Path(__file__).parents[2]
PAIRS = {"task": "translation", "word_rule": "text", "metric": "bleu", "languages": ("fr", "en")}
LABELED = {
    **{"task": "sentence_prediction", "word_rule": "moses", "metric": "accuracy", "classes": 2},
    "criterion": "sentence_classification",
}
ROLES = ("words", "predicate", "tags")
TAGGED = {"task": "sequence_tagging", "word_rule": "moses", "metric": "f1"}
TAGGED["criterion"] = "sequence_tagging"
FILE = """\
data: fr-en
epochs: 3
training: --optimizer adam --lr 1e-3
rows:
  Transformer: --arch transformer_iwslt_de_en
  ALiBi: --arch dman_iwslt_de_en --encoder-sublayers alibi,ffn
"""
CLASSIFIERS = FILE.replace("fr-en", "reviews").replace("iwslt_de_en", "classifier")


def described(folder, *columns, **manifest):
    for column in columns:
        (folder / column).mkdir(parents=True)
    folder.mkdir(exist_ok=True)
    write(folder, Manifest("own", **manifest))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Work in a folder with prepared data, without what is binarized, and with a plugin."""
    monkeypatch.chdir(tmp_path)
    described(tmp_path / "fr-en", **PAIRS, subwords="sentencepiece")
    described(tmp_path / "reviews", "input0", "label", **LABELED)
    described(tmp_path / "pairs", "input0", "input1", "label", **LABELED, longest_text=600)
    described(tmp_path / "roles", *ROLES, **TAGGED)
    described(tmp_path / "folds" / "fold0", "input0", "label", **LABELED)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/__init__.py").write_text("import fairseq_posattn\n")
    (tmp_path / "stock").mkdir()
    (tmp_path / "stock/__init__.py").write_text("import fairseq\n")
    (tmp_path / "stock/.#models.py").symlink_to("user@machine.1")  # Emacs, during changes
    return tmp_path


def plan_of(text, *options):
    Path("own.yaml").write_text(text)
    words = ["--dry-run", "--out", "/out", *options]
    return make_plan(find("own.yaml"), words, "own.yaml", Path())


def words_of(run, step=0):
    return shlex.join(run.steps[step].command)


# --- The file ----------------------------------------------------------------------------------


def test_the_example_is_in_the_documentation_and_names_all_keys(capsys):
    assert main(["--example"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(custom.EXAMPLE) and len(custom.EXAMPLE.splitlines()) == 10
    shown = "".join(f"    {line}\n" for line in custom.EXAMPLE.splitlines())
    assert shown in (ROOT / "docs/recipes.md").read_text()
    transformer, alibi = (line.split() for line in custom.EXAMPLE.splitlines()[-2:])
    differing = {*transformer} ^ {*alibi}  # sizes, norms and dropouts are equal
    assert differing == {"Transformer:", "ALiBi:", "san,ffn", "alibi,ffn"}
    keys = re.findall(r"^#   (\w+): ", printed, re.M)
    assert keys == list(custom.CustomTable.__dataclass_fields__)


ALIBI = "--arch dman_iwslt_de_en --encoder-sublayers alibi,ffn"
MISTAKES = [  # what is replaced, by what, line, message
    ("epochs", "epoch", 2, "there is no key 'epoch'; do you mean epochs?"),
    ("data: fr-en\n", "", 1, "data is missing or empty; give folder of posattn prepare"),
    ("epochs: 3", "epochs: three", 2, "epochs must be a positive whole number, not 'three'"),
    ("epochs: 3", "epochs: 0", 2, "epochs must be a positive whole number, not '0'"),
    ("fr-en", "fr-de", 1, "fr-de: has no preparation.json; make it with 'posattn prepare'"),
    ("fr-en", "[fr-en, reviews]", 1, "several folders must all have labels, and the same kind"),
    ("fr-en", "[reviews, ./reviews]", 1, "two folders are called reviews; rename one"),
    ("fr-en", "reviews\nbatch_size: 8\nmax_tokens: 9", 2, "batch_size has no effect beside max_t"),
    ("--lr 1e-3", "--lr '1e-3", 3, "has an open quotation mark"),
    ("--lr 1e-3", "--max-update 9", 3, "--max-update is set by updates; remove it here"),
    ("--lr 1e-3", "--arch x", 3, "training has --arch; give each row its own"),
    (ALIBI, "", 6, "row 'ALiBi' has no --arch NAME; give it"),
    (ALIBI, "--encoder-sublayers alibi,ffn", 6, "row 'ALiBi' has no --arch NAME; give it"),
    ("--lr 1e-3", "-s en -t fr", 3, "-s is set by data; remove it here"),
    (ALIBI, "--arch x --seed=4", 6, "--seed=4 is set by seeds; remove it here"),
    ("ALiBi:", "Transformer:", 6, "row 'Transformer' is also in line 5; rename one"),
    ("ALiBi:", "8:", 6, "row must be text, not '8'; put it in quotes"),
    ("ALiBi:", "A|B:", 6, "'A|B' has one of <>`| or an invisible"),
    ("ALiBi:", "a\u200cb:", 6, "'a\\u200cb' has one of <>`| or an invisible sign; rename it"),
    ("  ALiBi:", "\tALiBi:", 6, "this is not YAML (found character '\\t'"),
]
ADDED = [  # what is added behind the epochs, message
    ("title: 2024", "title must be text, not '2024'; put it in quotes"),
    ("title: [a]", "title must be text, not a sequence"),
    ("title: a: b", "this is not YAML (mapping values are not allowe"),
    ("updates: 5", "give the length of training as either epochs or"),
    ("epochs: 4", "key 'epochs' is also in line 2; rename one"),
    ("metrics: [bleu, valid_bleu]", "there is no metric 'valid_bleu'; known: bleu,"),
    ("checkpoint: first", "checkpoint is 'first'; give best, average,"),
    ("baseline: X", "no row 'X'; known: Transformer; A"),
    ("batch_size: 9", "fr-en is data of translation; remove batch_size"),
    ("user_dir: fr-en", "fr-en has no __init__.py; name the folder"),
    ("user_dir: stock", "stock/__init__.py must have 'import fairseq_posattn'"),
    ("scoring: bleu --comet x", "'bleu --comet x' is not bleu or rou"),
    ("decoding: --beam 4 --path=x.pt", "--path=x.pt is set by the row; remove it here"),
    ("decoding: -t fr", "-t is set by data; remove it here"),
    ("decoding: --gen-subset valid", "--gen-subset is set by the recipe, which scores the"),
    ("decoding: --beam '4", "has an open quotation mark"),
]
MISTAKES += [("epochs: 3", f"epochs: 3\n{line}", 3, message) for line, message in ADDED]


@pytest.mark.parametrize(("text", "other", "line", "message"), MISTAKES)
def test_a_mistake_is_one_line_with_its_line_number(text, other, line, message):
    assert FILE.count(text) == 1
    with pytest.raises(UsageError) as refused:
        plan_of(FILE.replace(text, other))
    assert f"own.yaml:{line}: " in str(refused.value) and message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_an_interval_of_epochs_is_refused():
    with pytest.raises(UsageError, match="own.yaml:3: interval has no effect beside epochs"):
        plan_of(CLASSIFIERS.replace("epochs: 3", "epochs: 3\ninterval: 9"))


@pytest.mark.parametrize("content", [b"", b"[a]", b"text", b"\xff"])
def test_another_file_is_one_line(content):
    Path("own.yaml").write_bytes(content)
    with pytest.raises(UsageError, match=r"^own\.yaml(:1)?: (it has no key|the text is not UTF-8)"):
        find("own.yaml")


def changed(text, other):
    return CLASSIFIERS.replace(text, other)


def with_metrics(names, data="reviews"):
    text = changed("reviews\nepochs: 3", f"{data}\nepochs: 3\nmetrics: [{names}]")
    return text.replace("classifier", "tagger") if data == "roles" else text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "option", "message"),
    [
        (changed("1e-3", "1 --drpout 0.1"), "", "own.yaml:3: .* unrecognized arguments: --drpout"),
        (changed("alibi,ffn", "alibi,fn"), "", "own.yaml:6: .* alibi,fn: unknown sublayer 'fn'"),
        (
            with_metrics("accuracy, valid_macro_f1, f2"),
            "",
            "own.yaml:3: there is no metric 'f2'; k",
        ),
        (with_metrics("f2"), "", "own.yaml:3: --best-checkpoint-metric f2: with"),
        (with_metrics("accuracy, valid_epoch_s"), "", "own.yaml:3: there is no m"),
        (
            with_metrics("f1, parameters_m, memory_mb", "roles"),
            "",
            "own.yaml:3: .*; known: .* param",
        ),
        (f"{FILE}decoding: --beem 3", "", "own.yaml:7: unrecognized arguments: --beem"),
        (f"{FILE}scoring: bleu --by-length 9,3", "", "own.yaml:7: argument --by-length: 9,3: give"),
        (f"{FILE}scoring: bleu --language german", "", "own.yaml:7: language 'german': unknown"),
        (f"{FILE}scoring: bleu --forms five", "", "own.yaml:7: argument --forms: invalid choice: "),
        (
            changed("transformer_classifier", "roberta"),
            "--tiny",
            "own.yaml:5: .* --encoder-hidden-dim 12 .*; --encoder-hidden-dim is of --tiny: give ",
        ),
        (FILE, "-- --drpout 0.1", "unrecognized arguments: --drpout"),
    ],
)
def test_all_flags_are_read_before_anything_is_trained(text, option, message, forked_checks):
    Path("reviews/input0/dict.txt").write_text("a 1\n")
    Path("reviews/label/dict.txt").write_text("good 1\nbad 1\n")
    for column in ROLES:
        Path(f"roles/{column}/dict.txt").write_text("0 1\n1 1\n")
    for side in ("fr", "en"):
        Path(f"fr-en/dict.{side}.txt").write_text("a 1\n")
    for name in ("reviews/input0/{}.bin", "fr-en/{}.fr-en.fr.bin", "fr-en/{}.fr-en.en.bin"):
        for split in ("train", "valid", "test"):
            Path(name.format(split)).touch()
    plan = plan_of(text, *option.split())
    with pytest.raises(UsageError, match=f"^{message}") as refused:
        custom.check(Path("own.yaml"), plan)
    assert "\n" not in str(refused.value)


# --- Its runs ----------------------------------------------------------------------------------


def test_rows_train_on_the_data_with_their_flags(folder):
    more = "seeds: 2\nuser_dir: mine\nmax_tokens: 100\nbatches: 3\nscoring: bleu --language en\n"
    plan = plan_of(FILE + more, "--gpus", "1")
    runs = plan.runs()
    names = [run.name for run in runs]
    assert names == ["Transformer", "ALiBi", "Transformer, seed 2", "ALiBi, seed 2"]
    train, generate, score = (words_of(runs[3], step) for step in range(3))
    assert train.startswith(f"fairseq-train {folder}/fr-en --user-dir {folder}/mine ")
    languages = "--source-lang fr --target-lang en"
    assert f" {languages} --seed 2 --optimizer adam --lr 1e-3 {ALIBI} " in train
    assert " --max-epoch 3 " in train and " --max-tokens 100 --update-freq 3 " in train
    assert f" --user-dir {folder}/mine " in generate and "--remove-bpe sentencepiece" in generate
    assert "checkpoint_best.pt --beam 5 " in generate
    assert score.startswith("posattn score bleu --json --language en --generated /out/")
    assert runs[0].values["user-dir"].startswith(f"{folder}/mine ")
    assert plan.data == folder / "fr-en" and str(plan.out) == "/out"


def test_patience_ends_no_trial_of_a_rate_early():
    text = FILE.replace("--lr 1e-3", "--lr-scheduler fixed --lr 1e-3 --patience 2")
    plan = plan_of(text, "--tune", "1e-3,2e-3", "--tune-updates", "9", "--rows", "ALiBi")
    ((trial, _),) = [tuning.runs for tuning in plan.tunings()]
    assert words_of(trial).endswith("--patience -1")
    assert words_of(plan.runs()[0]).count("--patience") == 1


def test_a_trial_of_a_table_in_epochs_is_validated_at_its_end():
    text = CLASSIFIERS.replace("--lr 1e-3", "--lr-scheduler fixed --lr 1e-3")
    trials = plan_of(text, "--tune", "1e-3,2e-3", "--tune-updates", "9").tunings()[0].runs
    assert "--max-update 9 --validate-interval-updates 9 " in words_of(trials[0])


def test_rows_that_differ_by_case_are_chosen_apart():
    text = CLASSIFIERS.replace("  ALiBi:", "  transformer:")
    for name, arch in (("Transformer", "transformer_classifier"), ("transformer", "dman_")):
        (run,) = plan_of(text, "--rows", name).runs()
        assert run.folder.parent.name.startswith(arch)


def test_the_folder_of_a_row_with_long_flags_has_a_name_that_file_systems_take():
    lines = (f"  {name}: --arch {name} --flag {'ü' * 200}{name}\n" for name in "abc")
    names = {run.folder.parent.name for run in plan_of(CLASSIFIERS + "".join(lines)).runs()}
    assert len(names) == 5 and 250 < max(len(name.encode()) for name in names) <= 255


def test_a_table_warns_of_any_row_whose_data_was_replaced(folder, capsys):
    run, _ = plan_of(CLASSIFIERS, "--out", "out").runs()
    run = replace(run, folder=folder / run.folder)
    run.folder.mkdir(parents=True)
    run.start()
    result = {"scores": {"accuracy": 50.0}, "examples": {"train": 9, "test": 9}, "hardware": "CPU"}
    run.result.write_text(json.dumps({**result, "settings": run.values}))
    table = ["own.yaml", "--table", "--out", "out", "--rows", "ALiBi"]
    assert main(table) == 0
    printed = capsys.readouterr()
    assert "50.00" in printed.out and not printed.err
    (folder / "reviews/input0/train.bin").write_text("other")
    assert main(table) == 0
    warning = f"own: warning: {run.folder} was trained on other data than "
    assert capsys.readouterr().err.startswith(warning)


def test_changed_code_of_the_user_is_another_run(folder):
    def folders():
        return [run.folder for run in plan_of(f"{FILE}user_dir: mine\n").runs()]

    before = folders()
    (folder / "mine/notes.txt").write_text("no code")
    (folder / "mine/.#sharp.py").symlink_to("user@machine.1")  # Emacs, during changes
    assert folders() == before
    (folder / "shared").mkdir()
    (folder / "mine/more").symlink_to(folder / "shared")
    (folder / "shared/sharp.py").write_text("SHARPNESS = 2\n")
    assert not {*folders()} & {*before}


def test_other_files_of_the_folder_are_not_read(folder, monkeypatch):
    monkeypatch.setattr(Path, "rglob", None)
    monkeypatch.setattr(os, "walk", None)
    assert plan_of(FILE).runs()


def test_data_with_labels_has_its_columns_and_folds(folder):
    text = CLASSIFIERS.replace("reviews", "[pairs, folds]").replace("epochs: 3", "updates: 60")
    plan = plan_of(text + "metrics: [accuracy, macro_f1]\n", "--rows", "ALiBi", "--gpus", "0")
    runs = plan.runs()
    assert [run.values["data"] for run in runs] == [
        f"{folder}/pairs",
        *(f"{folder}/folds/fold{fold}" for fold in range(10)),
    ]
    assert plan.datasets[0].columns == ("input0", "input1", "label")
    assert plan.datasets[1].columns == ("input0", "label")
    pairs, fold = words_of(runs[0]), words_of(runs[1])
    assert "--max-positions 512 --shorten-method truncate" in pairs and "--max-pos" not in fold
    assert "--validate-interval-updates 3 " in pairs
    assert "--best-checkpoint-metric accuracy" in pairs
    assert {entry.metrics for entry in plan.entries()} == {("accuracy", "macro_f1")}


@pytest.mark.parametrize("flag", ["", "--language-model gpt", "--encoder-embed-path glove.txt"])
def test_random_word_vectors_are_reported_unless_others_are_named(folder, flag):
    for column in ("input0", "label"):
        (folder / "reviews" / column / "test.idx").touch()
    lines = []
    plan_of(CLASSIFIERS.replace("--lr 1e-3", f"--lr 1e-3 {flag}")).require_data(lines.append)
    message = "reviews has no glove.txt: word vectors are initialized at random"
    assert lines == ([] if flag else [message])


@pytest.mark.parametrize(("text", "key"), [(FILE, "batches"), (CLASSIFIERS, "batch_size")])
def test_the_key_that_sets_a_flag_is_one_of_the_data(text, key):
    with pytest.raises(UsageError, match=f"--update-freq is set by {key}; remove it here"):
        plan_of(text.replace("--lr 1e-3", "--update-freq 2"))
    plan_of(f"{text}{key}: 4\n")


def test_models_are_tested_with_the_task_that_they_were_trained_for(folder):
    more = "--criterion relatedness --num-classes 5 --lr 1e-3"
    (run, _) = plan_of(CLASSIFIERS.replace("--lr 1e-3", more)).runs()
    task = "--task sentence_prediction --num-classes 5 --criterion relatedness --path"
    assert f" {task} " in words_of(run, 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (with_metrics("valid_accuracy, accuracy"), "3: valid_accuracy selects no checkpoints"),
        (with_metrics("epoch_s"), "3: epoch_s selects no checkpoints; name a"),
        (
            changed("--lr 1e-3", "--best-checkpoint-metric f1"),
            "3: --best-.* is set by the first of",
        ),
    ],
)
def test_the_first_metric_alone_selects_checkpoints(text, message):
    with pytest.raises(UsageError, match=f"^own.yaml:{message}"):
        plan_of(text)
    plan_of(FILE.replace("--lr 1e-3", "--best-checkpoint-metric bleu"))


@pytest.mark.parametrize("text", [FILE, CLASSIFIERS])
def test_tiny_models_are_trained_on_the_same_data(folder, text):
    (run, _) = plan_of(text, "--tiny").runs()
    words = words_of(run)
    assert words.startswith(f"fairseq-train {folder}/") and " --max-update 4 " in words
    assert re.search(r"--encoder-embed-dim 1[26] ", words)
    (run, _) = plan_of(f"{text}tiny: --encoder-embed-dim 8\n", "--tiny").runs()
    assert re.findall(r"--encoder-\w+-dim (\d+)", words_of(run))[-1] == "8"


def test_learning_rates_are_tuned():
    plan = plan_of(FILE, "--tune", "1e-3,3e-3", "--tune-updates", "9")
    trials = [run for tuning in plan.tunings() for run in tuning.runs]
    assert len(trials) == 4 and " --lr 0.003 --max-update 9 " in words_of(trials[1])
    for _, run in plan.models():
        assert "BEST" not in run.steps[0].command


def test_trials_of_the_same_plan_have_the_same_code(folder):
    """If user_dir changes meanwhile, the table is still of the runs that finished."""
    plan = plan_of(f"{FILE}user_dir: mine\n", "--tune", "1e-3,3e-3", "--tune-updates", "9")
    before = plan.tunings()
    (folder / "mine/__init__.py").write_text("import fairseq_posattn\nSHARPNESS = 3\n")
    assert plan.tunings() == before


def test_a_table_without_a_figure_removes_that_of_the_table_before(tmp_path):
    pictures = [tmp_path / "own.png", tmp_path / "own-curves.png"]
    for picture in pictures:
        picture.touch()
    plan = plan_of(FILE, "--out", str(tmp_path))
    _print_table(plan, "own.yaml")  # as by --table, which writes nothing
    assert all(map(Path.exists, pictures))
    _print_table(plan, "own.yaml", keep=True)
    assert (tmp_path / "own.json").exists() and not any(map(Path.exists, pictures))


def test_batches_below_8_need_no_flag_and_stay_the_same_runs():
    """fairseq cuts larger batches to a multiple of 8."""
    flags = [Training("", batch_size=size).batches[2:] for size in (4, 8, 9, 12, 16)]
    exact = ("--required-batch-size-multiple", "1")
    assert flags == [(), (), exact, exact, ()]


def test_the_rows_are_compared_with_the_files_baseline():
    assert plan_of(f"{FILE}baseline: ALiBi\n").recipe.baseline == "ALiBi"
    assert plan_of(FILE).recipe.baseline == ""


def test_scores_by_length_are_metrics():
    text = f"{FILE}scoring: bleu --by-length 9,20\nmetrics: [bleu 0 to 9, bleu 10 to 20]\n"
    assert plan_of(text).recipe.settings.metrics == ("bleu 0 to 9", "bleu 10 to 20")
    with pytest.raises(UsageError, match="own.yaml:8: there is no metric 'bleu 10 to 20'"):
        plan_of(text.replace("9,20", "9"))


@pytest.mark.parametrize(
    ("target", "line", "scoring"),
    [
        ("en", "", "bleu --forms sacrebleu --language en"),
        ("en", "bleu --language de", "bleu --language de"),
        ("en", "bleu --detokenize en", "bleu --detokenize en"),  # which sets the language
        ("tgt", "", "bleu --forms sacrebleu"),  # a name that is hardly a language's
    ],
)
def test_bleu_is_of_the_language_of_the_data(target, line, scoring, monkeypatch):
    monkeypatch.setitem(PAIRS, "languages", ("fr", target))
    described(Path("fr-en"), **PAIRS, subwords="sentencepiece")
    text = f"{FILE}scoring: {line}\n" if line else FILE
    assert plan_of(text).recipe.settings.scoring == scoring


def test_the_metrics_are_those_of_the_scoring():
    settings = plan_of(f"{FILE}scoring: rouge --no-stemming\n").recipe.settings
    assert settings.metrics == ("rouge1", "rouge2", "rougeL", "average")
    assert settings.scoring == "rouge --no-stemming --words auto"  # which reads every script
    exact = plan_of(f"{FILE}scoring: rouge --words rouge155\nmetrics: [rougeL]\n").recipe.settings
    assert (exact.scoring, exact.metrics) == ("rouge --words rouge155", ("rougeL",))
    with pytest.raises(UsageError, match="there is no metric 'bleu'; known: rouge1, rouge2, "):
        plan_of(f"{FILE}scoring: rouge\nmetrics: [bleu]\n")


@pytest.mark.parametrize("option", ["--data", "--prepare", "--source"])
def test_options_that_prepare_data_are_those_of_packaged_tables(option):
    with pytest.raises(UsageError, match=f"unrecognized arguments {option}"):
        plan_of(FILE, option, "x")


def test_data_without_binarized_files_is_prepared_again():
    with pytest.raises(UsageError, match=r"fr-en has no dict.fr.txt; prepare the data again"):
        plan_of(FILE).require_data(print)
    with pytest.raises(UsageError, match=r"reviews/input0 has no test.idx; prepare the data again"):
        plan_of(CLASSIFIERS).require_data(print)
