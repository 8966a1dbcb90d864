"""Data sets as they are published: in a file or in several, in one way or in several."""

from itertools import chain
from pathlib import Path

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.progress import say
from fairseq_posattn.preparation.archives import Archive, open_archive
from fairseq_posattn.preparation.download import fetch


def obtain(source, options):
    """The archive that ``--source`` names or holds, or else a download beside what is made of it.

    Raises:
        UsageError: as :func:`obtain_any`.
    """
    return obtain_any(((source,),), options.source, options.dest / "download")


def obtain_any(alternatives, given, folder):
    """The archive of a data set, from the first of some ways that works.

    Args:
        alternatives: tuples of sources; each tuple is the whole data set.
        given: a file or folder of the user's, or None: download it. A folder may hold the published
            files, or what they unpack to.
        folder: where downloads go.

    Raises:
        UsageError: ``given`` is not there, or nothing can be downloaded.
    """
    if given is not None:
        given = Path(given)
        for sources in alternatives:
            paths = [given / source.name for source in sources]
            if all(path.is_file() for path in paths):
                return _together(given, paths)
        return open_archive(given)
    failures = []
    for sources in alternatives:
        try:
            return _together(folder, [fetch(source, folder) for source in sources])
        except UsageError as failure:
            failures.append(str(failure))
            if len(failures) < len(alternatives):
                say(failures[-1])
    raise UsageError("; or else ".join(failures))


class Together(Archive):
    """Several archives as one."""

    def __init__(self, name, archives):
        super().__init__(name)
        self.archives = archives

    def names(self):
        return [name for archive in self.archives for name in archive.names()]

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


def _together(folder, paths):
    archives = [open_archive(path) for path in paths]
    return archives[0] if len(archives) == 1 else Together(str(folder), archives)
