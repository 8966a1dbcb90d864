"""A process of several that ends before the others: their tracebacks name sockets.

Or they wait without a word, for half an hour, if it ends before it has met them.
"""

import logging
import re
import threading

from fairseq.distributed import utils as distributed_utils

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.patching import around

# gloo's words, and those of the store where the processes meet
LOST = re.compile("(closed|reset) by peer|Broken pipe|[Tt]imed out|Connection refused")
PATIENCE = 20.0  # seconds

logger = logging.getLogger(__name__)


@around(distributed_utils, "distributed_init")
def _say_what_it_waits_for(distributed_init, cfg):
    settings = cfg.distributed_training
    reminder = threading.Timer(
        PATIENCE,
        logger.warning,
        [
            f"process {settings.distributed_rank} is waiting for the others of "
            f"{settings.distributed_world_size} at {settings.distributed_init_method}: see "
            "whether they still run"
        ],
    )
    reminder.daemon = True
    reminder.start()
    try:
        return distributed_init(cfg)
    finally:
        reminder.cancel()


@around(distributed_utils, "distributed_main")
def _say_that_one_is_lost(distributed_main, i, main, cfg, kwargs):
    try:
        distributed_main(i, main, cfg, kwargs)
    except (RuntimeError, UsageError) as error:
        # another mend may have explained it already, as a checkpoint's fault
        lost = LOST.search(str(error.__cause__ if isinstance(error, UsageError) else error))
        if not lost:
            raise
        rank = cfg.distributed_training.distributed_rank
        raise UsageError(
            f"process {rank} has lost another one of this run ({lost[0]}), whose own output "
            "says why; start all of them again to go on from the last checkpoint"
        ) from error
