"""posattn hydra-train: what it hands to fairseq's own program."""

import pytest

from fairseq_posattn.training_command import PLUGIN, hydra_words, main


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("{}")
    return path


def test_the_plugin_is_the_user_dir(file):
    words = hydra_words(file, ["optimization.max_update=3", "--cfg", "job"])
    assert words == [
        *("--config-dir", str(file.parent), "--config-name", "mine"),
        *(f"common.user_dir='{PLUGIN}'", "optimization.max_update=3", "--cfg", "job"),
    ]


@pytest.mark.parametrize("given", ["common.user_dir=other", "++common.user_dir=other"])
def test_another_user_dir_is_taken(file, given):
    assert hydra_words(file, [given])[4:] == [given]


def test_files_that_hydra_would_not_find(file, capsys):
    assert main([str(file.with_name("no.yaml"))], "posattn hydra-train") == 1
    assert "posattn hydra-train: error: " in capsys.readouterr().err
    other = file.rename(file.with_suffix(".yml"))
    assert main([str(other)], "posattn hydra-train") == 1
    assert "mine.yml: Hydra reads files whose names end in .yaml" in capsys.readouterr().err


def test_no_file(capsys):
    with pytest.raises(SystemExit):
        main([], "posattn hydra-train")
    assert "the following arguments are required: FILE.yaml\n" in capsys.readouterr().err
