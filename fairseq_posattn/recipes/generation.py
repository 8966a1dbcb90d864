"""A table of translations or summaries as it is asked for, down to its command lines."""

import shlex
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.corpus import SPLITS
from fairseq_posattn.preparation.stages import NAME as STAGES
from fairseq_posattn.recipes import update
from fairseq_posattn.recipes.asked import KEPT, LOGGED, PLUGIN, Asked, Entry
from fairseq_posattn.recipes.devices import gpus_here
from fairseq_posattn.recipes.options import Options
from fairseq_posattn.recipes.recipe import LAYER, Generation, GenerationRecipe, Row
from fairseq_posattn.recipes.runs import STATISTICS, Run, Say, Step, folder_name, preset_of
from fairseq_posattn.recipes.tuning import Tuning, tune
from fairseq_posattn.text.manifest import NAME as MANIFEST

# The file of each checkpoint that may be scored, and the run's setting that says so.
CHECKPOINTS = {"best": "checkpoint_best.pt", "average": "average.pt", "last": "checkpoint_last.pt"}
_CHOICE = {"best": "checkpoint best", "average": "averaged {}", "last": "averaged 1"}
NUMBERS_CORPUS = "fairseq_posattn.recipes.numbers_corpus"
TINY_MODEL = "--warmup-updates 2 --num-workers 0" + "".join(
    f" --{side}-layers 1 --{side}-attention-heads 2 --{side}-embed-dim 16 --{side}-ffn-embed-dim 16"
    for side in ("encoder", "decoder")
)
TINY_DECODING = "--min-len 1 --max-len-b 20 --batch-size 4 --num-workers 0"


