"""``--help`` explains the flags of the model, task and criterion that are named with it.

fairseq parses a command line twice and prints its help in the first pass, when it does not know
these flags yet, and names no architecture. Here the second pass prints the help, which ends with
the names of the plugin.
"""

import argparse
import sys
import textwrap

from fairseq import options
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.models import MODEL_REGISTRY
from fairseq.tasks import TASK_REGISTRY

from fairseq_posattn.compat.patching import around

PACKAGE = __name__.partition(".")[0]
HELP = ("-h", "--help")
REGISTRIES = {"--arch": MODEL_REGISTRY, "--task": TASK_REGISTRY, "--criterion": CRITERION_REGISTRY}


def registered_by_plugin(registry):
    """Return the entries of a registry of fairseq that the plugin has registered, by name."""
    return {
        name: registered
        for name, registered in registry.items()
        if registered.__module__.partition(".")[0] == PACKAGE
    }


@around(options, "parse_args_and_arch")
def print_help_in_second_pass(parse_args_and_arch, parser, input_args=None, *args, **kwargs):
    """Let the first pass ignore ``--help``."""
    words = sys.argv[1:] if input_args is None else list(input_args)
    if not set(HELP).intersection(words):
        return parse_args_and_arch(parser, input_args, *args, **kwargs)
    parse = parser.parse_known_args

    def first_pass(*_):
        del parser.parse_known_args
        result, rest = parse([word for word in words if word not in HELP])
        for name in ("arch", "task"):
            if getattr(result, name, "") is None:
                delattr(result, name)  # without it there are no flags of it
        return result, rest

    parser.parse_known_args = first_pass
    _add_epilog(parser)
    return parse_args_and_arch(parser, input_args, *args, **kwargs)


@around(options, "add_preprocess_args")
def add_names_to_preprocess(add_preprocess_args, parser):
    """Add the names to the help of fairseq-preprocess, which parses once."""
    _add_epilog(parser)
    return add_preprocess_args(parser)


def _add_epilog(parser):
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    # argparse formats percent signs
    parser.epilog = describe_plugin(parser).replace("%", "%%")


def describe_plugin(parser):
    """Return the names of the plugin that a command accepts, as the end of its help."""
    accepted = parser._option_string_actions
    names = {
        option: registered_by_plugin(registry)
        for option, registry in REGISTRIES.items()
        if option in accepted
    }
    lines = [f"{PACKAGE} has, each explained by --help beside its name:"]
    if "--arch" in names:
        lines += [_list("--arch", architectures) for architectures in _by_model(names["--arch"])]
    lines += [_list(option, names[option]) for option in names if option != "--arch"]
    known = {*accepted, *_flags_of(MODEL_REGISTRY["transformer"])}
    flags = [flag for group in names.values() for one in group.values() for flag in _flags_of(one)]
    unknown = dict.fromkeys(flag for flag in flags if flag not in known)
    return "\n".join([*lines, _list("their flags", unknown)])


def _by_model(models):
    """Yield each model's name and the names of its architectures, which are subclasses of it."""
    for name, model in models.items():
        if model.__base__ not in models.values():
            yield [name, *(one for one, arch in models.items() if arch.__base__ is model)]


def _list(head, names):
    text = f"{head}: {' '.join(names)}"
    return textwrap.fill(
        text, 100, initial_indent="  ", subsequent_indent="      ", break_on_hyphens=False
    )


def _flags_of(registered):
    parser = argparse.ArgumentParser(add_help=False)
    registered.add_args(parser)
    return [action.option_strings[0] for action in parser._actions if action.option_strings]
