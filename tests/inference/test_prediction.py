"""Predictions of the small trained classifier in tests/fixtures."""

import json
import os
import pickle
import shutil
from pathlib import Path

import pytest
import torch

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.inference import prediction, stream
from fairseq_posattn.inference.commands import predict
from fairseq_posattn.inference.prediction import NOTHING

FIXTURE = Path(__file__).parents[1] / "fixtures" / "classification"
CHECKPOINT = FIXTURE / "checkpoint.pt"


@pytest.fixture
def data(tmp_path):
    """Return a copy of the dictionaries."""
    for name in ("input0", "label"):
        (tmp_path / "data" / name).mkdir(parents=True)
        shutil.copy(FIXTURE / "data" / name / "dict.txt", tmp_path / "data" / name)
    return tmp_path / "data"


def load(data=FIXTURE / "data", checkpoint=CHECKPOINT, **options):
    return prediction.load(str(checkpoint), str(data), device="cpu", **options)


@pytest.fixture(scope="module")
def predictor():
    return load()


def command(*arguments, checkpoint=CHECKPOINT, data=FIXTURE / "data"):
    words = [str(checkpoint), "--data", str(data), "--cpu", *arguments]
    return predict.main(list(map(str, words)), prog="predict")


def test_blank_lines_give_blank_lines(write, capsys):
    path = write("text", ["a b", "", " \t\u200b", "d e"])
    assert command("--input", path) == 0
    output = capsys.readouterr()
    labels = [line.partition("\t")[0] for line in output.out.split("\n")]
    assert [label in ("back", "forth") for label in labels] == [True, False, False, True, False]
    assert labels[1] == labels[2] == ""
    assert "2 blank lines answered with a blank line" in output.err
    assert command("--input", path, "--json") == 0
    labels = [json.loads(line)["label"] for line in capsys.readouterr().out.splitlines()]
    assert labels[1:3] == [None, None] and None not in (labels[0], labels[3])


def test_a_sentence_without_words_is_blank():
    predictor = load(words=lambda text: text.replace("-", ""))
    result = predictor.read_groups([[b"\xef\xbb\xbfa\n", b"-\n", b"d\n"]], "text")
    expected = [predictor(["a"])[0], NOTHING, predictor(["d"])[0]]
    assert list(map(str, next(result))) == list(map(str, expected))


@pytest.mark.parametrize(
    "line", ["<pad>", "<pad> <pad>", "<s>", "</s>", "<mask>", "\0", "\u2028x", "\ud800"]
)
def test_symbols_are_unknown_words_and_change_no_other_line(predictor, line):
    texts = ["a b", line, "d e a b"]
    result = predictor(texts)
    alone = [predictor([text])[0] for text in texts]
    unknown = predictor(["never-seen " * len(line.split() or [line])])[0]
    for actual, expected in zip(result, [alone[0], unknown, alone[2]], strict=True):
        assert actual.label == expected.label
        assert actual.probabilities == pytest.approx(expected.probabilities, abs=1e-6)


@pytest.mark.parametrize("descriptor", ["pipe", "file"])
def test_lines_come_in_groups_as_they_arrive(descriptor, tmp_path):
    if descriptor == "file":
        (tmp_path / "text").write_bytes(b"1\n2\n3\n4\n5")
        with open(tmp_path / "text", "rb") as file:
            groups = list(stream.arriving_lines(file.fileno(), group_size=2, name="text"))
        assert groups == [[b"1", b"2"], [b"3", b"4"], [b"5"]]
        return
    reading, writing = os.pipe()
    groups = stream.arriving_lines(reading, group_size=10, name="text")
    os.write(writing, b"1\n2\n3")  # the third line is not whole
    assert next(groups) == [b"1", b"2"]
    os.write(writing, b"3\n")
    assert next(groups) == [b"33"]
    os.write(writing, b"4")
    os.close(writing)
    assert list(groups) == [[b"4"]]
    os.close(reading)


def words_of(predictor, sentences):
    rows = predictor.encode(sentences)
    return [[predictor.dictionary[token] for token in row] for row in rows]


