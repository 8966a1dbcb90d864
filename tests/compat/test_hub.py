"""from_pretrained unpacks archives safely and translates plain text."""

import contextlib
import io
import os
import shutil
import tarfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fairseq import file_utils
from fairseq.hub_utils import GeneratorHubInterface
from fairseq.models.transformer import TransformerModel
from fairseq.tasks.translation import TranslationTask

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat import generation
from fairseq_posattn.inference import translation
from fairseq_posattn.text import manifest
from fairseq_posattn.text.manifest import Manifest


def archive(path, members, mode="w:gz"):
    """Write an archive; ``members`` are names with contents or TarInfo."""
    with tarfile.open(path, mode) as tar:
        for name, content in members:
            info = content if isinstance(content, tarfile.TarInfo) else tarfile.TarInfo(name)
            data = b"" if isinstance(content, tarfile.TarInfo) else content
            info.name, info.size = name, len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def visible(folder):
    return sorted(path.name for path in folder.glob("[!.]*"))


def link(kind, to):
    info = tarfile.TarInfo()
    info.type, info.linkname = kind, str(to)
    return info


@pytest.mark.parametrize("ending, mode", [("gz", "w:gz"), ("xz", "w:xz"), ("", "w")])
@pytest.mark.parametrize("top", ["model/", ""])
def test_a_model_is_unpacked_beside_its_archive(tmp_path, ending, mode, top):
    members = [(f"{top}model.pt", b"weights"), (f"{top}dict/a.txt", b"a 1\n")]
    path = archive(tmp_path / f"model.tar.{ending}", members, mode)
    whole = path.read_bytes()
    for _ in range(2):
        folder = file_utils.load_archive_file(str(path))
        assert folder == f"{path}.unpacked"
        assert (tmp_path / folder / "model.pt").read_bytes() == b"weights"
        assert (tmp_path / folder / "dict" / "a.txt").read_bytes() == b"a 1\n"
    assert path.read_bytes() == whole
    assert visible(tmp_path) == [path.name, f"{path.name}.unpacked"]


def test_a_newer_archive_is_unpacked_again(tmp_path):
    path = archive(tmp_path / "model.tar", [("m/model.pt", b"old")], "w")
    folder = tmp_path / file_utils.load_archive_file(str(path))
    archive(path, [("m/model.pt", b"new")], "w")
    later = folder.stat().st_mtime + 10
    os.utime(path, (later, later))
    assert (tmp_path / file_utils.load_archive_file(str(path)) / "model.pt").read_bytes() == b"new"


def test_a_folder_is_taken_as_it_is(tmp_path):
    assert file_utils.load_archive_file(str(tmp_path)) == str(tmp_path)
    assert file_utils.load_archive_file(str(tmp_path / "nothing")) is None


@pytest.mark.parametrize(
    "members",
    [
        [("../outside", b"x")],
        [("a/../../outside", b"x")],
        [("a", link(tarfile.SYMTYPE, "../..")), ("a/outside", b"x")],
        [("a", link(tarfile.LNKTYPE, "{folder}/victim")), ("a", b"x")],
        [("a", link(tarfile.CHRTYPE, ""))],
    ],
    ids=["up", "through", "link", "hard link", "device"],
)
def test_archives_write_nothing_outside(tmp_path, members):
    folder = tmp_path / "models"
    folder.mkdir()
    victim = folder / "victim"
    victim.write_text("mine")
    for _, content in members:
        if isinstance(content, tarfile.TarInfo):
            content.linkname = content.linkname.format(folder=folder)
    named = [(name.format(folder=folder), content) for name, content in members]
    path = archive(folder / "model.tar.gz", named)
    whole = path.read_bytes()
    with pytest.raises(UsageError, match=f"^{path}(: damaged| cannot be unpacked)[^\n]*$"):
        file_utils.load_archive_file(str(path))
    assert victim.read_text() == "mine"
    assert path.read_bytes() == whole
    assert visible(folder) == ["model.tar.gz", "victim"]
    assert visible(tmp_path) == ["models"]


def test_damaged_archives_are_refused(tmp_path):
    path = archive(tmp_path / "model.tar.gz", [("model.pt", b"weights" * 1000)])
    whole = path.read_bytes()
    for content in (b"", b"PK", whole[:20], whole[:-20], b"<html>404</html>" * 100):
        path.write_bytes(content)
        with pytest.raises(UsageError, match=f"^{path}(: damaged| cannot be unpacked)[^\n]*$"):
            file_utils.load_archive_file(str(path))
    assert visible(tmp_path) == ["model.tar.gz"]


def test_two_processes_unpack_once(tmp_path, monkeypatch):
    path = archive(tmp_path / "model.tar.gz", [("model/model.pt", b"weights")])
    both, unpack, done = threading.Barrier(2), generation._unpack_into, []

    def unpack_together(*arguments):
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(timeout=1)
        done.append(unpack(*arguments))

    monkeypatch.setattr(generation, "_unpack_into", unpack_together)
    with ThreadPoolExecutor() as pool:
        folders = list(pool.map(file_utils.load_archive_file, [str(path)] * 2))
    assert folders == [f"{path}.unpacked"] * 2
    assert len(done) == 1


FIXTURE = Path(__file__).parents[1] / "fixtures" / "translation"
TEXTS = ["  AB,c ", "d, E"]


@pytest.fixture
def folder(tmp_path):
    """Return a checkpoint with the dictionaries, the manifest and the codes beside it."""
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


def test_fairseq_does_not_tokenize(folder, restore):
    restore(GeneratorHubInterface, "__init__")
    model = load(folder)
    assert model.apply_bpe(model.tokenize("AB,c")) == "AB,c"


def test_a_named_tokenizer_is_used(folder):
    model = load(folder, tokenizer="space")
    assert model.apply_bpe(model.tokenize("AB,c")) == "AB,c"


def test_unnamed_languages_are_those_of_the_manifest(folder, restore):
    assert load(folder).task.cfg.target_lang == "en"
    restore(TranslationTask, "setup_task")
    with pytest.raises(UsageError, match="Could not infer language pair"):
        load(folder)


def test_a_model_without_a_manifest_has_no_tokenizer(folder):
    (folder / manifest.NAME).unlink()
    model = load(folder, source_lang="de", target_lang="en")
    assert model.tokenizer is None
    assert model.apply_bpe(model.tokenize("AB,c")) == "AB,c"
