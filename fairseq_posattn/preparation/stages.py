"""Stages of a preparation: each is done once, and redone when a setting changed.

``.stages.json`` records for each finished stage its settings, its outputs and their files.
"""

import json
import shutil
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from fairseq_posattn import __version__
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import locked, write_json
from fairseq_posattn.common.progress import say
from fairseq_posattn.text import manifest

PACKAGES = ("sacremoses", "sentencepiece", "subword-nmt")
NAME = ".stages.json"
WORK = ".unfinished-stage"  # what a stage writes, until it is finished
REPLACED = ".replaced-stages"  # finished outputs that a run replaces, until it ends
LOCK = ".lock"


class Stages:
    """The stages that fill a folder, in the order in which they run.

    A stage writes into a working folder; its finished outputs move to the destination and are
    recorded. So a run that is stopped anywhere and started again ends with the same files. Outputs
    that a run replaces return if one of its stages fails. Files that no stage made are never
    replaced or removed.

    Args:
        dest: the folder.
        limit: examples per split for a quick look, None for all; a part never replaces the whole.
        force: redo all stages.

    Raises:
        UsageError: ``dest`` holds the whole data set and ``limit`` asks for a part of it, or its
            record cannot be read.
    """

    def __init__(self, dest, limit=None, force=False):
        self.dest, self.limit, self.redo = Path(dest), limit, force
        self.replaced = self.dest / REPLACED
        self.done = []  # names of the stages so far
        self.record = _read_record(self.dest)
        finished = [stage["settings"] for stage in self.record.values() if stage["settings"]]
        is_whole = any(settings.get("limit") is None for settings in finished)
        if limit is not None and is_whole and not force:
            raise UsageError(
                f"{self.dest} holds the whole data set, which --limit {limit} would replace: "
                "give another --dest, or --force"
            )

    @contextmanager
    def locked(self):
        """Hold the destination; a second run waits until the first one ends."""
        self.dest.mkdir(parents=True, exist_ok=True)
        with locked(self.dest / LOCK, self.dest):
            self.record = _read_record(self.dest)
            try:
                yield self
            except Exception:
                _remove(self.dest / WORK)
                self._restore()
                raise
            self._forget_replaced()

    def run(self, name, outputs, function, source=None, **settings):
        """Run one stage, unless it is done already.

        Args:
            name: name of the stage.
            outputs: files and folders that it makes, relative to the destination.
            function: makes all of them in the working folder, its argument.
            source: identifies the user's files, such as :meth:`Archive.fingerprint`; None, if
                none were given, matches any.
            settings: all else that the result depends on, beside the outputs of earlier stages;
                JSON values.

        Raises:
            UsageError: a file that no stage made would be replaced.
        """
        settings = json.loads(json.dumps({"limit": self.limit, "source": source, **settings}))
        outputs = list(map(str, outputs))
        if not self.redo and self._is_done(self.record.get(name), settings, outputs):
            say(f"{name}: done already")
            self.done.append(name)
            return
        self.redo = True  # later stages, too; the manifest then records versions
        self._refuse_foreign(outputs)
        work = self._working_folder()
        for output in outputs:
            (work / output).parent.mkdir(parents=True, exist_ok=True)
        function(work)
        self._replace(name, outputs, work)
        _remove(work)
        self.record[name] = _entry(outputs, _files(self.dest, outputs), settings)
        self._write_record()
        self.done.append(name)

    def _is_done(self, earlier, settings, outputs):
        if not earlier or earlier["settings"] is None:
            return False
        if settings["source"] is None:
            settings = {**settings, "source": earlier["settings"].get("source")}
        state = {"settings": settings, "outputs": outputs, "files": _files(self.dest, outputs)}
        return earlier == state

    def _replace(self, name, outputs, work):
        """Move outputs to their places; whatever is there at any time is recorded before."""
        self._refuse_foreign(outputs)
        record, old_outputs = self.record, self._stale_outputs(outputs)
        stale = [other for other in record if other not in self.done]
        if not self.replaced.exists() and any(record[other]["settings"] for other in stale):
            (work / REPLACED).mkdir()
            write_json(work / REPLACED / NAME, record)
            (work / REPLACED).rename(self.replaced)
        for other in stale:
            record[other] = {**record[other], "settings": None}
        made = _files(work, outputs)
        before = record.get(name, {"files": {}})["files"]
        record[name] = _entry(outputs, {**before, **made})
        self._write_record()
        finished = _outputs(_read_record(self.replaced))
        for output in old_outputs:
            path, copy = self.dest / output, self.replaced / output
            if output in finished and path.exists() and not copy.exists():
                _move(path, copy)
            else:
                _remove(path)
        for output in outputs:
            _move(work / output, self.dest / output)
        for other in stale:
            del record[other]

    def _restore(self):
        """Return the replaced outputs to their places."""
        earlier, record = _read_record(self.replaced), self.record
        if not earlier:
            return
        changed = [name for name in {**earlier, **record} if earlier.get(name) != record.get(name)]
        for name in changed:  # recorded first, so that a kill from here on leaves nothing foreign
            entries = [stages[name] for stages in (earlier, record) if name in stages]
            files = {file: size for entry in entries for file, size in entry["files"].items()}
            record[name] = _entry(_outputs(dict(enumerate(entries))), files)
        self.done = [name for name in record if name not in changed]
        self._refuse_foreign([])
        self._write_record()
        finished = _outputs(earlier)
        for output in self._stale_outputs([]):
            if (self.replaced / output).exists() or output not in finished:
                _remove(self.dest / output)
        for output in finished:
            if (self.replaced / output).exists():
                _move(self.replaced / output, self.dest / output)
        self.record = earlier
        self._write_record()
        self._forget_replaced()

    def _forget_replaced(self):
        if self.replaced.exists():
            work = self._working_folder()
            self.replaced.rename(work / REPLACED)  # atomic: a kill leaves all of it or none
            _remove(work)

    def _refuse_foreign(self, outputs):
        """Raise if a file that no stage made would be replaced."""
        known = {file for stage in self.record.values() for file in stage["files"]}
        for file in _files(self.dest, self._stale_outputs(outputs)):
            if file not in known:
                raise UsageError(
                    f"{self.dest / file} would be replaced, but no preparation made it: move it "
                    "away, or give another --dest"
                )

    def _stale_outputs(self, outputs):
        """Return these outputs and the recorded ones of this and later stages."""
        stale = {name: stage for name, stage in self.record.items() if name not in self.done}
        return sorted({*_outputs(stale), *outputs})

    def _working_folder(self):
        work = self.dest / WORK
        _remove(work)
        work.mkdir()
        return work

    def _write_record(self):
        write_json(self.dest / NAME, self.record, indent=1)