def test_long_texts_are_shortened_like_in_training():
    predictor = load()
    limit = predictor.task.cfg.max_positions
    with pytest.warns(UserWarning, match=rf": 1 text was cut to the {limit} tokens .*\(text 2\)"):
        assert predictor(["a", "a " * limit])[1].label
    for words, tokens in (
        (limit + 5, ["a"] * limit),
        (limit, ["a"] * limit),
        (limit - 1, ["a"] * (limit - 1) + ["</s>"]),
    ):
        assert words_of(predictor, ["a " * words]) == [tokens]


def test_pairs_are_concatenated_like_in_training(data):
    (data / "input1").mkdir()
    predictor = load(data)
    assert predictor.expects_pairs
    assert words_of(predictor, ["a", "b d"]) == [["a", "</s>", "b", "d", "</s>"]]
    predictor.task.cfg.init_token, predictor.task.cfg.separator_token = 0, 2
    joined = [["<s>", "a", "</s>", "</s>", "b", "d", "</s>"]]
    assert words_of(predictor, ["a", "b d"]) == joined
    predictor.task.cfg.max_positions = 5
    assert words_of(predictor, ["a", "b d"]) == [joined[0][:5]]
    predictor = load()
    predictor.task.cfg.init_token, predictor.task.cfg.separator_token = 0, 2
    assert words_of(predictor, ["a"]) == [["<s>", "a", "</s>"]]


def write_manifest(data, **fields):
    fields = {"corpus": "x", "task": "sentence_prediction", "word_rule": "moses", **fields}
    (data / "preparation.json").write_text(json.dumps(fields))


def test_text_is_tokenized_and_lower_cased_like_the_data(data):
    for name, expected in (
        ("spaces", "It isn't (good)!"),
        ("moses", "It is n't ( good ) !"),
        ("treebank", "It is n't ( good ) !"),
    ):
        write_manifest(data, word_rule=name)
        assert load(data).words("It isn't (good)!") == expected
    assert load(data, words="spaces").words("It isn't!") == "It isn't!"
    without_manifest = load()
    assert without_manifest.words("It isn't!") == "It isn't!"
    assert without_manifest.lower  # the dictionary has no capitals
    for lower in (False, True):
        write_manifest(data, lower=lower)
        assert load(data).lower == lower


def test_wrong_data_is_reported(data):
    with pytest.raises(UsageError, match="words 'telepathy': no such rule; name one of"):
        load(data, words="telepathy")
    for labels in (["back"], ["back", "forth", "up"]):
        (data / "label" / "dict.txt").write_text("".join(f"{label} 1\n" for label in labels))
        with pytest.raises(UsageError, match=f"has 2 classes, but .* has {len(labels)}; name"):
            load(data)


def test_the_command_tokenizes_plain_text(data, tmp_path, monkeypatch):
    """Check that Moses is the default, and that documents are split into sentences."""
    (tmp_path / "text").write_text("It isn't good! Is it?\n")
    seen = []
    monkeypatch.setattr(
        prediction.Predictor,
        "read_groups",
        lambda self, groups, *rest: seen.append(self.words("It isn't good! Is it?")) or [],
    )
    command("--input", tmp_path / "text", data=data)
    command("--input", tmp_path / "text", "--tokenizer", "none", data=data)
    dictionary = (data / "input0" / "dict.txt").read_text().splitlines()
    dictionary[-1] = "<sep> 1"
    (data / "input0" / "dict.txt").write_text("\n".join(dictionary) + "\n")
    command("--input", tmp_path / "text", data=data)
    write_manifest(data, word_rule="spaced")
    command("--input", tmp_path / "text", data=data)
    assert seen == [
        "It is n't good ! Is it ?",
        "It isn't good! Is it?",
        "It is n't good ! <sep> Is it ?",
        "It is n't good ! Is it ?",
    ]


def test_prepared_text_is_not_split_into_subwords_again(data, write, capsys):
    """Check the command that posattn train prints, on the text/test.input0 of subwords."""
    command("--input", write("text", ["a b"]), "--tokenizer", "none")
    write_manifest(data, word_rule="spaces", subwords="subword_nmt")
    (data / "bpe.codes").write_text("#version: 0.2\nx y\n")
    dictionary = data / "input0" / "dict.txt"
    dictionary.write_text(dictionary.read_text().replace("a ", "a@@ "))
    command("--input", write("text", ["ab"]), data=data)
    command("--input", write("text", ["a@@ b"]), "--tokenizer", "none", data=data)
    known, words, subwords = capsys.readouterr().out.splitlines()
    assert known == words == subwords


