"""Command lines of a table of translation or summarization."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.corpus import SPLITS
from fairseq_posattn.preparation.stages import NAME as STAGES
from fairseq_posattn.recipes.options import Options
from fairseq_posattn.recipes.plan import Entry, Plan, share
from fairseq_posattn.recipes.recipe import LAYER, Dataset, Generation, GenerationRecipe, Row
from fairseq_posattn.recipes.runs import OUTPUT, STATISTICS, Run, Say, Step, folder_name, preset_of
from fairseq_posattn.text.manifest import NAME as MANIFEST
from fairseq_posattn.text.manifest import read as read_manifest

# The file of each checkpoint that --checkpoint names, and the line of the run's settings.
CHECKPOINTS = {"best": "checkpoint_best.pt", "average": "average.pt", "last": "checkpoint_last.pt"}
_SETTING = {"best": "checkpoint best", "average": "averaged {}", "last": "averaged 1"}
# Arguments of posattn score that read or write no other file and start no program.
SCORING = re.compile(
    r"(bleu|rouge)( --(forms( [a-z][a-z-]*)+|(language|text|detokenize|words|eos) [\w.][\w.-]*|"
    r"by-length \d+(,\d+)*|stemming|no-stemming))*"
)
SCORING_HELP = "bleu or rouge with --forms, --language, --text, --detokenize, --by-length, --words"
SCORING_HELP += ", --eos, --stemming, --no-stemming"
# Lines "S-12", "H-12"... of the same sentence stay together; a shard's BLEU is left out.
MERGE = 'grep -ahv "^Generate " "$@" | sort -s -t- -k2,2n'
TINY_MODEL = "--warmup-updates 2 --num-workers 0" + "".join(
    f" --{side}-layers 1 --{side}-attention-heads 2 --{side}-embed-dim 16 --{side}-ffn-embed-dim 16"
    for side in ("encoder", "decoder")
)
TINY_DECODING = "--min-len 1 --max-len-b 20 --batch-size 4 --num-workers 0"
TINY: dict[str, Any] = {"max_tokens": 1000, "batches": 1, "seeds": 1}
TINY |= {"max_update": 4, "max_epoch": 0, "save_interval": 1}


class GenerationPlan(Plan):
    recipe: GenerationRecipe

    def __init__(self, recipe: GenerationRecipe, options: Options) -> None:
        settings = recipe.settings
        generated = f"numbers.{settings.source}-{settings.target}"
        data = options.root / "data-bin" / (settings.folder or settings.corpus)
        super().__init__(recipe, options, settings.regime, generated, data)
        described = read_manifest(self.data)
        # Sources of summaries are generated from, and shown, only to --max-pieces.
        self._is_cut = bool(described and described.longest)
        subwords = described.subwords if described else "subword_nmt" if options.tiny else None
        settings = replace(settings, subwords=subwords or settings.subwords)
        if options.tiny:
            settings = replace(settings, **TINY, averaged=min(settings.averaged, 2))
        if options.max_update:
            settings = replace(settings, max_update=options.max_update, max_epoch=0)
        self._settings = replace(settings, checkpoint=options.checkpoint or settings.checkpoint)

    def _share(self) -> tuple[int, int, str]:
        """Return a worker's share of an update; a launcher shares it itself."""
        workers = 1 if self.options.launcher else max(1, self.gpus)
        return share(self._settings.max_tokens, self._settings.batches, workers)

    def notes(self) -> list[str]:
        names = {run.name for run in self.runs()}
        missing = [row.name for row in self.rows if row.name not in names]
        notes = [f"{name} is skipped: it needs {self.data}/text" for name in missing]
        return notes if self.options.launcher else [*notes, *self._share()[2].splitlines()]

    def _text(self, side: str) -> Path:
        """Return the test set's text in whole words, which is optional beside binarized data."""
        return self.data / "text" / f"test.{side}"

    def _sources(self) -> Path | None:
        """Return the whole texts that ranges of lengths need, if the output has them cut."""
        is_read = self._is_cut and "--by-length" in self._settings.scoring
        text = self._text(self._settings.source)
        return text if is_read and text.exists() else None

    def _has_references(self) -> bool:
        return self.options.dry_run or self._text(self._settings.target).exists()

    def preparation(self) -> Iterator[Step]:
        options = self.options
        stages, manifest = (self.data / name for name in (STAGES, MANIFEST))
        # A preparation that is recorded may be unfinished.
        prepared = not self._missing() and (manifest.exists() or not stages.exists())
        # Existing data stays, because it may have other settings; but a source may be new.
        if options.source or ((options.prepare or self.recipe.prepares) and not prepared):
            source = ["--source", str(options.source)] if options.source else []
            yield Step("prepare", (*self._prepare(), *source, "--dest", str(self.data)))

    def _prepare(self) -> list[str]:
        return ["posattn", "prepare", *self._settings.preparation.split()]

    def require_data(self, say: Say) -> None:
        if missing := self._missing():
            command = shlex.join([*self._prepare(), "--dest", str(self.data)])
            fix = f"run: {command}, or give --prepare"
            fix = "prepare the data again" if self.recipe.custom else fix
            raise UsageError(f"{self.data} has no {missing}; {fix}")

    @property
    def _sides(self) -> tuple[str, str]:
        return self._settings.source, self._settings.target

    def folders(self) -> list[Path]:
        return [self.data]

    def texts(self) -> list[Path]:
        has_source = any(row.lead for row in self.recipe.rows) or self._sources() is not None
        texts = map(self._text, self._sides[0 if has_source else 1 :])
        return [text for text in texts if text.exists()]

    def _missing(self) -> str | None:
        """Return the first missing file of the binarized data; None if it is complete."""
        sides = self._sides
        parts = [f"{split}.{'-'.join(sides)}.{side}" for split in SPLITS for side in sides]
        files = [f"dict.{side}.txt" for side in sides]
        files += [f"{part}.{end}" for part in parts for end in ("bin", "idx")]
        return next((name for name in files if not (self.data / name).exists()), None)

    def _tiny_data(self) -> list[str]:
        return [] if self.data.exists() else ["numbers", str(self.data), *self._sides]

    def runs(self) -> list[Run]:
        """Return the selected runs. LEAD rows without text are left out unless named."""
        with_text = self.options.rows or self._has_references()
        first, *others = self.options.seed_numbers(self._settings.seeds)
        runs = [self._run(row, first) for row in self.rows if with_text or not row.lead]
        trained = [(row, seed) for seed in others for row in self.rows if not row.lead]
        runs += [self._run(row, seed, f", seed {seed}") for row, seed in trained]
        return [job for run in runs for job in self._jobs(run)]

    def _jobs(self, run: Run) -> list[Run]:
        """Return the run; with ``--shards`` its training, its shards of the test set, its rest."""
        steps, shards = run.steps, self.options.shards
        index = next((n for n, step in enumerate(steps) if step.name == "generate"), None)
        if shards == 1 or index is None or (run.result.exists() and not self.options.steps):
            return [run]
        training, parts = replace(run, steps=steps[:index]), []
        for shard in range(shards):
            folder = run.folder / f"shard{shard + 1}of{shards}"
            log = folder / "generate.log"  # gets its name at the end, after OUTPUT
            words = [*steps[index].command, "--results-path", str(folder)]
            words += ["--num-shards", str(shards), "--shard-id", str(shard)]
            step = replace(steps[index], command=tuple(words), log=None, output=log, done=log)
            name = f"{run.name}, shard {shard + 1} of {shards}"
            parts.append(replace(run, name=name, folder=folder, steps=(step,), after=(training,)))
        merge = ["bash", "-o", "pipefail", "-c", MERGE, "merge"]
        merge += [str(part.folder / OUTPUT) for part in parts]
        merged = Step("generate", tuple(merge), output=run.folder / OUTPUT)
        rest = replace(run, steps=(merged, *steps[index + 1 :]), after=tuple(parts))
        return [training, *parts, rest]

    def _run(self, row: Row, seed: int = 1, name: str = "") -> Run:
        run = self._lead(row, seed) if row.lead else self._model(self._tuning(row).tuned(), seed)
        return replace(run, name=f"{run.name}{name}")

    def _trial(self, row: Row, seed: int, dataset: Dataset | None) -> Run:
        run = self._model(row, seed)
        return replace(run, name=f"{run.name}, seed {seed}")

    def _lead(self, row: Row, seed: int) -> Run:
        """Return the run that scores the first sentences of the texts, without training."""
        settings = self._settings
        score = score_lead(settings.scoring, row.lead, *map(self._text, self._sides))
        lines = [f"lead {row.lead}", f"score {settings.scoring}"]
        run = self._without_steps(row, seed, f"lead {row.lead}", lines)
        step = Step("score", tuple(score), output=run.folder / "score.json")
        return replace(run, steps=(step,))

    def _without_steps(self, row: Row, seed: int, flags: str, lines: list[str]) -> Run:
        data = f"data {self.data}"
        folder = self.out / folder_name(flags, [data, *lines]) / f"seed{seed}"
        return Run(row.name, folder, (data, f"seed {seed}", *lines), (), self._settings.metric)

    def _model(self, row: Row, seed: int) -> Run:
        """Return the run of a model: train, average, generate, score and measure as needed."""
        options, settings = self.options, self._settings
        model = [*shlex.split(settings.training), *shlex.split(row.flags)]
        decoding = shlex.split(settings.decoding)
        decoding += ["--remove-bpe", settings.subwords] if settings.subwords else []
        tiny: list[str] = []
        if options.tiny:
            tiny = shlex.split(f"{self.recipe.tiny or TINY_MODEL} {row.tiny}")
            decoding += TINY_DECODING.split()
        unit = "epoch" if settings.max_epoch else "update"
        model += [*tiny, f"--max-{unit}", str(settings.max_epoch or settings.max_update)]
        cpu = [] if self.gpus else ["--cpu"]
        size, frequency, _ = self._share()
        workers, wanted = max(1, self.gpus), settings.max_tokens * settings.batches
        shared = size * frequency * (1 if options.launcher else workers)
        lines = [
            *preset_of(model),
            f"train {' '.join([*model, *options.flags])}",
            f"tokens {wanted}",
            _SETTING[settings.checkpoint].format(settings.averaged),
            f"generate {' '.join(decoding)}",
            f"score {settings.scoring}",
            f"precision {' '.join([*self.half, *cpu]) or 'fp32'}",
            *self.code,
            *([] if shared == wanted else [f"shared {shared}"]),
        ]
        run = self._without_steps(row, seed, row.flags, lines)
        folder = run.folder
        checkpoint = folder / CHECKPOINTS[settings.checkpoint]

        languages = ["--source-lang", settings.source, "--target-lang", settings.target]
        words = [str(self.data), *languages, "--seed", str(seed), *model]
        words += [] if options.launcher else ["--distributed-world-size", str(workers)]
        words += ["--max-tokens", str(size), "--update-freq", str(frequency), *self.half, *cpu]
        program = shlex.split(options.launcher) or ["fairseq-train"]
        steps = [self._train(folder, program, [*words, *_intervals(settings)])]
        if settings.checkpoint == "average":
            average = ["posattn", "average", "--inputs", str(folder), "--num-update-checkpoints"]
            average += [str(settings.averaged), "--output", str(checkpoint)]
            steps.append(Step("average", tuple(average)))
        generate = ["fairseq-generate", str(self.data), "--user-dir", self.user_dir, *languages]
        generate += ["--gen-subset", "test", "--path", str(checkpoint), *decoding]
        generate += ["--max-tokens", "8192", *self.half_tested, *cpu]
        generate += ["--results-path", str(folder), "--log-format", "simple", "--log-interval", "1"]
        # Binarized references may be truncated, and have <<unk>> for unknown words.
        references = self._text(settings.target) if self._has_references() else None
        texts = references, self._sources()
        score = score_generated(settings.scoring, folder, settings.subwords, *texts)
        log, scored = folder / "generate.log", folder / "score.json"
        steps.append(Step("generate", tuple(generate), log=log, needs=checkpoint))
        steps.append(Step("score", tuple(score), output=scored))
        if self.recipe.locality is not None:
            measured, windows = folder / "locality.json", self.recipe.locality.windows
            command = ["posattn", "analysis", "locality", str(checkpoint), "--data", str(self.data)]
            command += ["--split", "test", "--layers", ",".join(map(str, self._layers()))]
            command += ["--windows", ",".join(map(str, windows)), "--json", str(measured)]
            steps.append(Step("measure", tuple(command), needs=checkpoint, done=measured))
        run = replace(run, updates=settings.max_update, epochs=settings.max_epoch)
        return replace(run, steps=tuple(steps), hidden=self.hidden(model, tiny))

    def _layers(self) -> tuple[int, ...]:
        """Return the layers of a locality table; a tiny model has one."""
        assert self.recipe.locality is not None
        return (1,) if self.options.tiny else self.recipe.locality.layers

    def entries(self) -> Iterator[Entry]:
        """Yield the rows; those of a locality table share the first row's model."""
        recipe, metrics = self.recipe, self._settings.metrics
        rows = self.rows if self.options.list else recipe.rows
        if recipe.locality is not None:
            metrics = tuple(f"{LAYER}{layer}" for layer in self._layers())
            rows = recipe.locality.rows
        for row in rows:
            model = recipe.rows[0] if recipe.locality else row
            folder, paper = self._run(model).folder.parent, tuple(row.paper.split())
            outcome = self._tuning(model).outcome()
            yield Entry(recipe.title, row.name, metrics, paper, folder, outcome)


