"""Data, languages and splits that are not there."""

import pytest

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.flags.data_folder import check_data


@pytest.fixture
def folder(tmp_path):
    names = ["dict.de.txt", "dict.en.txt", "dict.fr.txt"]
    names += [f"{split}.de-en.{side}.idx" for split in ("train", "test") for side in ("de", "en")]
    names += ["mono.de-en.de.idx"]
    for name in names:
        (tmp_path / name).touch()
    return tmp_path


def settings(folder, **others):
    return {"data": str(folder), "task": "translation", "gen_subset": "test", **others}


@pytest.mark.parametrize(
    "others",
    [
        {"source_lang": "de", "target_lang": "en"},
        {"source_lang": "en", "target_lang": "de"},  # fairseq reads either name
        {},
        {"source_lang": "de"},
        {"gen_subset": "mono"},  # translating needs the source only
        {"gen_subset": "train,test"},
        {"task": "nonesuch", "gen_subset": "dev"},  # other tasks are not checked
        {"task": "speech_unit_modeling", "data": "manifests.json"},  # reads a file
    ],
)
def test_data_that_is_there(folder, others):
    check_data(settings(folder, **others), ("gen_subset",))


@pytest.mark.parametrize(
    "others, line",
    [
        (
            {"source_lang": "it"},
            "--source-lang it: {0} has no dict.it.txt, only dictionaries of de",
        ),
        ({"target_lang": "fr"}, "--target-lang fr: alone it is ignored, and {0} is from de"),
        (
            {"source_lang": "de", "target_lang": "fr"},
            "--source-lang de --target-lang fr: {0} has no data of this pair",
        ),
        ({"gen_subset": "dev"}, "--gen-subset dev: {0} has no such split, only mono, test, train"),
        ({"gen_subset": "t*"}, "--gen-subset t*: {0} has no such split"),
        ({"data": ""}, "the data: there is no such folder"),
    ],
)
def test_data_that_is_not_there(folder, others, line):
    with pytest.raises(UsageError) as error:
        check_data(settings(folder) | others, ("gen_subset",))
    assert str(error.value).startswith(line.format(folder))


def test_training_needs_both_languages(folder):
    with pytest.raises(UsageError, match="--train-subset mono: .* only test, train$"):
        check_data(settings(folder, train_subset="mono"), ("train_subset",))


def test_a_folder_without_names_of_languages(tmp_path):
    (tmp_path / "dict.de.txt").touch()
    with pytest.raises(UsageError, match="no pair of languages; give --source-lang and --target"):
        check_data(settings(tmp_path), ())


def test_a_split_after_a_blank(tmp_path):
    """preprocess.log, which lies beside the splits, is none."""
    (tmp_path / "input0").mkdir()
    for name in ("dict.txt", "preprocess.log", "valid.idx", "test.idx"):
        (tmp_path / "input0" / name).touch()
    given = {"data": str(tmp_path), "task": "sentence_prediction", "valid_subset": "valid, test"}
    with pytest.raises(UsageError, match="only test, valid; leave out the blanks$"):
        check_data(given, ("valid_subset",))
    with pytest.raises(UsageError, match="only test, valid$"):
        check_data(given | {"valid_subset": "preprocess2"}, ("valid_subset",))
