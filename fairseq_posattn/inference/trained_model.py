"""Load a trained model with the dictionaries it was trained with."""

from dataclasses import dataclass
from pathlib import Path

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.checkpoints.reading import find_checkpoint
from fairseq_posattn.text import manifest
from fairseq_posattn.training.plugin import register

register()  # before the first import of fairseq, which it quiets

from fairseq import checkpoint_utils, utils  # noqa: E402
from fairseq.checkpoint_utils import load_checkpoint_to_cpu  # noqa: E402
from fairseq.models import BaseFairseqModel  # noqa: E402
from fairseq.tasks import FairseqTask  # noqa: E402

# A named implementation may be unable to return attention weights.
OVERRIDES = {"attention_impl": "auto"}


@dataclass(frozen=True)
class TrainedModel:
    """A model in evaluation mode, and its task.

    Attributes:
        path: the checkpoint.
        config: the model's settings in training.
    """

    path: str
    model: BaseFairseqModel
    config: object
    task: FairseqTask

    @property
    def task_name(self) -> str:
        """Return the ``--task`` of its training; fairseq's older tasks have it in their args."""
        return (self.task.cfg or self.task.args)._name


def load(path: str, data: str | None = None, *, reads_data: bool = False) -> TrainedModel:
    """Load a checkpoint onto the CPU, for evaluation.

    Args:
        path: the checkpoint, or a folder with checkpoint_best.pt or checkpoint_last.pt.
        data: folder of its dictionaries; by default the checkpoint's, if training copied
            them there, else the folder of the training data.
        reads_data: the caller also reads sentences of the training data, which are not copied.

    Raises:
        UsageError: the checkpoint or its dictionaries are missing or do not match.
    """
    path = find_checkpoint(path)
    if not Path(path).is_file():
        raise UsageError(f"{path}: no such checkpoint")
    beside = Path(path).parent
    if data is None and not reads_data and manifest.read(beside) is not None:
        data = str(beside)
    state = load_checkpoint_to_cpu(path, OVERRIDES | ({"data": data} if data else {}))
    folder = utils.split_paths(_data(path, state))[0]
    fix = "name the folder of the binarised data with --data"
    if not Path(folder).is_dir():
        raise UsageError(f"{folder}: no such folder of dictionaries; {fix}")
    try:
        models, config, task = checkpoint_utils.load_model_ensemble_and_task([path], state=state)
    except FileNotFoundError as error:
        raise UsageError(f"{error.filename}: no such dictionary; {fix}") from error
    return TrainedModel(path, models[0].eval(), config.model, task)


def _data(path, state):
    """Return the folder of the dictionaries that the checkpoint or the caller names."""
    task = state["cfg"].get("task") if state.get("cfg") else None
    data = getattr(task, "data", None)
    if not isinstance(data, str):
        raise UsageError(f"{path}: its settings name no task and no data")
    return data
