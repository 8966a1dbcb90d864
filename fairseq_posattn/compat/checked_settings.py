"""Wrong settings are told in one line before anything is read or written.

fairseq (0.12.2 and fairseq-fixed 0.12.3.1) checks few of its settings. Others end in a traceback
out of the depth of a model, sometimes after an epoch, and some are taken: ``--lr -1`` trains away
from the data, ``--dropout -0.1`` and ``--encoder-layers -1`` count as none. A name that argparse
does not know brings up 180 lines of usage first.
"""

import functools
import logging
import re
from argparse import Namespace

from fairseq import options
from omegaconf import OmegaConf

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.command_loops import training_loop
from fairseq_posattn.compat.flags.names import nearest
from fairseq_posattn.compat.flags.settings import check
from fairseq_posattn.compat.flags.unread import unread
from fairseq_posattn.compat.patching import around

logger = logging.getLogger(__name__)

# What fairseq-hydra-train does not look at.
OTHER_COMMANDS = ("common_eval", "generation", "eval_lm", "interactive", "bmuf")
MANY = 12  # choices, of which an error names only the nearest


@around(options, "parse_args_and_arch")
def _check_command_line(parse_args_and_arch, parser, input_args=None, parse_known=False, **kwargs):
    if input_args is not None:  # not a command
        return parse_args_and_arch(parser, input_args, parse_known, **kwargs)
    parser.error = functools.partial(_exit_in_one_line, parser)
    try:
        parsed = parse_args_and_arch(parser, input_args, parse_known, **kwargs)
    except KeyError as error:
        if error.args != (None,):
            raise
        raise UsageError("--task is missing: name the task") from None
    except RuntimeError as error:
        if error.args:
            raise
        raise UsageError("--arch is missing: name the model's architecture") from None
    except SyntaxError as error:  # of a list, which fairseq reads as Python
        raise UsageError(f"{error.text} is no list of numbers: {error.msg}") from None
    if not kwargs.get("suppress_defaults"):
        check(vars(parsed[0] if parse_known else parsed))
    return parsed


@around(training_loop, "add_defaults")
def _check_config(add_defaults, cfg):
    """The first that training calls once fairseq-hydra-train, too, has imported the plugin."""
    add_defaults(cfg)
    settings = settings_of(cfg)
    check(settings)
    for line in unread(settings):
        logger.warning(line)


def settings_of(cfg):
    """The settings of a training's config by the names of their flags, where they have a value.

    Args:
        cfg (DictConfig): with its groups ``common``, ``task``...; the ``_name`` of ``task`` is the
            setting ``task``, and of ``model`` it is ``arch``.
    """
    settings = {}
    for group, options_ in OmegaConf.to_container(cfg, resolve=False).items():
        if isinstance(options_, Namespace):  # where fairseq has no dataclass
            options_ = vars(options_)
        if isinstance(options_, dict) and group not in OTHER_COMMANDS:
            named = {"arch" if group == "model" else group: options_.get("_name")}
            settings.update(named | dict(_flat(options_)))
    return settings


def _flat(options_, prefix=""):
    for name, value in options_.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}_")
        elif name != "_name" and not (isinstance(value, str) and value[:2] in ("${", "??")):
            yield prefix + name, value


def _exit_in_one_line(parser, message):
    """What argparse says, without the usage and without long lists of choices."""
    message = " ".join(message.split())
    choice = re.fullmatch(r"(.*: invalid choice: '(.*)') \(choose from (.*)\)", message)
    missing = re.fullmatch(r"argument (.*): invalid \w+ value: '\?\?\?'", message)
    if choice:
        known = [name.strip("'") for name in choice[3].split(", ")]
        if len(known) > MANY:
            message = f"{choice[1]}; {nearest(choice[2], known)}"
    elif missing:
        message = f"{missing[1]} is missing"
    elif message.startswith("unrecognized arguments"):
        words = message.split()[2:]
        flags = [word.partition("=")[0] for word in words if word.startswith("--")]
        if flags:
            message += f"; {nearest(flags[0], parser._option_string_actions)}"
        message += " (which there are depends on --arch, --task, --criterion, --optimizer...)"
        if {"True", "False"}.intersection(words):
            message += "; a switch has no value: alone it changes what is so without it"
    message = message.replace("<lambda>", "list")
    parser.exit(2, f"{parser.prog}: error: {message}\n")
