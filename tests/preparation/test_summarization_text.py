"""Text of CNN/DailyMail and Gigaword, from their published layouts."""

import io
import shutil
from dataclasses import replace

import pytest
import summaries
from archive_files import gzipped, write_archive, write_folder
from corpora import written_text
from download_server import Server

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation import corpora
from fairseq_posattn.preparation.corpora import cnn_dailymail
from fairseq_posattn.preparation.corpora.cnn_dailymail import read_story, summary
from fairseq_posattn.preparation.corpus import SPLITS
from fairseq_posattn.preparation.download import Source, obtain_any
from fairseq_posattn.scoring.rouge import sentences

SIDES = ("source", "target")


@pytest.fixture
def write(tmp_path):
    """Write the text of a source; return ``{split: (sources, targets)}``."""

    def write(source, corpus="cnn_dailymail", splits=SPLITS, **changes):
        options = {"limit": None, "split_by_name": False, "splits": splits, **changes}
        text = written_text(corpora.SUMMARIZATION[corpus], source, tmp_path, **options)
        return {split: tuple(text[f"{split}.{side}"] for side in SIDES) for split in splits}

    return write


STORY = """\
LONDON, England (CNN) -- Harry\tPotter star  turns 18.\r

A caption without a stop
"He said so"
@highlight

Star turns 18 Monday
@highlight

Will he spend it all?
@highlight
No, he says.
@highlight
Born in the U.S. .

"""


def story_of(text):
    return read_story(io.BytesIO(text.encode()), "x.story")


def test_sentences_of_articles_and_highlights_get_full_stops():
    article, highlights = story_of(STORY)
    start = "LONDON, England (CNN) -- Harry Potter star turns 18."
    assert article == f'{start} A caption without a stop . "He said so"'
    expected = "Star turns 18 Monday . Will he spend it all? . No, he says . Born in the U.S ."
    assert highlights == expected
    assert sentences(highlights) == [part.removesuffix(" .") for part in highlights.split(" . ")]
    once = summary(["One. two .", "Three", "", " . "])
    assert once == "One. two . Three ."
    assert summary(once.removesuffix(" .").split(" . ")) == once


def test_stories_have_a_maximum_length(monkeypatch):
    monkeypatch.setattr(cnn_dailymail, "LONGEST", 1 << 10)
    with pytest.raises(UsageError, match="a story of more than 1,024"):
        story_of("a line\n" * 1000)


@pytest.fixture
def unpacked(tmp_path):
    return write_folder(tmp_path / "unpacked", summaries.stories() | summaries.url_lists())


@pytest.fixture
def packed(tmp_path):
    """Write the two archives of stories and the lists to a folder."""
    folder = write_folder(tmp_path / "packed", summaries.url_lists())
    for publisher in ("cnn", "dailymail"):
        files = {n: text for n, text in summaries.stories().items() if n.startswith(publisher)}
        write_archive(folder / f"{publisher}_stories.tgz", files)
    return folder


def test_url_lists_set_split_and_order_of_stories(write, packed, unpacked):
    text = write(packed)
    assert text == write(unpacked)
    for split, numbers in summaries.split_numbers().items():
        articles, targets = text[split]
        assert [int(article.split()[-2]) for article in articles] == numbers
        first = summaries.article(numbers[0])
        assert articles[0] == f"{first[0]} {first[2]} ."
        highlights = [summaries.highlights(number)[0] for number in numbers]
        assert targets == [f"{highlight} . Nobody was hurt ." for highlight in highlights]
    some = write(packed, limit=3)
    assert some == {split: tuple(side[:3] for side in sides) for split, sides in text.items()}