def test_a_tab_in_a_text_is_a_space():
    seen = []
    load(words=lambda text: seen.append(text) or text)("a\tb")
    assert seen == ["a b"]


def test_one_bad_line_does_not_end_the_file(write, capsys):
    """Check a line longer than the model reads, TABs, and bytes that are no text."""
    lines = [b"a b", b"a " * 600, b"d\te", b"a\xff", b"d\xff", b" \ta\t", b"", b"d e"]
    path = write("text", b"\n".join(lines))
    assert command("--input", path) == 0
    output = capsys.readouterr()
    labels = [line.partition("\t")[0] for line in output.out.split("\n")[:-1]]
    answered = [label in ("back", "forth") for label in labels]
    assert answered == [True, True, True, False, False, True, False, True]
    cut, spaced, bad, blank = output.err.splitlines()
    assert f"{path}: 1 line was cut to the 16 tokens that the model reads (line 2)" in cut
    assert cut.endswith("; train with a larger --max-positions")
    assert "1 line was read with a space for each TAB" in spaced and "(line 3)" in spaced
    assert "2 lines were answered with a blank line: not UTF-8: byte 2 is 0xff" in bad
    assert bad.endswith("(first: line 4)")
    assert blank == "1 blank line answered with a blank line"


def test_a_text_is_one_prediction_and_texts_are_several(predictor):
    [first, second] = predictor(["a b", "d e"])
    assert str(predictor("a b")) == str(first)
    for texts in (("a b", "d e"), (text for text in ("a b", "d e"))):
        assert list(map(str, predictor(texts))) == [str(first), str(second)]
    assert predictor([]) == predictor(()) == []


def test_a_predictor_is_pickled_as_the_call_that_loads_it(predictor):
    assert str(pickle.loads(pickle.dumps(predictor))("a b")) == str(predictor("a b"))


def test_a_tuple_of_two_texts_is_one_pair(data):
    (data / "input1").mkdir()
    predictor = load(data)
    assert str(predictor(("a", "b"))) == str(predictor([("a", "b")])[0])
    with pytest.raises(UsageError, match="text 1: the model needs a pair"):
        predictor("a")


@pytest.mark.parametrize("texts", [["a", None], ["a", b"b"], ["a", 2], ["a", ["b", 2]]])
def test_what_is_no_string_is_a_type_error(texts, predictor):
    with pytest.raises(TypeError, match="^text 2: .*: must be a string"):
        predictor(texts)
    for value in (texts[1], b"a", 3):
        if not isinstance(value, list):
            with pytest.raises(TypeError, match="^text: .*: must be a string or several"):
                predictor(value)


def test_a_batch_is_sized_by_its_longest_line():
    lengths = [9, 1, 5, 0, 9, 2]
    rows = list(stream.batches(lengths, batch_size=4, max_tokens=18))
    assert rows == [[0, 4], [2, 5, 1]]
    assert all(max(lengths[row] for row in some) * len(some) <= 18 for some in rows)


def test_outputs_that_are_not_finite_are_an_error():
    predictor = load()
    predictor.model.forward = lambda *inputs, **options: (torch.tensor([[1, float("nan")]]), {})
    with pytest.raises(UsageError, match="the model's output is NaN"):
        predictor(["a"])


def test_unknown_words_are_reported_once(write, capsys):
    path = write("text", ["x", "y z a", "<pad>", "a b"])
    assert command("--input", path, "--buffer-size", "2") == 0
    warning = capsys.readouterr().err
    assert warning.startswith(f"warning: {path}: 3 of 4 words are unknown to the model: ")
    assert warning.count("\n") == 1
    assert command("--input", write("text", ["a x"])) == 0
    assert capsys.readouterr().err == ""


def test_an_endless_line_is_refused(tmp_path, capsys):
    with open(tmp_path / "text", "wb") as file:
        file.truncate(1 << 40)
    assert command("--input", tmp_path / "text") == 1
    assert f"{tmp_path / 'text'}: a line of more than 2,097,152 bytes" in capsys.readouterr().err
