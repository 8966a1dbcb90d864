"""Faster parsing of fairseq's 300 settings, which Hydra repeats for every command."""

import copy
import functools
import sys


def parse_once():
    """Let Hydra parse each setting once in this process, if Hydra is imported."""
    parsers = sys.modules.get("hydra.core.override_parser.overrides_parser")
    if parsers and not hasattr(parsers, "parse_rule"):
        parse_rule = parsers.parse_rule = functools.cache(
            parsers.OverridesParser.create().parse_rule
        )
        parsers.OverridesParser.parse_rule = lambda self, *rule: copy.copy(parse_rule(*rule))