class AskedGeneration(Asked):
    """See :class:`Asked`."""

    recipe: GenerationRecipe

    def __init__(
        self, recipe: GenerationRecipe, options: Options, data_bin: Path, checkpoints: Path
    ) -> None:
        recipe = recipe.small or recipe if options.small else recipe
        settings = recipe.settings
        self._languages = settings.source, settings.target
        numbers = f"numbers.{settings.source}-{settings.target}"
        data = data_bin / settings.corpus
        super().__init__(recipe, options, settings.regime, numbers, data, checkpoints)
        if options.tiny:
            settings = _tiny(settings)
        if options.max_update:
            settings = replace(settings, max_update=options.max_update, max_epoch=0)
        self._settings = replace(settings, checkpoint=options.checkpoint or settings.checkpoint)

    def _gpus(self) -> int:
        options = self.options
        if options.gpus is not None:
            return options.gpus
        if self.looks or options.launcher:  # on other machines, for all that is known here
            return 1
        here = gpus_here()
        return max(1, here // options.jobs) if here else 0

    def _text(self, side: str) -> Path:
        """Of the test set: as whole words, where there is more than binarised data."""
        return self.data / "text" / f"test.{side}"

    def _has_references(self) -> bool:
        return self.options.dry_run or self._text(self._settings.target).exists()

    def notes(self) -> list[str]:
        runs = {run.name for run in self.runs()}
        left_out = [row.name for row in self.rows if row.name not in runs]
        notes = [f"{name} is left out: it needs {self.data}/text" for name in left_out]
        if self.options.launcher:
            return notes
        settings = self._settings
        shared = update.describe(settings.max_tokens, settings.batches, self._workers(), "tokens")
        return notes + shared

    # --- Data ----------------------------------------------------------------------------------

    def preparation(self) -> Iterator[Step]:
        options = self.options
        wanted = options.prepare or self.recipe.prepares
        # What is there stays: it may be prepared otherwise. A source may be new.
        if options.source or (wanted and not self._is_prepared()):
            source = ["--source", str(options.source)] if options.source else []
            yield Step("prepare", (*self._prepare(), *source, "--dest", str(self.data)))

    def _prepare(self) -> list[str]:
        return ["posattn", "prepare", *self._settings.preparation.split()]

    def require_data(self, say: Say) -> None:
        if missing := self._missing():
            command = shlex.join([*self._prepare(), "--dest", str(self.data)])
            raise UsageError(
                f"{self.data} has no {missing}; to make it: {command}, or give --prepare"
            )

    def _missing(self) -> str | None:
        """The first file of the binarised data that is; None if all are there."""
        pair = "-".join(self._languages)
        for side in self._languages:
            binarised = [
                f"{split}.{pair}.{side}.{end}" for split in SPLITS for end in ("bin", "idx")
            ]
            for name in (f"dict.{side}.txt", *binarised):
                if not (self.data / name).exists():
                    return name
        return None

    def _is_prepared(self) -> bool:
        """Whether all is there, and a preparation, if one has made it, came to its end."""
        begun, ended = (self.data / name for name in (STAGES, MANIFEST))
        return self._missing() is None and (ended.exists() or not begun.exists())

    def _tiny_data(self) -> Iterator[Step]:
        """The quickstart's German-English corpus of numbers; the folder is there once all is."""
        if self.data.exists():
            return
        part = self.data.with_name(self.data.name + ".part")
        shutil.rmtree(part, ignore_errors=True)
        text = part / "text"
        text.mkdir(parents=True)
        sizes = ["--train", "200", "--valid", "10", "--test", "10"]
        yield Step("generate", ("python", "-m", NUMBERS_CORPUS, str(part), *sizes))
        # Alphabetically: German to English stay so, or become source and target.
        for split in SPLITS:
            for language, side in zip(("de", "en"), sorted(self._languages), strict=True):
                (part / f"{split}.{language}").rename(text / f"{split}.{side}")
        binarise = ["fairseq-preprocess", *self._directed(), "--joined-dictionary"]
        for split in SPLITS:
            binarise += [f"--{split}pref", str(text / split)]
        log = part / "preprocess.log"
        yield Step("binarise", (*binarise, "--destdir", str(part)), log=log)
        part.rename(self.data)

    def _directed(self) -> list[str]:
        source, target = self._languages
        return ["--source-lang", source, "--target-lang", target]

    # --- Runs ----------------------------------------------------------------------------------

    def runs(self) -> list[Run]:
        # Unless they are asked for by name: only where the text is that they need.
        with_text = self.options.rows or self._has_references()
        return [self._run(row) for row in self.rows if with_text or not row.lead]

    def _run(self, row: Row) -> Run:
        tuning = self._tuning(row)
        return self._lead(row) if row.lead else self._model(tuning.tuned() if tuning else row)

    def tunings(self) -> list[Tuning]:
        return [tuning for row in self.rows if (tuning := self._tuning(row))]

    def _tuning(self, row: Row) -> Tuning | None:
        if not self.options.tune or row.lead:
            return None

        def run_of(rated: Row, seed: int) -> Run:
            run = AskedGeneration(self.recipe, self.trying(seed), Path(), Path())._model(rated)
            return replace(run, name=f"{run.name}, seed {seed}")

        return tune(
            row, self._settings.training, self.options.tune, self.options.tune_seeds, run_of
        )

    def _lead(self, row: Row) -> Run:
        """Score the first sentences of the texts; nothing is trained."""
        settings = self._settings
        score = ["posattn", "score", *settings.scoring.split(), "--json", "--lead", str(row.lead)]
        score += ["--hypotheses", str(self._text(settings.source))]
        score += ["--references", str(self._text(settings.target))]
        lines = [f"lead {row.lead}", f"score {settings.scoring}"]
        folder = self._folder(f"lead {row.lead}", lines)
        return Run(
            name=row.name,
            folder=folder,
            settings=(f"data {self.data}", f"seed {self.options.seed}", *lines),
            steps=(Step("score", tuple(score), output=folder / "score.json"),),
            metric=settings.metric,
        )

    def _folder(self, flags: str, lines: list[str]) -> Path:
        named = folder_name(flags, [f"data {self.data}", *lines])
        return self.out / named / f"seed{self.options.seed}"

    def _model(self, row: Row) -> Run:
        """Train, average or not, generate, score, and measure where the recipe does."""
        options, settings = self.options, self._settings
        model = [*shlex.split(settings.training), *shlex.split(row.flags)]
        decoding = [*shlex.split(settings.decoding), "--remove-bpe", settings.subwords]
        if options.tiny:
            model += [*TINY_MODEL.split(), *shlex.split(row.tiny)]
            decoding += TINY_DECODING.split()
        if settings.max_epoch:
            model += ["--max-epoch", str(settings.max_epoch)]
        else:
            model += ["--max-update", str(settings.max_update)]
        cpu = [] if self.gpus else ["--cpu"]
        workers, wanted = self._workers(), settings.max_tokens * settings.batches
        share = update.share(settings.max_tokens, settings.batches, workers)
        size = share.size * share.frequency * workers
        lines = [
            *preset_of(model),
            f"train {' '.join([*model, *options.flags])}",
            f"tokens {wanted}",
            _CHOICE[settings.checkpoint].format(settings.averaged),
            f"generate {' '.join(decoding)}",
            f"score {settings.scoring}",
            f"precision {' '.join([*self.half, *cpu]) or 'fp32'}",
            *([] if size == wanted else [f"shared {size}"]),
        ]
        folder = self._folder(row.flags, lines)
        checkpoint = folder / CHECKPOINTS[settings.checkpoint]
        data = [str(self.data), "--user-dir", PLUGIN, *self._directed()]

        train = shlex.split(options.launcher) or ["fairseq-train"]
        train += [*data, "--seed", str(options.seed), *model]
        train += [] if options.launcher else ["--distributed-world-size", str(workers)]
        train += ["--max-tokens", str(share.size), "--update-freq", str(share.frequency)]
        train += [*self.half, *cpu, "--save-dir", str(folder)]
        train += [*_intervals(settings), *KEPT, *LOGGED, *options.flags]
        steps = [Step("train", tuple(train), log=folder / "train.log", done=folder / "trained")]
        if settings.checkpoint == "average":
            average = ["posattn", "average", "--inputs", str(folder), "--num-update-checkpoints"]
            average += [str(settings.averaged), "--output", str(checkpoint)]
            steps.append(Step("average", tuple(average)))
        generate = ["fairseq-generate", *data, "--gen-subset", "test", "--path", str(checkpoint)]
        generate += [*decoding, "--max-tokens", "8192", *self.half_tested, *cpu]
        generate += ["--results-path", str(folder), "--log-format", "simple", "--log-interval", "1"]
        steps += [
            Step("generate", tuple(generate), log=folder / "generate.log", needs=checkpoint),
            Step("score", tuple(self._score(folder)), output=folder / "score.json"),
        ]
        if self.recipe.locality is not None:
            steps.append(self._measure(checkpoint, folder / "locality.json"))
        return Run(
            name=row.name,
            folder=folder,
            settings=(f"data {self.data}", f"seed {options.seed}", *lines),
            steps=tuple(steps),
            metric=settings.metric,
            updates=settings.max_update,
            epochs=settings.max_epoch,
        )

    def _workers(self) -> int:
        """Among whom an update is shared; a launcher shares it itself."""
        return 1 if self.options.launcher else max(1, self.gpus)

    def _score(self, folder: Path) -> list[str]:
        settings = self._settings
        scorer, *flags = settings.scoring.split()
        command = ["posattn", "score", scorer, "--generated", str(folder / "generate-test.txt")]
        command += ["--json", "--statistics", str(folder / STATISTICS), *flags]
        # Summaries are scored against the whole references, which the binarised ones may not be.
        if settings.subwords != "subword_nmt" and self._has_references():
            command += ["--references", str(self._text(settings.target))]
        if settings.subwords == "wordpiece":  # as the hypotheses are split at punctuation
            command += ["--remove-bpe", settings.subwords]
        return command

    def _layers(self) -> tuple[int, ...]:
        """The layers that a locality table is about; a tiny model has but one."""
        if self.recipe.locality is None:
            return ()
        return (1,) if self.options.tiny else self.recipe.locality.layers

    def _measure(self, checkpoint: Path, measured: Path) -> Step:
        assert self.recipe.locality is not None
        layers, windows = (
            ",".join(map(str, numbers))
            for numbers in (self._layers(), self.recipe.locality.windows)
        )
        command = ["posattn", "analysis", "locality", str(checkpoint), "--data", str(self.data)]
        command += ["--split", "test", "--layers", layers, "--windows", windows]
        command += ["--json", str(measured)]
        return Step("measure", tuple(command), needs=checkpoint, done=measured)

    def entries(self) -> Iterator[Entry]:
        recipe, metrics, rows = self.recipe, self._settings.metrics, self.recipe.rows
        if recipe.locality is not None:
            metrics = tuple(f"{LAYER}{layer}" for layer in self._layers())
            rows = recipe.locality.rows
        for row in rows:
            model = recipe.rows[0] if recipe.locality else row
            folder, tuning = self._run(model).folder.parent, self._tuning(model)
            yield Entry(
                recipe.title,
                row.name,
                metrics,
                tuple(row.paper.split()),
                folder,
                tuning.outcome() if tuning else None,
            )


def _tiny(settings: Generation) -> Generation:
    """The same in miniature, for the models of :data:`TINY_MODEL`."""
    return replace(
        settings,
        max_tokens=1000,
        batches=1,
        max_update=4,
        max_epoch=0,
        save_interval=1,
        averaged=min(settings.averaged, 2),
        subwords="subword_nmt",
    )


def _intervals(settings: Generation) -> list[str]:
    """Updates between checkpoints, such that there are enough for the average.

    With each there is a validation; where the best is taken, these are after epochs alone.
    """
    if settings.checkpoint == "best":
        return []
    kept = settings.averaged if settings.checkpoint == "average" else 1
    if settings.max_epoch:
        every = settings.save_interval or 2000
    else:
        wanted = settings.save_interval or settings.max_update // 40
        every = max(1, min(wanted, settings.max_update // kept))
    return ["--save-interval-updates", str(every), "--keep-interval-updates", str(kept)]
