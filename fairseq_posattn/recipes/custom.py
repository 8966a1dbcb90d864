"""Custom tables: a YAML file whose keys are the fields of :class:`CustomTable`."""

import difflib
import json
import re
import shlex
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, NoReturn

import yaml

from fairseq_posattn.common.cli import value_of
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import files_in
from fairseq_posattn.common.flags import flag
from fairseq_posattn.preparation.corpus import FOLDS, POSITIONS
from fairseq_posattn.recipes import classification, generation
from fairseq_posattn.recipes.generation import SCORING, SCORING_HELP
from fairseq_posattn.recipes.options import CHECKPOINTS
from fairseq_posattn.recipes.papers import DATASETS
from fairseq_posattn.recipes.plan import Plan
from fairseq_posattn.recipes.processes import capture
from fairseq_posattn.recipes.recipe import (
    COSTS,
    LENGTHS,
    MARKUP,
    MEASURED_COSTS,
    SUMMARY_SCORES,
    ClassificationRecipe,
    Dataset,
    Generation,
    GenerationRecipe,
    Recipe,
    Row,
    Training,
)
from fairseq_posattn.text.languages import CODES, code_of
from fairseq_posattn.training.settings import Prepared

METRICS = {"bleu": ("bleu", "chrf2", "ter"), "rouge": (*SUMMARY_SCORES, "average")}
SCORED = {"translation": "bleu --forms sacrebleu", "summarization": "rouge --words auto"}
PAIRS = tuple(SCORED)
LABELED = ("classification", "tagging", "recommendation")
TINY = {*classification.TINY_MODEL.split(), *generation.TINY_MODEL.split()}
CHECK = "fairseq_posattn.recipes.row_check"
EXAMPLE = """\
title: ALiBi beside the Transformer
data: data-bin/fr-en
seeds: 3
epochs: 20
training:
  --criterion label_smoothed_cross_entropy --label-smoothing 0.1 --optimizer adam --lr 1e-3
  --lr-scheduler inverse_sqrt --warmup-updates 400 --dropout 0.2 --share-all-embeddings
rows:
  Transformer: --arch dman_iwslt_de_en --encoder-sublayers san,ffn
  ALiBi: --arch dman_iwslt_de_en --encoder-sublayers alibi,ffn
"""
# Flags that the recipe gives, and what sets them.
GIVEN = {
    **{"--seed": "seeds", "--max-update": "updates", "--max-epoch": "epochs"},
    **{"--max-tokens": "max_tokens", "--batch-size": "batch_size", "--update-freq": "batches"},
    **{"--user-dir": "user_dir", "--task": "data", "--source-lang": "data"},
    **{"--target-lang": "data", "--save-dir": "--out", "--cpu": "--cpu"},
    **{"--fp16": "--precision", "--bf16": "--precision"},
    **{"-s": "data", "-t": "data", "--max-sentences": "batch_size"},  # fairseq's other names
}
# Those of fairseq-generate, whose --fp16 suits models of any precision.
DECODED = {
    name: GIVEN[name]
    for name in ("--user-dir", "--task", "--source-lang", "--target-lang", "-s", "-t", "--cpu")
}
DECODED |= {"--path": "the row", "--gen-subset": "the recipe, which scores the test set"}
DECODED |= {"--results-path": "--out", "--max-tokens": "the recipe"}
DECODED |= dict.fromkeys(("--num-shards", "--shard-id"), "--shards")
# Those of data with labels alone.
SELECTED = "the first of metrics, which selects checkpoints"
BEST = dict.fromkeys(("--best-checkpoint-metric", "--maximize-best-checkpoint-metric"), SELECTED)
OF_LABELS = BEST | {"--update-freq": "batch_size"}


