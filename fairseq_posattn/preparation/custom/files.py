"""The user's text files, compressed or not."""

from contextlib import contextmanager

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.archives import SingleFile, open_archive
from fairseq_posattn.text.lines import read_lines


@contextmanager
def opened(path):
    """``(name without .gz and the like, lines)`` of one file in UTF-8.

    Raises:
        UsageError: it is not there, or is not one file of text.
    """
    archive = _file(path)
    with archive.open_only() as stream:
        yield archive.names()[0], read_lines(stream, path)


class Files:
    """Files that belong together, which are known to have changed when their fingerprint has.

    Raises:
        UsageError: one is not there, or is not one file of text.
    """

    def __init__(self, paths):
        self.files = [_file(path) for path in paths]

    def fingerprint(self):
        return " ".join(file.fingerprint() for file in self.files)


def _file(path):
    archive = open_archive(path)
    if not isinstance(archive, SingleFile):
        raise UsageError(f"{path}: not one file of text; unpack it and name the file")
    return archive
