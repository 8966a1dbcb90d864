"""--help of fairseq's commands with the plugin."""

import inspect
import sys

import pytest
from fairseq import options

from fairseq_posattn.training.presets import ARCHITECTURES

COMMANDS = {
    "train": options.get_training_parser,
    "generate": options.get_generation_parser,
    "interactive": options.get_interactive_generation_parser,
    "validate": options.get_validation_parser,
}


@pytest.fixture
def help_of(monkeypatch, capsys):
    """``help_of("train", "--arch", ...)``: what the command prints when asked for help, too."""

    def help_of(command, *words, parse=options.parse_args_and_arch):
        monkeypatch.setattr(sys, "argv", [f"fairseq-{command}", *words, "--help"])
        with pytest.raises(SystemExit) as stopped:
            parse(COMMANDS[command]())
        assert stopped.value.code == 0
        return capsys.readouterr().out

    return help_of


def test_fairseq_explains_the_same_whatever_is_named_beside_it(help_of):
    """And no architecture."""
    fairseqs = inspect.unwrap(options.parse_args_and_arch)
    plain = help_of("train", parse=fairseqs)
    assert help_of("train", "--arch", "posattn_transformer", parse=fairseqs) == plain
    assert "posattn_transformer" not in plain and "--source-lang" not in plain


def explained(text):
    """The flags that a help explains, each on a line of its own."""
    return {word for line in text.splitlines() for word in line.split()[:1] if word[:2] == "--"}


@pytest.mark.parametrize("arch", ["mpsan_classifier", *ARCHITECTURES])
def test_the_flags_of_the_architecture_that_is_named(help_of, arch):
    own = {"mpsan_classifier": "--mpsan-masks", "posattn_classifier": "--pooling-queries"}
    own |= {"posattn_recommender": "--pooling-dim", "posattn_tagger": "--predicate-embed-dim"}
    flag = own.get(arch, "--encoder-sublayers")
    assert flag in explained(help_of("train", "--arch", arch))


def test_the_flags_of_the_task_and_the_criterion_that_are_named(help_of):
    words = ["--task", "sentence_pair_prediction", "--criterion", "sentence_classification"]
    for command in COMMANDS:
        found = explained(help_of(command, *words))
        assert {"--num-classes", "--l2", "--max-positions"} <= found, command
        assert "--source-lang" not in found


def test_a_wrong_name_is_reported(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["fairseq-train", "--arch", "dmann_iwslt_de_en", "--help"])
    with pytest.raises(SystemExit) as stopped:
        options.parse_args_and_arch(options.get_training_parser())
    assert stopped.value.code == 2
    assert "dman_iwslt_de_en" in capsys.readouterr().err
