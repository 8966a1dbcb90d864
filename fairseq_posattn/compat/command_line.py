"""Settings of fairseq's commands are checked before anything is read; mistakes are one line."""

import ast
import contextlib
import functools
import json
import logging
import os
import re
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from itertools import product
from traceback import walk_tb
from types import TracebackType
from typing import Any, NoReturn

from fairseq import models, options, utils
from fairseq.dataclass import utils as dataclass_utils
from fairseq.dataclass.configs import GenerationConfig
from fairseq.tasks.translation import TranslationTask
from hydra._internal import utils as hydra_utils
from hydra.core.utils import JobReturn
from hydra.errors import CompactHydraException
from omegaconf import OmegaConf
from yaml import MarkedYAMLError

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.checks import check, flag, lines_of, nearest, needs_task, tasks_of
from fairseq_posattn.compat.console import print_help_in_second_pass
from fairseq_posattn.compat.generation import read_languages
from fairseq_posattn.compat.matching import keep_trained_options
from fairseq_posattn.compat.patching import Function, around, instead, training_loop

logger = logging.getLogger(__name__)

# Groups that fairseq-hydra-train does not read.
OTHER_COMMANDS = ("common_eval", "generation", "eval_lm", "interactive", "bmuf")
MAX_CHOICES = 12  # an error lists no more of them


@around(models, "merge_with_parent")
@around(dataclass_utils, "merge_with_parent")
def accept_dataclasses(
    merge_with_parent: Function, dc: Any, cfg: Any, *args: Any, **kwargs: Any
) -> Any:
    """Accept a dataclass, such as ``TransformerConfig()``, where fairseq raises KeyError."""
    if is_dataclass(cfg):
        cfg = OmegaConf.structured(cfg)
    return merge_with_parent(dc, cfg, *args, **kwargs)


@around(options, "parse_args_and_arch")
def parse_arguments(
    parse: Function, parser: ArgumentParser, input_args: Any = None, *args: Any, **kwargs: Any
) -> Any:
    """Parse arguments; those of a command are checked, and ``--help`` is complete."""
    is_command = input_args is None
    print_help_in_second_pass(parser, input_args)
    with explain_command_line(parser) if is_command else contextlib.nullcontext():
        parsed = parse(parser, input_args, *args, **kwargs)
    settings = parsed[0] if isinstance(parsed, tuple) else parsed
    # fairseq takes --bf16 for a request of a TPU, also without torch_xla
    if getattr(settings, "bf16", False) and utils.xm is None:
        settings.tpu = False
    if is_command and not kwargs.get("suppress_defaults"):
        check(vars(settings))
        for line in unread_options(vars(settings)):
            logger.warning(line)
    return parsed


