"""``posattn train``: its command, progress, errors and following commands."""

import argparse
import fcntl
import io
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from fairseq_posattn.cli import main
from fairseq_posattn.common.cli import value_of
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.inference import options
from fairseq_posattn.preparation.report import explain
from fairseq_posattn.scoring.bleu import known_language
from fairseq_posattn.training.commands import train
from fairseq_posattn.training.commands.train import TrainingProgress, batches, build_command
from fairseq_posattn.training.plugin import register
from fairseq_posattn.training.settings import KINDS, Prepared, Size

MANIFESTS = {
    "translation": {"languages": ["de", "en"], "subwords": "subword_nmt", "joined": True},
    "summarization": {"languages": ["source", "target"], "subwords": "sentencepiece"},
    "classification": {"criterion": "sentence_classification", "classes": 3, "longest_text": 20},
    "relatedness": {"criterion": "relatedness", "classes": 5},
    "ratings": {"criterion": "rating_regression", "classes": 1},
    "tagging": {"criterion": "sequence_tagging"},
    "recommendation": {"criterion": "news_recommendation"},
}
TASKS = {
    "translation": ("translation", "bleu"),
    "summarization": ("translation", "rouge1"),
    "classification": ("sentence_prediction", "accuracy"),
    "relatedness": ("sentence_pair_prediction", "pearson"),
    "ratings": ("sentence_prediction", "rmse"),
    "tagging": ("sequence_tagging", "f1"),
    "recommendation": ("news_recommendation", "auc"),
}


@pytest.fixture
def make(tmp_path):
    """``make("tagging")`` returns a folder as ``posattn prepare`` makes it, without the data."""

    def make(kind, **fields):
        folder = tmp_path / kind
        (folder / "text").mkdir(parents=True)
        task, metric = TASKS[kind]
        described = {"corpus": "own", "word_rule": "moses", "task": task, "metric": metric}
        described |= MANIFESTS[kind] | fields
        (folder / "preparation.json").write_text(json.dumps(described))
        return folder

    return make


def parsed(words):
    """Return the options of a fairseq-train command."""
    register()
    from fairseq import options

    assert words[0] == "fairseq-train"
    return options.parse_args_and_arch(options.get_training_parser(), words[1:])


CASES = [(kind, size) for kind in MANIFESTS for size in KINDS.get(kind, KINDS["classification"])]


@pytest.mark.parametrize(("kind", "size"), CASES)
def test_every_size_is_accepted_by_fairseq_and_keeps_two_checkpoints(make, kind, size, tmp_path):
    prepared = Prepared(make(kind))
    words = build_command(prepared, prepared.size(size), None, [], tmp_path / "saved")
    assert words.count("--lr") == words.count("--lr-scheduler") == 1
    args = parsed(words)
    assert args.no_epoch_checkpoints and args.patience > 0
    assert not args.save_interval_updates
    assert args.keep_best_checkpoints < 0
    metric = "loss" if kind == "summarization" else TASKS[kind][1]
    assert args.best_checkpoint_metric == metric
    assert args.maximize_best_checkpoint_metric == (metric not in ("loss", "rmse"))
    assert args.max_epoch or args.max_update
    assert args.cpu


def test_flags_depend_on_the_data(make, tmp_path):
    def flags(kind, **fields):
        folder = make(kind, **fields)
        (folder / "glove.txt").touch()
        prepared = Prepared(folder)
        return parsed(build_command(prepared, prepared.size("tiny"), None, [], tmp_path))

    pairs = flags("translation")
    assert pairs.share_all_embeddings and pairs.eval_bleu_remove_bpe == "subword_nmt"
    separate = flags("summarization", longest=255)
    assert separate.max_source_positions == 256 and separate.share_decoder_input_output_embed
    assert not hasattr(separate, "share_all_embeddings")
    classes = flags("classification", longest_text=600, features=50)
    assert (classes.num_classes, classes.max_positions) == (3, 512)
    assert (classes.arch, classes.encoder_embed_dim) == ("cspan_classifier", 50)
    assert flags("relatedness").criterion == "relatedness"
    assert flags("ratings").criterion == "rating_regression"


