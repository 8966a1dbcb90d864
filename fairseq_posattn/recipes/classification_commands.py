"""From a table of classifiers and the like, and what is asked of it, to command lines."""

import shlex
from collections.abc import Iterator
from dataclasses import replace

from fairseq_posattn.errors import UsageError
from fairseq_posattn.recipes.commands import KEPT, LOGGED, PLUGIN, Entry, Place, choose_rows
from fairseq_posattn.recipes.options import ClassificationOptions
from fairseq_posattn.recipes.recipe import ClassificationRecipe, Dataset, Row, Training
from fairseq_posattn.recipes.runs import Run, Step, folder_name

TINY_MODEL = (
    "--encoder-embed-dim 12 --encoder-hidden-dim 12 --encoder-attention-heads 2"
    " --encoder-ffn-embed-dim 12"
)
LOWER_IS_BETTER = {"loss", "mse", "rmse", "mae"}


def asked(
    dataset: Dataset, training: Training, options: ClassificationOptions
) -> tuple[Dataset, Training]:
    """A data set and its training as they are asked for."""
    folds = min(dataset.folds, options.folds or dataset.folds)
    training = replace(training, seeds=options.seeds or training.seeds)
    if options.epochs:
        training = replace(training, epochs=options.epochs, updates=0)
    if options.tiny:
        folds = min(folds, 2)
        training = replace(training, batch_size=8, max_tokens=0, seeds=options.seeds or 1)
        if training.updates:
            training = replace(training, updates=4, interval=2)
        else:
            training = replace(training, epochs=options.epochs or 1)
    return replace(dataset, folds=folds), training


def runs(recipe: ClassificationRecipe, options: ClassificationOptions, place: Place) -> list[Run]:
    """All runs that are asked for: with the first seed on all data sets first."""
    rows = choose_rows(recipe, options.rows)
    chosen = [
        asked(dataset, recipe.training[dataset.name], options)
        for dataset in choose_datasets(recipe, options.datasets)
    ]
    most = max(training.seeds for _, training in chosen)
    return [
        make_run(recipe, dataset, row, options, place, seed, fold)
        for seed in range(1, most + 1)
        for dataset, training in chosen
        if seed <= training.seeds
        for row in rows
        if seed == 1 or not row.baseline
        for fold in (range(dataset.folds) if dataset.folds else [None])
    ]


def make_run(
    recipe: ClassificationRecipe,
    dataset: Dataset,
    row: Row,
    options: ClassificationOptions,
    place: Place,
    seed: int,
    fold: int | None,
) -> Run:
    """A row's run on a data set: train, test."""
    if row.baseline:
        return _make_baseline(dataset, row, place)
    dataset, training = asked(dataset, row.training or recipe.training[dataset.name], options)
    task = ["--task", dataset.task]
    task += ["--num-classes", str(dataset.classes)] if dataset.classes else []
    task += [*dataset.positions.split(), "--criterion", dataset.criterion]
    best = ["--best-checkpoint-metric", dataset.metrics[0]]
    if dataset.metrics[0] not in LOWER_IS_BETTER:
        best.append("--maximize-best-checkpoint-metric")
    model = [
        *task,
        *_vectors(dataset, place),
        *shlex.split(training.flags),
        *training.batches,
        *_length(training),
        *best,
        *shlex.split(row.flags),
        *(f"{TINY_MODEL} {dataset.tiny}".split() if options.tiny else []),
    ]
    trained = f"train {' '.join([*model, *options.flags])}"
    folder = place.out / dataset.name
    folder /= folder_name(row.flags, [f"data {place.data / dataset.name}", trained])
    folder /= f"seed{seed}" if fold is None else f"fold{fold}-seed{seed}"
    data = place.data / dataset.name / ("" if fold is None else f"fold{fold}")
    device = ["--distributed-world-size", "1", *([] if place.gpus else ["--cpu"])]

    train = ["fairseq-train", str(data), "--user-dir", PLUGIN, "--seed", str(seed), *model, *device]
    train += ["--save-dir", str(folder), *KEPT, "--num-workers", "0", *LOGGED, *options.flags]
    test = ["fairseq-validate", str(data), "--user-dir", PLUGIN, *task]
    test += ["--path", str(folder / "checkpoint_best.pt"), "--valid-subset"]
    test += [",".join(dataset.tests), *training.batches, *device, "--num-workers", "0"]
    test += ["--log-format", "json"]
    return Run(
        name=f"{dataset.name}, {row.name}, seed {seed}"
        + ("" if fold is None else f", fold {fold}"),
        folder=folder,
        settings=(
            f"data {data}",
            f"seed {seed}",
            *([] if fold is None else [f"fold {fold}"]),
            trained,
        ),
        steps=(
            Step("train", tuple(train), log=folder / "train.log", done=folder / "trained"),
            Step("test", tuple(test), log=folder / "test.log"),
        ),
        updates=training.updates,
        epochs=0 if training.updates else training.epochs,
    )


