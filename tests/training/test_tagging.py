"""Task and criterion of sequence tagging: decoding, malformed rows, loss and metrics."""

import itertools
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from fairseq.logging import metrics
from torch import nn

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.training.criterions import sequence_tagging
from fairseq_posattn.training.tasks.sequence_tagging import (
    IGNORED,
    best_tags,
    check_rows,
    forbidden_pairs,
)

TAGS = ["B-A0", "B-A1", "B-V", "I-A0", "I-A1", "O"]


def test_unconstrained_decoding_takes_each_words_best_tag():
    scores = torch.tensor([[[0.0, 1, 0], [2, 0, 0]], [[0, 0, 3], [9, 9, 9]]])
    assert best_tags(scores, torch.tensor([2, 1])) == [[1, 0], [2]]


def test_forbidden_pairs_begin_or_change_an_argument_inside():
    forbidden = forbidden_pairs(TAGS)
    pairs = itertools.product(enumerate([*TAGS, "start"]), enumerate(TAGS))
    assert {(before, after) for (i, before), (j, after) in pairs if forbidden[i, j]} == {
        *(("B-A0", "I-A1"), ("I-A0", "I-A1"), ("B-A1", "I-A0"), ("I-A1", "I-A0")),
        *itertools.product(("B-V", "O", "start"), ("I-A0", "I-A1")),
    }


@pytest.mark.parametrize("length", [1, 2, 4])
def test_constrained_decoding_returns_the_best_allowed_sequence(length):
    """The reference scores all sequences one by one."""
    forbidden = forbidden_pairs(TAGS)
    generator = torch.Generator().manual_seed(1)
    scores = torch.randn(length, len(TAGS), generator=generator).log_softmax(-1)
    allowed = [
        path
        for path in itertools.product(range(len(TAGS)), repeat=length)
        if not any(forbidden[pair] for pair in itertools.pairwise([-1, *path]))
    ]
    best = max(allowed, key=lambda path: sum(scores[i, tag] for i, tag in enumerate(path)))
    assert best_tags(scores[None], torch.tensor([length]), forbidden) == [list(best)]


WRONG = "row {}: needs a flag and a tag per word, and exactly one predicate"


@pytest.mark.parametrize(
    ("words", "flags", "tags", "message"),
    [
        ([[9, 8]], [[4, 5]], [[6, 7]], None),
        ([[9], [9]], [[5]], [[6]], WRONG.format(2)),
        ([[9, 8]], [[5]], [[6, 7]], WRONG.format(1)),
        ([[]], [[]], [[]], WRONG.format(1)),
        ([[9, 8]], [[5, 5]], [[6, 7]], WRONG.format(1)),
        ([[9, 8]], [[4, 4]], [[6, 7]], WRONG.format(1)),
        ([[9, 8]], [[4, 5]], [[6, 3]], "row 1: has a tag that tags/dict.txt lacks"),
    ],
)
def test_malformed_rows_are_refused(words, flags, tags, message):
    columns = [[torch.tensor([*row, 2]) for row in rows] for rows in (words, flags, tags)]
    with pytest.raises(UsageError, match=message) if message else nullcontext():
        check_rows("train", columns, marked=5, unknown=3)


class GivenLogits(nn.Module):
    def forward(self, logits, **unused):
        return logits, None


def build(smoothing=0.0, sentence_avg=False):
    def decode(logits, lengths):
        return [[TAGS[tag] for tag in row] for row in best_tags(logits, lengths)]

    task = SimpleNamespace(tag_names=TAGS, decode=decode)
    cfg = SimpleNamespace(label_smoothing=smoothing, sentence_avg=sentence_avg)
    return sequence_tagging.SequenceTagging(cfg, task)


def sample(gold, predicted):
    """Return a batch from tag names; the logits prefer the predicted tags."""
    width = max(map(len, gold))
    target = torch.full((len(gold), width), IGNORED)
    logits = torch.zeros(len(gold), width, len(TAGS))
    for row, pairs in enumerate(map(zip, gold, predicted)):
        for position, (true, preferred) in enumerate(pairs):
            target[row, position] = TAGS.index(true)
            logits[row, position, TAGS.index(preferred)] = 5.0
    lengths = torch.tensor([len(row) for row in gold])
    net_input = {"logits": logits, "src_lengths": lengths}
    return {"net_input": net_input, "target": target, "ntokens": int(lengths.sum())}


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_the_cross_entropy_with_the_smoothed_distribution(smoothing):
    log_probs = torch.randn(2, 3, 5, dtype=torch.float64).log_softmax(-1)
    targets = torch.tensor([[0, 4, 2], [1, IGNORED, IGNORED]])
    expected = 0.0
    for row, position in ((0, 0), (0, 1), (0, 2), (1, 0)):
        for tag in range(5):
            share = 1 - smoothing if tag == targets[row, position] else smoothing / 4
            expected -= share * log_probs[row, position, tag]
    loss = sequence_tagging.smoothed_cross_entropy(log_probs, targets, smoothing)
    torch.testing.assert_close(loss, expected)


GOLD = [["B-A0", "I-A0", "B-V", "B-A1"], ["B-V", "B-A1"], ["O", "B-V", "O"]]
PREDICTED = [["B-A0", "I-A0", "B-V", "O"], ["B-V", "B-A1"], ["B-A1", "B-V", "O"]]


@pytest.mark.parametrize("sizes", [[3], [1, 2]])
def test_metrics_do_not_depend_on_the_batches(sizes):
    ends = list(itertools.accumulate(sizes, initial=0))
    batches = [sample(GOLD[a:b], PREDICTED[a:b]) for a, b in itertools.pairwise(ends)]
    with metrics.aggregate(new_root=True) as meters:
        logs = [build()(GivenLogits().eval(), batch)[2] for batch in batches]
        sequence_tagging.SequenceTagging.reduce_metrics(logs)
    expected = {"precision": 66.67, "recall": 66.67, "f1": 66.67}
    expected |= {"complete": 33.33, "accuracy": 77.78}
    values = meters.get_smoothed_values()
    assert {name: values[name] for name in expected} == pytest.approx(expected)


def test_training_counts_no_arguments():
    logged = build()(GivenLogits().train(), sample(GOLD, PREDICTED))[2]
    assert "arguments" not in logged
    assert logged["sample_size"] == 9


def test_sentence_avg_divides_by_sentences():
    _, size, logged = build(sentence_avg=True)(GivenLogits().train(), sample(GOLD, PREDICTED))
    assert size == logged["sample_size"] == logged["nsentences"] == 3
    assert logged["ntokens"] == 9