@pytest.mark.parametrize(
    ("gpus", "tokens", "expected"),
    [
        ([], 1024, (1024, 1)),
        ([], 32768, (4096, 8)),
        ([80], 32768, (32768, 1)),
        ([24], 32768, (10922, 3)),
        ([24, 24, 24, 24], 32768, (8192, 1)),
        ([24] * 8, 4096, (1024, 1)),
    ],
)
def test_an_update_has_the_same_size_on_each_device(gpus, tokens, expected):
    flags = batches(Size("dman_iwslt_de_en", tokens, ""), gpus)
    assert (int(value_of(flags, "--max-tokens")), int(value_of(flags, "--update-freq"))) == expected
    assert ("--cpu" in flags) == (not gpus)
    assert bool({"--bf16", "--fp16"} & {*flags}) == bool(gpus)


@pytest.mark.parametrize("kind", ["classification", "recommendation"])
def test_the_sentences_of_an_update_are_shared_by_the_gpus(make, kind, tmp_path):
    prepared = Prepared(make(kind))
    size = prepared.size("base")
    sentences = int(value_of(shlex.split(size.flags), "--batch-size"))
    for gpus in ([], [24], [24] * 2, [24] * 7):
        args = parsed(build_command(prepared, size, None, gpus, tmp_path))
        total = args.batch_size * max(1, len(gpus))
        assert sentences <= total < sentences + max(1, len(gpus))
        assert args.batch_size % args.required_batch_size_multiple == 0


@pytest.mark.parametrize(("workers", "sentences"), [([], 16), ([1], 64), ([4], 16), ([16], 4)])
def test_an_update_is_shared_by_the_workers_that_the_user_wants(
    make, monkeypatch, capsys, workers, sentences
):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    memory = SimpleNamespace(total_memory=24 << 30)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: memory)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **kwargs: True)
    extra = [word for number in workers for word in ("--distributed-world-size", str(number))]
    assert main(["train", str(make("classification")), "--dry-run", "--", *extra]) == 0
    command = shlex.split(capsys.readouterr().out.replace("\\\n", ""))
    assert value_of(command, "--batch-size") == str(sentences)


@pytest.mark.parametrize(("major", "expected"), [(7, "--fp16"), (8, "--bf16")])
def test_a_gpu_that_only_emulates_bfloat16_trains_in_float16(monkeypatch, major, expected):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    properties = SimpleNamespace(major=major)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    monkeypatch.setattr(torch.cuda, "_check_bf16_tensor_supported", lambda device: True)
    assert expected in batches(Size("dman_iwslt_de_en", 4096, ""), [16])


def test_a_batch_has_room_for_the_longest_text(make):
    prepared = Prepared(make("summarization", longest=3000))
    words = build_command(prepared, prepared.size("tiny"), None, [], Path("checkpoints"))
    most = [value_of(words, flag) for flag in ("--max-source-positions", "--max-tokens")]
    assert most == ["3001", "3001"]


def test_an_architecture_that_is_no_transformer_has_its_own_size(make):
    prepared, words = Prepared(make("translation")), {}
    for arch in ("lstm", "transformer_wmt_en_de"):
        words[arch] = build_command(prepared, prepared.size("tiny"), arch, [], Path("checkpoints"))
        parsed(words[arch])
    assert value_of(words["lstm"], "--encoder-embed-dim") == ""
    assert value_of(words["transformer_wmt_en_de"], "--encoder-embed-dim") == "128"


def test_dry_run_prints_the_command_with_the_users_flags_last(make, monkeypatch, capsys):
    monkeypatch.setattr("fairseq_posattn.training.commands.train.PLUGIN", Path("/my env/plugin"))
    words = [str(make("translation")), "--arch", "rpr_x", "--cpu", "--dry-run", "--", "--lr", "1"]
    assert main(["train", *words]) == 0
    printed = capsys.readouterr().out
    assert '--user-dir "$(posattn user-dir)" ' in printed
    command = shlex.split(printed.replace("\\\n", ""))
    assert command[-2:] == ["--lr", "1"]
    assert value_of(command, "--lr") == "1"
    assert value_of(command, "--arch") == "rpr_x"
    assert max(map(len, printed.splitlines()[1:])) <= 100


