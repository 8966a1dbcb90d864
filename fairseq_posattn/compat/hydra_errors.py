"""``fairseq-hydra-train`` reports a user's mistake in one line.

Hydra prints its programs' errors itself, with settings and traceback, and exits; errors in a file
or an override in eight lines or in a traceback. It reads both before fairseq-hydra-train loads the
plugin: this helps ``posattn hydra-train``, and programs that have registered the plugin.
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
    lines, cause = str(error).splitlines(), error.__cause__
    if isinstance(error, OverrideParseException):
        reason = next(line for line in lines if not line.startswith("Error parsing override"))
        return f"{error.override}: it must be NAME=VALUE: {reason}"
    if not isinstance(cause, OmegaConfBaseException):
        return lines[0]
    line = f"{lines[0].removesuffix('.')}: {str(cause).splitlines()[0]}"
    if not isinstance(cause, (ConfigAttributeError, ConfigKeyError)):
        return line
    # Hydra's advice to append holds for groups without fixed names, such as the model.
    advice = "is not in struct" in line and lines[1:]
    return f"{line}; {lines[1] if advice else nearest(str(cause.key), list(cause.parent_node))}"
