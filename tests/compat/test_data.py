"""Binarized data, codes, and the dictionaries that a model was trained with."""

import argparse
import gc
import inspect
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy
import pytest
import torch
from fairseq import options, tasks, utils
from fairseq.data import (
    ConcatDataset,
    Dictionary,
    LMContextWindowDataset,
    MonolingualDataset,
    data_utils,
    encoders,
    indexed_dataset,
    token_block_dataset,
)
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.modules.dynamic_crf_layer import DynamicCRF
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from fairseq.trainer import Trainer

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.checkpoints import read_checkpoint
from fairseq_posattn.compat.data import read_column
from fairseq_posattn.compat.fingerprints import check, note_named_data
from fairseq_posattn.inference import prediction

DICTIONARY = Dictionary()
for letter in "abc":
    DICTIONARY.add_symbol(letter)


def write_rows(prefix, *rows):
    builder = indexed_dataset.make_builder(f"{prefix}.bin", impl="mmap", vocab_size=100)
    for row in rows:
        builder.add_item(torch.tensor(row, dtype=torch.int32))
    builder.finalize(f"{prefix}.idx")


@pytest.mark.parametrize("settings", [{}, {"append_eos": False, "reverse_order": True}])
@pytest.mark.parametrize("adds", [True, False])
def test_words_have_the_numbers_of_fairseq(settings, adds):
    def numbers_by(encode_line):
        words, seen = Dictionary(), []
        words.add_symbol("a")
        settings["consumer"] = lambda word, number: seen.append((word, number))
        return (
            encode_line(words, " a b\u2003a ", add_if_not_exist=adds, **settings),
            seen,
            len(words),
        )

    ours, *others = numbers_by(Dictionary.encode_line)
    theirs, *expected = numbers_by(Dictionary.encode_line.__wrapped__)
    assert torch.equal(ours, theirs) and ours.dtype == theirs.dtype and others == expected


def test_tokens_beyond_the_dictionary_are_refused(tmp_path):
    dictionary, prefix = DICTIONARY, str(tmp_path / "train")
    write_rows(prefix, [6, 2])
    assert data_utils.load_indexed_dataset(prefix, dictionary)[0].tolist() == [6, 2]
    numpy.array([9, 2], dtype="<u2").tofile(f"{prefix}.bin")
    with pytest.raises(UsageError, match=r"train\.bin holds token 9, but the dictionary has 7"):
        data_utils.load_indexed_dataset(prefix, dictionary)
    assert inspect.unwrap(data_utils.load_indexed_dataset)(prefix, dictionary)[0].tolist() == [9, 2]


def changed(offset, kind, value):
    """Return a function that writes ``value`` into a file's content."""
    size = numpy.dtype(kind).itemsize
    return lambda old: old[:offset] + numpy.array(value, kind).tobytes() + old[offset + size :]


# An index is a magic number, from byte 17 on the type of tokens, from 18 on the number of rows,
# from 26 on their sizes, and here, with two rows, from 34 on where they begin.
@pytest.mark.parametrize(
    ("ending", "damage"),
    [
        *((ending, lambda old, end=end: old[:end]) for ending in ("idx", "bin") for end in (0, -1)),
        *(("idx", lambda old, end=end: old[:end]) for end in (5, 20, 30)),
        *(("idx", changed(0, "u1", 0)), ("idx", changed(17, "u1", 99))),
        *(("idx", changed(18, "<u8", rows)) for rows in (0, 1, 1 << 60)),
        *(("idx", changed(26, "<i4", size)) for size in (0, -2, 1 << 30)),
        *(("idx", changed(34, "<i8", begin)) for begin in (4, -4, 1 << 40)),
        ("idx", changed(34, "2<i8", [6, 0])),
        ("bin", lambda old: old * 2),
    ],
)
@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_damaged_data_is_named(tmp_path, ending, damage):
    prefix = tmp_path / "train"
    write_rows(prefix, [4, 5, 2], [6, 2])
    rows = data_utils.load_indexed_dataset(str(prefix), DICTIONARY)
    assert [row.tolist() for row in rows] == [[4, 5, 2], [6, 2]]
    file = Path(f"{prefix}.{ending}")
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(UsageError, match=rf"^{prefix}\.idx( or \.bin)?: damaged[^\n]+; prepare"):
        data_utils.load_indexed_dataset(str(prefix), DICTIONARY)
    gc.collect(1)  # no traceback from what was not opened


