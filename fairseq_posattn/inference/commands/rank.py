"""Rank the news of impressions with a trained recommender.

    %(prog)s checkpoints/mind/checkpoint_best.pt --split test --scores scores.tsv
    posattn score ranking --scores scores.tsv

The scores are a line for each impression: its name, JSON list of labels and JSON list of scores,
separated by TABs, as `posattn score ranking` reads them. --submission writes ranks in MIND's
format. `popularity` instead of a checkpoint scores news by their clicks in the training split.
"""

import os
from argparse import ArgumentError, Namespace
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from fairseq_posattn.common import cli
from fairseq_posattn.common.errors import UsageError, counted
from fairseq_posattn.common.files import output_file, writing
from fairseq_posattn.inference import options
from fairseq_posattn.scoring import ranking

POPULARITY = "popularity"


def main(arguments: Sequence[str] | None = None, prog: str | None = None) -> int:
    parser = cli.make_parser(__doc__, prog)
    about = f"checkpoint of fairseq-train, its folder, or {POPULARITY}"
    parser.add_argument("checkpoint", help=about)
    about = "binarized data with its text (default: the training data)"
    parser.add_argument("--data", metavar="FOLDER", help=about)
    options.add_user_dir(parser)
    about = "split: train, valid, test or submission (without labels) (default: %(default)s)"
    parser.add_argument("--split", default="test", metavar="NAME", help=about)
    file: dict[str, Any] = {"type": output_file, "metavar": "FILE"}
    parser.add_argument("--scores", "--output", help="write labels and scores", **file)
    parser.add_argument("--submission", help="write ranks, as prediction.txt", **file)
    cli.add_count(parser, "--batch-size", 256, "impressions in a batch")
    parser.add_argument("--cpu", action="store_true", help="run on the CPU")
    return cli.run(parser, write, arguments)


def write(args: Namespace) -> None:
    """Write both files that a command line names completely, or none."""
    paths = [os.path.realpath(path) for path in (args.scores, args.submission) if path]
    if not paths:
        raise ArgumentError(None, "nothing to write: give --scores FILE, --submission FILE or both")
    if len(paths) > len(set(paths)):  # two pipes into one file deadlock
        problem = f"--scores and --submission are both {args.scores}: name two files"
        raise ArgumentError(None, problem)
    if args.checkpoint == POPULARITY and not args.data:
        raise ArgumentError(None, "popularity needs --data FOLDER")
    if args.checkpoint == POPULARITY:
        impressions = ranking.rank_by_popularity(Path(args.data), args.split)
    else:
        impressions = rank(args)
    count, formats = 0, {args.scores: ranking.scores_line, args.submission: ranking.submission_line}
    with ExitStack() as stack:
        files = {stack.enter_context(writing(path)): formats[path] for path in formats if path}
        for impression in impressions:
            count += 1
            for file, line in files.items():
                file.write(line(impression))
    print(f"{counted(count, 'impression')}: {' '.join(filter(None, formats))}")


def rank(args: Namespace) -> Iterator[ranking.Impression]:
    """Yield the impressions of a split, in order, with a dot-product score for each candidate."""
    import numpy

    from fairseq_posattn.inference import trained_model  # imports fairseq
    from fairseq_posattn.training.tasks.news_recommendation import RankingDataset

    path, split = args.checkpoint, args.split
    trained = trained_model.load(path, args.data)
    task = trained.task
    if not hasattr(task, "titles"):
        raise trained.refusal("not a recommender")
    impressions = task.load_dataset(split).impressions
    folder = Path(task.cfg.data)
    model = trained.model.to(trained_model.find_device("cpu" if args.cpu else None))
    scores, ends = score_candidates(model, task, RankingDataset(impressions), args.batch_size)
    for index, (name,) in enumerate(ranking.read_column(folder, split, "impressions")):
        candidates = scores[ends[index] : ends[index + 1]]
        if not numpy.isfinite(candidates).all():
            raise UsageError(f"{path}: a score of impression {name} of {split} is NaN or infinite")
        labels = impressions.labels(index).astype(int).tolist()
        yield ranking.Impression(name, labels, candidates.tolist())


def score_candidates(model: Any, task: Any, dataset: Any, batch_size: int) -> tuple[Any, Any]:
    """Return all candidates' scores ``[N]`` and offsets; equal history lengths share a batch."""
    import numpy
    from tqdm import tqdm

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
