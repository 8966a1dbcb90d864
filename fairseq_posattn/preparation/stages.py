"""Stages of a preparation, each done once: what is finished stays, what is not is redone whole."""

import hashlib
import json
import os
import shutil
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import write_json
from fairseq_posattn.common.locking import locked
from fairseq_posattn.common.progress import say
from fairseq_posattn.preparation.record import NAME, Record

WORK = ".unfinished-"
OURS = ".preparation"  # marks a working folder as made here: only such are removed
EARLIER = ".replaced"  # the finished outputs that a run replaces, until it ends
LOCK = ".lock"
_NOTHING = {"files": []}


class Stages:
    """The stages that fill a folder, in the order in which they are run.

    A stage writes into a working folder of its own; when it is finished, what it wrote moves to the
    destination and is recorded. So a run that is stopped anywhere, and started again, ends with
    the same files as one that was not. Finished outputs that a run replaces are kept until all of
    its stages are done: if one fails, they return. Files that no stage is recorded to have made are
    never replaced or removed.

    Args:
        dest: the folder.
        limit: lines of a quick look, or None for all; a part does not replace the whole.
        force: do everything again.

    Raises:
        UsageError: ``dest`` holds the whole data set and ``limit`` asks for a part of it; or its
            record cannot be read.
    """

    def __init__(self, dest, limit=None, force=False):
        self.dest = Path(dest)
        self.earlier = self.dest / EARLIER
        self.limit = limit
        self.redo = force
        self.done = []  # names of the stages so far
        self.record = Record(self.dest)
        made = [stage["settings"] for stage in self.record.stages.values() if stage["settings"]]
        whole = any(settings.get("limit") is None for settings in made)
        if limit is not None and whole and not force:
            raise UsageError(
                f"{self.dest} holds the whole data set, which --limit {limit} would replace: "
                "give another --dest, or --force"
            )

    @contextmanager
    def locked(self):
        """Hold the destination: a second run waits until the first one ends.

        Raises:
            UsageError: something that no preparation made has the name of the earlier outputs.
        """
        self.dest.mkdir(parents=True, exist_ok=True)
        with locked(self.dest / LOCK, self.dest):
            self.record = Record(self.dest)
            is_ours = self.earlier.is_dir() and not self.earlier.is_symlink()
            if os.path.lexists(self.earlier) and not (is_ours and Record(self.earlier).stages):
                raise UsageError(f"{self.earlier}: no preparation made it; move it away")
            try:
                yield self
            except Exception:
                self._restore()
                raise
            self._forget_earlier()

    def run(self, name, outputs, function, source=None, **settings):
        """Do one stage, unless it is done already.

        Args:
            name: of the stage.
            outputs: the files and folders that it makes, relative to the destination.
            function: called with the working folder, in which it must make all of them.
            source: something that tells the user's own files from others, such as
                :meth:`Archive.fingerprint`; None, if none were named, agrees with any.
            settings: all else that the result depends on beside the outputs of the stages before;
                values that JSON can hold.

        Raises:
            UsageError: something is in the way that no stage made.
        """
        settings = json.loads(json.dumps({"limit": self.limit, "source": source, **settings}))
        earlier = self.record.stages.get(name)
        if not self.redo and earlier and self._is_same(earlier, settings, outputs):
            say(f"{name}: done already")
            self.done.append(name)
            return
        self.redo = True  # all later stages, too; the manifest then records versions
        self._refuse_foreign(outputs)
        work = self._working_folder()
        for output in outputs:
            (work / output).parent.mkdir(parents=True, exist_ok=True)
        try:
            function(work)
        except UsageError:
            _discard(work)
            raise
        self._replace(name, outputs, work)
        _discard(work)
        self.record.stages[name]["settings"] = settings
        self.record.stages[name]["outputs"] = self._states(outputs)
        self.record.write()
        self.done.append(name)

    def _replace(self, name, outputs, work):
        """Move outputs to their places. Whatever is there at any time is recorded before."""
        self._refuse_foreign(outputs)
        stages, replaced = self.record.stages, self._to_replace(outputs)
        stale = [other for other in stages if other not in self.done]
        if not self.earlier.exists() and any(stages[other]["settings"] for other in stale):
            (work / EARLIER).mkdir()
            write_json(work / EARLIER / NAME, stages)
            (work / EARLIER).rename(self.earlier)
        made = sorted(file for output in outputs for file in _files(work, output))
        for other in stale:
            stages[other] = _unfinished(self._made_by(other), stages[other]["outputs"])
        stages[name] = _unfinished({*stages.get(name, _NOTHING)["files"], *made}, outputs)
        self.record.write()
        self._set_aside(replaced)
        for output in outputs:
            _move(work / output, self.dest / output)
        for other in stale:
            del stages[other]
        stages[name] = _unfinished(made, outputs)

    def _set_aside(self, outputs):
        """Move outputs of the earlier preparation to :attr:`earlier`, and remove all others."""
        kept = _all_outputs(Record(self.earlier).stages)
        for output in outputs:
            path, copy = self.dest / output, self.earlier / output
            if output in kept and path.exists() and not copy.exists():
                _move(path, copy)
            else:
                _remove(path)

    def _restore(self):
        """Bring the earlier preparation back, if this run has replaced some of it."""
        earlier, stages = Record(self.earlier).stages, self.record.stages
        if not earlier:
            return
        changed = [name for name in {**earlier, **stages} if earlier.get(name) != stages.get(name)]
        for name in changed:  # recorded first, so that a kill from here on leaves nothing foreign
            both = [all_of[name] for all_of in (earlier, stages) if name in all_of]
            files = {file for stage in both for file in stage.get("files", ())}
            outputs = [output for stage in both for output in stage["outputs"]]
            stages[name] = _unfinished(files, outputs)
        self.done = [name for name in stages if name not in changed]
        self._refuse_foreign([])
        self.record.write()
        kept = _all_outputs(earlier)
        for output in self._to_replace([]):
            if (self.earlier / output).exists() or output not in kept:
                _remove(self.dest / output)
        for output in kept:
            if (self.earlier / output).exists():
                _move(self.earlier / output, self.dest / output)
        self.record.stages = earlier
        self.record.write()
        self._forget_earlier()

    def _forget_earlier(self):
        if self.earlier.exists():
            work = self._working_folder()
            self.earlier.rename(work / EARLIER)  # at once: a kill leaves all of it or a leftover
            _discard(work)

    def _refuse_foreign(self, outputs):
        """Refuse to go on if what is to be replaced holds something that no stage made."""
        ours = set().union(*map(self._made_by, self.record.stages))
        for output in self._to_replace(outputs):
            self._refuse_links(output)
            for file in _files(self.dest, output):
                if file not in ours:
                    raise UsageError(
                        f"{self.dest / file} would be replaced, but no preparation made it: move "
                        "it away, or give another --dest"
                    )

    def _to_replace(self, outputs):
        """These outputs, and what stages from here on have made of others."""
        stages = self.record.stages
        stale = {old for name in stages if name not in self.done for old in stages[name]["outputs"]}
        return sorted(stale.union(outputs))

    def _refuse_links(self, output):
        path = self.dest / output
        for part in (path, *path.parents[: len(Path(output).parts) - 1]):
            if part.is_symlink():
                raise UsageError(
                    f"{part} is a link, which no preparation makes: remove it, or give another "
                    "--dest"
                )

    def _made_by(self, name):
        """The files that a stage made."""
        stage = self.record.stages[name]
        if "files" in stage:
            return set(stage["files"])
        # An older record names no files: what else is in a folder of its cannot be told.
        known = [
            output
            for output, state in stage["outputs"].items()
            if not (self.dest / output).is_dir() or _state(self.dest / output) == state
        ]
        return {file for output in known for file in _files(self.dest, output)}

    def _working_folder(self):
        """Return a new folder: what a killed run left behind may still be writing to its own."""
        for old in self.dest.glob(f"{WORK}*/{OURS}"):
            with suppress(OSError):
                _discard(old.parent)
        work = Path(tempfile.mkdtemp(prefix=WORK, dir=self.dest))
        (work / OURS).touch()
        return work

    def _is_same(self, earlier, settings, outputs):
        if earlier["settings"] is None:
            return False
        if settings["source"] is None:
            settings = {**settings, "source": earlier["settings"].get("source")}
        return earlier["settings"] == settings and earlier["outputs"] == self._states(outputs)

    def _states(self, outputs):
        return {str(output): _state(self.dest / output) for output in outputs}


