import argparse

import pytest
import summaries
from archive_files import write_archive, write_folder
from serving import Server

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.corpora import cnn_dailymail
from fairseq_posattn.preparation.corpora.cnn_dailymail import find_files, write_text
from fairseq_posattn.preparation.download import Source

SPLITS = ("train", "valid", "test")


@pytest.fixture
def write(tmp_path):
    """Write the text of a source; returns ``{split: (articles, summaries)}``."""

    def write(source, **given):
        options = {"source": source, "dest": tmp_path / "dest", "limit": None}
        options |= {"split_by_name": False, **given}
        folder = tmp_path / "text"
        folder.mkdir(exist_ok=True)
        chosen = argparse.Namespace(**options)
        write_text(find_files(chosen), folder, chosen)
        return read(folder)

    return write


def read(folder):
    return {
        split: tuple(
            (folder / f"{split}.{side}").read_text().splitlines() for side in ("source", "target")
        )
        for split in SPLITS
    }


def packed(folder, **replaced):
    """A folder with the two archives of stories and the lists."""
    files = summaries.stories()
    for publisher in ("cnn", "dailymail"):
        write_archive(
            folder / f"{publisher}_stories.tgz",
            {name: text for name, text in files.items() if name.startswith(f"{publisher}/")},
        )
    return write_folder(folder, {**summaries.url_lists(), **replaced})


def test_lists_say_which_story_is_where_and_in_what_order(write, tmp_path):
    text = write(packed(tmp_path))
    for split, numbers in summaries.split_numbers().items():
        articles, targets = text[split]
        assert [int(article.split()[-2]) for article in articles] == numbers
        assert articles[0] == " ".join(
            [summaries.article(numbers[0])[0], f"{summaries.article(numbers[0])[2]} ."]
        )
        assert targets == [
            f"{summaries.highlights(number)[0]} . Nobody was hurt ." for number in numbers
        ]


def test_unpacked_stories_give_the_same(write, tmp_path):
    unpacked = write_folder(tmp_path / "unpacked", {**summaries.stories(), **summaries.url_lists()})
    folder = tmp_path / "packed"
    folder.mkdir()
    assert write(unpacked) == write(packed(folder))