@dataclass(frozen=True)
class CustomTable:
    """The keys of a file. Metadata: ``kinds`` are the kinds of data that take a key."""

    data: tuple[str, ...] = flag(
        (), "folder of posattn prepare, or, of data with labels, a list of several"
    )
    rows: Mapping[str, str] = flag(
        None, "for each row its name and its flags of fairseq-train, --arch among them"
    )
    training: str = flag(
        "", "flags of fairseq-train for all rows: criterion, optimizer, rate, regularization"
    )
    title: str = flag("", "heading of the table (default: the name of the file)")
    epochs: int = flag(0, "length of training; give epochs or updates")
    updates: int = flag(0, "length of training; give epochs or updates")
    interval: int = flag(0, "updates between validations (default: updates / 20)", kinds=LABELED)
    seeds: int = flag(1, "models of each row, with the seeds 1 to N (default: 1)")
    baseline: str = flag(
        "", "row with which the others are compared (default: Transformer, Multi-head or the first)"
    )
    metrics: tuple[str, ...] = flag(
        (),
        "list of bleu, chrf2, ter; or of rouge1, rouge2, rougeL, average; or of the criterion's "
        f"metrics, the first of which selects checkpoints, and {', '.join(COSTS)} (default: those "
        "of the data)",
    )
    user_dir: str = flag(
        "",
        "folder with models and mechanisms as for fairseq-train --user-dir; its __init__.py must "
        "import fairseq_posattn",
    )
    max_tokens: int = flag(
        0, "tokens of a batch (default: 4096; of data with labels, by batch_size)"
    )
    batch_size: int = flag(0, "sentences of an update (default: 64)", kinds=LABELED)
    batches: int = flag(0, "batches of an update (default: 1)", kinds=PAIRS)
    checkpoint: str = flag(
        "",
        "checkpoint to score: best (default), average (of the last 5; with epochs there is one "
        "every 2,000 updates) or last",
        kinds=PAIRS,
        choices=CHECKPOINTS,
    )
    decoding: str = flag("", "flags of fairseq-generate (default: --beam 5)", kinds=PAIRS)
    scoring: str = flag(
        "",
        f"arguments of posattn score, {SCORING_HELP} (default: bleu --forms sacrebleu, or rouge "
        "--words auto; bleu has the --language of the data)",
        kinds=PAIRS,
    )
    tiny: str = flag("", "flags that make models tiny, instead of those of --tiny")


