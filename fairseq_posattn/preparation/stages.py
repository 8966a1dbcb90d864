"""Stages of a preparation: each is done once, and redone when a setting changed.

``.stages.json`` records for each finished stage its settings, its outputs and their files.
"""

import json
import os
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

from fairseq_posattn import __version__
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import StrPath, locked, write_json
from fairseq_posattn.common.progress import say
from fairseq_posattn.preparation.corpus import Corpus
from fairseq_posattn.text import manifest

PACKAGES = ("sacremoses", "sentencepiece", "subword-nmt", "tokenizers")
NAME = manifest.RECORD
WORK = ".unfinished"  # a run's outputs and its record, until all stages are finished
FINISHED = ".finished"  # the same while they move to the destination
LOCK = ".lock"
FILES = "training_files"  # in the settings of the last stage
PAIR_TASKS = {"sentence_prediction", "sentence_pair_prediction"}

Record = dict[str, dict[str, Any]]  # settings, outputs and files of each finished stage


class Stages:
    """The stages that fill a folder, in the order in which they run.

    From the first stage that has to be redone, a run works in a folder of its own and moves the
    outputs to the destination at its end: a run that fails or is killed leaves finished data as it
    was, and goes on when it is started again. Files that no stage made are never replaced.
    ``limit`` examples per split never replace the whole data set in ``dest``: UsageError.
    """

    def __init__(self, dest: StrPath, limit: int | None = None, force: bool = False) -> None:
        self.dest, self.limit, self.force = Path(dest), limit, force
        self.work = self.dest / WORK
        self.home = self.dest  # holds the finished stages: dest, or work once a stage is redone
        self.done: Record = {}  # entries of the record, by name of the stage

    @contextmanager
    def locked(self) -> Iterator["Stages"]:
        """Hold the destination; a second run waits until the first ends."""
        is_new = not self.dest.exists()
        with locked(self.dest / LOCK, self.dest):
            self._publish()
            self.published = _read_record(self.dest)
            is_whole = any(stage["settings"]["limit"] is None for stage in self.published.values())
            if self.limit is not None and is_whole and not self.force:
                raise UsageError(
                    f"{self.dest} holds the whole data set, which --limit {self.limit} would "
                    "replace: give another --dest, or --force"
                )
            self.record = {} if self.force else self.published
            if self.force:
                _remove(self.work)
            try:
                yield self
            except Exception:
                if not (self.work / NAME).exists():
                    _remove(self.work)
                if is_new and [path.name for path in self.dest.iterdir()] == [LOCK]:
                    _remove(self.dest)
                raise
            if self.home == self.work:
                self._refuse_foreign([])
                self.work.rename(self.dest / FINISHED)  # atomic: from here on it is only moved
                self._publish()
            _remove(self.work)

    def run(
        self,
        name: str,
        outputs: Sequence[str],
        function: Callable[[Path], object],
        source: object = None,
        **settings: object,
    ) -> None:
        """Run one stage, unless it is done already.

        ``function`` makes ``outputs`` in a folder with earlier outputs. ``source`` identifies the
        user's files; None matches any. ``settings`` are all else that the result depends on.
        """
        settings = json.loads(json.dumps({"limit": self.limit, "source": source, **settings}))
        outputs = list(outputs)
        entry = _entry_if_done(self._recorded(name), self.home, settings, outputs)
        if not entry and self.home == self.dest:
            self._begin()
            entry = _entry_if_done(self._recorded(name), self.work, settings, outputs)
        if entry:
            say(f"{name}: done already")
        else:
            self.record = {}
            self._refuse_foreign(outputs)
            if (self.work / NAME).exists():  # else a kill leaves the record of other settings
                write_json(self.work / NAME, self.done, indent=1)
            for output in outputs:
                _remove(self.work / output)
                (self.work / output).parent.mkdir(parents=True, exist_ok=True)
            function(self.work)
            files = _files(self.work, outputs)
            entry = {"settings": settings, "outputs": outputs, "files": files}
        self.done[name] = entry
        if self.home == self.work:
            write_json(self.work / NAME, self.done, indent=1)

    def _recorded(self, name: str) -> dict[str, Any] | None:
        """Return a stage's entry of the record if it followed the same stages as now."""
        following = [*self.record.items()][len(self.done) :]
        return dict(following[:1]).get(name)

    def _begin(self) -> None:
        """Resume the working folder, or link the outputs of finished stages into a new folder."""
        self.home, self.record = self.work, _read_record(self.work)
        if list(self.record.items())[: len(self.done)] != list(self.done.items()):
            self.record = {}
        if not self.record:
            _remove(self.work)
        self.work.mkdir(exist_ok=True)
        for file in () if self.record else _files_of(self.done):
            (self.work / file).parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(self.dest / file, self.work / file)
            except OSError:  # a file system without links
                shutil.copyfile(self.dest / file, self.work / file)

    def _refuse_foreign(self, outputs: Iterable[str]) -> None:
        """Raise if a file that no stage made would be replaced."""
        known = _files_of(self.published)
        stale = [stage for name, stage in self.published.items() if stage != self.done.get(name)]
        for file in _files(self.dest, {*_outputs(stale), *outputs, *_outputs(self.done.values())}):
            if file not in known:
                raise UsageError(
                    f"{self.dest / file} would be replaced, but no preparation made it: move it "
                    "away, or give another --dest"
                )

    def _publish(self) -> None:
        """Move finished outputs to the destination, also those of a run that was killed here."""
        finished = self.dest / FINISHED
        if (finished / NAME).exists():
            record = _read_record(finished)
            outputs = _outputs(record.values())
            for output in _outputs(_read_record(self.dest).values()):
                if output not in outputs:
                    _remove(self.dest / output)
            write_json(self.dest / NAME, record, indent=1)
            for output in outputs:
                if (finished / output).exists():
                    _remove(self.dest / output)
                    (self.dest / output).parent.mkdir(parents=True, exist_ok=True)
                    shutil.move(finished / output, self.dest / output)  # text/ may be a link
            (finished / NAME).unlink()
        _remove(finished)


