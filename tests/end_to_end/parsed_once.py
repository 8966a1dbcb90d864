"""Faster composition of fairseq's 300 settings by Hydra, which each command repeats."""

import copy
import functools
import sys


def parse_once():
    """Let Hydra, if imported, parse each setting once and share its store, which copies nodes."""
    parsers = sys.modules.get("hydra.core.override_parser.overrides_parser")
    if parsers and not hasattr(parsers, "parse_rule"):
        parse_rule = parsers.parse_rule = functools.cache(
            parsers.OverridesParser.create().parse_rule
        )
        parsers.OverridesParser.parse_rule = lambda self, *rule: copy.copy(parse_rule(*rule))
        store = sys.modules["hydra.core.config_store"].ConfigStore
        store.__deepcopy__ = lambda self, memo: self