class Source:
    """A file with the line of each key and row; ``table`` is its content."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            node = yaml.compose(path.read_text(encoding="utf-8"), yaml.SafeLoader)
        except UnicodeDecodeError:
            raise UsageError(f"{path}: the text is not UTF-8; convert it first") from None
        except yaml.YAMLError as error:
            line = error.problem_mark.line + 1 if isinstance(error, yaml.MarkedYAMLError) else 1
            problem = str(getattr(error, "problem", error)).partition("\n")[0]
            self.fail(line, f"this is not YAML ({problem}); indent by spaces, quote texts")
        if not isinstance(node, yaml.MappingNode):
            self.fail(1, "it has no keys; posattn recipe --example prints a file with all of them")
        known = {field.name: field for field in fields(CustomTable)}
        self.lines: dict[str, int] = {}
        self.rows: dict[str, int] = {}
        values = {}
        for name, value in self._items(node, "key", self.lines):
            if name not in known:
                near = difflib.get_close_matches(name, known, 1) or [", ".join(known)]
                self.fail(name, f"there is no key {name!r}; do you mean {near[0]}?")
            values[name] = self._value(name, value, known[name].type)
            choices = known[name].metadata.get("choices", (values[name],))
            if values[name] not in choices:
                self.fail(name, f"{name} is {values[name]!r}; give {', '.join(choices)}")
        for name in ("data", "rows"):
            if not values.get(name):
                self.fail(name, f"{name} is missing or empty; give {known[name].metadata['help']}")
        self.table = CustomTable(**values)

    def fail(self, key: str | int | None, message: str) -> NoReturn:
        """Raise UsageError with a line, or with that of a key."""
        line = self.lines.get(key, 1) if isinstance(key, str) else key
        raise UsageError(f"{self.path}:{line}: {message}")

    def _items(
        self, node: yaml.MappingNode, kind: str, lines: dict[str, int]
    ) -> Iterator[tuple[str, yaml.Node]]:
        """Yield names and values of a mapping, and store the lines of the names."""
        for key, value in node.value:
            line = key.start_mark.line + 1
            name = self._value(kind, key, str)
            if name in lines:
                self.fail(line, f"{kind} {name!r} is also in line {lines[name]}; rename one")
            lines[name] = line
            yield name, value

    def _value(self, name: str, node: yaml.Node, kind: Any) -> Any:
        """Return a value of the type of a field."""
        tag = node.tag.rpartition(":")[2]
        line = node.start_mark.line + 1
        if kind is str:
            if tag != "str":
                self.fail(line, f"{name} must be text, not {_called(node)}; put it in quotes")
            return " ".join(node.value.split())
        if kind is int:
            if tag != "int" or not node.value.isdecimal() or int(node.value) == 0:
                self.fail(line, f"{name} must be a positive whole number, not {_called(node)}")
            return int(node.value)
        if kind == tuple[str, ...]:
            nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
            return tuple(self._value(name, item, str) for item in nodes)
        if not isinstance(node, yaml.MappingNode):
            self.fail(line, f"{name} must be lines of a name, a colon and flags")
        return {
            row: self._value(f"row {row!r}", value, str) if value.value else ""
            for row, value in self._items(node, "row", self.rows)
        }


def _called(node: yaml.Node) -> str:
    return repr(node.value) if isinstance(node, yaml.ScalarNode) else f"a {node.id}"


def read(path: Path) -> Recipe:
    """Return the recipe of a file; UsageError with file and line for its first mistake.

    Flags are checked by :func:`check`, which takes seconds.
    """
    source = Source(path)
    table = source.table
    corpora = [_read_data(source, Path(folder)) for folder in table.data]
    kind, names = corpora[0].kind, [corpus.folder.name for corpus in corpora]
    if any(corpus.kind != kind for corpus in corpora) or kind in PAIRS and len(corpora) > 1:
        source.fail("data", "several folders must all have labels, and the same kind of them")
    if len({*names}) < len(names):
        source.fail("data", f"two folders are called {max(names, key=names.count)}; rename one")
    for field in fields(CustomTable):
        if field.name in source.lines and kind not in field.metadata.get("kinds", [kind]):
            source.fail(field.name, f"{names[0]} is data of {kind}; remove {field.name}")
    for name, other in (("interval", "epochs"), ("batch_size", "max_tokens")):
        if name in source.lines and other in source.lines:
            source.fail(name, f"{name} has no effect beside {other}; remove one of them")
    if bool(table.epochs) == bool(table.updates):
        source.fail("updates", "give the length of training as either epochs or updates")
    if table.baseline and table.baseline not in table.rows:
        source.fail("baseline", f"no row {table.baseline!r}; known: {'; '.join(table.rows)}")
    if table.user_dir:
        folder = Path(table.user_dir)
        if not (folder / "__init__.py").exists():
            source.fail("user_dir", f"{folder} has no __init__.py; name the folder of a package")
        if not any(b"fairseq_posattn" in path.read_bytes() for path in files_in(folder, ".py")):
            source.fail("user_dir", f"{folder}/__init__.py must have 'import fairseq_posattn'")
    if table.scoring and not SCORING.fullmatch(table.scoring):
        source.fail("scoring", f"{table.scoring!r} is not {SCORING_HELP}")
    _check_metrics(source, _scores(_scoring(table, kind)) or table.metrics)
    if kind in LABELED and (table.metrics or ("",))[0].startswith(("valid_", *COSTS)):
        source.fail("metrics", f"{table.metrics[0]} selects no checkpoints; name a score before it")
    _check_rows(source, GIVEN | OF_LABELS if kind in LABELED else GIVEN)
    for name in (table.title, path.stem, *names, *table.rows):
        if not name.isprintable() or set(MARKUP) & set(name):
            wrong = f"{name!r} has one of {MARKUP} or an invisible sign; rename it"
            source.fail(source.rows.get(name, "title"), wrong)
    common = f"custom/{path.stem}", table.title or path.stem, f"The table of {path}."
    rows = tuple(Row(name, flags=flags) for name, flags in table.rows.items())
    more: dict[str, Any] = {"custom": True, "baseline": table.baseline, "tiny": table.tiny}
    if table.user_dir:
        more["user_dir"] = str(Path(table.user_dir).resolve())
    if kind in PAIRS:
        return GenerationRecipe(*common, rows, _generation(source, corpora[0]), **more)
    datasets = tuple(_dataset(table, corpus) for corpus in corpora)
    interval = table.interval or (table.updates and max(1, table.updates // 20))
    length = table.epochs, table.updates, interval, table.seeds
    training = Training(table.training, table.batch_size or 64, table.max_tokens, *length)
    of_datasets = {dataset.name: training for dataset in datasets}
    return ClassificationRecipe(*common, rows, datasets, of_datasets, path.stem, **more)


def _read_data(source: Source, folder: Path) -> Prepared:
    """Return the description of prepared data, of cross validation that of the first fold."""
    fold = folder / "fold0"
    try:
        corpus = Prepared(fold if fold.is_dir() else folder)
    except UsageError as error:
        source.fail("data", str(error))
    corpus.folder = folder
    return corpus


def _scoring(table: CustomTable, kind: str) -> str:
    """Return the arguments of posattn score, and its default of --words; "" if data has labels."""
    scoring = table.scoring or SCORED.get(kind, "")
    is_open = scoring.startswith("rouge") and "--words" not in scoring
    return f"{scoring} --words auto" if is_open else scoring


def _scores(scoring: str) -> list[str]:
    """Return the scores of pairs, also by length; those of data with labels are the criterion's."""
    names = [*METRICS.get(scoring.partition(" ")[0], ())]
    if lengths := value_of(scoring.split(), "--by-length"):
        from fairseq_posattn.scoring.lengths import divide  # here, because it imports NumPy

        ranges = divide([], list(map(int, lengths.split(","))))
        by_length = [size for size in ranges if LENGTHS in size]
        measured = [name for name in names if name not in ("ter", "average")]
        names += [f"{name} {size}" for name in measured for size in by_length]
    return names


