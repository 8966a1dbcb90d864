"""Data sets as they are published: in one file or several, at one place or several."""

from itertools import chain
from pathlib import Path

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.progress import say
from fairseq_posattn.preparation.archives import Archive, open_archive
from fairseq_posattn.preparation.download import fetch


def obtain(source, options):
    """Return the archive that ``--source`` names or holds, or a download into ``--dest``.

    Raises:
        UsageError: as :func:`obtain_any`.
    """
    return obtain_any(((source,),), options.source, options.dest / "download")


def obtain_any(alternatives, given, folder):
    """Return the archive of a data set, from the first alternative that works.

    Args:
        alternatives: tuples of sources; each tuple is the whole data set.
        given: the user's file or folder, or None for a download. A folder may hold the published
            files, or what they unpack to.
        folder: folder of the downloads.

    Raises:
        UsageError: ``given`` does not exist, or every download fails.
    """
    if given is not None:
        given = Path(given)
        for sources in alternatives:
            paths = [given / source.name for source in sources]
            if all(path.is_file() for path in paths):
                return _join(given, paths)
        return open_archive(given)
    failures = []
    for sources in alternatives:
        try:
            return _join(folder, [fetch(source, folder) for source in sources])
        except UsageError as failure:
            failures.append(str(failure))
            if len(failures) < len(alternatives):
                say(failures[-1])
    raise UsageError("; or else ".join(failures))


class Archives(Archive):
    """Several archives as one."""

    def __init__(self, folder, archives):
        super().__init__(folder)
        self.archives = archives

    def members(self):
        return chain.from_iterable(archive.members() for archive in self.archives)

    def open(self, member):
        return self._holding(member).open(member)

    def label(self, member):
        return self._holding(member).label(member)

    def fingerprint(self, *members):
        return " ".join(archive.fingerprint() for archive in self.archives)

    def _holding(self, member):
        for archive in self.archives:
            if archive.has(member):
                return archive
        raise self._missing(member)


def _join(folder, paths):
    archives = [open_archive(path) for path in paths]
    return archives[0] if len(archives) == 1 else Archives(folder, archives)
