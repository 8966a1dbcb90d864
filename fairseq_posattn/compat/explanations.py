"""One line for the errors by which fairseq's commands report a user's mistake.

Errors that are not listed here may be bugs, and keep their traceback.
"""

import os
import re
import sys
from types import TracebackType

from hydra._internal import utils
from hydra.core.utils import JobReturn
from hydra.errors import CompactHydraException, OverrideParseException
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException
from yaml import MarkedYAMLError

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.names import nearest
from fairseq_posattn.compat.patching import around

# The type of an error, the beginning of its message, and the line, with the groups of the pattern.
KNOWN = (
    ("AssertionError", r"(--(?:sampling|replace-unk|batch-size) [^\n]*)", "{0}"),
    ("AssertionError", r"Must set task\.num_classes", "--num-classes must be 1 or more"),
    (
        "AssertionError",
        r"Sentences lengths should not exceed max_tokens=(\d+)",
        "--max-tokens (or --max-tokens-valid) {0} is too small for a sentence: raise it, or leave "
        "out long sentences with --skip-invalid-size-inputs-valid-test and --max-source-positions",
    ),
    (
        "Exception",
        r"Size of sample #(\d+) is invalid \(=(.*)\) since max_positions=(.*), skip",
        "sentence {0}, counted from 0, is too long: it has {1:number} tokens and the model takes "
        "{2}; train with a greater --max-source-positions and --max-target-positions, cut sources "
        "of binarised data to N tokens with --truncate-source --max-source-positions N, or leave "
        "it out with --skip-invalid-size-inputs-valid-test",
    ),
    (
        "Exception",
        r"The dataset is empty",
        "no sentence is left: all are longer than --max-tokens or the model's positions, or the "
        "data is empty",
    ),
    (
        "FileExistsError",
        r"(.*\bdict\.[\w-]+\.txt)$",
        "{0} exists: give it as --srcdict or --tgtdict, or name another --destdir",
    ),
    ("OSError", r"Model file not found: (.*)", "{0}: there is no such checkpoint"),
    ("ValueError", r"(--finetune-from-model [^:{\n]*)", "{0}"),
    ("ValueError", r"Cannot combine --fp16 and --tpu", "--fp16 and --bf16 exclude each other"),
    ("ValueError", r"(impl='\w+' needs a GPU, .*)", "--attention-impl: {0}"),
    ("ImportError", r"\s*(?:Cannot find \w+\. )?(Please install [^\n]*)", "{0}"),
    (
        "FloatingPointError",
        r"(gradients are Nan/Inf|Minimum loss scale reached)",
        "the training has diverged ({0}): lower --lr, raise --warmup-updates or give --clip-norm",
    ),
    (
        "UnicodeDecodeError",
        r"'utf-8' codec can't decode byte (\w+) in position (\d+)",
        "the text is not UTF-8 (byte {0} at offset {1} of the buffer): convert it first",
    ),
    (
        "DistNetworkError",
        r"(?:.*\n)?.*port: (\d+).*EADDRINUSE",
        "port {0} of --distributed-init-method is in use: name another",
    ),
    (
        "ConfigCompositionException",
        r"Error merging override \w+\.(\w+)=null",
        "--{0:flag} is missing",
    ),
    (
        "ConfigAttributeError",  # fairseq gives defaults on command lines only
        r"Missing key \w+\s+full_key: (\w+\.\w+)",
        "{0} is missing in the YAML file, where it has no default; that of optimizer.lr is "
        "${{optimization.lr}}",
    ),
    ("ConfigKeyError", r"Key '(.*)' not in '(\w+)'", "--{0:flag}: {1} has no such setting"),
    (
        "ValidationError",
        r"Value (.*) of type .* could not be converted to (\w+)\s+full_key: (\S+)",
        "--{2:flag} {0}: it must be of type {1}",
    ),
    ("MissingMandatoryValue", r"Missing mandatory value: (?:\w+\.)*(\w+)", "--{0:flag} is missing"),
    (
        "InterpolationKeyError",
        r"Interpolation key 'criterion\.classification_head_name' not found",
        "--criterion does not support the task: to classify, give sentence_classification, "
        "or for scores relatedness or rating_regression",
    ),
    (
        "InterpolationKeyError",
        r"Interpolation key '(\w+)\.(\w+)' not found(?s:.*)object_type=(\w+?)(?:Config|$)",
        "--{0:flag} does not support the task: {2} needs one with --{1:flag}",
    ),
)