def test_parquet_files_equal_the_archives(write, packed, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    folder = tmp_path / "parquet"
    folder.mkdir()
    train, valid, test = summaries.split_numbers().values()
    files = {"train-00000-of-00002": train[:25], "train-00001-of-00002": train[25:]}
    files |= {"validation-00000-of-00001": valid, "test-00000-of-00001": test}
    for name, rows in files.items():
        table = {"article": ["{} {} .".format(*summaries.article(row)[::2]) for row in rows]}
        table["highlights"] = ["{} .\n{}".format(*summaries.highlights(row)) for row in rows]
        table["id"] = list(map(summaries.story_name, rows))
        parquet.write_table(pyarrow.table(table), folder / f"{name}.parquet")
    assert write(folder) == write(packed)
    for version in ("1.0.0", "3.0.0"):
        shutil.copytree(folder, tmp_path / "repository" / version)
    earlier = tmp_path / "repository" / "1.0.0" / f"{name}.parquet"
    parquet.write_table(pyarrow.table({"article": ["a"], "highlights": ["b"]}), earlier)
    assert write(earlier.parents[1]) == write(packed)

    path = folder / "test-00000-of-00001.parquet"
    path.write_bytes(b"no parquet")
    with pytest.raises(UsageError, match=f"{path.name}: not a whole parquet file"):
        write(folder)
    table = {"article": ["good", None], "highlights": ["a", "b"]}
    parquet.write_table(pyarrow.table(table), path)
    with pytest.raises(UsageError, match="parquet: row 2: article is None, no text$"):
        write(folder)


def test_missing_and_incomplete_stories_are_reported(write, packed, unpacked, capsys):
    (first,) = unpacked.rglob(f"{summaries.story_name(0)}.story")
    first.write_text("\n@highlight\n\nNo article\n")
    assert len(write(unpacked)["train"][0]) == summaries.COUNTS["train"] - 1
    assert "train: left out 1 pair with an empty side" in capsys.readouterr().err
    (packed / "cnn_stories.tgz").unlink()
    assert len(write(packed)["test"][0]) == 3
    assert "warning: 2 of 5 stories for test are missing" in capsys.readouterr().err
    (packed / "all_val.txt").write_text("http://news.example/unheard-of\n")
    with pytest.raises(UsageError, match="holds no story for valid, of 1; give --split-by-name"):
        write(packed)


def test_split_by_name_is_complete_and_deterministic(write, tmp_path):
    source = write_folder(tmp_path / "source", summaries.stories())
    text = write(source, split_by_name=True)
    articles = [article for split in SPLITS for article in text[split][0]]
    assert len(set(articles)) == len(articles) == sum(summaries.COUNTS.values())
    assert len(text["train"][0]) > len(articles) / 2 and text["valid"][0] and text["test"][0]
    assert write(source, split_by_name=True) == text


@pytest.fixture
def server(monkeypatch):
    """Run a server instead of the mirrors, without files."""
    with Server() as server:
        corpus = corpora.SUMMARIZATION["cnn_dailymail"]
        alternatives = tuple(
            tuple(Source(source.name, (server.url(source.name),)) for source in sources)
            for sources in corpus.alternatives
        )
        files = {source.name: source for sources in alternatives for source in sources}
        monkeypatch.setattr(cnn_dailymail, "FILES", files)
        here_alone = replace(corpus, alternatives=alternatives)
        monkeypatch.setitem(corpora.SUMMARIZATION, "cnn_dailymail", here_alone)
        yield server


def test_missing_files_are_downloaded(write, server, packed, tmp_path):
    stories = write_folder(tmp_path / "stories", summaries.stories())
    with pytest.raises(UsageError, match="all_train.txt could not be .* or give --split-by-name"):
        write(stories)
    server.files |= {path.name: path.read_bytes() for path in packed.iterdir()}
    assert write(None) == write(packed) == write(stories)


def test_parquet_files_replace_archives_that_no_mirror_has(server, tmp_path):
    corpus = corpora.SUMMARIZATION["cnn_dailymail"]
    names = [source.name for source in corpus.alternatives[1]]
    server.files |= dict.fromkeys(names, b"PAR1")
    for _ in range(2):
        archive = obtain_any(corpus.alternatives, None, tmp_path)
        assert set(archive.names) == set(names)
    requested = [name for name, _ in server.requests]
    assert [requested.count(name) for name in names] == [1] * len(names)


SIZES = {"train": 20, "valid": 4, "test": 3}
ORG_DATA = [f"org_data/{split}.{side}.txt" for split in SIZES for side in ("src", "tgt")]
ORG_DATA[2:4] = "org_data/dev.src.txt", "org_data/dev.tgt.txt"
SUMDATA = ["sumdata/train/train.article.txt", "sumdata/train/train.title.txt"]
SUMDATA += ["sumdata/train/valid.article.filter.txt", "sumdata/train/valid.title.filter.txt"]
SUMDATA += ["sumdata/Giga/input.txt", "sumdata/Giga/task1_ref0.txt"]


def gigaword_files(names):
    texts = [text for size in SIZES.values() for text in summaries.gigaword(size)]
    return dict(zip(names, texts, strict=True))


@pytest.fixture
def org_data(tmp_path):
    return write_folder(tmp_path / "org", gigaword_files(ORG_DATA))


def test_all_layouts_of_gigaword_give_the_same_text(write, org_data, tmp_path):
    flat = gigaword_files(SUMDATA)
    train, *rest = flat
    files = {name: flat[name] for name in rest} | {f"{train}.gz": gzipped(flat[train].encode())}
    files |= {f"sumdata/DUC2004/{name}": "x\n" for name in ("input.txt", "task1_ref0.txt")}
    sources = [
        write_archive(tmp_path / "ggw_data.zip", gigaword_files(ORG_DATA)),
        org_data / "org_data",
        write_archive(tmp_path / "summary.tar.gz", files),
        write_folder(tmp_path / "sumdata", files),
        write_folder(tmp_path / "flat", {name.split("/")[-1]: text for name, text in flat.items()}),
    ]
    expected = write(org_data, "gigaword")
    articles, titles = summaries.gigaword(SIZES["train"])
    assert expected["train"] == (articles.replace("<unk>", "UNK").splitlines(), titles.splitlines())
    for source in sources:
        assert write(source, "gigaword") == expected, source
    assert write(org_data, "gigaword", limit=2)["train"][1] == ["storm hits 0", "match hits 1"]


def test_gigaword_drops_training_pairs_with_an_empty_side(write, org_data, capsys):
    files = {"train.src.txt": "a\nb\n\n", "train.tgt.txt": "A\n  \nC\n"}
    files |= {"test.src.txt": "a\nb\n", "test.tgt.txt": "A\n\n"}
    write_folder(org_data / "org_data", files)
    text = write(org_data, "gigaword")
    assert text["train"] == (["a"], ["A"])
    assert text["test"][1] == ["A", ""]
    assert "train: left out 2 pairs with an empty side" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("dev.tgt.txt", b"one\n", r"dev.src.txt has 4, .*dev.tgt.txt has 1"),
        ("test.tgt.txt", None, "holds neither test.src.txt .* --splits train valid to omit it"),
        ("train.src.txt.gz", gzipped(b"one\n" * 20)[:-9], "train.src.txt.gz: damaged or cut off"),
    ],
)
def test_malformed_gigaword_is_reported(write, org_data, name, content, message):
    path = org_data / "org_data" / name
    path.with_name(name.removesuffix(".gz")).unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=message):
        write(org_data, "gigaword")
    if content is None:
        assert len(write(org_data, "gigaword", splits=("train", "valid"))) == 2
