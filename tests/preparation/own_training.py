"""The command that a preparation of one's own data ends with, as fairseq-train reads it."""

import shlex

import fairseq_posattn
from fairseq_posattn.training.plugin import register


def printed_training(printed):
    """The options of the training that was printed after ``next:``."""
    register()
    from fairseq import options

    command = printed.partition("next:\n")[2].replace("\\\n", "")
    program, *words = shlex.split(
        command.replace("$(posattn user-dir)", fairseq_posattn.__path__[0])
    )
    assert program == "fairseq-train"
    return options.parse_args_and_arch(options.get_training_parser(), words)
