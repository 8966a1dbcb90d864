"""A run resumed in a later epoch, which fairseq gives other batches than it had.

Unless ``--update-epoch-batch-itr`` is given, fairseq 0.12 makes the batches once, by a seed that
depends on the epoch in which it starts, and only shuffles them for the epochs that follow. It
starts in another epoch when it resumes.
"""

from fairseq.data.iterators import EpochBatchIterator
from fairseq.tasks.fairseq_task import FairseqTask
from fairseq.trainer import Trainer

from fairseq_posattn.compat.patching import around

EPOCH = "batches_of_epoch"


@around(FairseqTask, "get_batch_iterator")
def _note_epoch(get_batch_iterator, self, dataset, *args, **kwargs):
    """Of batches that are to be kept."""
    iterator = get_batch_iterator(self, dataset, *args, **kwargs)
    if self.dataset_to_epoch_iter.get(dataset) is iterator and not hasattr(iterator, EPOCH):
        setattr(iterator, EPOCH, iterator.epoch)
    return iterator


@around(EpochBatchIterator, "state_dict")
def _save_epoch(state_dict, self):
    noted = {EPOCH: getattr(self, EPOCH)} if hasattr(self, EPOCH) else {}
    return {**state_dict(self), **noted}


@around(EpochBatchIterator, "load_state_dict")
def _set_epoch_of_data(load_state_dict, self, state):
    """Before the processes start that load the data."""
    if hasattr(self.dataset, "set_epoch"):
        self.dataset.set_epoch(state["epoch"])
    load_state_dict(self, state)


@around(Trainer, "load_checkpoint")
def _read_epoch(load_checkpoint, self, *args, **kwargs):
    extra_state = load_checkpoint(self, *args, **kwargs)
    place = (extra_state or {}).get("train_iterator", {})
    self.epochs_of_batches = {place["epoch"]: place[EPOCH]} if EPOCH in place else {}
    return extra_state


@around(Trainer, "get_train_iterator")
def _make_batches_of_that_epoch(get_train_iterator, self, epoch, *args, **kwargs):
    """Once, for the epoch in which the run resumes, unless --reset-dataloader starts anew."""
    resumed = vars(self).pop("epochs_of_batches", {})
    return get_train_iterator(self, resumed.get(epoch, epoch), *args, **kwargs)