@pytest.mark.parametrize(
    ("extra", "absent"),
    [
        (["--best-checkpoint-metric", "loss"], {"--maximize-best-checkpoint-metric"}),
        (["--keep-last-epochs", "3"], {"--no-epoch-checkpoints"}),
        (["--keep-last-epochs=3"], {"--no-epoch-checkpoints"}),
        (["--optimizer", "sgd"], {"--adam-betas"}),
        (["--optimizer", "adamax"], {"--adam-betas"}),
        (["--criterion", "cross_entropy"], {"--label-smoothing"}),
        (["--lr-scheduler", "pass_through"], {"--warmup-updates"}),
        (["--lr-scheduler", "step"], set()),
        (["--criterion", "label_smoothed_cross_entropy_fused", "--optimizer", "adam"], set()),
        (["--keep-last-epochs", "-1", "--best-checkpoint-metric", "bleu"], set()),
    ],
)
def test_the_commands_flags_go_with_the_users_flags(make, tmp_path, extra, absent):
    prepared = Prepared(make("translation"))
    size = prepared.size("tiny")
    usual = build_command(prepared, size, None, [], tmp_path)
    words = build_command(prepared, size, None, [], tmp_path, extra)
    assert {word for word in usual if word.startswith("--")} - {*words} == absent
    parsed(words)


@pytest.mark.parametrize(
    ("kind", "updates", "interval"),
    [
        *(("translation", 8, 10), ("translation", 79, 2), ("translation", 80, None)),
        *(("classification", 3, 7), ("classification", 20, None), ("tagging", 4, 5)),
    ],
)
def test_small_corpora_are_validated_after_several_epochs(make, kind, updates, interval):
    """Patience of 5 validations, of 80 updates each, ends after the 400 updates of warm-up."""
    folder = make(kind, examples={"train": updates * 64})
    size = KINDS[kind]["tiny"]
    (folder / "train.a-b.b.bin").write_bytes(bytes(2 * size.tokens * updates))
    flags, whole = (shlex.split(variant.flags) for variant in (Prepared(folder).size("tiny"), size))
    epochs = int(value_of(whole, "--max-epoch"))
    expected = [str(interval)] * 2 + [str(interval * epochs)] if interval else ["", "", str(epochs)]
    names = ("--validate-interval", "--save-interval", "--max-epoch")
    assert [value_of(flags, name) for name in names] == expected
    assert len(flags) == len(whole) + (4 if interval else 0)
    sized, extra = Size(size.arch, size.tokens, shlex.join(flags)), ["--validate-interval", "1"]
    words = build_command(Prepared(folder), sized, None, [], folder, extra)
    assert value_of(words, "--save-interval") == "", "the best of all validations is saved"


def test_folders_in_turn_count_by_their_mean(make, tmp_path):
    """A domain of few updates beside much text is not trained on as if it were alone."""
    folder, size = make("translation"), KINDS["translation"]["tiny"]
    for side in ("de", "en"):
        (folder / f"dict.{side}.txt").write_text("a 1\n")
    other = shutil.copytree(folder, tmp_path / "other")
    for path, updates in ((folder, 8), (other, 152)):
        (path / "train.de-en.de.bin").write_bytes(bytes(2 * size.tokens * updates))
    assert Prepared(folder, other).size("tiny") == size != Prepared(folder).size("tiny")


@pytest.mark.parametrize(
    ("kind", "folder", "words", "message"),
    [
        ("tagging", "fold0", ["--size", "big"], "--size big: tagging has tiny, base; choose one"),
        ("tagging", "fold0", ["--", "--save-dir=x"], "--save-dir: give it before --"),
        ("tagging", "fold0", ["--save-dir", "a:b"], "--save-dir a:b: fairseq-train splits it at"),
        ("tagging", "fold0", ["--max-epoch", "3"], "--max-epoch: no option of this command; give"),
        ("classification", "..", [], "has no preparation.json; make it with"),
        ("classification", "", [], "name one of them, such as "),
    ],
)
def test_wrong_options_and_folders_are_named(make, kind, folder, words, message, tmp_path, capsys):
    (tmp_path / "folds").mkdir()
    make(kind).rename(tmp_path / "folds/fold0")
    with pytest.raises(SystemExit) if "--max-epoch" in words else nullcontext():
        assert main(["train", f"{tmp_path}/folds/{folder}", "--cpu", "--dry-run", *words]) == 1
    assert message in capsys.readouterr().err


def test_folds_of_two_corpora_have_two_folders_of_checkpoints(make, tmp_path, capsys):
    folds = [tmp_path / name / "fold0" for name in ("cr", "mpqa")]
    folds[0].parent.mkdir()
    make("classification").rename(folds[0])
    shutil.copytree(*folds)
    for fold in folds:
        assert main(["train", str(fold), "--cpu", "--dry-run"]) == 0
        assert f" --save-dir checkpoints/{fold.parent.name}/fold0 " in capsys.readouterr().out