def test_prepared_files_of_another_size_are_named(tmp_path):
    data = tmp_path / "data"
    (data / "fold0/input0").mkdir(parents=True)
    prefix, words, codes = data / "fold0/input0/train", data / "fold0/input0/dict.txt", data / "c"
    write_rows(prefix, [4, 5, 2], [6, 2])
    words.write_text("a 1\nb 1\n")
    codes.write_text("#version: 0.2\na b\n")
    paths = [Path(f"{prefix}.bin"), Path(f"{prefix}.idx"), words, codes]
    files = {path.relative_to(data).as_posix(): path.stat().st_size for path in paths}
    (data / ".stages.json").write_text(json.dumps({"binarized data": {"files": files}}))
    cfg = argparse.Namespace(bpe="subword_nmt", bpe_codes=str(codes), bpe_separator="@@")

    def read():
        data_utils.load_indexed_dataset(str(prefix))
        Dictionary.load(str(words))
        encoders.build_bpe(cfg)

    read()
    for path in paths:
        content = path.read_bytes()
        path.write_bytes(content + b"c 1\n")
        size = len(content)
        message = f"^{path}: has {size + 4} bytes, its preparation {size}; prepare the data again$"
        with pytest.raises(UsageError, match=message):
            read()
        path.write_bytes(content)
    (data / ".stages.json").write_text("{}")
    read()


@pytest.mark.parametrize(("combine", "expected"), [(False, 1), (True, 3)])
def test_the_parts_of_a_split_are_combined(tmp_path, combine, expected):
    (tmp_path / "words").mkdir()
    write_rows(tmp_path / "words/train", [4, 2])
    write_rows(tmp_path / "words/train1", [5, 2], [6, 2])
    rows = read_column(str(tmp_path), "words", "train", DICTIONARY, combine)
    assert [row.tolist() for row in rows] == [[4, 2], [5, 2], [6, 2]][:expected]


def test_the_parts_of_a_split_of_pairs_are_combined(tmp_path, restore):
    for name, letter in (("train", "a"), ("train1", "b")):
        write_rows(tmp_path / f"{name}.en-de.en", DICTIONARY.encode_line(letter).tolist())
        write_rows(tmp_path / f"{name}.en-de.de", DICTIONARY.encode_line(letter).tolist())
    for language in ("en", "de"):
        DICTIONARY.save(str(tmp_path / f"dict.{language}.txt"))

    def load():
        cfg = TranslationConfig(data=str(tmp_path), source_lang="en", target_lang="de")
        cfg.dataset_impl = "mmap"
        task = TranslationTask.setup_task(cfg)
        task.load_dataset("train", combine=True)
        return len(task.dataset("train"))

    assert load() == 2
    restore(TranslationTask, "setup_task")
    with pytest.raises(ValueError, match="negative dimensions"):
        load()


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 20, 100])
@pytest.mark.parametrize("limit", [{"max_tokens": 64}, {"max_sentences": 16}])
@pytest.mark.parametrize("kind", [list, numpy.asarray])
def test_every_sentence_is_in_one_batch(size, limit, kind):
    order = numpy.random.default_rng(0).permutation(size)
    limit = {"num_tokens_vec": numpy.full(size, 4), "required_batch_size_multiple": 8, **limit}
    batches = data_utils.batch_by_size(kind(order), num_tokens_fn=lambda index: 4, **limit)
    assert [index for batch in batches for index in batch] == list(order)
    assert all(0 < len(batch) <= 16 for batch in batches)
    assert all(len(batch) % 8 == 0 for batch in batches[:-1])
    if size == 9:  # fairseq drops a sentence
        fairseqs = inspect.unwrap(data_utils.batch_by_size)
        assert sum(map(len, fairseqs(order, num_tokens_fn=lambda index: 4, **limit))) == 8


@pytest.mark.parametrize("content", [b"a 1\nb\n", b"a 1\na 2\n", b"a one\n", b"\xff\xfe\0", b""])
def test_a_file_that_is_not_a_dictionary_is_named(tmp_path, content):
    path = tmp_path / "dict.txt"
    path.write_bytes(content)
    words = "is not a dictionary " if content else "is a dictionary without words"
    with pytest.raises(UsageError, match=f"^{path} {words}[^\n]*$"):
        Dictionary.load(str(path))
    if not content:
        Dictionary.add_from_file.__wrapped__(Dictionary(), str(path))