def write_manifests(
    stages: Stages,
    corpus: Corpus,
    *,
    count: Callable[[Path], Mapping[str, Any]],
    parts: Sequence[str] = (".",),
    **described: Any,
) -> None:
    """Run the last stage, which writes ``preparation.json`` to each of the ``parts``.

    ``count`` takes the folder and returns the counted fields; ``described`` are other fields.
    """
    names = ("task", "word_rule", "subwords", "criterion")
    fields: dict[str, Any] = {"corpus": corpus.name}
    fields |= {name: getattr(corpus, name) for name in names}
    fields |= {"languages": list(corpus.sides), "metric": corpus.metrics[0], **described}
    versions: dict[str, str] = {}
    if stages.home == stages.work:  # unknown for finished stages; a checkout need not be installed
        versions = {"fairseq-posattn": __version__} | {name: version(name) for name in PACKAGES}

    def make(work: Path) -> None:
        rules = replace(manifest.Manifest(**fields, **count(work)), versions=versions)
        for part in parts:
            manifest.write(work / part, rules)

    outputs = [f"{part}/{manifest.NAME}".removeprefix("./") for part in parts]
    files = {FILES: list(corpus.files)} if corpus.files else {}
    stages.run("manifest", outputs, make, **fields, **files)


def check_replaced(
    dest: Path, corpus: Corpus, inputs: Iterable[object], force: bool = False
) -> None:
    """Raise :exc:`UsageError` if a preparation would replace another corpus or one of its inputs.

    ``inputs`` are the values of all options; ``force`` allows to replace the corpus.
    """
    record = _read_record(dest)
    made = {os.path.realpath(Path(dest, file)) for file in _files_of(record)}
    for path in chain.from_iterable(item if isinstance(item, list) else [item] for item in inputs):
        if isinstance(path, str | Path) and os.path.realpath(path) in made:
            raise UsageError(
                f"{path}: an earlier preparation made it, and this one would replace it; copy it "
                "to another folder, or give another --dest"
            )
    wanted: dict[str, Any] = {"corpus": corpus.name, "task": corpus.task}
    wanted |= {"languages": list(corpus.sides), FILES: list(corpus.files)}
    settings = record.get("manifest", {}).get("settings", {})
    present = wanted | settings  # older records lack some
    if {present["task"], corpus.task} == PAIR_TASKS:
        wanted["task"] = present["task"]
    is_distilled = bool(record) and "manifest" not in record  # the stage of posattn distill
    is_other = any(present[name] != value for name, value in wanted.items())
    if not force and (is_distilled or is_other):
        names = [present["corpus"], present["task"], *present["languages"]]
        names += (Path(file).name for file in settings.get(FILES, ()))
        named = ", ".join(record if is_distilled else names)
        raise UsageError(
            f"--dest {dest}: holds another corpus ({named}); choose another folder, or replace it "
            "with --force"
        )


def _read_record(folder: Path) -> Record:
    """Return the record of a folder; stages of 0.1.0 had names in British spelling."""
    path = Path(folder) / NAME
    try:
        record = json.loads(path.read_bytes()) if path.exists() else {}
        if record.keys() >= {"text", "manifest"}:  # older texts have their rule in the last stage
            rule = record["manifest"]["settings"].get("word_rule")
            record["text"]["settings"].setdefault("word_rule", rule)
        return {name.replace("binaris", "binariz"): stage for name, stage in record.items()}
    except (ValueError, AttributeError, KeyError):
        raise UsageError(f"{path}: damaged; remove it, and prepare the data again") from None


def _entry_if_done(
    entry: dict[str, Any] | None, folder: Path, settings: dict[str, Any], outputs: list[str]
) -> dict[str, Any] | None:
    """Return a stage's entry of the record if its settings and files are the same."""
    if entry and settings["source"] is None:
        settings = {**settings, "source": entry["settings"].get("source")}
    state = {"settings": settings, "outputs": outputs, "files": _files(folder, outputs)}
    return entry if entry == state else None


def _outputs(stages: Iterable[dict[str, Any]]) -> list[str]:
    return [output for stage in stages for output in stage["outputs"]]


def _files_of(stages: Record) -> set[str]:
    return {file for stage in stages.values() for file in stage["files"]}


def _files(folder: Path, outputs: Collection[str]) -> dict[str, int]:
    """Return the sizes of the files of some outputs, by path relative to ``folder``."""
    paths = [folder / output for output in outputs]
    nested = [inner for path in paths for inner in path.rglob("*")]
    files = [path for path in (*paths, *nested) if path.is_symlink() or path.is_file()]
    return {path.relative_to(folder).as_posix(): path.lstat().st_size for path in sorted(files)}


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