def log_line(tag, **numbers):
    numbers = {name if tag == "train_inner" else f"{tag}_{name}": n for name, n in numbers.items()}
    return f"x | INFO | {tag} | {json.dumps(numbers)}\n"


def test_progress_shows_loss_metric_speed_and_time():
    progress = TrainingProgress(["--max-epoch", "4", "--max-epoch", "2"], "bleu")
    progress._remaining.clock = iter([0.0, 60.0, 60.0]).__next__
    inner = {"loss": 5.25, "wps": 1234}
    progress.read(log_line("train_inner", **inner, epoch=1, update=0.5, num_updates=1000))
    assert progress.text() == "epoch 1/2 | loss 5.25 | 1,234 tokens/s"
    progress.read(log_line("valid", epoch=1, loss=4, bleu=20, best_bleu=21.5, num_updates=1500))
    progress.read(log_line("train_inner", **inner, epoch=1, update=1.0, num_updates=2000))
    expected = "epoch 1/2 | 2 min left | loss 5.25 | BLEU 20.00 (best 21.50) | 1,234 tokens/s"
    assert progress.text() == expected and len(expected) < 80
    progress.read(log_line("valid", epoch=2, loss=3, bleu=22, best_bleu=22, num_updates=2500))
    assert progress.text().startswith("epoch 2/2 | ")  # an epoch shorter than the log's interval
    progress.read(log_line("train", epoch=2, loss=4.5, wps=99, num_updates=2500))
    assert progress.text() == "epoch 2/2 | loss 4.50 | BLEU 22.00 (best 22.00) | 99 tokens/s"


def test_the_reason_of_an_early_end_is_shown(capsys):
    progress = TrainingProgress([], "loss")
    begin, reason = "Loaded checkpoint a.pt (epoch 2 @ 3 updates)\n", "early stop since valid\n"
    progress.show(f"x | INFO | fairseq.trainer | {begin}")
    progress.show(f"x | INFO | fairseq_cli.train | {reason}")
    assert capsys.readouterr().out == begin + reason


@pytest.mark.parametrize("is_terminal", [False, True])
def test_warnings_are_shown_whole_and_once_above_the_line(is_terminal, capsys):
    progress = TrainingProgress([], "loss", hidden=("--of-the-size 2 changes nothing",))
    progress.is_terminal = is_terminal
    long = f"train: 1 of 2 examples | {'x' * 200}"
    for line in (
        *[f"2026-01-02 03:04:05 | WARNING | fairseq.tasks.fairseq_task | {long}\n"] * 2,
        log_line("valid", epoch=1, loss=4, num_updates=5),
        "/a/b.py:12: UserWarning: falls back\n",
        "/a/b.py:12: FutureWarning: f is deprecated\n",
        "x | WARNING | fairseq.trainer | Namespace configuration is deprecated!\n",
        "x | INFO | fairseq.trainer | WARNING: nothing\n",
        "x | WARNING | fairseq.tasks.fairseq_task | --of-the-size 2 changes nothing: it is for x\n",
    ):
        progress.show(line)
    printed = capsys.readouterr().out.replace("\r\033[K", "")
    end = "" if is_terminal else "\n"
    shown = f"epoch 1 | validation loss 4.00{end}"
    assert printed == f"warning: {long}\n{shown}warning: falls back\n"


FAIRSEQ = """
import signal, sys, time
print("fairseq_posattn: started", flush=True)
if {waits}:
    signal.signal(signal.SIGINT, lambda *_: sys.exit(130))
    for _ in range(600):  # a signal just before a read waits for the next line
        print("ready", flush=True)
        time.sleep(0.1)
print("fairseq_posattn: error: --lr: too high", file=sys.stderr)
sys.exit({status})
"""


def fake_command(waits=False, status=0):
    return [sys.executable, "-c", FAIRSEQ.format(waits=waits, status=status)]


def test_output_is_appended_to_the_log_and_errors_are_its_last_line(tmp_path, capsys):
    assert train.run(fake_command(), tmp_path, "loss") == 0
    with pytest.raises(UsageError, match=r"^--lr: too high \(log: .*train\.log\)$"):
        train.run(fake_command(status=1), tmp_path, "loss")
    assert (tmp_path / "train.log").read_text().count("fairseq_posattn: started\n") == 2
    assert capsys.readouterr().out.count("fairseq_posattn: started\n") == 2


