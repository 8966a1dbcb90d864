"""What goes wrong, without a word, when several processes train one model.

- A checkpoint counts the batches that *each process* took of the epoch. Resumed on another number
  of processes, a run takes batches again that it has had, or skips some, or fails.
- At the end of an epoch some processes may have a batch less. For the sake of the others such a
  process calculates another batch instead, and ignores it. If --update-freq is more than 1, fairseq
  then leaves out that process's other batches of the update, too, where it divides the sum of all
  gradients by the number of tokens.
"""

from fairseq.data.iterators import EpochBatchIterator
from fairseq.tasks.fairseq_task import FairseqTask
from fairseq.trainer import Trainer

from fairseq_posattn.compat.patching import around


@around(EpochBatchIterator, "state_dict")
def _count_batches(state_dict, self):
    counts = {"num_shards": self.num_shards, "num_batches": len(self.frozen_batches)}
    return {**state_dict(self), **counts}


@around(EpochBatchIterator, "load_state_dict")
def _as_far_through_the_epoch(load_state_dict, self, state):
    """Batches of the same size are taken up just where they were left.

    If the number of processes does not divide the batches taken, some are taken again; if the
    batches have another size, they hold other sentences than those left.
    """
    if "num_batches" in state:
        taken = state["iterations_in_epoch"] * state["num_shards"]
        ours = taken * len(self.frozen_batches) // (state["num_batches"] * self.num_shards)
        state = {**state, "iterations_in_epoch": ours}
    load_state_dict(self, state)


@around(FairseqTask, "train_step")
def _ignore_all_of_it(train_step, self, *args, ignore_grad=False, **kwargs):
    """Of a batch that stands in for a missing one neither tokens nor losses count."""
    loss, sample_size, logged = train_step(self, *args, ignore_grad=ignore_grad, **kwargs)
    if ignore_grad:
        sample_size = 0 * sample_size
        logged = {name: 0 * value for name, value in logged.items()}
    return loss, sample_size, logged


@around(Trainer, "train_step")
def _missing_batches_first(train_step, self, samples, *args, **kwargs):
    """fairseq leaves out a process if the last of its batches is missing."""
    samples = sorted(samples, key=lambda sample: sample is not None and len(sample) > 0)
    return train_step(self, samples, *args, **kwargs)
