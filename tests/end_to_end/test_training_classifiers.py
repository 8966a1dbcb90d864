"""Classifiers in fairseq's commands, with its task and criterion."""

import random
import re

import forked_commands
import pytest

TASK = ["--task", "sentence_prediction", "--criterion", "sentence_prediction"]


@pytest.fixture(scope="module")
def reviews(tmp_path_factory):
    """Return documents of two sentences, classed by whether "a" comes before "b".

    The scores for regression are the number of letters.
    """
    folder = tmp_path_factory.mktemp("reviews")
    generator = random.Random(1)
    binarised = folder / "binarised"
    for split, size in (("train", 96), ("valid", 24)):
        inputs, labels, lengths = [], [], []
        for _ in range(size):
            letters = [*"ab", *generator.choices("cdefgh", k=generator.randint(0, 3))]
            generator.shuffle(letters)
            inputs.append(f"{' '.join(letters)} <sep> {generator.choice('cdefgh')}")
            labels.append("forth" if letters.index("a") < letters.index("b") else "back")
            lengths.append(str(len(letters)))
        for name, lines in (("input0", inputs), ("label", labels), ("score", lengths)):
            (folder / f"{split}.{name}").write_text("\n".join(lines) + "\n")
    for name in ("input0", "label"):
        texts = [f"--{split}pref={folder / split}.{name}" for split in ("train", "valid")]
        arguments = ["--only-source", *texts, "--destdir", binarised / name]
        assert forked_commands.run("preprocess", arguments, folder / "log") == 0
    for split in ("train", "valid"):
        (binarised / "label" / f"{split}.label").write_bytes(
            (folder / f"{split}.score").read_bytes()
        )
    return binarised


@pytest.fixture
def forked(tmp_path):
    """Run one of fairseq's commands in a forked process; return its exit code and its output."""

    def forked(command, *arguments):
        log = tmp_path / "log"
        log.write_text("")
        return forked_commands.run(command, arguments, log), log.read_text()

    return forked


@pytest.fixture
def train(forked, reviews, user_dir, tmp_path):
    """Train; return the exit code, the output and the folder of checkpoints."""

    def train(*flags, data=reviews):
        save_dir = tmp_path / "checkpoints"
        settings = ["--cpu", "--seed=1", "--num-workers=0", "--no-progress-bar", "--batch-size=32"]
        optimizer = ["--optimizer=adam", "--lr=0.01"]
        widths = ["--encoder-embed-dim=16", "--encoder-attention-heads=2", "--head-dim=16"]
        flags = [*TASK, *settings, *optimizer, *widths, *flags]
        code, log = forked("train", data, "--user-dir", user_dir, "--save-dir", save_dir, *flags)
        return code, log, save_dir

    return train


def losses(log):
    return [float(loss) for loss in re.findall(r"valid on 'valid' subset \| loss ([\d.]+)", log)]


def test_mpsan_learns_and_its_checkpoint_is_read_again(train, forked, reviews, user_dir, tmp_path):
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("1 16\na " + "0.25 " * 15 + "0.25\n")
    flags = [f"--encoder-embed-path={vectors}", "--max-epoch=4", "--no-epoch-checkpoints"]
    code, log, save_dir = train("--arch=mpsan_classifier", "--num-classes=2", *flags)
    assert code == 0, log
    assert losses(log)[-1] < losses(log)[0]
    path = save_dir / "checkpoint_best.pt"
    names = ["--user-dir", user_dir, "--path", path, "--batch-size", "5", "--cpu"]
    code, log_again = forked("validate", reviews, *TASK, "--num-classes=2", *names)
    assert code == 0, log_again
    (loss,) = re.findall(r"valid \| .*?\| loss ([\d.]+)", log_again)
    assert float(loss) == min(losses(log))


def test_validation_writes_the_predictions(train, forked, reviews, user_dir, tmp_path):
    """Unpatched, fairseq accepts --results-path and writes nothing."""
    ours = ["--criterion", "sentence_classification"]
    code, log, save_dir = train("--arch=cnn_classifier", "--num-classes=2", "--max-epoch=2", *ours)
    assert code == 0, log
    results = tmp_path / "new" / "results"
    names = ["--user-dir", user_dir, "--path", save_dir / "checkpoint_last.pt", "--batch-size", "5"]
    flags = [*TASK, *ours, "--num-classes=2", "--cpu", "--log-format=json"]
    code, log = forked("validate", reviews, *flags, *names, "--results-path", results)
    assert code == 0, log
    lines = (results / "predictions-valid.txt").read_text().splitlines()
    predicted, right = zip(*(line.split("\t") for line in lines), strict=True)
    assert list(right) == (reviews.parent / "valid.label").read_text().splitlines()
    share = sum(one == other for one, other in zip(predicted, right, strict=True)) / len(right)
    (accuracy,) = re.findall(r'"valid_accuracy": "([\d.]+)"', log)
    assert float(accuracy) == pytest.approx(100 * share, abs=0.005)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--encoder-embed-path nowhere.txt", "nowhere.txt: cannot be read: No such file"),
        ("--encoder-hidden-dim 7", "--encoder-hidden-dim 7: --encoder mpsan has as many"),
        ("--max-positions 4", "--max-positions"),
        ("--num-classes 1", "classes"),
        (
            "--hierarchical --sentence-separator |",
            "the dictionary lacks the sentence separator '|'",
        ),
    ],
)
def test_wrong_flags_are_one_line(train, flags, message):
    code, log, _ = train("--arch=mpsan_classifier", "--num-classes=2", "--no-save", *flags.split())
    assert code == 1
    last = log.strip().splitlines()[-1]
    assert last.startswith("fairseq_posattn: error: ")
    assert message in last
    assert "Traceback" not in log