@pytest.mark.parametrize("content", [b"a 0 x\n", b"", b"\xff\xfe\0\n\0"])
def test_a_file_that_has_no_word_vectors_is_named(tmp_path, content):
    path = tmp_path / "vectors.txt"
    path.write_bytes(content and b"1 2\n" + content)
    with pytest.raises(UsageError, match="vectors.txt is not a file of word vectors"):
        utils.parse_embedding(str(path))


@pytest.mark.parametrize("header", ["", "2 3\n"])
def test_the_first_line_of_word_vectors_may_be_a_vector(tmp_path, header):
    path = tmp_path / "glove.txt"
    path.write_text(f"{header}the 1 2 3\na 4 5 6\n")
    assert {*utils.parse_embedding(str(path))} == {"the", "a"}
    fairseqs = inspect.unwrap(utils.parse_embedding)
    assert ("the" in fairseqs(str(path))) is bool(header)


@pytest.mark.parametrize("width", [1, 3])
def test_vectors_of_another_width_are_refused(width):
    dictionary, embedding = Dictionary(), torch.nn.Embedding(5, 2)
    dictionary.add_symbol("a")
    vectors = {"a": torch.ones(2), "b": torch.ones(width)}  # b is not needed
    assert utils.load_embedding(vectors, dictionary, embedding).weight[4].tolist() == [1, 1]
    with pytest.raises(UsageError, match=f"the vector of 'a' has {width} numbers, and the embedd"):
        utils.load_embedding({"a": torch.ones(width)}, dictionary, embedding)


def test_a_sentence_can_be_a_block_of_a_language_model(monkeypatch):
    sentences = [torch.tensor([4, 5, 2]), torch.tensor([6, 2])]
    settings = {"sizes": [3, 2], "block_size": None, "pad": 1, "eos": 2, "break_mode": "eos"}
    blocks = token_block_dataset.TokenBlockDataset(sentences, **settings)
    assert [block.tolist() for block in blocks] == [[4, 5, 2], [6, 2]]
    monkeypatch.setattr(token_block_dataset, "np", numpy)
    if not hasattr(numpy, "compat"):  # NumPy 2
        with pytest.raises(AttributeError, match="compat"):
            token_block_dataset.TokenBlockDataset(sentences, **settings)


@pytest.mark.parametrize("window, context", [(2, [7, 8]), (5, [5, 6, 7, 8]), (3, [6, 7, 8])])
def test_a_context_window_is_of_the_text_before_the_batch(window, context):
    blocks = [torch.tensor(block) for block in ([5, 6], [7, 8], [9, 10], [11])]
    rows = [(block, block, block) for block in blocks]
    parts = (rows[:1], rows[1:])  # of two languages, each with ids from 0
    parts = [MonolingualDataset(p, [*map(len, p)], Dictionary(), targets=["future"]) for p in parts]
    windowed = LMContextWindowDataset(ConcatDataset(parts), 2, window, Dictionary().pad())
    batch = windowed.collater([windowed[2], windowed[3]])  # another worker has read the first two
    first, second = batch["net_input"]["src_tokens"].tolist()
    assert first[: len(context) + 2] == [*context, 9, 10]
    assert second[:window] == [5, 6, 7, 8, 9, 10][-window:] and second[window] == 11
    assert batch["start_indices"] == [len(context), window]
    assert windowed.collater([windowed[0]])["start_indices"] == [0]
    assert windowed.collater([]) == {}  # of a shard with a batch fewer


@pytest.mark.parametrize("name", ["subword_nmt", "sentencepiece"])
@pytest.mark.parametrize(
    "content", [b"#version: 0.2\na b c d\n", b"#version: 99999999.x\n", b"\n\x1f"]
)
def test_unreadable_codes_are_named(tmp_path, name, content):
    path = str(tmp_path / "codes")
    Path(path).write_bytes(content)
    cfg = argparse.Namespace(bpe=name, bpe_codes=path, bpe_separator="@@")
    cfg.sentencepiece_model, cfg.sentencepiece_enable_sampling = path, False
    cfg.sentencepiece_alpha = None
    with pytest.raises(UsageError, match=f"^--bpe {name} cannot be read from {path}[^\n]*$"):
        encoders.build_bpe(cfg)
    with pytest.raises((Exception, SystemExit)) as error:
        inspect.unwrap(encoders.build_bpe)(cfg)
    assert (path in str(error.value)) == (name == "sentencepiece")  # fairseq names it here alone