def write_manifests(stages, corpus, *, count, parts=(".",), **described):
    """Run the last stage of a preparation, which writes ``preparation.json``.

    Args:
        stages: the :class:`Stages`.
        corpus: a :class:`.corpus.Corpus`.
        count: returns the fields of the manifest that are counted, such as ``examples``.
        parts: folders that fairseq reads, each of which gets a manifest.
        described: other fields of the manifest.
    """
    fields = {
        "corpus": corpus.name,
        "task": corpus.task,
        "word_rule": corpus.word_rule,
        "subwords": corpus.subwords,
        "languages": list(corpus.sides),
        "metric": corpus.metrics[0],
        "criterion": corpus.criterion,
        **described,
    }
    packages = (*PACKAGES, "tokenizers") if fields["subwords"] == "wordpiece" else PACKAGES
    versions = {}
    if stages.redo:  # unknown for finished stages; a checkout need not be installed
        versions = {"fairseq-posattn": __version__} | {name: version(name) for name in packages}

    def make(work):
        rules = replace(manifest.Manifest(**fields, **count()), versions=versions)
        for part in parts:
            manifest.write(work / part, rules)

    outputs = [f"{part}/{manifest.NAME}".removeprefix("./") for part in parts]
    stages.run("manifest", outputs, make, **fields)


def _read_record(folder):
    path = Path(folder) / NAME
    try:
        record = json.loads(path.read_bytes())
        for stage in record.values():
            _ = stage["settings"], stage["outputs"], stage["files"].items()
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UsageError(f"{path}: not a record of this version; give another --dest") from None
    return record


def _entry(outputs, files, settings=None):
    """Return the record of a stage; without settings it is unfinished."""
    return {"settings": settings, "outputs": outputs, "files": files}


def _outputs(stages):
    return [output for stage in stages.values() for output in stage["outputs"]]


def _files(folder, outputs):
    """Return the sizes of the files of some outputs, by path relative to ``folder``."""
    paths = [folder / output for output in outputs]
    nested = [inner for path in paths for inner in path.rglob("*")]
    files = [path for path in (*paths, *nested) if path.is_symlink() or path.is_file()]
    return {path.relative_to(folder).as_posix(): path.lstat().st_size for path in files}


def _move(path, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    path.rename(target)


def _remove(path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
