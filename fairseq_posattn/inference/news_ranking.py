"""Scores of whole impressions by a trained recommender."""

from collections.abc import Iterator
from pathlib import Path

import numpy
import torch
from tqdm import tqdm

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.inference import trained_model
from fairseq_posattn.scoring.ranking import Impression, read_column
from fairseq_posattn.training.tasks.news_recommendation import RankingDataset

__all__ = ["rank"]


def rank(
    path: str,
    split: str,
    data: str | None = None,
    batch_size: int = 256,
    device: str | torch.device | None = None,
) -> Iterator[Impression]:
    """Yield the impressions of a split, in order, with a dot-product score for each candidate.

    Titles are encoded once. Impressions of equal history length share a batch. Only the scores of
    the split are held in memory, four bytes each.

    Args:
        path: the checkpoint.
        split: train, valid, test or submission.
        data: the folder of the data; by default that of the training.
        batch_size: impressions in a batch.
        device: by default a GPU if there is one.

    Raises:
        UsageError: the checkpoint is no recommender, the data does not match, or a score is not
            finite.
    """
    trained = trained_model.load(path, data)
    task = trained.task
    if not hasattr(task, "titles"):
        raise UsageError(
            f"{path}: not a recommender; it was not trained with --task news_recommendation"
        )
    impressions = task.load_dataset(split).impressions
    folder = Path(task.cfg.data)
    names = sum(1 for _ in read_column(folder, split, "impressions"))
    if names != len(impressions):
        raise UsageError(
            f"{folder}: {len(impressions)} impressions of {split}, but {names} names; prepare the "
            "data again"
        )
    model = trained.model.to(trained_model.find_device(device))
    scores, ends = candidate_scores(model, task, RankingDataset(impressions), batch_size)
    for index, (name,) in enumerate(read_column(folder, split, "impressions")):
        candidates = scores[ends[index] : ends[index + 1]]
        if not numpy.isfinite(candidates).all():
            raise UsageError(f"{path}: a score of impression {name} of {split} is NaN or infinite")
        yield Impression(name, impressions.labels(index).astype(int).tolist(), candidates.tolist())


def candidate_scores(
    model, task, dataset: RankingDataset, batch_size: int
) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Return the scores of all candidates ``[N]`` and the offsets of the impressions in them."""
    ends = numpy.concatenate([[0], dataset.impressions.shown.cumsum()])
    scores = numpy.empty(ends[-1], dtype=numpy.float32)
    order = dataset.ordered_indices()
    device = next(model.parameters()).device
    with tqdm(total=len(order), unit=" impressions", disable=None) as bar:
        for start in range(0, len(order), batch_size):
            examples = [dataset[int(index)] for index in order[start : start + batch_size]]
            batch = dataset.collater(examples)["net_input"]
            batch = {name: tensor.to(device) for name, tensor in batch.items()}
            batch_scores = model.rank(task.titles, **batch).float().cpu().numpy()
            for example, row in zip(examples, batch_scores, strict=True):
                begin, end = ends[example["id"]], ends[example["id"] + 1]
                scores[begin:end] = row[: end - begin]
            bar.update(len(examples))
    return scores, ends
