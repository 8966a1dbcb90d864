"""Plot learning curves: loss, score and learning rate by update.

    %(prog)s checkpoints/dman/iwslt14 --output curves.png

Give a folder written by posattn train, a recipe or fairseq-hydra-train, or a folder of those.
For other trainings give the file with the output of fairseq-train in --log-format json or simple.
Runs of one model that differ in seed or fold share a color. A resumed training is one line.
"""

import os
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from fairseq_posattn.common import cli
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.figures import check_picture, write_picture
from fairseq_posattn.common.files import files_in
from fairseq_posattn.training.curves import Curves, plot_curves
from fairseq_posattn.training.training_log import TrainingLog

LOGS = ("train.log", "hydra_train.log")
SEED = re.compile(r"(fold\d+-)?seed\d+")


def main(arguments: Sequence[str] | None = None, prog: str | None = None) -> int:
    """Plot the curves and return the exit status; raise UsageError if nothing can be plotted."""
    parser = cli.make_parser(__doc__, prog)
    text = "folder of one or several runs, or a log file"
    parser.add_argument("paths", nargs="+", type=Path, metavar="FOLDER", help=text)
    text = "figure to write, .png or .pdf (default: curves.png)"
    parser.add_argument("--output", default="curves.png", metavar="FILE", help=text)
    wanted = parser.parse_args(arguments)
    check_picture(wanted.output)
    paths = _find_logs(wanted.paths)
    logs = {path: TrainingLog(path) for path in paths}
    trained = [path for path, log in logs.items() if log.points("loss", "train", "valid")]
    for path in paths:
        if path not in trained:
            sys.stderr.write(f"warning: {path}: has no measurements yet; skipped\n")
    if not trained:
        raise UsageError(f"{wanted.paths[0]}: no measurements yet; train longer")
    runs = [Curves(name, logs[path], group) for path, (group, name) in _name_runs(trained).items()]
    write_picture(plot_curves(runs), wanted.output)
    print(f"{len(trained)} training{'s' if trained[1:] else ''} plotted to {wanted.output}")
    return 0


def _find_logs(paths: Iterable[Path]) -> list[Path]:
    """Return the logs of runs without duplicates."""
    unique: dict[Path, Path] = {}
    for path in paths:
        if not path.exists():
            raise UsageError(f"{path}: no such folder or file")
        logs = [path] if path.is_file() else sorted(p for p in files_in(path) if p.name in LOGS)
        if not logs:
            names = " or ".join(LOGS)
            raise UsageError(f"{path}: has no {names}; give the file of fairseq-train's output")
        unique |= {log.resolve(): log for log in logs}
    return list(unique.values())


def _name_runs(logs: Sequence[Path]) -> dict[Path, tuple[str, str]]:
    """Return (group, name) of each log: the parts of its path that differ."""
    named = {}
    for log in logs:
        path = log.resolve()
        parts = path.parent.parts if log.name in LOGS else path.parts
        named[log] = parts[:-1] if SEED.fullmatch(parts[-1]) else parts
    shared = len(os.path.commonprefix([parts[:-1] for parts in named.values()]))
    return {log: ("/".join(parts[shared:-1]), parts[-1]) for log, parts in named.items()}
