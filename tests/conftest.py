"""Marks of slow folders, seeds, and sentence data for tests of tasks, data and commands."""

import logging
import signal
import sys
from pathlib import Path

import preprocessing
import pytest
from parsed_once import parse_once

# Every test there starts commands of fairseq; most train.
SLOW_FOLDERS = ("end_to_end", "hostile")

# A shell's background jobs ignore Ctrl-C, and so would the processes that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items):
    for item in items:
        if _in_slow_folder(item):
            item.add_marker(pytest.mark.slow)
    # Long files first, so that no process waits for the other at the end.
    items.sort(key=_in_slow_folder, reverse=True)


@pytest.hookimpl(tryfirst=True)  # before fixtures draw
def pytest_runtest_setup(item):
    logging.disable(logging.NOTSET)  # commands called by other tests switch it off
    if logging.root.level == logging.DEBUG:  # set by an import of fairseq; slows every export
        logging.root.setLevel(logging.INFO)
    parse_once()
    # PyTorch seeds each process at random; a rare failure must be repeatable.
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)


def _in_slow_folder(item):
    return item.path.relative_to(Path(__file__).parent).parts[0] in SLOW_FOLDERS


@pytest.fixture
def slow_folders():
    return SLOW_FOLDERS


@pytest.fixture
def write(tmp_path):
    """Return ``write("name", content)``: the path of a file of this text, bytes or lines."""

    def write(name, content):
        if isinstance(content, list):
            content = "".join(f"{line}\n" for line in content)
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write


@pytest.fixture
def fairseq_here():
    """Run fairseq-preprocess in this process, which has imported fairseq already."""
    with preprocessing.in_this_process():
        yield


@pytest.fixture(scope="session")
def write_sentence_data():
    """Return ``write_sentence_data(folder, splits)``, which writes text and binarized data.

    ``splits`` maps ``train``, ``valid``... to columns of lines: ``input0``, for pairs ``input1``,
    and ``label`` or ``score``. The dictionaries are those of ``train``.
    """
    from fairseq.data import Dictionary  # here, so that the tests of attention start at once

    def write(folder, splits):
        (folder / "text").mkdir(parents=True)
        words, labels = Dictionary(), Dictionary()
        for name, lines in splits["train"].items():
            for line in lines if name != "score" else ():
                (labels if name == "label" else words).encode_line(line)
        for dictionary in (words, labels):
            dictionary.finalize()
        for split, columns in splits.items():
            for name, lines in columns.items():
                text = "".join(f"{line}\n" for line in lines)
                if name == "score":
                    (folder / "label").mkdir(exist_ok=True)
                    (folder / "label" / f"{split}.label").write_text(text)
                    continue
                (folder / name).mkdir(exist_ok=True)
                (folder / "text" / f"{split}.{name}").write_text(text)
                dictionary = labels if name == "label" else words
                dictionary.save(str(folder / name / "dict.txt"))
                _binarize(lines, dictionary, str(folder / name / split))
        return folder

    return write


def _binarize(lines, dictionary, prefix):
    from fairseq.data import indexed_dataset

    builder = indexed_dataset.make_builder(f"{prefix}.bin", impl="mmap", vocab_size=len(dictionary))
    for line in lines:
        builder.add_item(dictionary.encode_line(line, add_if_not_exist=False))
    builder.finalize(f"{prefix}.idx")
