"""From a table of translations and what is asked of it to command lines; nothing here acts."""

import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from fairseq_posattn.recipes import update
from fairseq_posattn.recipes.commands import KEPT, LOGGED, PLUGIN, Entry, Place, choose_rows
from fairseq_posattn.recipes.options import GenerationOptions
from fairseq_posattn.recipes.recipe import Generation, GenerationRecipe, Row
from fairseq_posattn.recipes.runs import Run, Step, folder_name


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


# The file of each checkpoint that may be scored, and the run's setting that says so.
CHECKPOINTS = {"best": "checkpoint_best.pt", "average": "average.pt", "last": "checkpoint_last.pt"}
_CHOICE = {"best": "checkpoint best", "average": "averaged {}", "last": "averaged 1"}
TINY_MODEL = "--warmup-updates 2 --num-workers 0" + "".join(
    f" --{side}-layers 1 --{side}-attention-heads 2 --{side}-embed-dim 16 --{side}-ffn-embed-dim 16"
    for side in ("encoder", "decoder")
)
TINY_DECODING = "--min-len 1 --max-len-b 20 --num-workers 0"


def settings_of(recipe: GenerationRecipe, options: GenerationOptions) -> Generation:
    """The recipe's settings as they are asked for."""
    settings = _tiny(recipe.settings) if options.tiny else recipe.settings
    if options.max_update:
        settings = replace(settings, max_update=options.max_update, max_epoch=0)
    return replace(settings, checkpoint=options.checkpoint or settings.checkpoint)


def runs(recipe: GenerationRecipe, options: GenerationOptions, place: Place) -> list[Run]:
    """The runs of the rows that are asked for, with one seed."""
    rows = choose_rows(recipe, options.rows)
    left_out = () if options.rows else without_text(recipe, place)
    return [make_run(recipe, row, options, place) for row in rows if row not in left_out]


def without_text(recipe: GenerationRecipe, place: Place) -> tuple[Row, ...]:
    """The rows that need text, where there is binarised data alone."""
    return () if place.references else tuple(row for row in recipe.rows if row.lead)


def make_run(recipe: GenerationRecipe, row: Row, options: GenerationOptions, place: Place) -> Run:
    """A row's run."""
    return (_lead if row.lead else _model)(recipe, row, options, place)


def _lead(recipe: GenerationRecipe, row: Row, options: GenerationOptions, place: Place) -> Run:
    """Score the first sentences of the texts; nothing is trained."""
    settings = recipe.settings
    lines = [f"lead {row.lead}", f"score {settings.scoring}"]
    named = folder_name(f"lead {row.lead}", [f"data {place.data}", *lines])
    folder = place.out / named / f"seed{options.seed}"
    text = place.data / "text"
    score = ["posattn", "score", *settings.scoring.split(), "--json", "--lead", str(row.lead)]
    score += ["--hypotheses", str(text / f"test.{settings.source}")]
    score += ["--references", str(text / f"test.{settings.target}")]
    return Run(
        name=row.name,
        folder=folder,
        settings=(f"data {place.data}", f"seed {options.seed}", *lines),
        steps=(Step("score", tuple(score), output=folder / "score.json"),),
        metric=settings.metric,
    )


