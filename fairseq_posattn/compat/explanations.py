"""What fairseq raises where somebody has made a mistake, said in a line.

Only what is listed here is explained: anything else may be a bug, and keeps its traceback.
"""

import os
import re
from types import TracebackType

# A kind of error and what its message begins with; how to say it, with the groups of the pattern.
KNOWN = (
    ("AssertionError", r"(--(?:sampling|temperature|replace-unk|batch-size) [^\n]*)", "{0}"),
    (
        "AssertionError",
        r"min_len cannot be larger than max_len",
        "--min-len is more than --max-len-a and --max-len-b allow: lower it or raise these",
    ),
    (
        "AssertionError",
        r"Sentences lengths should not exceed max_tokens=(\d+)",
        "--max-tokens (or --max-tokens-valid) {0} is too small: a sentence is longer; raise it, or "
        "leave such sentences out with --skip-invalid-size-inputs-valid-test and "
        "--max-source-positions",
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
        "{0} is there already: give it as --srcdict or --tgtdict, or name another --destdir",
    ),
    ("FileNotFoundError", r"Dataset not found: (\S+) \((.*)\)", "{1} has no split {0}"),
    (
        "OSError",
        r"Model file not found: (.*)",
        "{0}: there is no such checkpoint",
    ),
    ("OSError", r"file (.*) not found", "{0}: there is no such file"),
    (
        "OSError",  # of torchaudio, which Hugging Face's models import if it is installed
        r"Could not load this library: (.*)",
        "{0}: cannot be loaded; install its package for this version of PyTorch, or uninstall it",
    ),
    (
        "ValueError",
        r"(--finetune-from-model .*?can ?not be (?:set|specified) together[^:{]*)",
        "{0}",
    ),
    ("ValueError", r"(--finetune-from-model .* does not exist)", "{0}"),
    ("ValueError", r"(--lang-pairs is required)", "{0} by --task; list them, as in de-en,fr-en"),
    ("ValueError", r"Cannot combine --fp16 and --tpu", "--fp16 and --bf16 exclude each other"),
    (
        "AssertionError",
        r"(\w+) does not support (ensembling|decoding with length)",
        "{0} does not support {1}: give a single checkpoint and leave --iter-decode-with-beam out",
    ),
    (
        "Exception",
        r"AdaptiveLoss is not compatible with the PyTorch version of DistributedDataParallel",
        "--criterion adaptive_loss needs --ddp-backend legacy_ddp",
    ),
    ("AssertionError", r"(--sampling-top[kp] requires --sampling)", "{0}"),
    (
        "ValueError",
        r"Provided Search parameters are mutually exclusive",
        "--sampling, "
        "--diverse-beam-groups, --match-source-len and --diversity-rate exclude each other",
    ),
    (
        "ImportError",
        r"\s*Please install the megatron submodule",
        "--model-parallel-size: fairseq's megatron submodule is not installed; leave it out",
    ),
    ("ImportError", r"(Please install [^\n]*)", "{0}"),
    (
        "TypeError",
        r"MaskedLMDictionary\.__init__\(\) got an unexpected keyword",
        "--task translation_from_pretrained_xlm: fairseq cannot read its dictionaries in this "
        "version; give --task translation",
    ),
    ("AssertionError", r"Must set task\.num_classes", "--num-classes must be 1 or more"),
    (
        "AssertionError",
        r"embed_dim must be divisible by num_heads",
        "--encoder-attention-heads or --decoder-attention-heads does not divide the width, "
        "--encoder-embed-dim or --decoder-embed-dim",
    ),
    (
        "ValueError",
        r"DiverseBeamSearch requires --beam",
        "--diverse-beam-groups must divide --beam",
    ),
    (
        "RuntimeError",
        r"selected index k out of range",
        "--sampling-topk is more than there are words in the dictionary",
    ),
    ("ValueError", r"(impl='\w+' needs a GPU, .*)", "--attention-impl: {0}"),
    (
        "FloatingPointError",
        r"(gradients are Nan/Inf|Minimum loss scale reached)",
        "the training has diverged ({0}): lower --lr, raise --warmup-updates or give --clip-norm",
    ),
    ("NotImplementedError", r"Unknown post_process option: (.*)", "--post-process {0}: unknown"),
    (
        "UnicodeDecodeError",
        r"'utf-8' codec can't decode byte (\w+) in position (\d+)",
        "the text is not UTF-8 (byte {0} at place {1} of what was read): convert it first",
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
        "--distributed-world-size is more than 1, and nothing says how the processes meet: give "
        "--distributed-init-method",
    ),
    (
        "DistNetworkError",
        r"(?:.*\n)?.*port: (\d+).*EADDRINUSE",
        "port {0} of --distributed-init-method is taken: name another",
    ),
    (
        "RuntimeError",
        r"No rendezvous handler for (.*)://",
        "--distributed-init-method must begin with tcp://, file:// or env://",
    ),
    (
        "ImportError",
        r"(Cannot find FullyShardedDataParallel\. Please install fairscale)",
        "--ddp-backend fully_sharded needs fairscale: pip install fairscale",
    ),
    (
        "ImportError",
        r"Cannot find SlowMoDistributedDataParallel\. Please install fairscale",
        "--ddp-backend slowmo needs fairscale: pip install fairscale",
    ),
    (
        "AttributeError",
        r"'(\w+)' object has no attribute 'eval_lm_dataloader'",
        "fairseq-eval-lm is for language models, as of --task language_modeling, not of {0}",
    ),
    (
        "TypeError",
        r"\w+\.forward\(\) missing 2 required .*: 'src_lengths' and 'prev_output_tokens'",
        "--lm-path names a model that translates: it must be a language model",
    ),
    (
        "ConfigCompositionException",
        r"Error merging override \w+\.(\w+)=null",
        "--{0:flag} is missing",
    ),
    (
        "ConfigAttributeError",  # of a class that fairseq gives defaults on command lines alone
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
        "--criterion does not go with the task, to classify: give sentence_classification, "
        "or for scores relatedness or rating_regression",
    ),
    (
        "InterpolationKeyError",
        r"Interpolation key '(\w+)\.(\w+)' not found(?s:.*)object_type=(\w+?)(?:Config|$)",
        "--{0:flag} does not go with the task: {2} needs one with --{1:flag}",
    ),
)


