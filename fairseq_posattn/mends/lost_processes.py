"""A process of several that ends before the others: the others' tracebacks name sockets."""

import re

from fairseq.distributed import utils as distributed_utils

from fairseq_posattn.errors import UsageError
from fairseq_posattn.mends.patching import patch

# gloo's words, and those of the store where the processes meet
LOST = re.compile("(closed|reset) by peer|Broken pipe|Timed out waiting|Connection refused|timeout")


def apply():
    patch(distributed_utils, "distributed_main", _say_that_one_is_lost)


def _say_that_one_is_lost(distributed_main):
    def main_or_explain(i, main, cfg, kwargs):
        try:
            distributed_main(i, main, cfg, kwargs)
        except (RuntimeError, UsageError) as error:
            lost = LOST.search(f"{error} {error.__cause__}")
            if not lost:
                raise
            rank = cfg.distributed_training.distributed_rank
            raise UsageError(
                f"process {rank} has lost another one of this run ({lost[0]}), whose own output "
                "says why; start all of them again to go on from the last checkpoint"
            ) from error

    return main_or_explain
