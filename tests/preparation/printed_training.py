"""Run the training command that a preparation prints as a dry run, and parse its flags."""

import io
import shlex
from contextlib import redirect_stdout

import fairseq_posattn
from fairseq_posattn.training.commands.train import main as train
from fairseq_posattn.training.plugin import register


def printed_training(printed):
    """Return the options of fairseq-train; check that few checkpoints are kept."""
    register()
    from fairseq import options

    words = shlex.split(printed.partition("next:\n")[2].splitlines()[0])
    assert words[:2] == ["posattn", "train"]
    dry_run = io.StringIO()
    with redirect_stdout(dry_run):
        assert train(["--dry-run", *words[2:]], "posattn train") == 0
    command = dry_run.getvalue().replace("\\\n", "")
    user_dir = fairseq_posattn.__path__[0]
    _, *words = shlex.split(command.replace("$(posattn user-dir)", user_dir))
    trained = options.parse_args_and_arch(options.get_training_parser(), words)
    assert trained.no_epoch_checkpoints
    assert 0 < trained.patience < 50
    assert not trained.save_interval_updates
    return trained
