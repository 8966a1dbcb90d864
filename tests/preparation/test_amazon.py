"""Reviews on Amazon: pseudo-XML, JSON lines, ratings."""

import json

import pytest
from archive_files import write_archive, write_folder

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.archives import open_archive
from fairseq_posattn.preparation.corpora import amazon


def review(rating, text):
    return (
        f"<review>\n<unique_id>\nB0:x\n</unique_id>\n<rating>\n{rating}\n</rating>\n"
        f"<title>\nA title\n</title>\n<review_text>\n{text}\n</review_text>\n</review>\n"
    )


def read(path, **options):
    examples = amazon.splits(open_archive(path), **options)["all"]()
    return [(example.label, *example.inputs, example.score) for example in examples]


def test_pseudo_xml_of_the_right_products_in_the_archive(tmp_path):
    archive = write_archive(
        tmp_path / "domain_sentiment_data.tar.gz",
        {
            "sorted_data_acl/books/positive.review": review("5.0", "A book"),
            "sorted_data_acl/electronics/positive.review": review(
                "4.0", "Good &amp; <cheap>\n\nYes"
            ),
            "sorted_data_acl/electronics/negative.review": review("1.0", "Bad"),
            "sorted_data_acl/electronics/unlabeled.review": review("3.0", "None"),
        },
    )
    assert read(archive) == [("1", "Bad", 1.0), ("4", "Good & <cheap>\n\nYes", 4.0)]


def test_files_of_one_folder_and_two_classes(tmp_path):
    files = {
        "electronics.negative.review": review("2.0", "Bad") + review("1.0", "Worse"),
        "electronics.positive.review": review("5.0", "Good"),
    }
    assert read(write_folder(tmp_path, files), binary=True) == [
        ("negative", "Bad", 2.0),
        ("negative", "Worse", 1.0),
        ("positive", "Good", 5.0),
    ]


def test_a_seeded_draw_from_json_lines(tmp_path, monkeypatch):
    monkeypatch.setattr(amazon, "DRAWN", 5)
    lines = [json.dumps({"overall": 1.0 + i % 5, "reviewText": f"review {i}"}) for i in range(40)]
    path = tmp_path / "reviews_Electronics_5.json.gz"
    write_archive(path, {"reviews_Electronics_5.json": "\n".join(lines)})
    drawn = read(path, seed=3)
    assert len(drawn) == 5
    assert drawn == read(path, seed=3) != read(path, seed=4)
    numbers = [int(text.split()[1]) for _, text, _ in drawn]
    assert numbers == sorted(set(numbers))
    assert [score for *_, score in drawn] == [1.0 + number % 5 for number in numbers]
    assert {label for label, *_ in read(path, seed=3, binary=True)} <= {"negative", "positive"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (review("4.5", "x"), "1: the rating '4.5' is none of 1, 2, 3, 4, 5"),
        ("<review>\n<rating>\n4.0\n</rating>\n</review>\n", "1: a review without <review_text>"),
        (review("4.0", "x")[:-10], "1: the review that begins here does not end"),
        ("<review>\n" + review("4.0", "x"), "2: a review inside that of line 1"),
    ],
)
def test_a_malformed_review_is_named_with_its_line(tmp_path, text, told):
    write_folder(tmp_path, {"electronics/positive.review": text})
    with pytest.raises(UsageError) as error:
        read(tmp_path)
    assert str(error.value) == f"{tmp_path}/electronics/positive.review:{told}"


def test_an_archive_without_reviews_is_told(tmp_path):
    write_folder(tmp_path, {"books/positive.review": review("5.0", "A book")})
    with pytest.raises(UsageError, match="holds neither electronics/positive.review"):
        read(tmp_path)
