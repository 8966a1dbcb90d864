"""MIND in its published layout: news.tsv and behaviors.tsv, zipped or unpacked."""

import pytest
from archive_files import write_archive, write_folder

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.archives import open_archive
from fairseq_posattn.preparation.corpora import mind
from fairseq_posattn.preparation.kinds import prepare

NEWS = """\
N1\tsports\tfootball\tThe Bears don't win\tAn abstract\thttps://x\t[]\t[]
N2\tnews\tworld\t\t\thttps://y\t[]\t[]
N3\tnews\tworld\tRain, again\t\thttps://z\t[]\t[]
"""
TRAIN = """\
1\tU1\t11/13/2019 6:42:51 PM\tN1 N2\tN3-1 N1-0
2\tU2\t11/14/2019 12:00:00 AM\t\tN1-0 N2-1 N3-0
3\tU1\t11/9/2019 1:02:03 AM\tN1\tN2-0 N3-1
"""
DEV = "4\tU3\t11/15/2019 8:00:00 AM\tN9 N3\tN1-0 N3-1\n"
SUBMISSION = "7\tU3\t11/16/2019 8:00:00 AM\tN3\tN1 N2\n"


def release(folder, train=TRAIN, dev=DEV, submission=None, zipped=False):
    folder.mkdir(exist_ok=True)
    for part, rows in {"train": train, "dev": dev, "test": submission}.items():
        files = {"news.tsv": NEWS, "behaviors.tsv": rows}
        if rows is not None and zipped:
            write_archive(folder / f"MINDsmall_{part}.zip", files)
        elif rows is not None:
            write_folder(folder / f"MINDsmall_{part}", files)
    return folder


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1\tU1\t13/13/2019 6:42:51 PM\tN1\tN3-1\n", "'13/13/2019 6:42:51 PM' is no time"),
        ("1\tU1\t11/13/2019 6:42:51 PM\tN1\n", "4 columns; there should be 5"),
        ("1\tU1\t11/13/2019 6:42:51 PM\tN1\tN3-2\n", "candidates are such as N1-0 N2-1"),
        ("1\tU1\t11/13/2019 6:42:51 PM\tN1\t\n", "candidates are such as"),
    ],
)
def test_malformed_input_is_reported_with_file_and_line(tmp_path, line, message):
    archive = open_archive(release(tmp_path, train=TRAIN + line) / "MINDsmall_train")
    with pytest.raises(UsageError, match=f"behaviors.tsv:4: {message}"):
        list(mind.impressions(archive))


@pytest.mark.slow
@pytest.mark.parametrize("zipped", [False, True])
def test_mind_is_prepared(tmp_path, capsys, zipped):
    """Check that the last day is for validation, and that unknown news are left out."""
    source = release(tmp_path / "source", submission=SUBMISSION, zipped=zipped)
    dest = tmp_path / "mind"
    options = ["mind", "--source", str(source), "--dest", str(dest)]
    assert prepare("recommendation", [*options, "--max-unknown", "0.1"]) == 1
    assert "N9 is not in news.tsv, as 1 of 4" in capsys.readouterr().err
    assert prepare("recommendation", [*options, "--max-unknown", "0.5"]) == 0
    text = {path.name: path.read_text() for path in (dest / "text").iterdir()}
    assert text["titles.words"] == "the bears do n't win\n\nrain , again\n"
    assert text["train.impressions"] == "1\n3\n"
    assert text["train.history"] == "N1 N2\nN1\n"
    assert text["valid.candidates"] == "N1 N2 N3\n"
    assert text["valid.labels"] == "0 1 0\n"
    assert text["test.history"] == "N3\n"
    assert text["submission.candidates"] == "N1 N2\n"
    assert (dest / "news.txt").read_text() == "N1 0\nN2 0\nN3 0\n"
    output = capsys.readouterr()
    assert "1 of 3 news have no words in their title" in output.err
    assert "left out 1 news that news.tsv lacks" in output.err
    for column in ("history", "candidates", "labels"):
        assert (dest / column / "submission.idx").is_file()
