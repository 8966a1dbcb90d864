"""Load a trained model together with the dictionaries that it was trained with."""

from dataclasses import dataclass
from pathlib import Path

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.checkpoints.folders import find_checkpoint
from fairseq_posattn.text import manifest
from fairseq_posattn.training.plugin import register

register()  # before the first import of fairseq, which it quiets

from fairseq import checkpoint_utils, utils  # noqa: E402
from fairseq.checkpoint_utils import load_checkpoint_to_cpu  # noqa: E402
from fairseq.models import BaseFairseqModel  # noqa: E402
from fairseq.tasks import FairseqTask  # noqa: E402

# Not every implementation returns attention weights: one that was asked for by name may not.
OVERRIDES = {"attention_impl": "auto"}


@dataclass(frozen=True)
class TrainedModel:
    """A model as it translates or classifies, and its task.

    Attributes:
        path: the checkpoint. config: the flags of the model's training.
    """

    path: str
    model: BaseFairseqModel
    config: object
    task: FairseqTask

    @property
    def task_name(self) -> str:
        """What it was trained with by ``--task``; fairseq's older tasks have it in their args."""
        return (self.task.cfg or self.task.args)._name


def load(path: str, data: str | None = None, *, reads_data: bool = False) -> TrainedModel:
    """Load a checkpoint onto the CPU, for evaluation.

    Args:
        path: of the checkpoint, or of a folder that has it.
        data: the directory of its dictionaries; None for that of the checkpoint, if training has
            copied them there, or else where they were in training.
        reads_data: sentences of the data are read as well, which are not beside the checkpoint.

    Raises:
        UsageError: the checkpoint or its dictionaries are not there or do not fit each other.
    """
    path = find_checkpoint(path)
    if not Path(path).is_file():
        raise UsageError(f"{path}: there is no such checkpoint")
    beside = Path(path).parent
    if data is None and not reads_data and manifest.read(beside) is not None:
        data = str(beside)
    state = load_checkpoint_to_cpu(path, OVERRIDES | ({"data": data} if data else {}))
    folder = utils.split_paths(_data(path, state))[0]
    mend = "name the folder of the binarised data with --data"
    if not Path(folder).is_dir():
        raise UsageError(f"{folder}, where the dictionaries should be, is not there: {mend}")
    try:
        models, config, task = checkpoint_utils.load_model_ensemble_and_task([path], state=state)
    except FileNotFoundError as error:
        raise UsageError(f"dictionary {error.filename} is not there: {mend}") from error
    return TrainedModel(path, models[0].eval(), config.model, task)


def _data(path, state):
    """The folder of the dictionaries, which the checkpoint names, or the user in its place."""
    task = state["cfg"].get("task") if state.get("cfg") else None
    data = getattr(task, "data", None)
    if not isinstance(data, str):
        raise UsageError(f"{path} has no settings that name a task and its data")
    return data
