"""Command lines of a table of classifiers, taggers or recommenders."""

import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from fairseq_posattn.common.cli import flag_values, value_of
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.vectors import features
from fairseq_posattn.recipes.options import Options
from fairseq_posattn.recipes.plan import Entry, Plan, choose
from fairseq_posattn.recipes.recipe import (
    MEASURED_COSTS,
    ClassificationRecipe,
    Dataset,
    Row,
    Training,
)
from fairseq_posattn.recipes.runs import RANKING, Run, Say, Step, folder_name, preset_of
from fairseq_posattn.text.gpt import check_folder
from fairseq_posattn.text.manifest import LOWER_IS_BETTER
from fairseq_posattn.text.vocabulary import VECTORS

TINY_MODEL = "--encoder-embed-dim 12 --encoder-hidden-dim 12 --encoder-attention-heads 2"
TINY_MODEL += " --encoder-ffn-embed-dim 12"
SCORE_RANKING = ("posattn", "score", "ranking", "--json")
PRETRAINED = ("--encoder-embed-path", "--language-model")
LANGUAGE_MODEL = "openai-gpt"  # its folder beside the data sets


class ClassificationPlan(Plan):
    recipe: ClassificationRecipe
    averages = shares_updates = False

    def __init__(self, recipe: ClassificationRecipe, options: Options) -> None:
        super().__init__(recipe, options, recipe.regime, "data", options.root / "data-bin")
        named = {dataset.name: dataset for dataset in recipe.datasets}
        self.datasets: tuple[Dataset, ...] = choose("dataset", options.datasets, named)

    def preparation(self) -> Iterator[Step]:
        for dataset in self.datasets if self.options.prepare else ():
            if self._missing(dataset):
                yield Step("prepare", tuple(self._prepare(dataset)))

    def _prepare(self, dataset: Dataset) -> list[str]:
        words = ["--glove", f"6B.{dataset.features}d"]
        if dataset.language_model:
            words = ["--language-model", str(self.data / LANGUAGE_MODEL)]
        command = ["posattn", "prepare", dataset.kind, dataset.name, *words]
        return [*command, "--dest", str(self._folder(dataset)), *dataset.preparation.split()]

    def require_data(self, say: Say) -> None:
        for dataset in self.datasets:
            if dataset.language_model:
                check_folder(self.data / LANGUAGE_MODEL)
            missing = self._missing(dataset)
            if missing:
                fix = "with --source FOLDER, your copy" if dataset.licensed else "or give --prepare"
                fix = f"run: {shlex.join(self._prepare(dataset))}, {fix}"
                fix = "prepare the data again" if self.recipe.custom else fix
                raise UsageError(f"{missing} has no {dataset.tests[-1]}.idx; {fix}")
            flags = self.recipe.training[dataset.name].flags.split()
            has_vectors = dataset.language_model or value_of(flags, *PRETRAINED)
            if not has_vectors and self._features(dataset) is None:
                say(f"{dataset.name} has no {VECTORS}: word vectors are initialized at random")

    def _missing(self, dataset: Dataset) -> Path | None:
        """Return the first folder without binarized data; None if all have it."""
        folders = [self._part(dataset, fold) for fold in self._folds(dataset)]
        columns = [folder / name for folder in folders for name in dataset.columns]
        tested = f"{dataset.tests[-1]}.idx"
        return next((column for column in columns if not (column / tested).exists()), None)

    def _folder(self, dataset: Dataset) -> Path:
        """Return the folder of a data set. Generated data is the same for all its forms."""
        generated = self.generates and not dataset.language_model
        return self.data / (dataset.name if generated else dataset.folder or dataset.name)

    def folders(self) -> list[Path]:
        return [self._folder(dataset) for dataset in self.recipe.datasets]

    def _part(self, dataset: Dataset, fold: int | None) -> Path:
        return self._folder(dataset) / ("" if fold is None else f"fold{fold}")

    def _features(self, dataset: Dataset) -> int | None:
        """Return the features of a data set's word vectors, or those expected after preparation."""
        folder = self._folder(dataset)
        expected = dataset.features if self.only_shows and not folder.exists() else None
        return features(folder) or expected

    def _vectors(self, dataset: Dataset) -> list[str]:
        if dataset.language_model:
            return ["--language-model", str(self.data / LANGUAGE_MODEL)]
        dim = self._features(dataset)
        if dim is None or self.options.tiny and not self.generates:  # tiny models are narrower
            return ["--encoder-embed-dim", str(dataset.features)]
        path = str(self._folder(dataset) / VECTORS)  # folds share it
        return ["--encoder-embed-path", path, "--encoder-embed-dim", str(dim)]

    def _tiny_data(self) -> list[str]:
        names = [self._folder(dataset).name for dataset in self.datasets]
        missing = [name for name in names if not (self.data / name).exists()]
        return ["datasets", str(self.data), *missing] if missing else []

    def runs(self) -> list[Run]:
        """Return the selected runs, the first seed on all data sets first."""
        numbers = self.options.seed_numbers
        seeds = {data.name: numbers(self._training(data).seeds) for data in self.datasets}
        first, *others = max(seeds.values(), key=len)
        return [
            self._run(dataset, row, seed, fold)
            for seed in (first, *others)
            for dataset in self.datasets
            if seed in seeds[dataset.name]
            for row in self.rows
            if seed == first or not row.baseline
            for fold in self._folds(dataset)
        ]

    def _folds(self, dataset: Dataset) -> list[int] | list[None]:
        """Return the selected folds; [None] without cross validation."""
        folds = min(dataset.folds, self.options.folds or dataset.folds)
        return [*range(min(folds, 2) if self.options.tiny else folds)] or [None]

    def _training(self, dataset: Dataset, row: Row | None = None) -> Training:
        """Return the training of a row with the options applied."""
        training = (row and row.training) or self.recipe.training[dataset.name]
        options = self.options
        if options.epochs:
            training = replace(training, epochs=options.epochs, updates=0)
        if options.tiny:
            by_updates = training.updates or self.recipe.custom
            length: dict[str, Any] = {"updates": 4, "interval": 2} if by_updates else {}
            length["epochs"] = options.epochs or 1
            training = replace(training, batch_size=8, max_tokens=0, seeds=1, **length)
        if updates := options.max_update:
            interval = min(training.interval or updates, updates)
            training = replace(training, epochs=0, updates=updates, interval=interval)
        return training

    def _trial(self, row: Row, seed: int, dataset: Dataset | None) -> Run:
        assert dataset is not None
        return self._model(dataset, row, seed, self._folds(dataset)[0])

    def _run(self, dataset: Dataset, row: Row, seed: int, fold: int | None) -> Run:
        if row.baseline:
            return self._baseline(dataset, row)
        return self._model(dataset, self._tuning(row, dataset).tuned(), seed, fold)

    def _model(self, dataset: Dataset, row: Row, seed: int, fold: int | None) -> Run:
        """Return the run of a model: train, test, and measure its cost if a table has it."""
        options, training = self.options, self._training(dataset, row)
        task = ["--task", dataset.task]
        task += ["--num-classes", str(dataset.classes)] if dataset.classes else []
        task += [*dataset.positions.split(), "--criterion", dataset.criterion]
        best = ["--best-checkpoint-metric", dataset.metrics[0]]
        if dataset.metrics[0] not in LOWER_IS_BETTER:
            best.append("--maximize-best-checkpoint-metric")
        model = [*task, *self._vectors(dataset), *shlex.split(training.flags), *training.batches]
        length, every = f"--max-epoch {training.epochs}", training.interval
        if training.updates:  # validated by updates
            length = f"--max-update {training.updates} --validate-interval-updates {every}"
            length += f" --save-interval-updates {every} --keep-interval-updates 1"
            length += " --validate-interval 1000000 --save-interval 1000000"
        model += [*length.split(), *best, *shlex.split(row.flags)]
        tiny = shlex.split(self.recipe.tiny or f"{TINY_MODEL} {dataset.tiny}")
        tiny = tiny if options.tiny else []
        model += [*tiny, *self.half]
        trained = [*preset_of(model), f"train {' '.join([*model, *options.flags])}", *self.code]
        folder = self.out / dataset.name
        folder /= folder_name(row.flags, [f"data {self._folder(dataset)}", *trained])
        folder /= f"seed{seed}" if fold is None else f"fold{fold}-seed{seed}"
        data = str(self._part(dataset, fold))
        device = ["--distributed-world-size", "1", *([] if self.gpus else ["--cpu"])]
        words = [data, "--seed", str(seed), *model, *device, "--num-workers", "0"]
        checkpoint = folder / "checkpoint_best.pt"

        trained_with = flag_values([*model, *options.flags])  # of a flag of the row, its value
        task = [word for flag in task[::2] for word in (flag, trained_with[flag])]
        test = ["fairseq-validate", data, "--user-dir", self.user_dir, *task]
        test += ["--path", str(checkpoint)]
        test += ["--valid-subset", ",".join(dataset.tests), *training.batches, *device]
        test += ["--num-workers", "0", "--log-format", "json", *self.half_tested]
        if dataset.kind == "classification":  # its criterions write predictions
            test += ["--results-path", str(folder)]
        steps = [self._train(folder, ["fairseq-train"], words)]
        steps.append(Step("test", tuple(test), log=folder / "test.log"))
        if MEASURED_COSTS.keys() & set(dataset.metrics):
            measured = folder / "cost.json"
            cost = ["posattn", "analysis", "cost", str(checkpoint), "--data", data]
            cost += ["--batch-size", str(training.batch_size), "--json", str(measured)]
            cost += [] if self.gpus else ["--cpu"]
            steps.append(Step("measure", tuple(cost), needs=checkpoint, done=measured))
        in_fold = [] if fold is None else [f"fold {fold}"]
        return Run(
            name=", ".join([dataset.name, row.name, f"seed {seed}", *in_fold]),
            folder=folder,
            settings=(f"data {data}", f"seed {seed}", *in_fold, *trained),
            steps=tuple(steps),
            updates=training.updates,
            epochs=0 if training.updates else training.epochs,
            hidden=self.hidden(model, tiny),
        )

    def _baseline(self, dataset: Dataset, row: Row) -> Run:
        """Return the run of a baseline without training: rank and score."""
        data = self._folder(dataset)
        lines = [f"data {data}", f"rank {row.baseline}"]
        folder = self.out / dataset.name / folder_name(f"--{row.baseline}", lines) / "seed1"
        scores = ["--scores", str(folder / RANKING)]
        rank = ["posattn", "rank", row.baseline, "--data", str(data), "--split", dataset.tests[0]]
        ranked = Step("rank", (*rank, *scores), log=folder / "rank.log")
        scored = Step("score", (*SCORE_RANKING, *scores), output=folder / "ranking.json")
        settings = (lines[0], "seed 1", lines[1])
        return Run(f"{dataset.name}, {row.name}", folder, settings, (ranked, scored))

    def entries(self) -> Iterator[Entry]:
        recipe, first = self.recipe, 0
        listed = self.options.list
        for dataset in recipe.datasets:
            columns = slice(first, first := first + len(dataset.metrics))
            if listed and dataset not in self.datasets:
                continue
            title = f"{recipe.title}: {dataset.name}"
            for row in self.rows if listed else recipe.rows:
                unknown = ["-"] * len(dataset.metrics)
                paper = unknown if row.paper == "-" else row.paper.split()[columns]
                folder = self._run(dataset, row, seed=1, fold=None).folder.parent
                outcome = self._tuning(row, dataset).outcome()
                yield Entry(title, row.name, dataset.metrics, tuple(paper), folder, outcome)
