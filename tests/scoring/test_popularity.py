import pytest

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.inference.commands.rank import main
from fairseq_posattn.scoring.popularity import rank_by_popularity
from fairseq_posattn.scoring.ranking import Impression


@pytest.fixture
def data(tmp_path):
    columns = {
        "train.candidates": "N1 N2\nN2 N3 N1\n",
        "train.labels": "1 0\n1 0 1\n",
        "test.candidates": "N4 N2 N1\nN3 N1\n",
        "test.labels": "1 0 0\n0 1\n",
        "test.impressions": "7\n9\n",
    }
    (tmp_path / "text").mkdir()
    for name, text in columns.items():
        (tmp_path / "text" / name).write_text(text)
    return tmp_path


def test_news_score_the_clicks_that_they_had_in_training(data):
    assert list(rank_by_popularity(data, "test")) == [
        Impression("7", [1, 0, 0], [0, 1, 2]),
        Impression("9", [0, 1], [0, 2]),
    ]


def test_both_files_are_written(data, tmp_path):
    scores, submission = tmp_path / "scores.tsv", tmp_path / "prediction.txt"
    arguments = ["popularity", "--data", str(data), "--scores", str(scores)]
    assert main([*arguments, "--submission", str(submission)]) == 0
    assert scores.read_text() == "7\t[1, 0, 0]\t[0, 1, 2]\n9\t[0, 1]\t[0, 2]\n"
    assert submission.read_text() == "7 [3,2,1]\n9 [2,1]\n"


def test_a_split_that_is_not_there_is_one_line_and_leaves_nothing(data, tmp_path, capsys):
    scores = tmp_path / "scores.tsv"
    arguments = ["popularity", "--data", str(data), "--split", "tst", "--scores", str(scores)]
    assert main(arguments) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "tst.impressions: no such file" in error
    assert sorted(path.name for path in tmp_path.iterdir()) == ["text"]


def test_nothing_to_write_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["popularity", "--data", "x"])
    assert "give --scores FILE" in capsys.readouterr().err


def test_one_file_for_both_is_refused(tmp_path, capsys):
    scores, link = tmp_path / "scores", tmp_path / "link"
    link.symlink_to(scores)
    with pytest.raises(SystemExit):
        main(["popularity", "--data", "x", "--scores", str(scores), "--submission", str(link)])
    assert f"are both {scores}: name two files" in capsys.readouterr().err


def test_columns_of_unequal_lines_are_refused(data):
    (data / "text/test.labels").write_text("1 0\n0 1\n")
    with pytest.raises(UsageError, match="test.candidates:1: 3 candidates, but 2 labels in "):
        list(rank_by_popularity(data, "test"))


@pytest.mark.parametrize("column", ["candidates", "labels", "impressions"])
def test_columns_of_other_lengths_are_refused(column, data):
    path = data / f"text/test.{column}"
    path.write_text(path.read_text().splitlines()[0] + "\n")
    with pytest.raises(UsageError, match=f"{path}"):
        list(rank_by_popularity(data, "test"))


@pytest.mark.parametrize("name", ["", "7 8"])
def test_a_line_that_is_no_name_is_refused(name, data):
    (data / "text/test.impressions").write_text(f"{name}\n9\n")
    with pytest.raises(UsageError, match="test.impressions:1: not the name of an impression"):
        list(rank_by_popularity(data, "test"))
