"""``fairseq-validate --results-path FOLDER`` writes what was predicted, as fairseq-generate does.

fairseq (0.12.2, fairseq-fixed 0.12.3.1) takes the flag and ignores it, so that of two classifiers'
accuracies nobody can say whether they differ by more than chance. With the plugin's criterions for
sentences, ``predictions-test.txt`` of the subset "test" has a line for each of its examples, in the
order of the data set: what was predicted, a tab, what is right.
"""

from pathlib import Path

from fairseq_cli import validate

from fairseq_posattn.common.files import write_text
from fairseq_posattn.compat.patching import around

# By the subset and the number of the example, its line; None where nobody wants them.
_kept: dict[str, dict[int, str]] | None = None


def wanted() -> bool:
    """Whether predictions are written."""
    return _kept is not None


def keep(task, ids, predicted, right):
    """Called by a criterion: what it predicted of a batch.

    Args:
        task: the subset that it loaded last is the one that is validated.
        ids, predicted, right: lists, as many of each.
    """
    lines = _kept.setdefault(next(reversed(task.datasets)), {})
    for number, one, other in zip(ids, predicted, right, strict=True):
        lines[number] = f"{one}\t{other}\n"


@around(validate, "main")
def _with_results(main, cfg, *args, **kwargs):
    global _kept
    folder = cfg.common_eval.results_path
    if folder is None:
        return main(cfg, *args, **kwargs)
    Path(folder).mkdir(parents=True, exist_ok=True)
    _kept = {}
    try:
        main(cfg, *args, **kwargs)
        for subset, lines in _kept.items():
            text = "".join(lines[number] for number in sorted(lines))
            write_text(Path(folder) / f"predictions-{subset}.txt", text)
    finally:
        _kept = None
