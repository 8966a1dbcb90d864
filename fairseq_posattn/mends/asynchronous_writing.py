"""``--write-checkpoints-asynchronously`` without iopath: fairseq 0.12 ends with exit status 0."""

import importlib.util

from fairseq.dataclass import initialize

from fairseq_posattn.errors import UsageError
from fairseq_posattn.mends.patching import patch
from fairseq_posattn.mends.training_loop import training_loop


def apply():
    for module in (initialize, training_loop()):  # which has it by the same name
        if module is not None:
            patch(module, "add_defaults", _ask_for_iopath)


def _ask_for_iopath(add_defaults):
    """The first that is called with the settings."""

    def add_defaults_or_refuse(cfg):
        add_defaults(cfg)
        asynchronous = (cfg.get("checkpoint") or {}).get("write_checkpoints_asynchronously")
        if asynchronous and importlib.util.find_spec("iopath") is None:
            raise UsageError(
                "--write-checkpoints-asynchronously needs iopath: pip install iopath, or leave "
                "the flag out"
            )

    return add_defaults_or_refuse
