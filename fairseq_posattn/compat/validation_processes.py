"""``fairseq-validate`` measures in one process, however many GPUs there are.

fairseq (0.12.2, fairseq-fixed 0.12.3.1) starts one for each of them, and fails where one has fewer
batches than another; of what was predicted each would write what it has.
"""

import logging

from fairseq.distributed import utils as distributed_utils
from fairseq_cli import validate

from fairseq_posattn.compat.patching import around

logger = logging.getLogger(__name__)


@around(distributed_utils, "call_main")
def _in_one_process(call_main, cfg, main, *args, **kwargs):
    settings = cfg.distributed_training
    if main is validate.main and settings.distributed_world_size > 1:
        logger.info(f"measuring in one process, not {settings.distributed_world_size}")
        settings.distributed_world_size = 1
        settings.distributed_init_method = None
    return call_main(cfg, main, *args, **kwargs)
