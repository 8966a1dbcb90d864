"""A table of classifiers, taggers or recommenders as it is asked for."""

from collections.abc import Callable, Iterator
from pathlib import Path

from fairseq_posattn.errors import UsageError
from fairseq_posattn.recipes import classification_commands as classification
from fairseq_posattn.recipes import commands
from fairseq_posattn.recipes.asked import Asked, gpus_here
from fairseq_posattn.recipes.commands import Entry, Place
from fairseq_posattn.recipes.options import ClassificationOptions
from fairseq_posattn.recipes.recipe import ClassificationRecipe, Dataset
from fairseq_posattn.recipes.runs import Run, Step, show


class AskedClassification(Asked[ClassificationRecipe, ClassificationOptions]):
    """See :class:`Asked`."""

    keeps_last = False

    def __init__(
        self,
        recipe: ClassificationRecipe,
        options: ClassificationOptions,
        data_bin: Path,
        checkpoints: Path,
    ) -> None:
        super().__init__(recipe, options, recipe.regime, "data", data_bin, checkpoints)
        self._datasets = classification.choose_datasets(recipe, options.datasets)

    def gpus(self) -> int:
        if self.options.tiny or self.options.cpu:
            return 0
        return 1 if self.options.dry_run else min(1, gpus_here())

    def _place(self, gpus: int) -> Place:
        found = {dataset.name: self._features(dataset) for dataset in self.recipe.datasets}
        features = {name: number for name, number in found.items() if number is not None}
        return Place(self.data, self.out, gpus, features)

    def _features(self, dataset: Dataset) -> int | None:
        """Of the word vectors beside a data set; before it is there, of those that will be."""
        vectors = self.data / dataset.name / "glove.txt"
        if vectors.exists():
            with open(vectors, encoding="utf-8") as lines:
                return int(lines.readline().split()[1])
        if self.options.dry_run and not vectors.parent.exists():
            return dataset.features
        return None

    def runs(self, place: Place) -> list[Run]:
        return classification.runs(self.recipe, self.options, place)

    def entries(self, place: Place | None = None) -> Iterator[Entry]:
        return classification.entries(self.recipe, self.options, place)

    def preparation(self) -> Iterator[Step]:
        for dataset in self._datasets if self.options.prepare else ():
            if self._missing(dataset):
                yield Step("prepare", tuple(self._prepare(dataset)))

    def _prepare(self, dataset: Dataset) -> list[str]:
        command = ["posattn", "prepare", dataset.kind, dataset.name]
        command += ["--glove", f"6B.{dataset.features}d", "--dest", str(self.data / dataset.name)]
        return [*command, *dataset.preparation.split()]

    def require_data(self, say: Callable[[str], None]) -> None:
        for dataset in self._datasets:
            if missing := self._missing(dataset):
                mend = f"{show(self._prepare(dataset))}, or give --prepare"
                if dataset.licensed:
                    mend = f"{show(self._prepare(dataset))} --source FOLDER"
                raise UsageError(f"there is no data in {missing}; to make it: {mend}")
            if self._features(dataset) is None:
                say(f"{dataset.name} has no glove.txt: its word vectors start at random")

    def _missing(self, dataset: Dataset) -> Path | None:
        """The first thing that is; None if all is there."""
        dataset, _ = classification.asked(dataset, self.recipe.training[dataset.name], self.options)
        folds = [f"fold{fold}" for fold in range(dataset.folds)] or [""]
        folders = [
            self.data / dataset.name / fold / name for fold in folds for name in dataset.columns
        ]
        last = f"{dataset.tests[-1]}.idx"
        return next((folder for folder in folders if not (folder / last).exists()), None)

    def tiny_data(self) -> Iterator[Step]:
        names = [dataset.name for dataset in self._datasets]
        missing = [name for name in names if not (self.data / name).exists()]
        if missing:
            command = ("python", "-m", commands.TINY_DATASETS, str(self.data), *missing)
            yield Step("generate", command)