def test_rows_are_checked_for_models_that_need_it(write_sentence_data, tmp_path, caplog):
    columns = {"input0": ["a dog runs", "", "it rains"], "label": ["yes", "no", "no"]}
    others = {"input0": ["a cat"], "label": ["yes"]}
    data = write_sentence_data(tmp_path / "data", {"train": columns, "valid": others})
    flags = [str(data), "--task", "sentence_prediction", "--num-classes", "2"]
    flags += ["--criterion", "sentence_prediction", "--arch", "mpsan_classifier"]
    args = options.parse_args_and_arch(options.get_training_parser(), flags)
    cfg = convert_namespace_to_omegaconf(args)
    task = tasks.setup_task(cfg.task)
    assert len(task.load_dataset("train")) == 3  # as fairseq
    task.build_model(cfg.model)
    with pytest.raises(UsageError, match="input0/train: row 2 is empty"):
        task.load_dataset("train")
    task.load_dataset("valid")
    assert caplog.text.count("of 3 tokens are unknown") == 1  # though it is read twice


# --- Dictionaries of a model ----------------------------------------------------------------------

FIXTURE = Path(__file__).parents[1] / "fixtures" / "classification"


@pytest.fixture
def checkpoint(make_trainer, tmp_path):
    """Return a checkpoint with fingerprints."""
    path = str(tmp_path / "checkpoint.pt")
    trainer = make_trainer()
    trainer.consolidate_optimizer()
    trainer.save_checkpoint(path, {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}})
    saved = read_checkpoint(path)["task_state"]["dictionaries"]
    assert saved.keys() == {f"{kind}_dictionary" for kind in ("source", "target", "label")}
    return path


def permute(path):
    """Exchange two symbols."""
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[1], lines[0], *lines[2:]]) + "\n")


def test_other_dictionaries_of_fairseqs_older_tasks_are_refused():
    settings = SimpleNamespace(data="data-bin/pairs")
    task = SimpleNamespace(cfg=None, args=settings, source_dictionary=Dictionary())
    with pytest.raises(UsageError, match="^the dictionary of source words in data-bin/pairs "):
        check(task, {"source_dictionary": "another"})
    task.mono_langs = ["de", "en"]  # online_backtranslation adds symbols later
    check(task, {"source_dictionary": "another"})


@pytest.mark.parametrize(
    ("task", "ends"),
    [
        ("news_recommendation", "; name the data of its training"),
        ("sentence_prediction", ", or prepare it with posattn prepare ... own --like"),
    ],
)
def test_data_like_a_models_is_advised_where_posattn_prepare_makes_it(task, ends):
    loaded = SimpleNamespace(
        cfg=SimpleNamespace(data="data-bin/mind", _name=task), source_dictionary=Dictionary()
    )
    with pytest.raises(UsageError, match=f"{ends}$"):
        check(loaded, {"source_dictionary": "another"})


DICTIONARIES = [("input0", "source words"), ("label", "labels")]


@pytest.mark.parametrize(("name", "called"), DICTIONARIES)
def test_predicting_with_other_dictionaries_is_refused(name, called, data, checkpoint, restore):
    texts = FIXTURE.joinpath("sentences.txt").read_text().splitlines()
    expected = FIXTURE.joinpath("labels.txt").read_text().split()
    results = prediction.load(checkpoint, str(data), device="cpu")(texts)
    assert [result.label for result in results] == expected
    permute(data / name / "dict.txt")
    message = f"^{checkpoint}: the dictionary of {called} in {data} differs"
    with pytest.raises(UsageError, match=message):
        prediction.load(checkpoint, str(data), device="cpu")
    restore(tasks.FairseqTask, "load_state_dict")
    results = prediction.load(checkpoint, str(data), device="cpu")(texts)
    assert [result.label for result in results] != expected


def test_checkpoints_without_fingerprints_load(data):
    permute(data / "label" / "dict.txt")
    assert prediction.load(str(FIXTURE / "checkpoint.pt"), str(data), device="cpu")(["a b"])


