"""Load a trained model with the dictionaries it was trained with."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import torch

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.checkpoints import find_checkpoint
from fairseq_posattn.inference.stock_transformer import (
    UnsupportedModelError,
    read_as_posattn,
    translates,
)
from fairseq_posattn.text import manifest, plain_text
from fairseq_posattn.training import registered as fairseq

# A named implementation may be unable to return attention weights; the tokenizer of BLEU on the
# validation set takes half a second to import.
OVERRIDES = {"attention_impl": "auto", "eval_bleu": False}
# Commands that use a model, by the kind of its data.
COMMANDS = {"translation": "translate or summarize", "recommendation": "rank"}
COMMANDS |= dict.fromkeys(("classification", "tagging"), "predict")

Device = str | torch.device | None  # None for a GPU if available

# Loading changes logs, warnings and standard error of the process, and restores them.
_loading = threading.RLock()


@dataclass(frozen=True, repr=False)
class TrainedModel:
    """A checkpoint's model in evaluation mode, its settings in training, and its task.

    fairseq's Transformer is a ``posattn_transformer`` of ``san``. ``unread`` says why another model
    of fairseq is not; it is empty for models of this plugin.
    """

    path: str
    model: fairseq.BaseFairseqModel
    config: object
    task: fairseq.FairseqTask
    unread: str = ""

    def __repr__(self) -> str:
        return f"TrainedModel({self.path!r}, {type(self.model).__name__}, {self.task_name})"

    @property
    def task_name(self) -> str:
        """Return the ``--task`` of its training; fairseq's older tasks have it in their args."""
        return str((self.task.cfg or self.task.args)._name)

    def refusal(self, wanted: str) -> UsageError:
        """Return the error for a model that is not as ``wanted``; it names the model's command."""
        kind = manifest.KIND_OF_TASK.get(self.task_name, self.task_name)
        command = COMMANDS.get(kind)
        fix = f"use posattn {command}" if command else "no command of posattn uses its models"
        reason = f"it was trained with --task {self.task_name}"
        return UsageError(f"{self.path}: {wanted}; {reason}; {fix}")

    @property
    def translates(self) -> bool:
        """Return whether it translates or summarizes, by a search from left to right."""
        return translates(self.task)

    @property
    def encodes_pairs(self) -> bool:
        """Return whether it encodes the sentences of a pair apart."""
        return getattr(self.task, "encodes_pairs", False)

    @property
    def data(self) -> Path:
        """Return the folder of its dictionaries."""
        return Path(fairseq.utils.split_paths(self.task.cfg.data)[0])

    @cached_property
    def rules(self) -> manifest.Manifest | None:
        """Return the description of its data, preparation.json; None if there is none."""
        return manifest.read(self.data)

    @cached_property
    def to_subwords(self) -> Callable[[str], str]:
        """Return the function from words to subwords of its data."""
        return plain_text.cutter(self.data, self.rules) if self.rules else str

    @property
    def languages(self) -> tuple[str, str]:
        """Return the languages of source and target."""
        return self.task.cfg.source_lang, self.task.cfg.target_lang

    @property
    def text_functions(self) -> tuple[Callable[[str], str], ...]:
        """Return functions from source and target text to subwords, and from words to target text.

        Spaces separate words and subwords. Without preparation.json text already is subwords.
        """
        if self.rules is None:
            return str.strip, str.strip, str
        (source, target), rules = self.languages, self.rules
        whole = replace(rules, longest=None)  # lines of the source are cut later, and counted
        return (
            plain_text.splitter(self.data, whole, source, self.to_subwords),
            plain_text.splitter(self.data, rules, target, self.to_subwords),
            plain_text.joiner(rules, target),
        )

    @property
    def longest(self) -> int:
        """Return the maximum source length, with the end symbol."""
        limits = self.task.max_positions(), self.model.max_positions()
        longest = fairseq.utils.resolve_max_positions(*limits)
        return int(longest[0] if isinstance(longest, tuple) else longest)


def load(path: str, data: str | None = None, *, reads_data: bool = False) -> TrainedModel:
    """Load a checkpoint, or a folder's best, onto the CPU; ``data`` has its dictionaries."""
    path = find_checkpoint(path)
    if not Path(path).is_file():
        raise UsageError(f"{path}: no such checkpoint")
    beside = Path(path).parent
    if data is None and not reads_data and manifest.read(beside) is not None:
        data = str(beside)
    with without_logs():
        state = fairseq.load_checkpoint_to_cpu(path, OVERRIDES | ({"data": data} if data else {}))
        settings = state["cfg"].get("task") if state.get("cfg") else None
        if settings is None or not isinstance(getattr(settings, "data", None), str):
            raise UsageError(f"{path}: its settings name no task and no data")
        folder = fairseq.utils.split_paths(settings.data)[0]
        fix = "name the folder of the binarized data with --data"
        if not Path(folder).is_dir():
            raise UsageError(f"{folder}: no such folder of dictionaries; {fix}")
        load_models = fairseq.checkpoint_utils.load_model_ensemble_and_task
        try:
            [model], config, task = load_models([path], state=state)
        except FileNotFoundError as error:
            raise UsageError(f"{error.filename}: no such dictionary; {fix}") from error
    trained = TrainedModel(path, model.eval(), config.model, task)
    if type(model).__module__.startswith("fairseq_posattn."):
        return trained
    try:
        model, options = read_as_posattn(model, task)
    except UnsupportedModelError as error:
        return replace(trained, unread=str(error))
    options._name = getattr(config.model, "arch", None) or config.model._name
    return replace(trained, model=model, config=options)


@contextmanager
def without_logs() -> Iterator[None]:
    """Disable log lines of level INFO, in one thread at a time: fairseq reports each dictionary."""
    with _loading:
        level = logging.root.manager.disable
        logging.disable(max(level, logging.INFO))
        try:
            yield
        finally:
            logging.disable(level)


def find_device(device: Device) -> torch.device:
    """Return a device; by default a GPU if available."""
    return torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