@pytest.mark.parametrize("opened", [os.pipe, os.openpty])
def test_a_training_without_a_reader_goes_on(opened, tmp_path):
    """The reader may be a terminal after a hangup, which the training ignores."""
    command = [sys.executable, "-c", "for n in 'ab': print('fairseq_posattn:', n)"]
    words = ["-c", f"from {train.__name__} import run; from pathlib import Path; import sys\n"]
    words[-1] += f"sys.exit(run({command!r}, Path({str(tmp_path)!r}), 'loss'))"
    reader, writer = opened()
    os.close(reader)
    finished = subprocess.run(
        [sys.executable, *words], stdout=writer, stderr=subprocess.PIPE, text=True
    )
    os.close(writer)
    assert finished.returncode == 0 and not finished.stderr
    assert (tmp_path / "train.log").read_text().endswith("fairseq_posattn: a\nfairseq_posattn: b\n")


def test_the_log_of_a_training_that_runs_stays(tmp_path):
    """Another training in its folder is refused before its command is written to the log."""
    with open(tmp_path / "train.log", "w") as log:
        fcntl.flock(log, fcntl.LOCK_EX)
        with pytest.raises(UsageError, match="is in use by another posattn train; wait for its"):
            train.run(fake_command(), tmp_path, "loss")
    assert not (tmp_path / "train.log").read_text()
    assert train.run(fake_command(), tmp_path, "loss") == 0


def test_the_users_number_of_threads_holds(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    words = [sys.executable, "-c", "import os; print(os.environ['OMP_NUM_THREADS'])"]
    assert train.run(words, tmp_path, "loss") == 0
    assert (tmp_path / "train.log").read_text().split()[-1] == "7"


def test_a_full_disk_names_the_log(tmp_path):
    (tmp_path / "train.log").symlink_to("/dev/full")
    with pytest.raises(UsageError, match=r"train.log cannot be written: No space left on device;"):
        train.run(fake_command(), tmp_path, "loss")


def test_a_killed_training_names_the_signal(tmp_path):
    words = [sys.executable, "-c", "import os; print('a', flush=True); os.kill(os.getpid(), 9)"]
    message = r"ended by a signal: Killed, possibly out of memory \(log: .*\); rerun"
    with pytest.raises(UsageError, match=message):
        train.run(words, tmp_path, "loss")


def test_a_folder_whose_name_is_in_latin_1_is_explained(make, monkeypatch):
    folder = make("tagging")
    folder = folder.rename(folder.with_name(os.fsdecode("größe".encode("latin-1"))))
    monkeypatch.setattr("sys.stdout", io.StringIO())
    explain(["posattn", "train", str(folder)])
    assert f"    fairseq-train {shlex.quote(str(folder))} " in sys.stdout.getvalue()


def test_flags_of_the_last_run_that_are_not_repeated_are_named(tmp_path):
    def named(*extra):
        return list(train.forgotten(["fairseq-train", "d", "--lr", "1", *extra], extra, tmp_path))

    assert not named()
    last = ["d", "--lr", "1", "--cpu", "--lr", "0.5", "--seed=2", "--reset-optimizer"]
    last += ["--user-dir", "/older/fairseq_posattn"]
    log = f"$ fairseq-train d --lr 9\n$ fairseq-train {shlex.join(last)}\nepoch\n"
    (tmp_path / "train.log").write_text(log)
    assert not named()  # nothing to resume
    (tmp_path / "checkpoint_last.pt").touch()
    lr, cpu, seed = named()
    assert lr == "--lr was 0.5 in the last run and is 1; to keep it: -- --lr 0.5"
    assert cpu == "--cpu was given in the last run and is not given; to keep it: -- --cpu"
    assert seed.endswith("to keep it: -- --seed 2")
    assert not named("--cpu", "--lr=3", "--seed", "2")
    (tmp_path / "train.log").write_text(f"{log}$ fairseq-train d --adam-betas '(0.9,")
    assert not named()  # a full disk cut the line
    latin = "--save-dir=" + os.fsdecode("ö".encode("latin-1"))
    with open(tmp_path / "train.log", "ab", buffering=0) as file:
        train._append(file, f"\n$ fairseq-train d --lr 1 {latin}\n")
    assert not named(latin)


@pytest.mark.parametrize("folder, prepared, is_other", [("a", 1, 0), ("a", 3, 1), ("b", 1, 1)])
def test_other_data_than_those_of_the_last_run_are_named(folder, prepared, is_other, tmp_path):
    """Distilled data, and data prepared --like others, have their dictionaries."""
    command = ["fairseq-train", str(tmp_path / folder)]
    (tmp_path / "a").mkdir()
    (tmp_path / "train.log").write_text(f"$ fairseq-train {tmp_path / 'a'}\n")
    (tmp_path / folder / "label").mkdir(parents=True, exist_ok=True)
    files = {"checkpoint_last.pt": 2, f"{folder}/label/train.bin": prepared}
    for name, seconds in files.items():
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (seconds, seconds))
    warnings = [*train.forgotten(command, [], tmp_path)]
    assert len(warnings) == is_other
    problem = "newer than" if prepared > 2 else "not the data of"
    assert all(line.startswith(f"{command[1]} is {problem} the last run, ") for line in warnings)
    if folder == "b":  # the data was renamed
        (tmp_path / "a").rmdir()
        assert not [*train.forgotten(command, [], tmp_path)]