def explain(error: BaseException, traceback: TracebackType | None) -> str | None:
    """Return the line for an error that ends one of fairseq's commands; None if it is unknown."""
    if not _passed_command(traceback):
        return None
    if isinstance(error, OSError) and error.strerror and isinstance(error.filename, (str, bytes)):
        return f"{os.fsdecode(error.filename) or 'a file without a name'}: {error.strerror}"
    names = {kind.__name__ for kind in type(error).__mro__}
    text = str(error)
    if "ProcessException" in names:  # PyTorch's, whose message is a child's traceback
        names, text = _last_error(text)
        if "UsageError" in names:
            return text
        file = re.fullmatch(r"\[Errno \d+\] (.*): '(.*)'", text)
        if file:
            return f"{file[2]}: {file[1]}"
    for name, pattern, line in KNOWN:
        match = name in names and re.match(pattern, text)
        if match:
            return line.format(*(_Group(group or "") for group in match.groups()))
    return None


def _passed_command(traceback):
    """Return whether one of fairseq's commands is among the callers."""
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if os.path.basename(os.path.dirname(file)) == "fairseq_cli":
            return True
        traceback = traceback.tb_next
    return False


def _last_error(text):
    """Return the type and the message of the error at the end of a printed traceback."""
    match = re.search(r"^(?:\w+\.)*(\w+): ?(.*)\Z", text.rpartition("\n  File ")[2], re.M | re.S)
    return ({match[1]}, match[2].strip()) if match else (set(), text)


class _Group(str):
    """A group of a match, formatted as a ``flag`` or a ``number``."""

    def __format__(self, form):
        if form == "flag":
            return self.replace("_", "-")
        return re.sub(r"np\.\w+\((\d+)\)", r"\1", self)  # NumPy 2 prints the type, too


# --- fairseq-hydra-train --------------------------------------------------------------------------
# Hydra prints its programs' errors itself, with settings and traceback; errors in a file or an
# override in eight lines. It reads both before fairseq-hydra-train loads the plugin: this helps
# posattn hydra-train.


@around(JobReturn, "return_value")
def print_mistake_in_one_line(return_value, self):
    """Call the hook for uncaught errors where Hydra raises its program's error."""
    error = self._return_value
    if isinstance(error, UsageError) or (
        isinstance(error, Exception) and explain(error, error.__traceback__)
    ):
        sys.excepthook(type(error), error, error.__traceback__)
        sys.exit(1)
    return return_value(self)


@around(utils, "run_and_report")
def raise_error_of_settings(run_and_report, work):
    """Raise UsageError for settings that Hydra cannot compose."""
    mistakes = []

    def note_mistake():
        try:
            return work()
        except (CompactHydraException, MarkedYAMLError) as error:
            mistakes.append(UsageError(describe(error)))

    result = run_and_report(note_mistake)
    if mistakes:
        raise mistakes[0]
    return result


def describe(error: CompactHydraException | MarkedYAMLError) -> str:
    """Return a line with the place and the cause of an error in a YAML file or an override."""
    if isinstance(error, MarkedYAMLError):
        mark = error.problem_mark
        return f"{mark.name}:{mark.line + 1}: this is not YAML: {error.problem}"
    first, *rest = str(error).splitlines()
    cause = error.__cause__
    if isinstance(error, OverrideParseException):
        return f"{error.override}: it must be NAME=VALUE: {(rest or [first])[0]}"
    if not isinstance(cause, OmegaConfBaseException):
        return first
    line = f"{first.removesuffix('.')}: {str(cause).splitlines()[0]}"
    if not isinstance(cause, (ConfigAttributeError, ConfigKeyError)):
        return line
    # Hydra's advice to append holds for groups without fixed names, such as the model.
    advice = rest[0] if rest and "is not in struct" in line else None
    return f"{line}; {advice or nearest(str(cause.key), list(cause.parent_node))}"