def _check_metrics(source: Source, known: Collection[str]) -> None:
    for name in source.table.metrics:
        if name not in known:
            source.fail("metrics", f"there is no metric {name!r}; known: {', '.join(known)}")


def _check_rows(source: Source, set_elsewhere: Mapping[str, str]) -> None:
    """Check what can be known of flags without fairseq."""
    table, rows = source.table, source.rows
    keys = {"training": set_elsewhere, "tiny": set_elsewhere, "decoding": DECODED}
    shared = [(source.lines.get(name), name, getattr(table, name), keys[name]) for name in keys]
    of_rows = [(line, name, table.rows[name], set_elsewhere) for name, line in rows.items()]
    for line, name, flags, setters in (*shared, *of_rows):
        try:
            words = shlex.split(flags)
        except ValueError as error:
            source.fail(line, f"{flags!r} has an open quotation mark ({error}); close it")
        for word in words:
            if instead := setters.get(word.partition("=")[0]):
                source.fail(line, f"{word} is set by {instead}; remove it here")
        if line not in rows.values():
            if "--arch" in words:
                source.fail(line, f"{name} has --arch; give each row its own")
        elif "--arch" not in words[:-1]:
            source.fail(line, f"row {name!r} has no --arch NAME; give it")


def _generation(source: Source, corpus: Prepared) -> Generation:
    table, described = source.table, corpus.manifest
    scoring, target = _scoring(table, corpus.kind), described.languages[1]
    names_language = {"--language", "--detokenize"} & {*scoring.split()}
    if scoring.startswith("bleu") and code_of(target) in CODES and not names_language:
        scoring += f" --language {target}"
    return Generation(
        regime=source.path.stem,
        corpus=corpus.folder.name,
        preparation="",
        training=table.training,
        max_tokens=table.max_tokens or 4096,
        batches=table.batches or 1,
        decoding=table.decoding or "--beam 5",
        scoring=scoring,
        metric=f"scores of posattn score {scoring}",
        metrics=table.metrics or (METRICS["rouge"] if scoring.startswith("rouge") else ("bleu",)),
        source=described.languages[0],
        target=target,
        max_update=table.updates,
        max_epoch=table.epochs,
        checkpoint=table.checkpoint or "best",
        subwords=described.subwords or "",
        folder=str(corpus.folder.resolve()),
        seeds=table.seeds,
    )