def unread_options(settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each option that only another command of fairseq reads."""
    trains, is_interactive = "max_update" in settings, "buffer_size" in settings
    for name in () if trains else ("bf16", "amp"):
        if settings.get(name):
            yield f"{flag(name)}: it changes training alone; --fp16 acts here, too"
    ignored: dict[str, Any] = {}
    if is_interactive:
        ignored = {"prefix_size": 0, "results_path": None, "lm_path": None, "quiet": False}
    if is_interactive or not {"beam", "context_window"} & settings.keys():
        ignored["num_shards"] = 1
    for name, default in ignored.items():
        if settings.get(name, default) != default:
            yield f"{flag(name)} changes nothing here; fairseq-generate reads it"


@contextlib.contextmanager
def explain_command_line(parser: ArgumentParser) -> Iterator[None]:
    """Explain errors of a command line in a line, argparse's without 180 lines of usage."""
    arch = dict(zip(sys.argv, sys.argv[1:], strict=False)).get("--arch")
    tasks = tasks_of("arch", arch)
    words = {word.partition("=")[0] for word in sys.argv}
    is_named = words.intersection(("--task", "-h", "--help"))
    if tasks and not is_named and "translation" not in tasks:  # the default
        raise UsageError(f"--arch {arch}: {needs_task(tasks)}")
    vars(parser)["error"] = functools.partial(_exit_in_one_line, parser)
    try:
        yield
    except (KeyError, RuntimeError) as error:
        if error.args == (None,):
            raise UsageError("--task is missing: name the task") from None
        if not error.args:
            raise UsageError("--arch is missing: name the model's architecture") from None
        raise


@around(training_loop, "add_defaults")
def complete_config(add_defaults: Function, cfg: Any) -> None:
    """Add a resumed model's options to the config of a training, and check all."""
    add_defaults(cfg)
    keep_trained_options(cfg)
    check_config(cfg)


def check_config(cfg: Any) -> None:
    """Check the config of a training, and log the warnings of its model, task and criterion."""
    settings: dict[str, Any] = {}  # by the names of their flags
    groups: Any = OmegaConf.to_container(cfg, resolve=False)
    for group, values in groups.items():
        # a namespace, where fairseq has no dataclass
        values = vars(values) if isinstance(values, Namespace) else values
        if isinstance(values, dict) and group not in OTHER_COMMANDS:
            settings["arch" if group == "model" else group] = values.get("_name")
            settings.update(_flat(values))
    check(settings)
    for line in lines_of("warnings", settings):
        logger.warning(line)


@around(TranslationTask, "setup_task")
def set_up_translation(setup_task: Function, cls: Any, cfg: Any, **kwargs: Any) -> Any:
    """Set up a task with readable options of BLEU, and with the languages of the data.

    Parts of a split (``train``, ``train1``) are combined; fairseq fails unless it is told to take
    the first once.
    """
    read_bleu_options(cfg)
    read_languages(cfg)
    if getattr(cfg, "upsample_primary", 1) == -1:
        cfg.upsample_primary = 1
    return setup_task(cls, cfg, **kwargs)


def read_bleu_options(cfg: Any) -> None:
    """Accept Python's quotes in the options of BLEU in validation, and warn of unknown names."""
    validates = getattr(cfg, "eval_bleu", False)
    for name in ("eval_bleu_args", "eval_bleu_detok_args") if validates else ():
        text: str = getattr(cfg, name)
        options: Any = None
        for read in (json.loads, ast.literal_eval):
            with contextlib.suppress(ValueError, SyntaxError, RecursionError, MemoryError):
                options = options or read(text)
        if not isinstance(options, dict):
            fix = 'it must be a dictionary in JSON, such as {"beam": 4}'
            raise UsageError(f"{flag(name)} {text}: {fix}")
        setattr(cfg, name, json.dumps(options))
        known = [option.name for option in fields(GenerationConfig)]
        for option in sorted({*options}.difference(known)) if name == "eval_bleu_args" else ():
            logger.warning(f"{flag(name)}: {option} changes nothing; {nearest(option, known)}")


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}_")
        elif name != "_name" and not (isinstance(value, str) and value[:2] in ("${", "??")):
            yield prefix + name, value


def _exit_in_one_line(parser: ArgumentParser, message: str) -> NoReturn:
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


# --- Errors by which fairseq's commands report a user's mistake -----------------------------------
# Others may be bugs, and keep their traceback.

# The line for an error by its type and the beginning of its message, whose groups it has; names of
# settings after -- become flags. Other errors of fairseq that name a flag are their line.
KNOWN = {
    r"AssertionError: Must set task\.num_classes": "--num-classes must be 1 or more",
    r"AssertionError: world size is (\d+) but have (\d+) available devices": (
        "--distributed-world-size {0}: there are {1} GPUs to train on; on a CPU give 1"
    ),
    r"AssertionError: Sentences lengths should not exceed max_tokens=(\d+)": (
        "--max-tokens (or --max-tokens-valid) {0} is too small for a sentence: raise it, or leave "
        "out long sentences with --skip-invalid-size-inputs-valid-test and --max-source-positions"
    ),
    r"Exception: Size of sample #(\d+) is invalid \(=(.*)\) since max_positions=(.*), skip": (
        "sentence {0}, counted from 0, is too long: it has {1} tokens and the model takes "
        "{2}; train with a greater --max-source-positions and --max-target-positions (language "
        "models: --tokens-per-sample, taggers: --max-positions), cut sources of binarized data "
        "to N tokens with --truncate-source --max-source-positions N, or leave it out with "
        "--skip-invalid-size-inputs-valid-test"
    ),
    r"Exception: The dataset is empty": "no sentence is left: all are too long, or there is none",
    r"FileExistsError: (.*\bdict\.[\w-]+\.txt)$": (
        "{0} exists: give it as --srcdict or --tgtdict, or name another --destdir"
    ),
    r"FileNotFoundError: Dataset not found: (.*) \((.*)\)": (
        "{1} has no split {0} of this task and these languages: name another, prepare it, or leave "
        "out --dataset-impl, if you gave it"
    ),
    r"AssertionError: could not find dataset: (.*)": "{0}: there is no such binarized data",
    # of --scoring, --bpe or --ddp-backend
    r"ImportError: (?:Cannot find \w+\. )?(Please install .*)": "a package is missing: {0}",
    r"OSError: Model file not found: (.*)": "{0}: there is no such checkpoint",
    r"ValueError: Cannot combine --fp16 and --tpu": "--fp16 and --bf16 exclude each other",
    r"FloatingPointError: (gradients are Nan/Inf|Minimum loss scale reached)": (
        "the training has diverged ({0}): lower --lr, raise --warmup-updates or give --clip-norm"
    ),
    r"UnicodeDecodeError: 'utf-8' codec can't decode byte (\w+) in position (\d+)": (
        "the text is not UTF-8 (byte {0} at offset {1} of the buffer): convert it first"
    ),
    r"ConfigCompositionException: Error merging override \w+\.(\w+)=null": "--{0} is missing",
    # fairseq gives defaults on command lines only
    r"ConfigAttributeError: Missing key \w+\s+full_key: (\w+\.\w+)": (
        "{0} is missing in the YAML file, where it has no default; that of optimizer.lr is "
        "${{optimization.lr}}"
    ),
    r"ValidationError: Value '(.*)' of type '\w+' could not be converted to (\w+)\s+"
    r"full_key: (?:\w+\.)*(\w+)": "--{2} {0}: it must be of type {1}",
    r"ConfigKeyError: Key '(.*)' not in '(\w+)'": "--{0}: {1} has no such setting",
    r"MissingMandatoryValue: Missing mandatory value: (?:\w+\.)*(\w+)": "--{0} is missing",
    r"InterpolationKeyError: Interpolation key '(\w+)\.(\w+)' not found(?s:.*)"
    r"object_type=(\w+?)(?:Config|$)": (
        "--{0} does not support the task: {2} needs one with --{1}"
    ),
}