def _model(recipe: GenerationRecipe, row: Row, options: GenerationOptions, place: Place) -> Run:
    """A row's run: train, average or not, generate, score, and measure where the recipe does."""
    settings = settings_of(recipe, options)
    model = [*shlex.split(settings.training), *shlex.split(row.flags)]
    decoding = [*shlex.split(settings.decoding), "--remove-bpe", settings.subwords]
    if options.tiny:
        model += [*TINY_MODEL.split(), *shlex.split(row.tiny)]
        decoding += TINY_DECODING.split()
    if settings.max_epoch:
        model += ["--max-epoch", str(settings.max_epoch)]
    else:
        model += ["--max-update", str(settings.max_update)]
    precision = "--fp16" if place.gpus else "--cpu"
    lines = [
        f"train {' '.join([*model, *options.flags])}",
        f"tokens {settings.max_tokens * settings.batches}",
        _CHOICE[settings.checkpoint].format(settings.averaged),
        f"generate {' '.join(decoding)}",
        f"score {settings.scoring}",
        f"precision {precision}",
        *_uneven(settings, options, place),
    ]
    named = folder_name(row.flags, [f"data {place.data}", *lines])
    folder = place.out / named / f"seed{options.seed}"
    checkpoint = folder / CHECKPOINTS[settings.checkpoint]
    languages = ["--source-lang", settings.source, "--target-lang", settings.target]
    data = [str(place.data), "--user-dir", PLUGIN, *languages]

    train = shlex.split(options.launcher) or ["fairseq-train"]
    train += [*data, "--seed", str(options.seed), *model, *_sharing(settings, options, place)]
    train += [precision, "--save-dir", str(folder)]
    train += [*_intervals(settings), *KEPT, *LOGGED, *options.flags]
    average = ["posattn", "average", "--inputs", str(folder)]
    average += ["--num-update-checkpoints", str(settings.averaged), "--output", str(checkpoint)]
    generate = ["fairseq-generate", *data, "--gen-subset", "test", "--path", str(checkpoint)]
    generate += [*decoding, "--max-tokens", "8192", precision, "--results-path", str(folder)]
    steps = [
        Step("train", tuple(train), log=folder / "train.log", done=folder / "trained"),
        Step("average", tuple(average)),
        Step("generate", tuple(generate), log=folder / "generate.log", needs=checkpoint),
        Step("score", tuple(_score(settings, folder, place)), output=folder / "score.json"),
    ]
    if settings.checkpoint != "average":
        del steps[1]
    if recipe.locality is not None:
        steps.append(_measure(recipe, options, place.data, checkpoint, folder))
    return Run(
        name=row.name,
        folder=folder,
        settings=(f"data {place.data}", f"seed {options.seed}", *lines),
        steps=tuple(steps),
        metric=settings.metric,
        updates=settings.max_update,
        epochs=settings.max_epoch,
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


def _sharing(settings: Generation, options: GenerationOptions, place: Place) -> list[str]:
    """The update, shared among the GPUs; a launcher shares it itself."""
    size, frequency = settings.max_tokens, settings.batches
    workers = []
    if not options.launcher:
        number = max(1, place.gpus)
        size, frequency = update.share(settings.max_tokens, settings.batches, number)
        workers = ["--distributed-world-size", str(number)]
    return [*workers, "--max-tokens", str(size), "--update-freq", str(frequency)]


def _uneven(settings: Generation, options: GenerationOptions, place: Place) -> list[str]:
    """The setting that an update is smaller where it cannot be shared evenly."""
    number = 1 if options.launcher else max(1, place.gpus)
    size, frequency = update.share(settings.max_tokens, settings.batches, number)
    shared = size * frequency * number
    return [] if shared == settings.max_tokens * settings.batches else [f"shared {shared}"]


def _score(settings: Generation, folder: Path, place: Place) -> list[str]:
    scorer, *flags = settings.scoring.split()
    command = ["posattn", "score", scorer, "--generated", str(folder / "generate-test.txt")]
    command += ["--json", *flags]
    # Summaries are scored against the whole references, which the binarised ones may not be.
    if settings.subwords == "sentencepiece" and place.references:
        command += ["--references", str(place.data / "text" / f"test.{settings.target}")]
    return command


def layers_of(recipe: GenerationRecipe, options: GenerationOptions) -> tuple[int, ...]:
    """The layers that a locality table is about; a tiny model has but one."""
    if recipe.locality is None:
        return ()
    return (1,) if options.tiny else recipe.locality.layers


def _measure(
    recipe: GenerationRecipe, options: GenerationOptions, data: Path, checkpoint: Path, folder: Path
) -> Step:
    assert recipe.locality is not None
    layers = ",".join(map(str, layers_of(recipe, options)))
    windows = ",".join(map(str, recipe.locality.windows))
    measured = folder / "locality.json"
    command = ["posattn", "analysis", "locality", str(checkpoint), "--data", str(data)]
    command += [
        "--split",
        "test",
        "--layers",
        layers,
        "--windows",
        windows,
        "--json",
        str(measured),
    ]
    return Step("measure", tuple(command), needs=checkpoint, done=measured)


def entries(
    recipe: GenerationRecipe, options: GenerationOptions, place: Place | None
) -> Iterator[Entry]:
    """All rows of a table; with their folders if it is known where they are run."""
    metrics, rows = recipe.settings.metrics, recipe.rows
    if recipe.locality is not None:
        metrics = tuple(f"layer {layer}" for layer in layers_of(recipe, options))
        rows = recipe.locality.rows
    for row in rows:
        trained = recipe.rows[0] if recipe.locality else row
        folder = make_run(recipe, trained, options, place).folder.parent if place else None
        yield Entry(recipe.title, row.name, metrics, tuple(row.paper.split()), folder)
