"""The quickstart's corpus: how numbers are spelled, and how they are divided into splits."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import fairseq_posattn
from fairseq_posattn.recipes import tiny

ROOT = Path(fairseq_posattn.__file__).parents[1]


@pytest.mark.parametrize(
    ("number", "german", "english"),
    [
        (0, "null", "zero"),
        (1, "eins", "one"),
        (6, "sechs", "six"),
        (10, "zehn", "ten"),
        (12, "zwölf", "twelve"),
        (13, "drei@@ zehn", "thir@@ teen"),
        (14, "vier@@ zehn", "four@@ teen"),
        (15, "fünf@@ zehn", "fif@@ teen"),
        (16, "sech@@ zehn", "six@@ teen"),
        (17, "sieb@@ zehn", "seven@@ teen"),
        (18, "acht@@ zehn", "eigh@@ teen"),
        (20, "zwan@@ zig", "twen@@ ty"),
        (21, "ein@@ und@@ zwan@@ zig", "twen@@ ty-@@ one"),
        (30, "drei@@ ßig", "thir@@ ty"),
        (44, "vier@@ und@@ vier@@ zig", "for@@ ty-@@ four"),
        (50, "fünf@@ zig", "fif@@ ty"),
        (66, "sechs@@ und@@ sech@@ zig", "six@@ ty-@@ six"),
        (77, "sieben@@ und@@ sieb@@ zig", "seven@@ ty-@@ seven"),
        (80, "acht@@ zig", "eigh@@ ty"),
        (99, "neun@@ und@@ neun@@ zig", "nine@@ ty-@@ nine"),
        (100, "ein@@ hundert", "one hundred"),
        (101, "ein@@ hundert@@ eins", "one hundred one"),
        (1000, "ein@@ tausend", "one thousand"),
        (1001, "ein@@ tausend@@ eins", "one thousand one"),
        (12011, "zwölf@@ tausend@@ elf", "twelve thousand eleven"),
        (
            21345,
            "ein@@ und@@ zwan@@ zig@@ tausend@@ drei@@ hundert@@ fünf@@ und@@ vier@@ zig",
            "twen@@ ty-@@ one thousand three hundred for@@ ty-@@ five",
        ),
        (101000, "ein@@ hundert@@ ein@@ tausend", "one hundred one thousand"),
        (
            716031,
            "sieben@@ hundert@@ sech@@ zehn@@ tausend@@ ein@@ und@@ drei@@ ßig",
            "seven hundred six@@ teen thousand thir@@ ty-@@ one",
        ),
        (
            999999,
            "neun@@ hundert@@ neun@@ und@@ neun@@ zig@@ tausend@@ "
            "neun@@ hundert@@ neun@@ und@@ neun@@ zig",
            "nine hundred nine@@ ty-@@ nine thousand nine hundred nine@@ ty-@@ nine",
        ),
    ],
)
def test_numbers_are_spelled_in_pieces(number, german, english):
    assert tiny.german(number) == german
    assert tiny.english(number) == english


@pytest.mark.parametrize("number", [-1, 1_000_000])
def test_a_number_out_of_range_is_refused(number):
    for spell in (tiny.german, tiny.english):
        with pytest.raises(ValueError, match=f"{number} cannot be spelled"):
            spell(number)


@pytest.mark.parametrize("language", ["german", "english"])
def test_no_two_numbers_are_spelled_alike(language):
    """Joined again, so that no pair of the test set is one of the training set in disguise."""
    spell = getattr(tiny, language)
    numbers = [*range(3000), *range(3000, 1_000_000, 97)]
    spelled = {spell(number).replace("@@ ", "") for number in numbers}
    assert len(spelled) == len(numbers)


def test_splits_do_not_overlap_and_have_their_sizes():
    splits = tiny.draw_splits(train=2000, valid=300, test=200, seed=1)
    assert {split: len(numbers) for split, numbers in splits.items()} == {
        "train": 2000,
        "valid": 300,
        "test": 200,
    }
    drawn = [number for numbers in splits.values() for number in numbers]
    assert len(set(drawn)) == len(drawn)
    assert all(0 <= number <= 999_999 for number in drawn)


def test_the_training_split_knows_every_piece():
    splits = tiny.draw_splits(train=1000, valid=500, test=500, seed=1)
    for spell in (tiny.german, tiny.english):
        pieces = {
            split: {piece for number in numbers for piece in spell(number).split()}
            for split, numbers in splits.items()
        }
        assert pieces["valid"] | pieces["test"] <= pieces["train"]


def test_the_seed_decides_the_draw():
    def draw(seed):
        return tiny.draw_splits(train=500, valid=50, test=50, seed=seed)

    assert draw(1) == draw(1)
    assert draw(1)["test"] != draw(2)["test"]


@pytest.mark.parametrize(
    ("sizes", "complaint"),
    [
        ((99, 1, 1), "99 pairs to train"),
        ((100, 0, 1), "0 to validate"),
        ((100, 1, -1), "-1 to test"),
        ((100_000, 1, 1), "100002 pairs are too many: at most 100000"),
    ],
)
def test_sizes_that_cannot_be_drawn_are_refused(sizes, complaint):
    with pytest.raises(ValueError, match=complaint):
        tiny.draw_splits(*sizes, seed=1)


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", tiny.__name__, "text", *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        encoding="utf-8",
    )


def test_the_command_writes_parallel_files(tmp_path):
    folder = tmp_path / "a new folder"
    finished = run(folder, "--train", "120", "--valid", "5", "--test", "5", "--seed", "3")
    assert finished.returncode == 0, finished.stderr
    splits = tiny.draw_splits(train=120, valid=5, test=5, seed=3)
    for split, numbers in splits.items():
        german = (folder / f"{split}.de").read_text(encoding="utf-8").splitlines()
        english = (folder / f"{split}.en").read_text(encoding="utf-8").splitlines()
        assert german == [tiny.german(number) for number in numbers]
        assert english == [tiny.english(number) for number in numbers]
    assert len(list(folder.iterdir())) == 6


def test_the_command_reports_errors_in_one_line(tmp_path):
    in_the_way = tmp_path / "file"
    in_the_way.write_text("kept")
    for arguments, complaint in (
        ([tmp_path / "new", "--train", "3"], "3 pairs to train"),
        ([in_the_way], str(in_the_way)),
    ):
        finished = run(*arguments)
        assert finished.returncode == 1
        assert finished.stderr.count("\n") == 1
        assert complaint in finished.stderr
    assert in_the_way.read_text() == "kept"
    assert not (tmp_path / "new").exists()
