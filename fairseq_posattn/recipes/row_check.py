"""Check the commands of a custom table without running them.

``python -m fairseq_posattn.recipes.row_check`` reads a JSON list of the words of command lines,
from fairseq-train or fairseq-generate on. It writes for each the first mistake or null, and of a
training the metrics that its table may have: those of the criterion and measured costs.
"""

import contextlib
import io
import json
import sys
from collections.abc import Sequence

import torch

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.checks import metrics_of
from fairseq_posattn.recipes.recipe import MEASURED_COSTS
from fairseq_posattn.training.models.classifier import PosAttnClassifier
from fairseq_posattn.training.registered import options, tasks


def check(words: Sequence[str]) -> tuple[str | None, Sequence[str]]:
    """Parse a command line as fairseq does, and build a training's model without weights."""
    sys.argv = [*words]  # read by fairseq, also for --user-dir
    errors, costs = io.StringIO(), [*MEASURED_COSTS]
    trains = words[0] == "fairseq-train"
    try:
        with contextlib.redirect_stderr(errors):
            parser = options.get_training_parser if trains else options.get_generation_parser
            parsed = options.parse_args_and_arch(parser())
            if trains:
                with torch.device("meta"):
                    model = tasks.setup_task(parsed).build_model(parsed)
                if not isinstance(model, PosAttnClassifier):  # the only ones that can be measured
                    costs = []
    except SystemExit:  # argparse's
        return errors.getvalue().strip().rpartition("error: ")[2], ()
    except Exception as error:
        if isinstance(error, UsageError) or str(error).startswith("--"):
            return str(error), ()  # others may be due to the lack of weights
    metrics = metrics_of(parsed.criterion) if trains else ()  # empty if they are unknown
    return None, [*metrics, *costs] if metrics else ()


def main() -> None:
    with contextlib.redirect_stdout(sys.stderr):  # models may print
        checked = [check(words) for words in json.load(sys.stdin)]
    json.dump(checked, sys.stdout)


if __name__ == "__main__":
    main()
