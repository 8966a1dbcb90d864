"""``fairseq-hydra-train`` shows a user's mistake in one line, too.

Hydra prints the errors of its programs by itself, with their settings and traceback, and leaves;
what is wrong with a file or an override, before the program, in eight lines or in a traceback. It
reads both before fairseq-hydra-train loads the plugin: ``posattn hydra-train`` and a program that
has registered it are helped.
"""

import sys

from hydra._internal import utils
from hydra.core.utils import JobReturn
from hydra.errors import CompactHydraException, OverrideParseException
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException
from yaml import MarkedYAMLError

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.explanations import explain
from fairseq_posattn.compat.flags.names import nearest
from fairseq_posattn.compat.patching import around


@around(JobReturn, "return_value")
def _leave_mistakes_to_the_hook(return_value, self):
    """Where Hydra raises what its program has raised, with much before it."""
    error = self._return_value
    if isinstance(error, UsageError) or (
        isinstance(error, Exception) and explain(error, error.__traceback__)
    ):
        sys.excepthook(type(error), error, error.__traceback__)
        sys.exit(1)
    return return_value(self)


@around(utils, "run_and_report")
def _raise_what_cannot_be_composed(run_and_report, work):
    """Settings that Hydra cannot make one of; everything else stays its own."""
    mistakes = []

    def tried():
        try:
            return work()
        except (CompactHydraException, MarkedYAMLError) as error:
            mistakes.append(UsageError(line_of(error)))

    result = run_and_report(tried)
    if mistakes:
        raise mistakes[0]
    return result


def line_of(error: CompactHydraException | MarkedYAMLError) -> str:
    """What is wrong with a YAML file or with an override, and where."""
    if isinstance(error, MarkedYAMLError):
        mark = error.problem_mark
        return f"{mark.name}:{mark.line + 1}: this is not YAML: {error.problem}"
    lines, cause = str(error).splitlines(), error.__cause__
    if isinstance(error, OverrideParseException):
        reason = next(line for line in lines if not line.startswith("Error parsing override"))
        return f"{error.override}: it must be NAME=VALUE: {reason}"
    if not isinstance(cause, OmegaConfBaseException):
        return lines[0]
    line = f"{lines[0].removesuffix('.')}: {str(cause).splitlines()[0]}"
    if not isinstance(cause, (ConfigAttributeError, ConfigKeyError)):
        return line
    # What it says of appending holds for groups that have no names of their own, such as the model.
    free = "is not in struct" in line and lines[1:]
    return f"{line}; {lines[1] if free else nearest(str(cause.key), list(cause.parent_node))}"
