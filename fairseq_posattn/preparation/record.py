"""``.stages.json``: which stages filled a folder, and which of its files they made."""

import json
from pathlib import Path, PurePosixPath

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import write_json

NAME = ".stages.json"


class Record:
    """The record of a folder, which may come from anybody.

    Attributes:
        stages: by name, ``settings`` (None: not finished, or out of date), ``outputs`` with the
            state of each, and ``files``, all paths relative to the folder; older records have no
            ``files``.

    Raises:
        UsageError: it is not a record, or names a path that leaves the folder.
    """

    def __init__(self, folder):
        self.path = Path(folder) / NAME
        self.stages = {}
        if self.path.is_symlink():
            raise UsageError(f"{self.path} is a link, which no preparation makes: remove it")
        try:
            self.stages = json.loads(self.path.read_bytes())
        except FileNotFoundError:
            return
        except (ValueError, RecursionError):
            raise self._refused("it is not in JSON format") from None
        if wrong := _what_is_wrong(self.stages):
            raise self._refused(wrong)

    def write(self):
        write_json(self.path, self.stages, indent=1)

    def _refused(self, reason):
        return UsageError(
            f"{self.path}: no record of a preparation ({reason}): remove it, or give another --dest"
        )


def _what_is_wrong(stages):
    """Why something is no record, or None."""
    if not isinstance(stages, dict):
        return "it holds no stages"
    for name, stage in stages.items():
        if not isinstance(stage, dict) or not isinstance(stage.get("outputs"), dict):
            return f"stage {name!r} has no outputs"
        if not isinstance(stage.get("settings"), dict | None):
            return f"stage {name!r} has no settings"
        files = stage.get("files", [])
        if not isinstance(files, list):
            return f"stage {name!r} has no files"
        for path in (*stage["outputs"], *files):
            if not _stays_inside(path):
                return f"stage {name!r} has an output {path!r}"
    return None


def _stays_inside(path):
    if not isinstance(path, str) or "\0" in path:
        return False
    pure = PurePosixPath(path)
    return not pure.is_absolute() and ".." not in pure.parts and pure.parts != ()
