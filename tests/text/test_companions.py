"""What is copied beside a checkpoint."""

import pytest

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.text import manifest
from fairseq_posattn.text.manifest import Manifest
from fairseq_posattn.text.plain_text import copy_companions

PAIRS = {"word_rule": "moses-escaped", "languages": ("de", "en")}


@pytest.fixture
def copied(tmp_path):
    """Copy what data with these files and manifest has, and say which files that is."""

    def copy(told, *names):
        data, saved = tmp_path / "data", tmp_path / "saved"
        saved.mkdir()
        for name in names:
            (data / name).parent.mkdir(parents=True, exist_ok=True)
            (data / name).write_text(name)
        if told:
            manifest.write(data, told)
        copy_companions(data, saved)
        files = [path for path in saved.rglob("*") if path.is_file()]
        assert all(path.read_text() for path in files)
        return {str(path.relative_to(saved)) for path in files}

    return copy


def test_of_translation_the_codes_come_out_of_the_text(copied):
    told = Manifest("own", "translation", subwords="subword_nmt", **PAIRS)
    names = ("dict.de.txt", "dict.en.txt", "train.de-en.de.bin", "text/bpe.codes", "text/test.de")
    found = copied(told, *names)
    assert found == {"dict.de.txt", "dict.en.txt", "bpe.codes", "preparation.json"}


def test_of_classification_the_dictionaries_in_their_folders(copied):
    names = ("input0/dict.txt", "label/dict.txt", "label/train.bin", "text/train.input0")
    found = copied(Manifest("sst2", "sentence_prediction", "treebank"), *names)
    assert found == {"input0/dict.txt", "label/dict.txt", "preparation.json"}


@pytest.mark.parametrize("told", [None, Manifest("mind", "news_recommendation", "moses")])
def test_nothing_where_that_would_not_be_all(copied, told):
    assert copied(told, "titles/dict.txt") == set()


def test_codes_that_are_not_there_leave_no_manifest(copied, tmp_path):
    with pytest.raises(UsageError, match="spm.model"):
        copied(Manifest("own", "translation", subwords="sentencepiece", **PAIRS), "dict.de.txt")
    assert not (tmp_path / "saved/preparation.json").exists()


def test_data_that_is_trained_in_is_left_alone(tmp_path):
    (tmp_path / "dict.de.txt").write_text("a 1\n")
    manifest.write(tmp_path, Manifest("own", "translation", **PAIRS))
    copy_companions(tmp_path, tmp_path)
    assert (tmp_path / "dict.de.txt").read_text() == "a 1\n"
