"""Downloads that go on where they broke off, from the first mirror that serves the right file."""

import hashlib
import http.client
import re
import ssl
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from fairseq_posattn.errors import UsageError
from fairseq_posattn.preparation.pipeline.archives import (
    Archive,
    SingleFile,
    check_archive,
    open_archive,
)
from fairseq_posattn.preparation.pipeline.progress import Progress, say

ATTEMPTS = 4  # in a row that bring nothing new, of one mirror
TIMEOUT = 60  # seconds without a byte
BLOCK = 1 << 18
BROKEN_OFF = (ConnectionError, TimeoutError, ssl.SSLError, http.client.HTTPException)
USER_AGENT = "fairseq-posattn"  # some servers turn away the one that urllib sends


@dataclass(frozen=True)
class Source:
    """A published file.

    Attributes:
        name: what it is called here.
        urls: where it can be had, in the order to try them.
        sha256: of the file, where its publisher says it.
        is_archive: a tar, zip or compressed file, which shows by itself whether it is whole. Of
            any other file, one that turns out to be a web page is refused.
    """

    name: str
    urls: tuple
    sha256: str | None = None
    is_archive: bool = True


class Unavailable(Exception):
    """A mirror that does not have the file."""


def obtain(source, given, folder) -> Archive:
    """The archive that a user gave, or else a download.

    Args:
        source: the published file.
        given: the file; or a folder that holds it, or what it unpacks to; or None: download it.
        folder: where downloads go.

    Raises:
        UsageError: it is not there, or cannot be downloaded.
    """
    if given is None:
        return open_archive(fetch(source, folder))
    given = Path(given)
    inside = given / source.name
    return open_archive(inside if inside.is_file() else given)


def fetch(source, folder, pause=1.0) -> Path:
    """Download ``source`` to ``folder / source.name``, unless it is there already.

    Args:
        pause: seconds to wait after the first failed attempt, twice as long after the next.

    Raises:
        UsageError: no mirror serves it; says what to fetch by hand and where to put it.
    """
    folder = Path(folder)
    path = folder / source.name
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    failures = []
    for url in source.urls:
        mark = hashlib.sha256(url.encode()).hexdigest()[:8]
        part = folder / f".{source.name}.{mark}.part"
        say(f"downloading {url}")
        try:
            _fetch_from(url, part, source, pause)
        except Unavailable as failure:
            failures.append(f"{url}: {failure}")
            say(f"{url}: {failure}")
            continue
        part.replace(path)
        for other in folder.glob(f".{source.name}.*.part"):
            other.unlink()
        return path
    raise UsageError(
        f"{source.name} could not be downloaded ({'; '.join(failures)}): "
        f"fetch it by hand and put it at {path}, or name it with --source"
    )


def _fetch_from(url, part, source, pause):
    """Fill ``part`` with the right file, going on where an earlier attempt broke off.

    Raises:
        Unavailable: this mirror does not have it.
    """
    fruitless = 0
    while True:
        before = _size(part)
        problem = _attempt(url, part, source.name)
        if problem is None:
            break
        fruitless = 0 if _size(part) > before else fruitless + 1
        if fruitless == ATTEMPTS:
            break  # a server may promise more than there is: what came may be whole
        say(f"{url}: {problem}; trying again")
        time.sleep(pause * 2**fruitless)
    wrong = _what_is_wrong(part, source)
    if wrong and problem is None:
        part.unlink(missing_ok=True)  # nothing to go on from
    if wrong:
        raise Unavailable(problem or wrong)


def _attempt(url, part, title):
    """Ask for what ``part`` lacks and append it.

    Returns:
        None where the server says that this is all, or else what went wrong.

    Raises:
        Unavailable: there is no use in asking again.
    """
    start = _size(part)
    request = urllib.request.Request(url, headers={"User-Agent": USER_AGENT})
    if start:
        request.add_header("Range", f"bytes={start}-")
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
            start = start if _first_byte(answer) == start else 0
            promised = answer.headers.get("Content-Length")
            total = start + int(promised) if promised and promised.isdigit() else None
            with (
                open(part, "ab" if start else "wb") as file,
                Progress(title, "bytes", total, start) as progress,
            ):
                while block := answer.read(BLOCK):
                    file.write(block)
                    progress.add(len(block))
    except urllib.error.HTTPError as error:
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            return None  # there is no more than this
        if error.code < 500 and error.code != http.HTTPStatus.TOO_MANY_REQUESTS:
            raise Unavailable(f"{error.code} {error.reason}") from None
        return f"{error.code} {error.reason}"
    except urllib.error.URLError as error:
        return str(error.reason)
    except BROKEN_OFF as error:
        return str(error) or type(error).__name__
    if total is not None and _size(part) < total:
        return f"broke off after {_size(part):,} of {total:,} bytes"
    return None


def _first_byte(answer):
    """Which byte of the file an answer begins with."""
    if answer.status != http.HTTPStatus.PARTIAL_CONTENT:
        return 0
    told = re.match(r"bytes (\d+)-", answer.headers.get("Content-Range", ""))
    return int(told[1]) if told else 0


def _what_is_wrong(path, source):
    """Why a file cannot be the one that is wanted, or None."""
    if not _size(path):
        return "the file is empty"
    if source.sha256:
        digest = _sha256(path)
        return None if digest == source.sha256 else f"wrong file: its sha256 is {digest}"
    with open(path, "rb") as file:
        start = file.read(512).lstrip().lower()
    if start.startswith((b"<!doctype", b"<html")):
        return "a web page instead of the file"
    if source.is_archive:
        say(f"checking {source.name}")
        try:
            archive = open_archive(path)
            if isinstance(archive, SingleFile) and not archive.is_compressed:
                return "not an archive"
            check_archive(path)
        except UsageError:
            return "wrong or damaged file"
    return None


def _sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _size(path):
    return path.stat().st_size if path.exists() else 0
