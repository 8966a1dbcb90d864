"""Imports of :mod:`preloaded`, and the plugin as by ``--user-dir``."""

import gc
from argparse import Namespace
from pathlib import Path

import preloaded
from fairseq.utils import import_user_module
from parsed_once import parse_once

import_user_module(Namespace(user_dir=str(Path(__file__).parents[2] / "fairseq_posattn")))
parse_once()
preloaded.convert(Namespace())
gc.freeze()
