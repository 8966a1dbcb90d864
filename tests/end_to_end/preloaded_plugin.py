"""Imports of :mod:`preloaded`, and the plugin as by ``--user-dir``."""

import copy
import functools
import gc
from argparse import Namespace
from pathlib import Path

import preloaded
from fairseq.utils import import_user_module
from hydra.core.override_parser.overrides_parser import OverridesParser

import_user_module(Namespace(user_dir=str(Path(__file__).parents[2] / "fairseq_posattn")))
# Hydra parses the same 300 settings in every command.
parse_rule = functools.cache(OverridesParser.create().parse_rule)
OverridesParser.parse_rule = lambda self, *rule: copy.copy(parse_rule(*rule))
preloaded.convert(Namespace())
gc.freeze()
