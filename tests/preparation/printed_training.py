"""Parse the training command that a preparation of custom data prints."""

import shlex

import fairseq_posattn
from fairseq_posattn.training.plugin import register


def printed_training(printed):
    """Return the options of the command after ``next:``; check that it keeps few checkpoints."""
    register()
    from fairseq import options

    command = printed.partition("which runs\n")[2].replace("\\\n", "")
    user_dir = fairseq_posattn.__path__[0]
    program, *words = shlex.split(command.replace("$(posattn user-dir)", user_dir))
    assert program == "fairseq-train"
    trained = options.parse_args_and_arch(options.get_training_parser(), words)
    assert trained.no_epoch_checkpoints
    assert 0 < trained.patience < 50
    assert not trained.save_interval_updates
    return trained