@pytest.mark.parametrize("form", [dict, lambda **task: argparse.Namespace(**task)])
def test_a_checkpoint_without_fingerprints_warns_of_data_unlike_that_it_names(
    form, tmp_path, caplog
):
    """Most checkpoints of fairseq name the data, but not the languages."""
    folders = [tmp_path / "named", tmp_path / "other"]
    for folder, words in zip(folders, ("a 2\nb 1\n", "b 2\na 1\n"), strict=True):
        folder.mkdir()
        (folder / "dict.de.txt").write_text("a 1\n")
        (folder / "dict.en.txt").write_text(words)
    task = form(data=f"{folders[0]}:more", source_lang=None, target_lang=None)
    state = {"cfg": {"task": task}} if form is dict else {"args": task}
    note_named_data(state)
    for folder in folders:
        cfg = TranslationConfig(data=str(folder), source_lang="de", target_lang="en")
        TranslationTask.setup_task(cfg).load_state_dict(state["task_state"])
        differs = f"in {folder} differs from {folders[0]}/dict.en.txt, which the checkpoint names"
        warned = [f"the dictionary of target words {differs}"] * (folder == folders[1])
        assert [entry.message for entry in caplog.records if entry.levelname == "WARNING"] == warned
    shutil.rmtree(folders[0])
    caplog.clear()
    TranslationTask.setup_task(cfg).load_state_dict(state["task_state"])
    assert not [entry for entry in caplog.records if entry.levelname == "WARNING"]


@pytest.mark.parametrize(("name", "called"), DICTIONARIES)
def test_training_resumes_with_the_same_dictionaries_only(
    name, called, data, checkpoint, make_trainer, restore
):
    make_trainer().load_checkpoint(checkpoint, reset_optimizer=True)
    permute(data / name / "dict.txt")
    with pytest.raises(UsageError, match=f"^the dictionary of {called} in {data} differs"):
        make_trainer().load_checkpoint(checkpoint, reset_optimizer=True)
    restore(Trainer, "load_checkpoint")
    assert make_trainer().load_checkpoint(checkpoint, reset_optimizer=True)


def test_finetuning_may_change_labels_but_not_words(data, checkpoint, make_trainer):
    permute(data / "label" / "dict.txt")
    finetuning = {"finetune_from_model": checkpoint}
    make_trainer(**finetuning).load_checkpoint(checkpoint, reset_optimizer=True)
    permute(data / "input0" / "dict.txt")
    with pytest.raises(UsageError, match="^the dictionary of source words"):
        make_trainer(**finetuning).load_checkpoint(checkpoint, reset_optimizer=True)


# --- Threads that prepare batches -----------------------------------------------------------------

# Ends in forks of a process that has imported fairseq, whose exit codes it prints.
PROGRAM = """
import os, sys, time
from fairseq_posattn.training.plugin import register
register()
import torch
from fairseq.data.iterators import BackgroundConsumer, BufferedIterator

class Batches:
    def __len__(self):
        return 10**9
    def __iter__(self):
        while True:
            yield torch.ones(200, 200) @ torch.ones(200, 200)

patched, *ends = map(int, sys.argv[1:])
if not patched:
    for name in ("run", "start"):
        setattr(BackgroundConsumer, name, getattr(BackgroundConsumer, name).__wrapped__)
codes = []
for full in ends:
    child = os.fork()
    if child == 0:
        break
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
else:
    sys.exit(print(codes))
batches = BufferedIterator(10 if full else 10**9, Batches())
for _ in range(50):
    next(batches)
if full:  # the thread waits for room
    time.sleep(0.5)
"""


def end(patched, *full):
    """Return exit codes, as text, and errors of programs that end while a thread makes batches."""
    words = [sys.executable, "-c", PROGRAM, str(patched), *map(str, full)]
    options = {"capture_output": True, "text": True, "timeout": 240}
    finished = subprocess.run(words, env={**os.environ, "OMP_NUM_THREADS": "1"}, **options)
    return finished.stdout, finished.stderr


@pytest.mark.slow
def test_a_program_ends_while_a_thread_prepares_batches():
    assert end(1, 0, 1) == ("[0, 0]\n", "")


@pytest.mark.nightly
def test_a_program_of_fairseqs_may_abort_while_a_thread_prepares_batches():
    assert str(-signal.SIGABRT) in end(0, *[0] * 5)[0]


def test_a_conditional_random_field_trains_with_numpy_2():
    layer = DynamicCRF(num_embedding=9, low_rank=2, beam_size=4)
    targets = torch.tensor([[4, 5, 6]])
    loss = layer(torch.zeros(1, 3, 9), targets, torch.ones(1, 3, dtype=torch.bool))
    assert loss.isfinite().all()
