import shutil

import pytest
from fairseq.data import data_utils
from small_translator import FIXTURE, load

from fairseq_posattn.text import manifest
from fairseq_posattn.text.manifest import Manifest


@pytest.fixture(scope="session")
def translator():
    return load()


@pytest.fixture(scope="session")
def source(translator):
    """Return the lines whose translations the fixture has."""
    dictionary = translator.task.source_dictionary
    tokens = data_utils.load_indexed_dataset(str(FIXTURE / "data/test.de-en.de"), dictionary)
    return [dictionary.string(line) for line in tokens]


@pytest.fixture
def plain_data(tmp_path):
    """Return the dictionaries with the manifest and codes of prepared data."""
    folder = tmp_path / "data"
    folder.mkdir()
    for dictionary in (FIXTURE / "data").glob("dict.*.txt"):
        shutil.copy(dictionary, folder)
    rule = {"word_rule": "moses-escaped", "lower": True, "subwords": "subword_nmt"}
    manifest.write(folder, Manifest("own", "translation", **rule, languages=("de", "en")))
    (folder / "bpe.codes").write_text("#version: 0.2\nz z</w>\n")
    return folder
