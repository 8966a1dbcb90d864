"""Wrong files and options of ``posattn score`` end in one line."""

import pytest

from fairseq_posattn.scoring.commands.score import main

PROPS = "-\t(A0*)\ndo\t(V*)\n-\t(A1*)\n\n"
FILES = {
    "GOLD": PROPS,
    "LABELS": "yes\n" * 60,
    "TEXT": "a b .\nc d .\n",
    "RUN": "T-0\ta\nH-0\t-1\ta\n",
}
FORM = "wrong format; a line is NAME<TAB>LABELS"
NUMBERS = "labels must be 0 or 1 and scores finite"
BLEU = "bleu --hypotheses TEXT --references TEXT"
# A command, the contents of FILE, and words of the message.
MISTAKES = [
    (
        "labels --references LABELS --predictions FILE",
        "yes\n" * 59,
        "FILE: 59 lines for 60 references",
    ),
    ("ranking --scores FILE", "1\t[1, 0]\t[2, 1]\n1\t[1, 0]\n", f"FILE:2: {FORM}"),
    ("ranking --scores FILE", "1\t[1, 0]\t[0.5]\n", f"FILE:1: {FORM}"),
    ("ranking --scores FILE", "1\t[1, 0]\t[0.5\n", f"FILE:1: {FORM}"),
    ("ranking --scores FILE", b"1\t[\xff]\t[0.5]\n", "FILE:1: not UTF-8"),
    ("ranking --scores FILE", "1\t[1, 2]\t[0.5, 1]\n", f"FILE:1: {NUMBERS}"),
    ("ranking --scores FILE", "1\t[1, 0]\t[0.5, NaN]\n", f"FILE:1: {NUMBERS}"),
    ("ranking --scores FILE", "1\t[1, 0]\t[0.5, 1e999]\n", f"FILE:1: {NUMBERS}"),
    ("ranking --scores FILE", "", "FILE: no impressions"),
    ("ranking --scores FILE", "1\t[0, 0]\t[2, 1]\n", "FILE: no impressions with both labels"),
    ("ranking --scores nowhere", "", "nowhere: No such file"),
    ("srl --gold GOLD --predicted FILE", PROPS.replace("1*)", "1*"), "FILE:3: (A1* is never clos"),
    ("srl --gold GOLD --predicted FILE", f"-\t*\n{PROPS}", "FILE:1: a sentence of 4 words, but 3 "),
    ("srl --gold GOLD --predicted FILE", "", "FILE: 0 sentences, but 1 in"),
    ("srl --gold FILE --predicted FILE", "", "FILE: no sentences"),
    (f"{BLEU} --language qq", "", "language 'qq': unknown code"),
    (f"{BLEU} --detokenize deutsh", "", "language 'deutsh': unknown code; did you mean de?"),
    (f"{BLEU} --detokenize de --language en", "", "--detokenize: sets --text and --language"),
    (f"{BLEU} --raw-references FILE", "one\n", "FILE: 1 line for 2 references"),
    (f"{BLEU} --baseline FILE", "one\n", "FILE: 1 line for 2 references"),
    (f"{BLEU} --by-length 9 --sources FILE", "one\n", "FILE: 1 line for 2 references"),
    (f"{BLEU} --by-length 9 --plot x.txt", "", "--plot x.txt: the name must end in .png or .pdf"),
    (f"{BLEU} --comet FILE", "one\n", "FILE: not a file of scores as of 'comet-score -s SOURCES"),
    (f"{BLEU} --comet FILE", '{"a": [{"mt": "b"}]}', "FILE: not a file of scores as of"),
    ("bleu --generated RUN --baseline FILE", "T-0\tb\nH-0\t-1\ta\n", "FILE: its references differ"),
    ("bleu --generated RUN FILE", "T-0\tb\nH-0\t-1\ta\n", "FILE: its references differ from those"),
]


@pytest.mark.parametrize("command, content, message", MISTAKES)
def test_a_mistake_is_one_line(command, content, message, tmp_path, capsys):
    for name, text in (FILES | {"FILE": content}).items():
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        command = command.replace(name, str(tmp_path / name))
    assert main(command.split()) == 1
    error = capsys.readouterr().err
    assert message.replace("FILE", str(tmp_path / "FILE")) in error and error.count("\n") == 1


@pytest.mark.parametrize("kind", ["srl --gold FILE --predicted", "ranking --scores"])
def test_an_endless_line_is_refused(tmp_path, capsys, kind):
    path = tmp_path / "zeros"
    with open(path, "wb") as file:
        file.truncate(1 << 40)
    assert main([*kind.replace("FILE", str(path)).split(), str(path)]) == 1
    assert f"{path}:1: a line of more than 16,777,216 bytes" in capsys.readouterr().err


ONE_TEXT = "either --generated FILE or --hypotheses FILE"
INCREASING = "give increasing numbers such as 10,20,40"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", ONE_TEXT),
        ("--generated a --hypotheses b", ONE_TEXT),
        ("--generated a --by-length 20,10", INCREASING),
        ("--generated a --by-length 0,10", INCREASING),
        ("--generated a --by-length x", INCREASING),
        ("--generated a --sources b", "--sources and --plot need --by-length"),
    ],
)
def test_wrong_options_are_refused(arguments, message, capsys):
    with pytest.raises(SystemExit):
        main(["bleu", *arguments.split()])
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "kind", ["bleu --hypotheses", "rouge --hypotheses", "labels --predictions"]
)
def test_references_are_one_file(kind, write, capsys):
    text = write("text", "a b .\n")
    references = ["--references", text, "--references", text]
    with pytest.raises(SystemExit):
        main([*kind.split(), text, *references])
    assert "argument --references: given twice; give one" in capsys.readouterr().err
