"""A table of translations or summaries as it is asked for."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from fairseq_posattn.errors import UsageError
from fairseq_posattn.recipes import commands, update
from fairseq_posattn.recipes import generation_commands as generation
from fairseq_posattn.recipes.asked import Asked, gpus_here
from fairseq_posattn.recipes.commands import Entry, Place
from fairseq_posattn.recipes.options import GenerationOptions
from fairseq_posattn.recipes.recipe import GenerationRecipe
from fairseq_posattn.recipes.runs import Run, Step, show

SPLITS = ("train", "valid", "test")


class AskedGeneration(Asked[GenerationRecipe, GenerationOptions]):
    """See :class:`Asked`."""

    def __init__(
        self,
        recipe: GenerationRecipe,
        options: GenerationOptions,
        data_bin: Path,
        checkpoints: Path,
    ) -> None:
        if options.small and recipe.small is not None:
            recipe = recipe.small
        settings = recipe.settings
        self._languages = settings.source, settings.target
        numbers = f"numbers.{settings.source}-{settings.target}"
        data = data_bin / settings.corpus
        super().__init__(recipe, options, settings.regime, numbers, data, checkpoints)
        self.steps = options.steps

    def gpus(self) -> int:
        options = self.options
        if options.tiny:
            return 0
        if options.gpus is not None:
            return options.gpus
        if options.dry_run or options.launcher:  # on other machines, for all that is known here
            return 1
        here = gpus_here()
        return max(1, here // options.jobs) if here else 0

    def _place(self, gpus: int) -> Place:
        references = self.data / "text" / f"test.{self.recipe.settings.target}"
        return Place(self.data, self.out, gpus, {}, self.options.dry_run or references.exists())

    def runs(self, place: Place) -> list[Run]:
        return generation.runs(self.recipe, self.options, place)

    def entries(self, place: Place | None = None) -> Iterator[Entry]:
        return generation.entries(self.recipe, self.options, place)

    def notes(self, place: Place) -> list[str]:
        left_out = () if self.options.rows else generation.without_text(self.recipe, place)
        notes = [f"{row.name} is left out: it needs {self.data}/text" for row in left_out]
        if self.options.launcher:
            return notes
        settings = generation.settings_of(self.recipe, self.options)
        workers = max(1, place.gpus)
        return notes + update.describe(settings.max_tokens, settings.batches, workers, "tokens")

    def preparation(self) -> Iterator[Step]:
        wanted = self.options.prepare or self.options.source or self.recipe.prepares
        if wanted:  # what is finished of it is not done again
            source = ["--source", str(self.options.source)] if self.options.source else []
            yield Step("prepare", (*self._prepare(), *source, "--dest", str(self.data)))

    def _prepare(self) -> list[str]:
        return ["posattn", "prepare", *self.recipe.settings.preparation.split()]

    def require_data(self, say: Callable[[str], None]) -> None:
        languages = "-".join(self._languages)
        for side in self._languages:
            binarised = [
                f"{split}.{languages}.{side}.{ending}"
                for split in SPLITS
                for ending in ("bin", "idx")
            ]
            for name in (f"dict.{side}.txt", *binarised):
                if not (self.data / name).exists():
                    command = show([*self._prepare(), "--dest", str(self.data)])
                    raise UsageError(
                        f"{self.data} has no {name}; to make it: {command}, or give --prepare"
                    )

    def tiny_data(self) -> Iterator[Step]:
        """The quickstart's German-English corpus of numbers; the folder is there once all is."""
        if self.data.exists():
            return
        part = self.data.with_name(self.data.name + ".part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        sizes = ["--train", "200", "--valid", "10", "--test", "10"]
        yield Step("generate", ("python", "-m", commands.NUMBERS_CORPUS, str(part), *sizes))
        # Alphabetically: German to English stay so, or become source and target.
        text = part / "text"
        text.mkdir()
        for split in SPLITS:
            for language, side in zip(("de", "en"), sorted(self._languages), strict=True):
                (part / f"{split}.{language}").rename(text / f"{split}.{side}")
        binarise = ["fairseq-preprocess", "--source-lang", self._languages[0]]
        binarise += ["--target-lang", self._languages[1], "--joined-dictionary"]
        for split in SPLITS:
            binarise += [f"--{split}pref", str(text / split)]
        log = part / "preprocess.log"
        yield Step("binarise", (*binarise, "--destdir", str(part)), log=log)
        part.rename(self.data)
