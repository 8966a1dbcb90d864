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
        save_interval=1,
        averaged=min(settings.averaged, 2),
        subwords="subword_nmt",
    )


TINY_MODEL = "--warmup-updates 2 --num-workers 0" + "".join(
    f" --{side}-layers 1 --{side}-attention-heads 2 --{side}-embed-dim 16 --{side}-ffn-embed-dim 16"
    for side in ("encoder", "decoder")
)
TINY_DECODING = "--min-len 1 --max-len-b 20 --num-workers 0"


def settings_of(recipe: GenerationRecipe, options: GenerationOptions) -> Generation:
    """The recipe's settings as they are asked for."""
    settings = _tiny(recipe.settings) if options.tiny else recipe.settings
    return replace(settings, max_update=options.max_update or settings.max_update)


def runs(recipe: GenerationRecipe, options: GenerationOptions, place: Place) -> list[Run]:
    """The runs of the rows that are asked for, with one seed."""
    rows = choose_rows(recipe, options.rows)
    return [make_run(recipe, row, options, place) for row in rows]


def make_run(recipe: GenerationRecipe, row: Row, options: GenerationOptions, place: Place) -> Run:
    """A row's run: train, average, generate, score, and measure where the recipe does."""
    settings = settings_of(recipe, options)
    model = [*shlex.split(settings.training), *shlex.split(row.flags)]
    decoding = [*shlex.split(settings.decoding), "--remove-bpe", settings.subwords]
    if options.tiny:
        model += TINY_MODEL.split()
        decoding += TINY_DECODING.split()
    model += ["--max-update", str(settings.max_update)]
    precision = "--fp16" if place.gpus else "--cpu"
    lines = [
        f"train {' '.join([*model, *options.flags])}",
        f"tokens {settings.max_tokens * settings.batches}",
        f"averaged {settings.averaged}",
        f"generate {' '.join(decoding)}",
        f"score {settings.scoring}",
        f"precision {precision}",
        *_uneven(settings, options, place),
    ]
    named = folder_name(row.flags, [f"data {place.data}", *lines])
    folder = place.out / named / f"seed{options.seed}"
    checkpoint = folder / ("checkpoint_last.pt" if settings.averaged == 1 else "average.pt")
    languages = ["--source-lang", settings.source, "--target-lang", settings.target]
    data = [str(place.data), "--user-dir", PLUGIN, *languages]

    train = shlex.split(options.launcher) or ["fairseq-train"]
    train += [*data, "--seed", str(options.seed), *model, *_sharing(settings, options, place)]
    train += [precision, "--save-dir", str(folder)]
    train += ["--save-interval-updates", str(_save_interval(settings))]
    train += ["--keep-interval-updates", str(settings.averaged), *KEPT, *LOGGED, *options.flags]
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
    if settings.averaged == 1:
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
    )


def _save_interval(settings: Generation) -> int:
    """Updates between checkpoints, such that there are enough for the average."""
    wanted = settings.save_interval or settings.max_update // 40
    return max(1, min(wanted, settings.max_update // settings.averaged))


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
