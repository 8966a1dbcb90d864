import json
import math

import pytest

from fairseq_posattn.inference.commands.rank import main
from fairseq_posattn.scoring import ranking
from fairseq_posattn.scoring.commands.score import score
from fairseq_posattn.scoring.ranking import Impression, auc, mrr, ndcg


def test_the_last_of_equal_scores_ranks_first():
    assert ranking.ranking([0.5, 0.9, 0.5, 0.1]) == [1, 2, 0, 3]


def test_auc_is_the_share_of_ordered_pairs():
    labels, scores = [1, 0, 0, 1, 0], [0.3, 0.1, 0.3, 0.2, 0.9]
    assert auc(labels, scores) == pytest.approx((1 + 0.5 + 0 + 1 + 0 + 0) / 6)


def test_mrr_is_over_all_clicks_and_ndcg_is_discounted_gain_over_the_best():
    assert mrr([1, 1, 0], [3.0, 2.0, 1.0]) == 0.75
    assert mrr([0, 0, 1], [3.0, 2.0, 1.0]) == pytest.approx(1 / 3)
    labels, scores = [0, 1, 0, 1], [4.0, 3.0, 2.0, 1.0]
    best = 1 + 1 / math.log2(3)
    assert ndcg(labels, scores, 4) == pytest.approx((1 / math.log2(3) + 1 / math.log2(5)) / best)
    assert ndcg(labels, scores, 2) == pytest.approx(1 / math.log2(3) / best)
    assert ndcg(labels, scores, 1) == 0.0


def test_written_scores_are_read_back_and_lists_of_one_label_have_none():
    assert ranking.score(Impression("1", [0, 0], [1.0, 2.0])) is None
    assert ranking.score(Impression("1", [1], [1.0])) is None
    assert ranking.mean_scores([])["auc"] == 0.0
    impression = Impression("12", [0, 1, 0], [0.1, 0.9, -1e-30])
    lines = [ranking.scores_line(impression), "\n", "8\t[0, 1]\t[1, 2]\n"]
    assert list(ranking.read_scores(lines, "x")) == [impression, Impression("8", [0, 1], [1, 2])]
    assert ranking.submission_line(impression) == "12 [2,1,3]\n"


def test_means_and_skipped_impressions_are_reported(write, capsys):
    scores = write("scores.tsv", "1\t[1, 0]\t[2, 1]\n2\t[0, 1]\t[2, 1]\n3\t[0]\t[1]\n")
    assert score("ranking", ["--scores", scores, "--json"]) == 0
    output = capsys.readouterr()
    result = json.loads(output.out)
    assert (result["auc"], result["mrr"], result["scored"], result["skipped"]) == (0.5, 0.75, 2, 1)
    assert "skipped 1 impressions without both labels" in output.err


@pytest.fixture
def data(tmp_path):
    columns = {"train.candidates": "N1 N2\nN2 N3 N1\n", "train.labels": "1 0\n1 0 1\n"}
    columns |= {"test.candidates": "N4 N2 N1\nN3 N1\n", "test.labels": "1 0 0\n0 1\n"}
    (tmp_path / "text").mkdir()
    for name, text in {**columns, "test.impressions": "7\n9\n"}.items():
        (tmp_path / "text" / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize("flag", ["--scores", "--output"])
def test_news_are_ranked_by_their_clicks_in_training(data, flag):
    ranked = [Impression("7", [1, 0, 0], [0, 1, 2]), Impression("9", [0, 1], [0, 2])]
    assert list(ranking.rank_by_popularity(data, "test")) == ranked
    scores, submission = data / "scores.tsv", data / "prediction.txt"
    arguments = ["popularity", "--data", str(data), flag, str(scores)]
    assert main([*arguments, "--submission", str(submission)]) == 0
    assert scores.read_text() == "7\t[1, 0, 0]\t[0, 1, 2]\n9\t[0, 1]\t[0, 2]\n"
    assert submission.read_text() == "7 [3,2,1]\n9 [2,1]\n"


def test_a_missing_split_is_one_line_and_leaves_nothing(data, capsys):
    arguments = ["popularity", "--data", str(data), "--split", "tst"]
    assert main([*arguments, "--scores", str(data / "scores.tsv")]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "tst.impressions: no such file" in error
    assert [path.name for path in data.iterdir()] == ["text"]


def test_impossible_outputs_are_refused(tmp_path, capsys):
    scores, link = tmp_path / "scores", tmp_path / "link"
    link.symlink_to(scores)
    for options, words in (
        ([], "give --scores FILE"),
        (["--scores", str(scores), "--submission", str(link)], f"are both {scores}: name two"),
    ):
        with pytest.raises(SystemExit):
            main(["popularity", "--data", "x", *options])
        assert words in capsys.readouterr().err
