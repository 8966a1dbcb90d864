"""Imports of :mod:`preloaded`, and the plugin as by ``--user-dir``."""

import gc
from argparse import Namespace
from pathlib import Path

import preloaded
from fairseq import options
from fairseq.utils import import_user_module
from kill_and_resume import MAKE

import_user_module(Namespace(user_dir=str(Path(__file__).parents[2] / "fairseq_posattn")))
for settings in ("TRANSLATION", "CLASSIFICATION"):  # most of which other trainings have, too
    words = ["data", *MAKE[settings]]
    preloaded.convert(options.parse_args_and_arch(options.get_training_parser(), words))
gc.freeze()
