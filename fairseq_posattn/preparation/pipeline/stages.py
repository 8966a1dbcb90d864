"""Stages of a preparation, each done once: what is finished stays, what is not is redone whole."""

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path

from fairseq_posattn.errors import UsageError
from fairseq_posattn.files import writing
from fairseq_posattn.preparation.pipeline.progress import say

RECORD = ".stages.json"
WORK = ".unfinished-"


class Stages:
    """The stages that fill a folder, in the order in which they are run.

    A stage writes into a working folder of its own; when it is finished, what it wrote moves to the
    destination and is recorded. So a run that is stopped anywhere, and started again, ends with
    the same files as one that was not; and a stage that fails leaves what was there before.

    Args:
        dest: the folder.
        limit: lines of a quick look, or None for all; a part does not replace the whole.
        force: do everything again.

    Raises:
        UsageError: ``dest`` holds the whole data set and ``limit`` asks for a part of it.
    """

    def __init__(self, dest, limit=None, force=False):
        self.dest = Path(dest)
        self.limit = limit
        self.redo = force
        self.done = []  # names of the stages so far
        self.record = self._read_record()
        whole = any(entry["settings"].get("limit") is None for entry in self.record.values())
        if limit is not None and whole and not force:
            raise UsageError(
                f"{self.dest} holds the whole data set, which --limit {limit} would replace: "
                "give another --dest, or --force"
            )

    @contextmanager
    def locked(self):
        """Hold the destination: a second run waits until the first one ends."""
        self.dest.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.dest, os.O_RDONLY)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say(f"waiting for the run that is at work on {self.dest}")
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            except OSError:
                pass  # some network file systems know no locks
            self.record = self._read_record()
            yield self
        finally:
            os.close(descriptor)

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
        """
        settings = json.loads(json.dumps({"limit": self.limit, "source": source, **settings}))
        earlier = self.record.get(name)
        if not self.redo and earlier and self._is_same(earlier, settings, outputs):
            say(f"{name}: done already")
            self.done.append(name)
            return
        self.redo = True  # and so all after it
        work = self._working_folder()
        for output in outputs:
            (work / output).parent.mkdir(parents=True, exist_ok=True)
        function(work)
        self._forget_later_stages()
        for output in outputs:
            _move(work / output, self.dest / output)
        shutil.rmtree(work)
        self.record[name] = {"settings": settings, "outputs": self._states(outputs)}
        self._write_record()
        self.done.append(name)

    def _working_folder(self):
        """A new folder: what a killed run left behind may still be writing to its own."""
        for old in self.dest.glob(f"{WORK}*"):
            shutil.rmtree(old, ignore_errors=True)
        return Path(tempfile.mkdtemp(prefix=WORK, dir=self.dest))

    def _is_same(self, earlier, settings, outputs):
        if settings["source"] is None:
            settings = {**settings, "source": earlier["settings"].get("source")}
        return earlier["settings"] == settings and earlier["outputs"] == self._states(outputs)

    def _forget_later_stages(self):
        """Drop what was made from the outputs that are about to be replaced."""
        later = [name for name in self.record if name not in self.done]
        stale = [output for name in later for output in self.record.pop(name)["outputs"]]
        self._write_record()
        for output in stale:
            _remove(self.dest / output)

    def _states(self, outputs):
        return {str(output): _state(self.dest / output) for output in outputs}

    def _read_record(self):
        try:
            return json.loads((self.dest / RECORD).read_text(encoding="utf-8"))
        except (FileNotFoundError, json.JSONDecodeError):
            return {}

    def _write_record(self):
        with writing(self.dest / RECORD) as file:
            json.dump(self.record, file, indent=1)


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


def _move(source, target):
    _remove(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    source.rename(target)


def _remove(path):
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