def test_parquet_files_give_the_same_in_the_order_of_rows(write, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    folder = tmp_path / "parquet"
    folder.mkdir()
    for split, name in (("train", "train"), ("valid", "validation"), ("test", "test")):
        numbers = summaries.split_numbers()[split]
        parts = [numbers] if split != "train" else [numbers[:25], numbers[25:]]
        for part, rows in enumerate(parts):
            table = {
                "article": [
                    f"{summaries.article(row)[0]} {summaries.article(row)[2]} ." for row in rows
                ],
                "highlights": [
                    "\n".join(f"{line.removesuffix(' .')} ." for line in summaries.highlights(row))
                    for row in rows
                ],
                "id": [summaries.story_name(row) for row in rows],
            }
            parquet.write_table(
                pyarrow.table(table), folder / f"{name}-{part:05}-of-{len(parts):05}.parquet"
            )
    found = write(folder)
    stories = tmp_path / "stories"
    stories.mkdir()
    assert found == write(packed(stories))

    (folder / "test-00000-of-00001.parquet").write_bytes(b"no parquet")
    with pytest.raises(UsageError, match="test-00000-of-00001.parquet: not a whole parquet file"):
        write(folder)
    (folder / "test-00000-of-00001.parquet").unlink()
    with pytest.raises(UsageError, match="holds no test-00000-of-00001.parquet"):
        write(folder)
    wrong = pyarrow.table({"article": ["a"], "summary": ["b"]})
    parquet.write_table(wrong, folder / "test-00000-of-00001.parquet")
    with pytest.raises(UsageError, match="has no column 'highlights'"):
        write(folder)


def test_without_pyarrow_parquet_files_are_refused_in_one_line(write, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    for name in ("train", "validation", "test"):
        (tmp_path / f"{name}-0.parquet").write_bytes(b"")
    with pytest.raises(UsageError, match="train-0.parquet: .* pip install pyarrow$"):
        write(tmp_path)


def test_limit_takes_the_first_of_each_list(write, tmp_path):
    folder = packed(tmp_path)
    whole, some = write(folder), write(folder, limit=3)
    for split in SPLITS:
        assert some[split] == tuple(side[:3] for side in whole[split])


def test_stories_without_article_are_left_out(write, tmp_path, capsys):
    folder = write_folder(tmp_path / "source", {**summaries.stories(), **summaries.url_lists()})
    (first,) = folder.rglob(f"{summaries.story_name(0)}.story")
    first.write_text("\n@highlight\n\nNo article\n")
    whole = write(folder)
    assert len(whole["train"][0]) == summaries.COUNTS["train"] - 1
    assert "train: 1 stories without article or highlights left out" in capsys.readouterr().err


def test_missing_stories_are_warned_of(write, tmp_path, capsys):
    folder = packed(tmp_path)
    (folder / "cnn_stories.tgz").unlink()
    there = write(folder)
    assert len(there["test"][0]) == 3
    assert "warning: 2 of 5 stories for test are not there" in capsys.readouterr().err


def test_a_split_without_any_story_is_an_error_that_names_the_way_out(write, tmp_path):
    folder = packed(tmp_path, **{"all_val.txt": "http://news.example/unheard-of\n"})
    with pytest.raises(UsageError, match="holds no story for valid, of 1 .* --split-by-name"):
        write(folder)


def test_split_by_name_takes_each_story_once_and_always_alike(write, tmp_path):
    source = write_folder(tmp_path / "source", summaries.stories())
    text = write(source, split_by_name=True)
    articles = [article for split in SPLITS for article in text[split][0]]
    assert len(set(articles)) == len(articles) == sum(summaries.COUNTS.values())
    assert len(text["train"][0]) > len(articles) / 2
    assert text["valid"][0] and text["test"][0]
    assert write(source, split_by_name=True) == text


def test_an_empty_list_is_an_error_that_names_it(write, tmp_path):
    with pytest.raises(UsageError, match="all_val.txt: the file is empty"):
        write(packed(tmp_path, **{"all_val.txt": ""}))


def test_bad_encoding_is_an_error_that_names_story_and_line(write, tmp_path):
    folder = write_folder(tmp_path / "source", {**summaries.stories(), **summaries.url_lists()})
    story = next(folder.rglob("*.story"))
    story.write_bytes(b"good\n\nb\xe4d\n")
    with pytest.raises(UsageError, match=f"{story.name}:3: not UTF-8"):
        write(folder)


# --- Downloads ---------------------------------------------------------------------------------


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A server instead of the mirrors; knows none of the files yet."""
    with Server() as server:
        address = f"http://127.0.0.1:{server.server_port}"

        def here(source):
            return Source(source.name, (f"{address}/{source.name}",), None, source.is_archive)

        for name in ("LISTS", "PARQUET", "STORIES"):
            sources = getattr(cnn_dailymail, name)
            if name == "STORIES":
                moved = tuple(map(here, sources))
            elif name == "LISTS":
                moved = {split: here(source) for split, source in sources.items()}
            else:
                moved = {split: list(map(here, files)) for split, files in sources.items()}
            monkeypatch.setattr(cnn_dailymail, name, moved)
        yield server


def serve(server, folder):
    server.files |= {path.name: path.read_bytes() for path in folder.iterdir()}


def test_what_is_not_given_is_downloaded(write, server, tmp_path):
    folder = tmp_path / "source"
    folder.mkdir()
    serve(server, packed(folder))
    assert write(None) == write(folder)
    # Stories of one's own, and only the lists from there.
    unpacked = write_folder(tmp_path / "unpacked", summaries.stories())
    assert write(unpacked) == write(folder)


def test_without_lists_it_says_what_to_do(write, server, tmp_path):
    unpacked = write_folder(tmp_path / "unpacked", summaries.stories())
    with pytest.raises(UsageError, match="all_train.txt could not be .* or try --split-by-name"):
        write(unpacked)


def test_parquet_files_stand_in_for_archives_that_no_mirror_has(server, tmp_path):
    names = [source.name for sources in cnn_dailymail.PARQUET.values() for source in sources]
    server.files |= dict.fromkeys(names, b"PAR1")
    folder = cnn_dailymail.download(tmp_path / "download")
    assert {path.name for path in folder.glob("[!.]*")} == set(names)
    asked = len(server.requests)
    assert cnn_dailymail.download(folder) == folder
    assert len(server.requests) == asked
