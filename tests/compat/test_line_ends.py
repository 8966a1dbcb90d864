"""Line ends of the text that fairseq reads."""

import io
import sys
from types import SimpleNamespace

import pytest
from fairseq import file_chunker_utils, utils
from fairseq.binarizer import FileBinarizer, VocabularyDatasetBinarizer
from fairseq.data import Dictionary, data_utils
from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask
from fairseq_cli import interactive, preprocess

from fairseq_posattn.training.plugin import register

# Each splits a line for some program or other; the words come from both sides of them.
WITHIN = ["\r", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]
LINES = [f"é{number}{WITHIN[number % len(WITHIN)]}ß" for number in range(90)]
ENDS = [("\n", "\r\n")[number % 3 == 1] for number in range(90)]
EXPECTED = [f"é{number} ß" for number in range(90)]


@pytest.fixture
def text(tmp_path):
    register()  # again, as fairseq-preprocess was imported after the plugin
    path = tmp_path / "text.en"
    content = "".join(line + end for line, end in zip(LINES, ENDS, strict=True))
    path.write_bytes(content.encode())
    return str(path)


def counted(path, workers):
    dictionary = Dictionary()
    Dictionary.add_file_to_dictionary(path, dictionary, str.split, workers)
    return dictionary


def binarized(path, folder, workers, impl="mmap"):
    dictionary, prefix = counted(path, 1), str(folder / f"{impl}{workers}")
    binarizer = VocabularyDatasetBinarizer(dictionary)
    FileBinarizer.multiprocess_dataset(path, impl, binarizer, prefix, len(dictionary), workers)
    rows = data_utils.load_indexed_dataset(prefix, dictionary)
    return [dictionary.string(tokens) for tokens in rows]


@pytest.mark.parametrize("workers", [1, 2, 7])
def test_preprocessing_keeps_pairs_together(text, tmp_path, workers, monkeypatch):
    assert binarized(text, tmp_path, workers) == EXPECTED
    words, empty = counted(text, workers), Dictionary()
    ends = words.count[words.eos()] - empty.count[empty.eos()]
    assert (words.count[words.index("é30")], ends) == (1, len(LINES))
    monkeypatch.delattr(file_chunker_utils, "open")  # as fairseq
    assert len(binarized(text, tmp_path, workers)) > len(LINES)


def test_raw_text_alignments_and_scores_are_read_by_the_same_rule(text, tmp_path, monkeypatch):
    dictionary = counted(text, 1)
    rows = data_utils.load_indexed_dataset(text, dictionary, dataset_impl="raw")
    assert [dictionary.string(tokens) for tokens in rows] == EXPECTED
    (tmp_path / "align").write_bytes(b"0-0\r1-1\n" * 90)
    options = SimpleNamespace(trainpref=str(tmp_path / "text"), alignfile=str(tmp_path / "align"))
    options.source_lang = options.target_lang = "en"
    options.destdir = str(tmp_path)
    preprocess._align_files(options, dictionary, dictionary)
    aligned = utils.load_align_dict(str(tmp_path / "alignment.en-en.txt"))
    assert aligned == {word: word for line in EXPECTED for word in line.split()}


@pytest.mark.parametrize("named", [True, False])
def test_interactive_answers_each_line(text, monkeypatch, named):
    with open(text, "rb") as stream:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stream.read()), "utf-8"))
    groups = list(interactive.buffered_read(text if named else "-", 40))
    assert list(map(len, groups)) == [40, 40, 10]
    assert sum(groups, []) == EXPECTED


@pytest.mark.parametrize(
    "bpe, first", [("sentencepiece", "\u3000全角\u00a0"), ("subword_nmt", "全角"), (None, "全角")]
)
def test_interactive_keeps_wide_spaces_at_ends_for_sentencepiece(text, bpe, first, monkeypatch):
    """subword-nmt makes a subword of them, which are not in training's text."""
    with open(text, "wb") as file:
        file.write("\u3000全角\u00a0\r\n a \t\n\u2028b\r\n".encode())
    groups = []

    def read(common):
        groups.extend(interactive.buffered_read(text, 9))
        raise InterruptedError

    monkeypatch.setattr(utils, "import_user_module", read)
    with pytest.raises(InterruptedError):
        interactive.main(SimpleNamespace(common=None, bpe=bpe and SimpleNamespace(_name=bpe)))
    assert groups == [[first, "a", "b"]]


def test_two_scores_of_a_line_stay_together(tmp_path, write_sentence_data):
    columns = {"input0": ["a b", "c d"], "label": ["x", "y"]}
    data = write_sentence_data(tmp_path / "data", {"train": columns})
    (data / "label/train.label").write_bytes(b"1\r2\n3 4\r\n")
    cfg = SentencePredictionConfig(data=str(data), num_classes=2, regression_target=True)
    cfg.no_shuffle, cfg.max_positions, cfg.seed = True, 512, 1
    task = SentencePredictionTask.setup_task(cfg)
    targets = task.load_dataset("train").defn["target"]
    assert [list(scores) for scores in targets] == [[1, 2], [3, 4]]
