"""``--write-checkpoints-asynchronously`` without iopath: fairseq 0.12 ends with exit status 0."""

import importlib.util

from fairseq.dataclass import initialize

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.command_loops import training_loop
from fairseq_posattn.compat.patching import around


@around(initialize, "add_defaults")
@around(training_loop, "add_defaults")  # which has imported it by its name
def _ask_for_iopath(add_defaults, cfg):
    """The first that is called with the settings."""
    add_defaults(cfg)
    asynchronous = (cfg.get("checkpoint") or {}).get("write_checkpoints_asynchronously")
    if asynchronous and importlib.util.find_spec("iopath") is None:
        raise UsageError(
            "--write-checkpoints-asynchronously needs iopath: pip install iopath, or leave "
            "the flag out"
        )
