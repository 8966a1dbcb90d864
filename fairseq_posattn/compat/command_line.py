"""Settings of fairseq's commands and functions are checked before anything is read or written.

fairseq checks few of them. Others end in a traceback, sometimes after an epoch, or are accepted:
``--lr -1`` trains away from the data, and ``--dropout -0.1`` counts as none.
"""

import functools
import logging
import re
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass

from fairseq import models, options, utils
from fairseq.dataclass import utils as dataclass_utils
from fairseq.models import MODEL_DATACLASS_REGISTRY
from omegaconf import OmegaConf

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.checks import check
from fairseq_posattn.compat.names import flag, nearest, needs_task, tasks_of
from fairseq_posattn.compat.patching import around, training_loop

logger = logging.getLogger(__name__)

# Groups that fairseq-hydra-train does not read.
OTHER_COMMANDS = ("common_eval", "generation", "eval_lm", "interactive", "bmuf")
MAX_CHOICES = 12  # an error lists no more of them


@around(options, "parse_args_and_arch")
def allow_bf16_without_tpu(parse_args_and_arch, *args, **kwargs):
    """Train with ``--bf16`` on GPUs and CPUs, which fairseq takes for a request of a TPU."""
    parsed = parse_args_and_arch(*args, **kwargs)
    settings = parsed[0] if isinstance(parsed, tuple) else parsed
    if getattr(settings, "bf16", False) and utils.xm is None:  # no torch_xla
        settings.tpu = False
    return parsed


@around(models, "merge_with_parent")
@around(dataclass_utils, "merge_with_parent")
def accept_dataclasses(merge_with_parent, dc, cfg, *args, **kwargs):
    """Accept settings as an object of their class, such as ``TransformerConfig()``.

    fairseq's functions document it and fail with ``KeyError: '_parent'``.
    """
    if is_dataclass(cfg):
        cfg = OmegaConf.structured(cfg)
    return merge_with_parent(dc, cfg, *args, **kwargs)


@around(options, "parse_args_and_arch")
def check_command_line(parse_args_and_arch, parser, input_args=None, parse_known=False, **kwargs):
    """Check a command line; argparse's errors are printed without 180 lines of usage."""
    if input_args is not None:  # not a command
        return parse_args_and_arch(parser, input_args, parse_known, **kwargs)
    arch = dict(zip(sys.argv, sys.argv[1:], strict=False)).get("--arch")
    tasks = tasks_of("arch", arch)
    given = {word.partition("=")[0] for word in sys.argv}
    if tasks and not given.intersection(("--task", "-h", "--help")):
        raise UsageError(f"--arch {arch}: {needs_task(tasks)}")
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
        raise UsageError(f"{error.text} is not a list of numbers: {error.msg}") from None
    if not kwargs.get("suppress_defaults"):
        check(vars(parsed[0] if parse_known else parsed))
    return parsed


@around(training_loop, "add_defaults")
def check_config(add_defaults, cfg):
    """Check the config of a training, and warn of options that its model does not read.

    Training calls this first, after fairseq-hydra-train, too, has imported the plugin.
    """
    add_defaults(cfg)
    settings = settings_of(cfg)
    check(settings)
    for line in unread(settings):
        logger.warning(line)


def settings_of(cfg):
    """Return the settings of a training's config by the names of their flags."""
    settings = {}
    for group, values in OmegaConf.to_container(cfg, resolve=False).items():
        if isinstance(values, Namespace):  # fairseq has no dataclass for it
            values = vars(values)
        if isinstance(values, dict) and group not in OTHER_COMMANDS:
            settings["arch" if group == "model" else group] = values.get("_name")
            settings.update(_flat(values))
    return settings


def _flat(values, prefix=""):
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}_")
        elif name != "_name" and not (isinstance(value, str) and value[:2] in ("${", "??")):
            yield prefix + name, value


def _exit_in_one_line(parser, message):
    """Exit with argparse's message, without the usage and without long lists of choices."""
    message = " ".join(message.split())
    choice = re.fullmatch(r"(.*: invalid choice: '(.*)') \(choose from (.*)\)", message)
    missing = re.fullmatch(r"argument (.*): invalid \w+ value: '\?\?\?'", message)
    if choice:
        known = [name.strip("'") for name in choice[3].split(", ")]
        if len(known) > MAX_CHOICES:
            message = f"{choice[1]}; {nearest(choice[2], known)}"
    elif missing:
        message = f"{missing[1]} is missing"
    elif message.startswith("unrecognized arguments"):
        words = message.split()[2:]
        unknown = next((word.partition("=")[0] for word in words if word[:2] == "--"), None)
        if unknown:
            message += f"; {nearest(unknown, parser._option_string_actions)}"
        message += " (flags depend on --arch, --task, --criterion, --optimizer...)"
        if {"True", "False"}.intersection(words):
            message += "; a switch has no value: give it alone to change its default"
    parser.exit(2, f"{parser.prog}: error: {message.replace('<lambda>', 'list')}\n")


# --- Options of parts that a model does not have: they would change nothing, silently -------------
# The metadata of a config's field declares who reads it: ``readers``, a tuple of values of
# --encoder, names of sublayers, or "--pooling NAME"; all models read a field without it. Lists of
# sublayers declare ``replace_positions``, the sublayers that replace position embeddings.


def unread(settings: Mapping) -> Iterator[str]:
    """Yield a line for each unread option that differs from its architecture's default."""
    config = MODEL_DATACLASS_REGISTRY.get(settings.get("arch"))
    known = {option.name: option for option in fields(config)} if config else {}
    if "encoder_sublayers" not in known:
        return
    options = {name: option.default for name, option in known.items()} | dict(settings)
    parts = parts_of(options)
    for name, option in known.items():
        if str(options[name]) == str(option.default):
            continue
        nothing = f"{flag(name)} {options[name]} changes nothing"
        readers = option.metadata.get("readers", ())
        if readers and not parts.intersection(readers):
            has = ", ".join(sorted(parts))
            yield f"{nothing}: it is for {', '.join(readers)}, and this model has {has}"
        side = name.removesuffix("_learned_pos")
        if side != name and (reason := _without_positions(options, known[f"{side}_sublayers"])):
            yield f"{nothing}: {reason}, and no position embeddings are added"


def _without_positions(options, sublayers):
    """Return why a side of the model adds no position embeddings; empty if it adds them."""
    if options.get("no_token_positional_embeddings"):
        return "there is --no-token-positional-embeddings"
    replacing = sublayers.metadata.get("replace_positions", ())
    named = sorted({*replacing}.intersection(str(options[sublayers.name]).split(",")))
    return f"{flag(sublayers.name)} has {', '.join(named)}" if named else ""


def parts_of(options: Mapping) -> set[str]:
    """Return the parts of a model, as ``readers`` name them."""
    encoder, pooling = options.get("encoder"), options.get("pooling")
    parts = {str(encoder)} if encoder else set()  # that of translation has no name
    if pooling:
        parts.add(f"--pooling {pooling}")
    if str(encoder or "transformer") == "transformer":
        for side in ("encoder_sublayers", "decoder_sublayers"):
            parts.update(str(options[side]).split(",") if side in options else [])
    return parts
