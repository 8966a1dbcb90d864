"""Draw the learning curves of trainings: loss, score and learning rate by the update.

    %(prog)s checkpoints/dman/iwslt14 --output curves.png

A folder is one that a recipe or fairseq-hydra-train has filled, or one with such folders in it. Of
other trainings, name the file that keeps what fairseq-train has printed, in --log-format json or
simple. Runs of one model that differ in their seed or fold have one colour. A training that was
stopped and went on is one line.
"""

import os
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from fairseq_posattn.common import cli
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.figures import check_picture, write_picture
from fairseq_posattn.training.curves import Curves, figure_of
from fairseq_posattn.training.training_log import TrainingLog

LOGS = ("train.log", "hydra_train.log")
SEED = re.compile(r"(fold\d+-)?seed\d+")


def main(arguments: Sequence[str] | None = None, prog: str | None = None) -> int:
    """Draw, and say where; returns the exit status.

    Raises:
        UsageError: there is nothing to draw, or it cannot be drawn.
    """
    parser = cli.make_parser(__doc__, prog)
    parser.add_argument(
        "paths", nargs="+", type=Path, metavar="FOLDER", help="of a run or of several, or a log"
    )
    parser.add_argument(
        "--output",
        default="curves.png",
        metavar="FILE",
        help="the picture, in .png or .pdf (default: curves.png)",
    )
    wanted = parser.parse_args(arguments)
    check_picture(wanted.output)
    paths = _logs(wanted.paths)
    logs = {path: TrainingLog(path) for path in paths}
    trained = [path for path, log in logs.items() if log.points("loss", "train", "valid")]
    for path in paths:
        if path not in trained:
            sys.stderr.write(f"warning: {path} is left out: fairseq-train measured nothing yet\n")
    if not trained:
        raise UsageError(f"{wanted.paths[0]}: there is nothing to draw yet")
    runs = [Curves(name, logs[path], group) for path, (group, name) in _named(trained).items()]
    write_picture(figure_of(runs), wanted.output)
    many = "trainings are" if trained[1:] else "training is"
    print(f"{len(trained)} {many} drawn in {wanted.output}")
    return 0


def _logs(paths: Iterable[Path]) -> list[Path]:
    """The logs of runs, each once."""
    found: dict[Path, Path] = {}
    for path in paths:
        if not path.exists():
            raise UsageError(f"{path}: there is no such folder or file")
        logs = [path] if path.is_file() else sorted(p for name in LOGS for p in path.rglob(name))
        if not logs:
            raise UsageError(
                f"{path}: there is no {' or '.join(LOGS)} in it; name the file that keeps what "
                "fairseq-train printed"
            )
        found |= {log.resolve(): log for log in logs}
    return list(found.values())


def _named(logs: Sequence[Path]) -> dict[Path, tuple[str, str]]:
    """What tells the logs apart: the folder above those of the runs, and that of the run."""
    named = {}
    for log in logs:
        path = log.resolve()
        parts = path.parent.parts if log.name in LOGS else path.parts
        named[log] = parts[:-1] if SEED.fullmatch(parts[-1]) else parts
    shared = len(os.path.commonprefix([parts[:-1] for parts in named.values()]))
    return {log: ("/".join(parts[shared:-1]), parts[-1]) for log, parts in named.items()}