def _dataset(table: CustomTable, corpus: Prepared) -> Dataset:
    """Return the data set in a folder, with the columns and test splits of its corpus."""
    described, folder = corpus.manifest, corpus.folder.resolve()
    folds = FOLDS if (folder / "fold0").is_dir() else 0
    inputs = sorted(path.name for path in (folder / ("fold0" if folds else "")).glob("input?"))
    known = DATASETS.get(described.corpus)
    known = known or replace(DATASETS["trec"], columns=(*inputs, "label"), positions="", classes=0)
    if (described.longest_text or 0) >= POSITIONS:
        known = replace(known, positions=f"--max-positions {POSITIONS} --shorten-method truncate")
    return replace(
        known,
        name=folder.name,
        metrics=table.metrics or (corpus.metric,),
        task=described.task,
        criterion=described.criterion or known.criterion,
        classes=described.classes or known.classes,
        folds=folds,
        folder=str(folder),
        features=described.features or known.features,
        tiny=known.tiny.replace(" --sentence-ends cue0", ""),  # a word of generated data
    )


def check(path: Path, plan: Plan) -> None:
    """Have fairseq read the flags of all rows; UsageError with file and line for a mistake."""
    source = Source(path)
    models = list(plan.models())
    steps = [(row, run.steps[0]) for row, run in models]
    first, run = models[0]  # all rows have the same flags of decoding
    steps += [(first, step) for step in run.steps if step.name == "generate"]
    words = []
    for _, step in steps:  # from the data on, behind the program or a launcher
        start = step.command.index("--user-dir") - 1
        words.append([f"fairseq-{step.name}", *step.command[start:]])
    checked = capture(["python", "-m", CHECK], json.dumps(words))
    if checked.returncode:
        last = (checked.stderr.strip().splitlines() or ["no output"])[-1]
        source.fail("user_dir", f"the plugins cannot be loaded: {last}")
    for (row, step), (mistake, metrics) in zip(steps, json.loads(checked.stdout), strict=True):
        if mistake and step.name == "generate":
            source.fail("decoding" if source.table.decoding else "data", mistake)
        if mistake:
            name = re.search(r"--[\w-]+|$", mistake)[0]  # type: ignore[index]
            if name in plan.options.flags:
                raise UsageError(mistake)
            if name in BEST:
                source.fail("metrics", mistake)
            is_shared = name in source.table.training.split() and name not in row.flags.split()
            is_of_file = is_shared or name in row.flags.split() or source.table.tiny
            if plan.options.tiny and name in TINY and not is_of_file:
                mistake += f"; {name} is of --tiny: give other flags in the key tiny"
            key = "training" if is_shared else source.rows[row.name]
            source.fail(key, f"row {row.name!r}: {mistake}")
        if metrics and isinstance(plan.recipe, ClassificationRecipe):  # others are checked above
            costs = COSTS.keys() - MEASURED_COSTS
            validation = (f"valid_{name}" for name in metrics if name not in COSTS)
            _check_metrics(source, (*metrics, *sorted(costs), *validation))
    if scoring := source.table.scoring:  # of this file's own lines
        texts = ["--hypotheses", str(path), "--references", str(path)]
        scored = capture(["posattn", "score", *scoring.split(), *texts])
        if scored.returncode:
            source.fail("scoring", scored.stderr.rpartition("error: ")[2].strip())


def example() -> str:
    """Return a file with ten lines, and a comment for each key."""
    about = (f"#   {field.name}: {field.metadata['help']}" for field in fields(CustomTable))
    return "\n".join([EXAMPLE + "\n# All keys:", *about]) + "\n"
