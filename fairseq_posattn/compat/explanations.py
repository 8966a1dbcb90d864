"""One line for the errors by which fairseq's commands report a user's mistake.

Errors that are not listed here may be bugs, and keep their traceback.
"""

import os
import re
from types import TracebackType

# The type of an error, the beginning of its message, and the line, with the groups of the pattern.
KNOWN = (
    ("AssertionError", r"(--(?:sampling|temperature|replace-unk|batch-size) [^\n]*)", "{0}"),
    ("AssertionError", r"(--sampling-top[kp] requires --sampling)", "{0}"),
    ("AssertionError", r"Must set task\.num_classes", "--num-classes must be 1 or more"),
    (
        "AssertionError",
        r"min_len cannot be larger than max_len",
        "--min-len is more than --max-len-a and --max-len-b allow: lower it or raise these",
    ),
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
        "Exception",
        r"AdaptiveLoss is not compatible with the PyTorch version of DistributedDataParallel",
        "--criterion adaptive_loss needs --ddp-backend legacy_ddp",
    ),
    (
        "FileExistsError",
        r"(.*\bdict\.[\w-]+\.txt)$",
        "{0} exists: give it as --srcdict or --tgtdict, or name another --destdir",
    ),
    ("FileNotFoundError", r"Dataset not found: (\S+) \((.*)\)", "{1} has no split {0}"),
    ("OSError", r"Model file not found: (.*)", "{0}: there is no such checkpoint"),
    ("OSError", r"file (.*) not found", "{0}: there is no such file"),
    (
        "ValueError",
        r"(--finetune-from-model .*?can ?not be (?:set|specified) together[^:{]*)",
        "{0}",
    ),
    ("ValueError", r"(--finetune-from-model .* does not exist)", "{0}"),
    (
        "ValueError",
        r"Provided Search parameters are mutually exclusive",
        "--sampling, "
        "--diverse-beam-groups, --match-source-len and --diversity-rate exclude each other",
    ),
    ("ValueError", r"Cannot combine --fp16 and --tpu", "--fp16 and --bf16 exclude each other"),
    ("ValueError", r"(impl='\w+' needs a GPU, .*)", "--attention-impl: {0}"),
    (
        "ImportError",
        r"\s*Please install the megatron submodule",
        "--model-parallel-size: fairseq's megatron submodule is not installed; leave it out",
    ),
    ("ImportError", r"\s*(?:Cannot find (\w+)\. )?(Please install [^\n]*)", "{1}"),
    (
        "TypeError",
        r"MaskedLMDictionary\.__init__\(\) got an unexpected keyword",
        "--task translation_from_pretrained_xlm: fairseq cannot read its dictionaries in this "
        "version; give --task translation",
    ),
    (
        "TypeError",
        r"\w+\.forward\(\) missing 2 required .*: 'src_lengths' and 'prev_output_tokens'",
        "--lm-path names a model that translates: it must be a language model",
    ),
    (
        "FloatingPointError",
        r"(gradients are Nan/Inf|Minimum loss scale reached)",
        "the training has diverged ({0}): lower --lr, raise --warmup-updates or give --clip-norm",
    ),
    ("NotImplementedError", r"Unknown post_process option: (.*)", "--post-process {0}: unknown"),
    (
        "UnicodeDecodeError",
        r"'utf-8' codec can't decode byte (\w+) in position (\d+)",
        "the text is not UTF-8 (byte {0} at offset {1} of the buffer): convert it first",
    ),
    (
        "AssertionError",
        r"world size is (\d+) but have (\d+) available devices",
        "--distributed-world-size {0}: there are {1} GPUs; without them give "
        "--distributed-init-method, --distributed-no-spawn and --distributed-rank",
    ),
    (
        "ValueError",
        r"Default process group has not been initialized",
        "--distributed-world-size is more than 1: give --distributed-init-method, too",
    ),
    (
        "DistNetworkError",
        r"(?:.*\n)?.*port: (\d+).*EADDRINUSE",
        "port {0} of --distributed-init-method is in use: name another",
    ),
    (
        "RuntimeError",
        r"No rendezvous handler for (.*)://",
        "--distributed-init-method must begin with tcp://, file:// or env://",
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
    """Return the line to print for an error that ends one of fairseq's commands.

    Returns:
        a line; None if the error is unknown, or was not raised by a command of fairseq.
    """
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
