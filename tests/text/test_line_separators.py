"""Line separators of any program within a text never split a line."""

from argparse import Namespace

import pytest
from archive_files import write_folder

from fairseq_posattn.preparation.archives import open_archive
from fairseq_posattn.preparation.corpora import CLASSIFICATION, multi30k
from fairseq_posattn.preparation.labelled_text import write_splits
from fairseq_posattn.text.lines import one_line

SEPARATORS = ["\r", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]


def test_they_are_all_that_python_knows():
    known = [chr(code) for code in range(0x110000) if len(f"a{chr(code)}b".splitlines()) > 1]
    assert set(known) == {"\n", *SEPARATORS}
    assert one_line("".join(SEPARATORS)) == " " * len(SEPARATORS)


def read(path):
    """Return the lines as the most splitting of programs sees them."""
    return path.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("separator", SEPARATORS)
def test_pairs_stay_together(tmp_path, separator):
    """One in the German of the first pair, one in the English of the third."""
    german = f"ein{separator}mann\nzwei\ndrei\n"
    english = f"a man\ntwo\nth{separator}ree\n"
    sides = {"de": german, "en": english}
    files = {f"{s}.{side}": sides[side] for s in ("train", "valid", "test") for side in sides}
    source = write_folder(tmp_path / "source", {k: v.encode() for k, v in files.items()})
    folder = tmp_path / "text"
    folder.mkdir()
    options = Namespace(source=source, dest=tmp_path, jobs=1, limit=None)
    multi30k.write_text(multi30k.find_files(options), folder, options)
    for split in ("train", "valid", "test"):
        assert read(folder / f"{split}.de") == ["ein mann", "zwei", "drei"]
        assert read(folder / f"{split}.en") == ["a man", "two", "th ree"]


@pytest.mark.parametrize("separator", SEPARATORS)
@pytest.mark.parametrize("name", ["ag_news", "snli"])
def test_examples_stay_together(tmp_path, separator, name):
    corpus = CLASSIFICATION[name]
    text = f"one{separator}two"
    train = {
        "ag_news": {f"{split}.txt": f"1\t{text}\n2\tb c\n" for split in ("train", "test")},
        "snli": {
            f"{kind}.{split}": content
            for split in ("train", "dev", "test")
            for kind, content in {
                "labels": "neutral\nentailment\n",
                "s1": f"{text}\nb c\n",
                "s2": f"a b\n{text}\n",
            }.items()
        },
    }[name]
    archive = open_archive(write_folder(tmp_path / "source", train))
    options = Namespace(jobs=1, limit=None, seed=1, valid_fraction=0.5, cased=False)
    options.fine = options.train_on_dev = options.released_form = False
    readers = corpus.splits(archive, options)
    readers = {
        split: readers.get(split, readers.get("all", next(iter(readers.values()))))
        for split in ("train", "valid", "test")
    }
    write_splits(readers, tmp_path / "text", corpus, options)
    for split in ("train", "valid", "test"):
        rows = {kind: read(tmp_path / f"text/{split}.{kind}") for kind in corpus.kinds}
        assert {len(lines) for lines in rows.values()} == {2}
        assert rows["input0"][1] == "b c"
        assert all(line for lines in rows.values() for line in lines)