def _make_baseline(dataset: Dataset, row: Row, place: Place) -> Run:
    """What is not trained: rank, score."""
    data = place.data / dataset.name
    told = f"rank {row.baseline}"
    name = folder_name(f"--{row.baseline}", [f"data {data}", told])
    folder = place.out / dataset.name / name / "seed1"
    scores = str(folder / "scores.tsv")
    rank = ["posattn", "rank", row.baseline, "--data", str(data), "--split", dataset.tests[0]]
    score = ["posattn", "score", "ranking", "--scores", scores, "--json"]
    return Run(
        name=f"{dataset.name}, {row.name}",
        folder=folder,
        settings=(f"data {data}", "seed 1", told),
        steps=(
            Step("rank", (*rank, "--scores", scores), log=folder / "rank.log"),
            Step("score", tuple(score), output=folder / "ranking.json"),
        ),
    )


def _vectors(dataset: Dataset, place: Place) -> list[str]:
    features = place.features.get(dataset.name)
    if features is None:
        return ["--encoder-embed-dim", str(dataset.features)]
    path = str(place.data / dataset.name / "glove.txt")
    return ["--encoder-embed-path", path, "--encoder-embed-dim", str(features)]


def _length(training: Training) -> list[str]:
    """By the epoch; or validation and checkpoints by the update instead."""
    if not training.updates:
        return ["--max-epoch", str(training.epochs)]
    every = str(training.interval)
    return [
        *("--max-update", str(training.updates), "--validate-interval-updates", every),
        *("--save-interval-updates", every, "--keep-interval-updates", "1"),
        *("--validate-interval", "1000000", "--save-interval", "1000000"),
    ]


def choose_datasets(recipe: ClassificationRecipe, wanted: str) -> tuple[Dataset, ...]:
    """The data sets that ``--datasets`` names, in its order; all of them if it names none."""
    known = {dataset.name: dataset for dataset in recipe.datasets}
    names = wanted.split(",") if wanted else list(known)
    for name in names:
        if name not in known:
            raise UsageError(
                f"--datasets {wanted}: there is no data set {name!r} here; there is: "
                + " ".join(known)
            )
    return tuple(known[name] for name in names)


def entries(
    recipe: ClassificationRecipe, options: ClassificationOptions, place: Place | None
) -> Iterator[Entry]:
    """All rows of its tables, one for each data set; with their folders if that is known."""
    first = 0
    for dataset in recipe.datasets:
        last = first + len(dataset.metrics)
        for row in recipe.rows:
            none = ["-"] * len(dataset.metrics)
            numbers = none if row.paper == "-" else row.paper.split()[first:last]
            folder = None
            if place is not None:
                run = make_run(recipe, dataset, row, options, place, seed=1, fold=None)
                folder = run.folder.parent
            title = f"{recipe.title}: {dataset.name}"
            yield Entry(title, row.name, dataset.metrics, tuple(numbers), folder)
        first = last
