"""``--help`` explains the flags of the model, task and criterion that are named beside it.

fairseq (0.12.2 and fairseq-fixed 0.12.3.1) looks at a command line twice and prints its help at the
first look, when it does not know of these yet: ``fairseq-train --arch X --help`` prints what
``fairseq-train --help`` prints, and neither names an architecture. Here the help comes at the
second look, and ends with what the plugin has.
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


def plugins_own(registry):
    """Those of a registry of fairseq's, by name, that the plugin has brought."""
    return {
        name: registered
        for name, registered in registry.items()
        if registered.__module__.partition(".")[0] == PACKAGE
    }


@around(options, "parse_args_and_arch")
def _help_at_the_second_look(parse_args_and_arch, parser, input_args=None, *args, **kwargs):
    words = sys.argv[1:] if input_args is None else list(input_args)
    if not set(HELP).intersection(words):
        return parse_args_and_arch(parser, input_args, *args, **kwargs)
    look = parser.parse_known_args

    def first_look(*_):
        del parser.parse_known_args
        found, rest = look([word for word in words if word not in HELP])
        for name in ("arch", "task"):
            if getattr(found, name, "") is None:
                delattr(found, name)  # without it there are no flags of its own
        return found, rest

    parser.parse_known_args = first_look
    _end_with(parser)
    return parse_args_and_arch(parser, input_args, *args, **kwargs)


@around(options, "add_preprocess_args")
def _name_what_there_is(add_preprocess_args, parser):
    """fairseq-preprocess looks but once."""
    _end_with(parser)
    return add_preprocess_args(parser)


def _end_with(parser):
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    # Percent signs are for argparse, which fills in names.
    parser.epilog = plugins_part(parser).replace("%", "%%")


def plugins_part(parser):
    """What a command's help says of the plugin: names, as far as the command takes them."""
    taken = parser._option_string_actions
    own = {
        option: plugins_own(registry) for option, registry in REGISTRIES.items() if option in taken
    }
    lines = [f"{PACKAGE} has, each explained by --help beside its name:"]
    if "--arch" in own:
        lines += [_listed("--arch", names) for names in _by_model(own["--arch"])]
    lines += [_listed(option, own[option]) for option in own if option != "--arch"]
    known = {*taken, *_flags_of(MODEL_REGISTRY["transformer"])}
    flags = [flag for named in own.values() for one in named.values() for flag in _flags_of(one)]
    unknown = dict.fromkeys(flag for flag in flags if flag not in known)
    return "\n".join([*lines, _listed("their flags", unknown)])


def _by_model(models):
    """Yield each model's name and the names of its architectures, which are subclasses of it."""
    for name, model in models.items():
        if model.__base__ not in models.values():
            yield [name, *(one for one, arch in models.items() if arch.__base__ is model)]


def _listed(head, names):
    text = f"{head}: {' '.join(names)}"
    return textwrap.fill(
        text, 100, initial_indent="  ", subsequent_indent="      ", break_on_hyphens=False
    )


def _flags_of(registered):
    parser = argparse.ArgumentParser(add_help=False)
    registered.add_args(parser)
    return [action.option_strings[0] for action in parser._actions if action.option_strings]