def _scorer(scoring: str) -> list[str]:
    """Return the start of the scoring command; published ROUGE has ROUGE-1.5.5's words."""
    kind, *flags = scoring.split()
    words = ["--words", "rouge155"] if kind == "rouge" and "--words" not in flags else []
    return ["posattn", "score", kind, "--json", *flags, *words]


def score_generated(
    scoring: str, folder: Path, subwords: str, references: Path | None, sources: Path | None
) -> list[str]:
    """Return the command that scores the output of fairseq-generate in a folder."""
    command = [*_scorer(scoring), "--generated", str(folder / OUTPUT)]
    command += ["--statistics", str(folder / STATISTICS)]
    if references:
        command += ["--references", str(references)]
    if sources:
        command += ["--sources", str(sources)]
    if subwords == "wordpiece":  # split at punctuation, as the hypotheses are
        command += ["--remove-bpe", subwords]
    return command


def score_lead(scoring: str, lead: int, source: Path, target: Path) -> list[str]:
    """Return the command that scores so many first sentences of the source texts."""
    texts = ["--hypotheses", str(source), "--references", str(target)]
    return [*_scorer(scoring), "--lead", str(lead), *texts]


def _intervals(settings: Generation) -> list[str]:
    """Return flags for checkpoints by updates, enough for an average; each is validated."""
    if settings.checkpoint == "best":  # of those of epochs
        return []
    count = settings.averaged if settings.checkpoint == "average" else 1
    every = settings.save_interval or 2000
    if not settings.max_epoch:
        wanted = settings.save_interval or settings.max_update // 40
        every = max(1, min(wanted, settings.max_update // count))
    return ["--save-interval-updates", str(every), "--keep-interval-updates", str(count)]
