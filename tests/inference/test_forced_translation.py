"""Translations with prefixes and constraints."""

import pytest
from small_translator import EXPECTED, command, load

from fairseq_posattn.text import manifest, plain_text
from fairseq_posattn.text.manifest import Manifest
from fairseq_posattn.text.subwords import learn_wordpiece, train_sentencepiece, whole_words


def test_one_sentence_gives_one_translation(source):
    translator = load(constraints="ordered")
    assert translator(source[0]).text == EXPECTED[0]
    for constraints in (["C B"], "C B"):
        assert "C B" in translator(source[0], constraints=constraints).text


def test_translations_begin_with_their_prefixes_in_any_batch(source):
    translator = load(min_len=4, nbest=5)
    prefixes = ["B A C B", "", "C C", " ", *[""] * (len(source) - 4)]
    batched = translator(source, prefixes=prefixes)
    pairs = zip(source, prefixes, strict=True)
    alone = [translator(text, prefixes=prefix) for text, prefix in pairs]
    assert [result.text for result in batched] == [result.text for result in alone]
    for result, prefix in zip(batched, prefixes, strict=True):
        assert len(result.hypotheses) > 1
        for hypothesis in result.hypotheses:
            assert hypothesis.text.split()[: len(prefix.split())] == prefix.split()
            assert len(hypothesis.text.split()) >= 4
    assert not any(result.failed for result in batched)


def test_a_greedy_translation_continues_its_prefix(source):
    translator = load(beam=1)
    texts = [result.text for result in translator(source)]
    prefixes = [" ".join(text.split()[: row % 3]) for row, text in enumerate(texts)]
    assert [result.text for result in translator(source, prefixes=prefixes)] == texts


@pytest.mark.parametrize("way", ["ordered", "unordered"])
def test_translations_contain_their_constraints(way, source):
    translator = load(constraints=way)
    wanted = [["C C", "A"], [], ["B A B"], ["", "C"], *[()] * (len(source) - 4)]
    batched = translator(source, constraints=wanted)
    for phrases, result, text, expected in zip(wanted, batched, source, EXPECTED, strict=True):
        assert result.text == translator(text, constraints=phrases).text
        rest = f" {result.text} "
        for phrase in filter(None, phrases):
            assert f" {phrase} " in rest
            if way == "ordered":
                rest = rest[rest.index(f" {phrase} ") + len(phrase) + 1 :]
        if not phrases:
            assert result.text == expected


def test_unsatisfiable_conditions_affect_no_other_line(source):
    beginning, having = load(max_len_b=8), load(max_len_b=8, constraints="ordered")
    long = " ".join("ABC" * 3)
    expected = [result.text for result in beginning(source[:2])]
    for translator, forced in (
        (beginning, {"prefixes": ["", long, ""]}),
        (having, {"constraints": [[], [long], []]}),
    ):
        result = translator([source[0], source[0], source[1]], **forced)
        assert [translation.text for translation in result] == [expected[0], "", expected[1]]
        assert [translation.failed for translation in result] == [False, True, False]


def test_prefixes_and_constraints_are_tokenized_like_the_target(plain_data, monkeypatch):
    monkeypatch.setattr(plain_text, "splitter", lambda *rules: f"{{}} {rules[2]}".format)
    translator = load(data=plain_data, constraints="unordered")
    line = translator.lines.encode("a", "B", ["C"])
    target = translator.task.target_dictionary
    unknown = target.unk()
    assert line.subwords == ("a", "de")
    assert line.prefix.tolist() == [target.index("B"), unknown]
    assert [part.tolist() for part in line.constraints] == [[target.index("C"), unknown]]


@pytest.mark.parametrize(
    "kind, size", [("sentencepiece", 290), ("sentencepiece", 20), ("wordpiece", 40)]
)
def test_constraints_in_scripts_without_spaces_follow_other_words(plain_data, kind, size):
    lines = ["ab c", "c \u5e02\u5834\u306b\u3042\u308b", "\u6751\u306b\u3042\u308b ab"] * 9
    if kind == "wordpiece":
        learn_wordpiece(lambda: lines, size, True, plain_data / "vocab.txt")
    else:
        options = {"model_type": "bpe", "normalization_rule_name": "identity"}
        options |= {"byte_fallback": size > 256, "hard_vocab_limit": False}
        train_sentencepiece(lines, size, plain_data / "spm", **options)
    rules = {"word_rule": "text", "subwords": kind, "languages": ("de", "en"), "cased": True}
    manifest.write(plain_data, Manifest("own", "translation", **rules))
    split = load(data=plain_data, constraints="ordered").lines._split_constraint
    bracket = "\u300c" if size == 290 else ""  # in bytes, else unknown
    for text in (lines[1][4:], lines[1][6:], bracket + lines[1][4:]):
        assert whole_words(f"x {split(text)}", kind) == f"x{text}"
    assert whole_words(f"x {split('c')}", kind) == "x c"


def test_prefixes_are_read_from_a_file(write, capsys, source):
    prefixes = write("prefixes", "C B\n\n B\r\n")
    words = ["--prefixes", prefixes, "--buffer-size", "2", "--prefix-size", "1"]
    assert command("--input", write("text", source[:3]), *words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [lines[0][0], lines[1], lines[2][0]] == ["C", EXPECTED[1], "B"]


@pytest.mark.parametrize("lines, complaint", [(1, "fewer lines"), (3, "more lines")])
def test_prefixes_of_another_number_give_one_line_errors(lines, complaint, write, capsys, source):
    prefixes, text = write("prefixes", "\n" * lines), write("text", source[:2])
    assert command("--input", text, "--prefixes", prefixes) == 1
    output = capsys.readouterr()
    assert output.out.splitlines() == EXPECTED[: min(lines, 2)]
    error = f"posattn translate: error: {prefixes}: has {complaint} than {text}"
    assert output.err.splitlines()[-1] == error


def test_unsatisfied_conditions_are_reported_with_line_and_words(write, capsys, source):
    long = "A B " * 6
    text = write("text", f"{source[0]}\tC C\tB\n\n{source[1]}\tC\t{long}\n{source[2]}\n")
    options = ("--buffer-size", 2, "--max-len-b", 9)
    assert command("--input", text, "--constraints", *options) == 0
    output = capsys.readouterr()
    first, *others = output.out.splitlines()
    assert " B" in first[first.index("C C") :]
    assert others == ["", "", EXPECTED[2]]
    beginning = f"warning: {text}:3: answered with a blank line: no translation of {source[1]!r} "
    end = " within --max-len-a, --max-len-b and --no-repeat-ngram-size"
    (warning,) = (line for line in output.err.splitlines() if "answered with" in line)
    assert warning == f"{beginning}with 'C', {long!r} in it{end}"

    prefixes = write("prefixes", ["", "", long, ""])
    write("text", [source[0], "", source[1], source[2]])
    assert command("--input", text, "--prefixes", prefixes, *options) == 0
    assert f"{beginning}that begins with {long!r}{end}" in capsys.readouterr().err
