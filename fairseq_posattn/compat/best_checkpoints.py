"""``--keep-best-checkpoints N``, of which fairseq keeps fewer than N, or more.

fairseq 0.12 writes none that is worse than those that it has, even where they are fewer than N. It
knows them by the scores in their names, but for scores below zero, as Pearson's r may be: these are
never removed.
"""

import os
from types import SimpleNamespace

from fairseq import checkpoint_utils

from fairseq_posattn.compat.patching import around

BEST, SCORE, ANY_SCORE = r"checkpoint\.best_", r"(\d+\.?\d*)", r"(-?\d+\.?\d*)"
_asked = SimpleNamespace(number=0, highest=False)


@around(checkpoint_utils, "save_checkpoint")
def _note_what_is_asked(save_checkpoint, cfg, *args, **kwargs):
    _asked.number = getattr(cfg, "keep_best_checkpoints", 0)
    _asked.highest = cfg.maximize_best_checkpoint_metric
    return save_checkpoint(cfg, *args, **kwargs)


@around(checkpoint_utils, "checkpoint_paths")
def _find_best(checkpoint_paths, path, pattern=r"checkpoint(\d+)\.pt", keep_match=False):
    """While there are fewer than N, a file that is not there is the worst: any is better."""
    if not pattern.startswith(BEST):
        return checkpoint_paths(path, pattern, keep_match)
    found = checkpoint_paths(path, pattern.replace(SCORE, ANY_SCORE), keep_match)
    if len(found) < _asked.number:
        place, score = (len(found), "-inf") if _asked.highest else (0, "inf")
        found.insert(place, os.path.join(path, pattern.replace(SCORE, score).replace("\\", "")))
    return found
