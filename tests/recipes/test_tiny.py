"""Generated corpora: spelled-out numbers and their splits."""

import pytest

from fairseq_posattn.recipes import tiny

SPELLED = """\
0 | null | zero
1 | eins | one
12 | zwölf | twelve
13 | drei@@ zehn | thir@@ teen
21 | ein@@ und@@ zwan@@ zig | twen@@ ty-@@ one
30 | drei@@ ßig | thir@@ ty
44 | vier@@ und@@ vier@@ zig | for@@ ty-@@ four
66 | sechs@@ und@@ sech@@ zig | six@@ ty-@@ six
101 | ein@@ hundert@@ eins | one hundred one
21045 | ein@@ und@@ zwan@@ zig@@ tausend@@ fünf@@ und@@ vier@@ zig | twen@@ ty-@@ one thousand \
for@@ ty-@@ five
716031 | sieben@@ hundert@@ sech@@ zehn@@ tausend@@ ein@@ und@@ drei@@ ßig | seven hundred six@@ \
teen thousand thir@@ ty-@@ one
"""


@pytest.mark.parametrize("line", SPELLED.splitlines())
def test_numbers_are_spelled_in_subwords(line):
    number, *texts = line.split(" | ")
    assert [tiny.german(int(number)), tiny.english(int(number))] == texts


@pytest.mark.parametrize("spell", [tiny.german, tiny.english])
def test_spelling_is_unique_below_a_million(spell):
    """Without subwords, so that no pair of the test set is in the training set in disguise."""
    numbers = [*range(3000), *range(3000, 1_000_000, 97)]
    assert len({spell(number).replace("@@ ", "") for number in numbers}) == len(numbers)


def test_splits_are_disjoint_and_training_has_all_subwords():
    sizes = {"train": 1000, "valid": 500, "test": 400}
    splits = tiny.draw_splits(**sizes, seed=1)
    assert {split: len(numbers) for split, numbers in splits.items()} == sizes
    drawn = {number for numbers in splits.values() for number in numbers}
    assert len(drawn) == sum(sizes.values()) and min(drawn) >= 0 and max(drawn) <= 999_999
    for spell in (tiny.german, tiny.english):
        subwords = {
            split: {subword for number in numbers for subword in spell(number).split()}
            for split, numbers in splits.items()
        }
        assert subwords["valid"] | subwords["test"] <= subwords["train"]
    assert tiny.draw_splits(**sizes, seed=1) == splits != tiny.draw_splits(**sizes, seed=2)


def test_the_command_writes_parallel_files(tmp_path):
    folder = tmp_path / "a new folder"
    sizes = {"train": 120, "valid": 5, "test": 5, "seed": 3}
    tiny.main(["text", str(folder), *(f"--{name}={size}" for name, size in sizes.items())])
    for split, numbers in tiny.draw_splits(**sizes).items():
        for language, spell in (("de", tiny.german), ("en", tiny.english)):
            lines = (folder / f"{split}.{language}").read_text(encoding="utf-8").splitlines()
            assert lines == [spell(number).replace("@@ ", "") for number in numbers]
    assert len(list(folder.iterdir())) == 6


@pytest.mark.parametrize(
    "name, options, words",
    [
        ("new", "--train=99", "99 pairs to train"),
        ("new", "--valid=0", "0 to validate"),
        ("new", "--test=-1", "-1 to test"),
        ("file", "", "file"),
    ],
)
def test_mistakes_of_the_command_are_one_line(tmp_path, name, options, words):
    (tmp_path / "file").write_text("kept")
    with pytest.raises(SystemExit, match=words):
        tiny.main(["text", str(tmp_path / name), *options.split()])
    assert (tmp_path / "file").read_text() == "kept" and len(list(tmp_path.iterdir())) == 1