def explain(
    error: BaseException, traceback: TracebackType | None, first: Mapping[str, str] = {}
) -> str | None:
    """Return the line for an error that ends a command of fairseq, by ``first`` and KNOWN."""
    files = [frame.f_code.co_filename for frame, _ in walk_tb(traceback)]
    if all(os.path.basename(os.path.dirname(file)) != "fairseq_cli" for file in files):
        return None
    if isinstance(error, OSError) and error.strerror and isinstance(error.filename, (str, bytes)):
        return f"{os.fsdecode(error.filename) or 'a file without a name'}: {error.strerror}"
    names, text = {kind.__name__ for kind in type(error).__mro__}, str(error)
    if "ProcessException" in names:  # PyTorch's, whose message is a child's traceback
        *_, end = files = text.split("\n  File ")
        last = re.search(r"^(?:\w+\.)*(\w+): ?(.*)\Z", end, re.M | re.S)
        names, text = ({last[1]}, last[2].strip()) if last else (set(), text)
        if "UsageError" in names:
            return text
        file = re.fullmatch(r"\[Errno \d+\] (.*): '(.*)'", text)
        if file:
            return f"{file[2]}: {file[1]}"
    text = re.sub(r"np\.\w+\((\d+)\)", r"\1", text)  # NumPy 2 prints the type, too
    for (pattern, line), name in product((*first.items(), *KNOWN.items()), names):
        if match := re.match(pattern, f"{name}: {text}"):
            line = line.format(*match.groups())
            return re.sub(r"(?<!\S)--\w+", lambda name: flag(name[0][2:]), line)
    is_from_fairseq = re.search(r"[\\/]fairseq(_cli)?[\\/]", files[-1].partition("\n")[0])
    return text if is_from_fairseq and re.search(r"(?<![\w-])--[a-z]", text) else None


# --- fairseq-hydra-train --------------------------------------------------------------------------
# Hydra prints its programs' errors itself, with settings and traceback; errors in a file or an
# override in eight lines. It reads both before fairseq-hydra-train loads the plugin: this helps
# posattn hydra-train.


@around(JobReturn, "return_value")
def raise_error_of_program(return_value: Function, self: Any) -> Any:
    """Raise the program's error without a line of its settings."""
    if isinstance(self._return_value, Exception):
        raise self._return_value
    return return_value(self)


@instead(hydra_utils, "run_and_report")
def raise_error_of_settings(func: Callable[[], Any]) -> Any:
    """Leave uncaught errors to the hook; settings that do not compose are a UsageError."""
    try:
        return func()
    except (CompactHydraException, MarkedYAMLError) as error:
        reason = f"{getattr(error, 'override', '')} {error} {error.__cause__ or ''}"
        raise UsageError(" ".join(reason.split())) from error