def test_a_run_resumes_from_another_working_folder(tmp_path):
    (tmp_path / "train.log").write_text("$ fairseq-train data --save-dir saved\n")
    (tmp_path / "checkpoint_last.pt").touch()
    command = ["fairseq-train", "../data", "--save-dir", "../saved"]
    assert not [*train.forgotten(command, [], tmp_path)]


def test_interruption_stops_fairseq_train(tmp_path):
    words = ["-c", f"from {train.__name__} import run; from pathlib import Path; import sys\n"]
    words[-1] += f"sys.exit(run({fake_command(waits=True)!r}, Path({str(tmp_path)!r}), 'loss'))"
    process = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True)
    log = tmp_path / "train.log"
    while not (log.exists() and "ready\n" in log.read_text()):
        assert process.poll() is None
    os.kill(process.pid, signal.SIGINT)
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "stopped; rerun the same command to resume" in printed


@pytest.mark.parametrize(
    ("kind", "flags", "references"),
    [
        ("relatedness", "--criterion sentence_classification", "label"),
        ("relatedness", "--criterion sentence_prediction --regression-target", "score"),
    ],
)
def test_predictions_are_scored_against_what_the_criterion_predicts(
    make, kind, flags, references, tmp_path
):
    lines = train.following(Prepared(make(kind)), tmp_path, flags.split())
    assert lines[1].endswith(f"text/test.{references}")


@pytest.mark.parametrize(
    ("kind", "languages"),
    [
        *((kind, None) for kind in MANIFESTS),
        *(("translation", ["fr", target]) for target in ("bbj", "zh_TW", "toy_language")),
    ],
)
def test_following_commands_are_accepted(make, kind, languages, tmp_path, monkeypatch):
    folder = make(kind, **({"languages": languages} if languages else {}))
    for side in languages or MANIFESTS[kind].get("languages", ["input0"]):
        (folder / f"test.{side}").touch()
        (folder / f"text/test.{side}").touch()
    (tmp_path / "saved").mkdir()
    lines = train.following(Prepared(folder), tmp_path / "saved", ["--user-dir", "my plugin"])
    assert ("test.score" in lines[1]) == (kind in ("ratings", "relatedness"))
    parse, accepted = argparse.ArgumentParser.parse_args, []

    def stop(self, *args, **kwargs):
        accepted.append(parse(self, *args, **kwargs))
        raise UsageError("parsed")

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", stop)
    monkeypatch.setattr(options, "import_user_dir", str)
    commands = [part for line in lines for part in line.split(" | ") if "posattn" in part]
    for command in commands:
        assert main(shlex.split(command)[1:]) == 1
        if languages and (name := getattr(accepted[-1], "language", None)):
            known_language(name)
    assert len(accepted) == len(commands) >= 2
    custom = [args.user_dir for args in accepted if getattr(args, "data", args) is None]
    assert {*custom} == {"my plugin"}


@pytest.mark.parametrize("subwords", ["wordpiece", "sentencepiece"])
def test_summaries_with_marks_at_words_are_scored_by_sentences(make, subwords, tmp_path):
    folder = make("summarization", subwords=subwords)
    (folder / "test.source").touch()
    score = train.following(Prepared(folder), tmp_path)[1]
    assert score.endswith(" --remove-bpe wordpiece") == (subwords == "wordpiece")
