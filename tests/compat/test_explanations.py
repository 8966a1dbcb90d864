"""Errors that are one line, and those that keep their traceback."""

import pytest
from omegaconf import ValidationError
from omegaconf.errors import ConfigAttributeError, InterpolationKeyError

from fairseq_posattn.compat.explanations import explain

CHILD = """

-- Process 1 terminated with the following error:
Traceback (most recent call last):
  File "torch/multiprocessing/spawn.py", line 90, in _wrap
    fn(i, *args)
ValueError: the first of two

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "fairseq_cli/train.py", line 96, in main
    raise
    ^^^^^
{}
"""


class ProcessException(Exception):
    """Of PyTorch's spawned processes."""


def raised(error, by_a_command=True):
    """What is shown of an error raised within, or outside, a file of fairseq's commands."""
    path = "/somewhere/fairseq_cli/train.py" if by_a_command else "/somewhere/train.py"
    try:
        exec(compile("raise error", path, "exec"), {"error": error.with_traceback(None)})
    except BaseException as caught:
        return explain(caught, caught.__traceback__)


@pytest.mark.parametrize(
    "error, line",
    [
        (FileNotFoundError(2, "No such file or directory", "x.txt"), "x.txt: No such file or dir"),
        (FileExistsError("data-bin/dict.zh-cn.txt"), "data-bin/dict.zh-cn.txt exists: "),
        (OSError("Model file not found: x.pt"), "x.pt: there is no such checkpoint"),
        (
            Exception(
                "Size of sample #4 is invalid (=(np.int32(5), 6)) since max_positions=(4, 9), skip"
            ),
            "sentence 4, counted from 0, is too long: it has (5, 6) tokens and the model takes (4, "
            "9); train with a greater --max-source-positions and --max-target-positions, cut "
            "sources of binarised data to N tokens with --truncate-source",
        ),
        (FloatingPointError("gradients are Nan/Inf"), "the training has diverged (gradients are"),
        (
            ConfigAttributeError("Missing key lr\n    full_key: optimizer.lr\n"),
            "optimizer.lr is missing in the YAML file, where it has no default; that of ",
        ),
        (
            ValidationError(
                "Value 'two' of type 'str' could not be converted to Integer\n"
                "    full_key: encoder_layers\n    object_type=dman_iwslt_de_en"
            ),
            "--encoder-layers 'two': it must be of type Integer",
        ),
        (
            InterpolationKeyError(
                "Interpolation key 'criterion.classification_head_name' not found\n"
                "    full_key: classification_head_name\n    object_type=SentencePredictionConfig"
            ),
            "--criterion does not support the task: to classify, give sentence_class",
        ),
        (
            ImportError("Cannot find FullyShardedDataParallel. Please install fairscale with pip"),
            "Please install fairscale",
        ),
        (ProcessException(CHILD.format("a.b.UsageError: --lr -1")), "--lr -1"),
        (ProcessException(CHILD.format("OSError: Model file not found: x")), "x: there is no such"),
        (
            ProcessException(CHILD.format("IsADirectoryError: [Errno 21] Is a directory: 'x'")),
            "x: Is a directory",
        ),
    ],
)
def test_a_mistake_is_explained(error, line):
    assert raised(error).startswith(line)
    assert raised(error, by_a_command=False) is None


@pytest.mark.parametrize(
    "error",
    [
        ValueError("a bug"),
        AssertionError(),
        KeyError("nonesuch"),
        OSError("nothing is named"),
        ProcessException(CHILD.format("AssertionError")),
        ProcessException("killed"),
        KeyboardInterrupt(),
    ],
)
def test_what_may_be_a_bug_is_not_explained(error):
    assert raised(error) is None