def _unfinished(files, outputs):
    """What is recorded of a stage while its outputs are on their way."""
    return {"settings": None, "outputs": dict.fromkeys(map(str, outputs)), "files": sorted(files)}


def _files(folder, output):
    """The files of an output, relative to ``folder``; links and all else count as files."""
    path = folder / output
    if path.is_symlink() or path.exists() and not path.is_dir():
        yield Path(output).as_posix()
    for parent, folders, files in os.walk(path):
        links = [name for name in folders if os.path.islink(os.path.join(parent, name))]
        for name in (*files, *links):
            yield Path(parent, name).relative_to(folder).as_posix()


def _state(path):
    """The names and sizes of a file, or of the files of a folder; None where there is nothing.

    Not their times: a folder that was copied is still good.
    """
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
    elif path.exists():
        files = [path]
    else:
        return None
    digest = hashlib.sha256()
    for file in files:
        name = file.relative_to(path).as_posix()
        digest.update(f"{name} {file.stat().st_size}\n".encode())
    return digest.hexdigest()


def _all_outputs(stages):
    return [output for stage in stages.values() for output in stage["outputs"]]


def _move(path, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    path.rename(target)


def _discard(work):
    """Remove a working folder, its mark last."""
    for path in work.iterdir():
        if path.name != OURS:
            _remove(path)
    shutil.rmtree(work)


def _remove(path):
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
