import argparse

import pytest
import summaries
from archive_files import write_archive, write_folder
from packing import gzipped

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.corpora.gigaword import find_files, write_text

SPLITS = ("train", "valid", "test")


def files(train, valid, test):
    """Of each side of each split, the name and the text."""
    names = dict(zip(SPLITS, (train, valid, test), strict=True))
    return {
        name: text
        for (split, pair), count in zip(names.items(), (20, 4, 3), strict=True)
        for name, text in zip(pair, summaries.gigaword(count), strict=True)
    }


def org_data():
    return files(
        *(
            (f"org_data/{split}.src.txt", f"org_data/{split}.tgt.txt")
            for split in ("train", "dev", "test")
        )
    )


def sumdata():
    return files(
        ("sumdata/train/train.article.txt", "sumdata/train/train.title.txt"),
        ("sumdata/train/valid.article.filter.txt", "sumdata/train/valid.title.filter.txt"),
        ("sumdata/Giga/input.txt", "sumdata/Giga/task1_ref0.txt"),
    )


@pytest.fixture
def write(tmp_path):
    """Write the text of a source; returns ``{name: text}``."""

    def write(source, splits=SPLITS, limit=None):
        options = argparse.Namespace(
            source=source, dest=tmp_path / "dest", splits=splits, limit=limit
        )
        folder = tmp_path / "text"
        folder.mkdir(exist_ok=True)
        write_text(find_files(options), folder, options)
        return {path.name: path.read_text() for path in folder.iterdir()}

    return write


def test_both_layouts_give_the_same_packed_and_unpacked(write, tmp_path):
    expected = {}
    for split, count in zip(SPLITS, (20, 4, 3), strict=True):
        articles, titles = summaries.gigaword(count)
        expected[f"{split}.source"] = articles.replace("<unk>", "UNK")
        expected[f"{split}.target"] = titles
    other = {"sumdata/DUC2004/input.txt": "wrong\n", "sumdata/DUC2004/task1_ref0.txt": "wrong\n"}
    inner = {
        name + ".gz" if "train." in name else name: gzipped(text.encode())
        if "train." in name
        else text
        for name, text in sumdata().items()
    }
    sources = [
        write_archive(tmp_path / "ggw_data.zip", org_data()),
        write_folder(tmp_path / "unpacked", org_data()),
        write_folder(tmp_path / "unpacked", org_data()) / "org_data",
        write_archive(tmp_path / "summary.tar.gz", sumdata() | other),
        write_folder(tmp_path / "sumdata", sumdata() | other),
        write_folder(tmp_path / "zipped", inner | other),
        write_folder(
            tmp_path / "flat", {name.rpartition("/")[2]: text for name, text in sumdata().items()}
        ),
    ]
    for source in sources:
        assert write(source) == expected, source


def test_a_file_that_is_cut_off_is_named(write, tmp_path):
    source = write_folder(tmp_path, org_data())
    whole = gzipped((source / "org_data/train.src.txt").read_bytes())
    (source / "org_data/train.src.txt").unlink()
    (source / "org_data/train.src.txt.gz").write_bytes(whole[:-9])
    with pytest.raises(UsageError, match="train.src.txt.gz: damaged or cut off .*; fetch it again"):
        write(source)


def test_limit_takes_the_first_of_each_split(write, tmp_path):
    source = write_folder(tmp_path, org_data())
    assert write(source, limit=2)["train.target"] == "storm hits 0\nmatch hits 1\n"


def test_training_pairs_with_an_empty_side_are_left_out_and_others_kept(write, tmp_path, capsys):
    source = write_folder(
        tmp_path,
        org_data()
        | {
            "org_data/train.src.txt": "a\nb\n\n",
            "org_data/train.tgt.txt": "A\n  \nC\n",
            "org_data/test.src.txt": "a\nb\n",
            "org_data/test.tgt.txt": "A\n\n",
        },
    )
    text = write(source)
    assert (text["train.source"], text["train.target"]) == ("a\n", "A\n")
    assert text["test.target"] == "A\n\n"
    assert "train: 2 pairs with an empty side left out" in capsys.readouterr().err


def test_a_missing_test_set_is_an_error_that_names_the_way_out(write, tmp_path):
    source = write_folder(tmp_path, org_data())
    (source / "org_data/test.tgt.txt").unlink()
    with pytest.raises(UsageError, match="holds neither test.src.txt .* --splits train valid does"):
        write(source)
    assert set(write(source, splits=("train", "valid"))) == {
        f"{split}.{side}" for split in ("train", "valid") for side in ("source", "target")
    }


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("dev.tgt.txt", b"one\n", r"dev.src.txt has 4, .*dev.tgt.txt has 1"),
        ("train.src.txt", b"one\nb\xe4d\n", r"train.src.txt:2: not UTF-8"),
        ("test.src.txt", b"", r"test.src.txt: the file is empty"),
    ],
)
def test_malformed_files_are_named(write, tmp_path, name, content, message):
    source = write_folder(tmp_path, org_data())
    (source / "org_data" / name).write_bytes(content)
    with pytest.raises(UsageError, match=message) as error:
        write(source)
    assert "\n" not in str(error.value)
