"""from_pretrained takes plain text and gives it back."""

import shutil
from pathlib import Path

import pytest
from fairseq.hub_utils import GeneratorHubInterface
from fairseq.models.transformer import TransformerModel
from fairseq.tasks.translation import TranslationTask

from fairseq_posattn import compat
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.inference import translation
from fairseq_posattn.text import manifest
from fairseq_posattn.text.manifest import Manifest

compat.apply()
FIXTURE = Path(__file__).parents[1] / "fixtures" / "translation"
TEXTS = ["  AB,c ", "d, E"]


@pytest.fixture
def folder(tmp_path):
    """A checkpoint with the dictionaries, the manifest and the codes beside it."""
    for file in (FIXTURE / "checkpoint.pt", *(FIXTURE / "data").glob("dict.*.txt")):
        shutil.copy(file, tmp_path)
    rule = {"word_rule": "moses-escaped", "lower": True, "subwords": "subword_nmt"}
    manifest.write(tmp_path, Manifest("own", "translation", **rule, languages=("de", "en")))
    (tmp_path / "bpe.codes").write_text("#version: 0.2\nz z</w>\na b</w>\n")
    return tmp_path


def load(folder, **options):
    return TransformerModel.from_pretrained(str(folder), "checkpoint.pt", **options)


def test_plain_text_is_translated_as_posattn_translate_does(folder):
    expected = [found.text for found in translation.load(folder / "checkpoint.pt")(TEXTS)]
    model = load(folder)
    assert model.apply_bpe(model.tokenize("AB,c")) == "ab , c"
    assert model.translate(TEXTS) == expected
    pieces = model.tgt_dict.encode_line("A@@ B , &apos;s", add_if_not_exist=True)
    assert model.decode(pieces) == "AB,'s"


def test_fairseq_takes_text_as_it_stands(folder, monkeypatch):
    monkeypatch.setattr(
        GeneratorHubInterface, "__init__", GeneratorHubInterface.__init__.__wrapped__
    )
    model = load(folder)
    assert model.apply_bpe(model.tokenize("AB,c")) == "AB,c"


def test_what_is_named_is_taken(folder):
    model = load(folder, tokenizer="space")
    assert model.apply_bpe(model.tokenize("AB,c")) == "AB,c"


def test_languages_that_training_did_not_name_are_those_of_the_manifest(folder, monkeypatch):
    assert load(folder).task.cfg.target_lang == "en"
    setup_task = TranslationTask.setup_task.__func__.__wrapped__
    monkeypatch.setattr(TranslationTask, "setup_task", classmethod(setup_task))
    with pytest.raises(UsageError, match="Could not infer language pair"):
        load(folder)


def test_a_model_without_a_manifest_is_as_fairseq_has_it(folder):
    (folder / manifest.NAME).unlink()
    model = load(folder, source_lang="de", target_lang="en")
    assert model.tokenizer is None
    assert model.apply_bpe(model.tokenize("AB,c")) == "AB,c"