def explain(error: BaseException, traceback: TracebackType | None) -> str | None:
    """What to print of an error that ends one of fairseq's commands, instead of its traceback.

    Returns:
        a line; None where the error is unknown, or was not raised by a command of fairseq's.
    """
    if not _passed_a_command(traceback):
        return None
    if isinstance(error, OSError) and error.strerror and isinstance(error.filename, (str, bytes)):
        return f"{os.fsdecode(error.filename) or 'a file without a name'}: {error.strerror}"
    names = {kind.__name__ for kind in type(error).__mro__}
    text = str(error)
    if "ProcessException" in names:  # PyTorch's, with a child's traceback for its message
        names, text = _last_error(text)
        if "UsageError" in names:
            return text
        file = re.fullmatch(r"\[Errno \d+\] (.*): '(.*)'", text)
        if file:
            return f"{file[2]}: {file[1]}"
    return _known(names, text)


def _passed_a_command(traceback):
    """Whether one of fairseq's commands is among the callers."""
    while traceback is not None:
        if (
            os.path.basename(os.path.dirname(traceback.tb_frame.f_code.co_filename))
            == "fairseq_cli"
        ):
            return True
        traceback = traceback.tb_next
    return False


def _last_error(text):
    """The kind and the message of the error at the end of a printed traceback."""
    found = re.search(r"^(?:\w+\.)*(\w+): ?(.*)\Z", text.rpartition("\n  File ")[2], re.M | re.S)
    return ({found[1]}, found[2].strip()) if found else (set(), text)


def _known(names, text):
    for name, pattern, line in KNOWN:
        found = name in names and re.match(pattern, text)
        if found:
            return line.format(*map(_Found, found.groups()))
    return None


class _Found(str):
    """What a pattern found; ``flag`` and ``number`` say how a line puts it."""

    def __format__(self, how):
        if how == "flag":
            return self.replace("_", "-")
        return re.sub(r"np\.\w+\((\d+)\)", r"\1", self)  # NumPy 2 shows the type, too
