"""Imports of the process that commands are forked from: fairseq, and Hydra as after a first use."""

import gc
import importlib
import warnings
from argparse import Namespace

from parsed_once import parse_once

# fairseq_cli.train first, because it sets up logging.
for name in ("torch._dynamo", "fairseq_cli.train", "fairseq_cli.generate"):
    importlib.import_module(name)
parse_once()
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    convert = importlib.import_module("fairseq.dataclass.utils").convert_namespace_to_omegaconf
    convert(Namespace())
gc.freeze()  # collections in the forked processes skip what is imported here
