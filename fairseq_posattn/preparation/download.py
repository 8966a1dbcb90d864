"""Downloads that go on where they broke off, from the first mirror that serves the right file."""

import hashlib
import http.client
import json
import os
import re
import time
import urllib.error
from dataclasses import asdict, dataclass
from pathlib import Path

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.locking import locked
from fairseq_posattn.common.progress import Progress, say
from fairseq_posattn.preparation.archives import SingleFile, check_archive, open_archive
from fairseq_posattn.preparation.http import BROKEN_OFF, TooSlow, Unavailable, ask, is_safe

ATTEMPTS = 4  # in a row that bring nothing new, of one mirror
LARGEST = 1 << 33  # bytes; the largest file that is fetched here has a quarter of that
BLOCK = 1 << 18
RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)", re.ASCII)


@dataclass(frozen=True)
class Source:
    """A published file.

    Attributes:
        name: what it is called here.
        urls: where it can be had, in the order to try them.
        sha256: of the file, where its publisher says it; without it, addresses are https only.
        is_archive: a tar, zip or compressed file, which shows by itself whether it is whole. Of
            any other file, one that turns out to be a web page is refused.
    """

    name: str
    urls: tuple
    sha256: str | None = None
    is_archive: bool = True

    def __post_init__(self):
        for url in self.urls:
            if not is_safe(url, bool(self.sha256)):
                raise ValueError(f"{url}: must be https, or have a SHA-256")


def fetch(source, folder, pause=1.0) -> Path:
    """Download ``source`` to ``folder / source.name``, unless it is there already.

    Another process that wants the same file waits for it.

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
    with locked(folder / f".{source.name}.lock", path):
        if not path.exists():
            _fetch_from_any(source, path, pause)
    return path


def _fetch_from_any(source, path, pause):
    failures = []
    for url in source.urls:
        mark = hashlib.sha256(url.encode()).hexdigest()[:8]
        part = Part(path.with_name(f".{source.name}.{mark}.part"))
        say(f"downloading {url}")
        try:
            _fetch_from(url, part, source, pause)
        except Unavailable as failure:
            failures.append(f"{url}: {_line(failure)}")
            say(failures[-1])
            continue
        part.path.replace(path)
        for other in path.parent.glob(f".{source.name}.*.part*"):
            other.unlink()
        return
    raise UsageError(
        f"{source.name} could not be downloaded ({'; '.join(failures)}): "
        f"fetch it by hand and put it at {path}, or name it with --source"
    )


class Part:
    """What has come of a file so far, and from which state of the file it came.

    Attributes:
        path: of what has come.
        version: what the server told of the file.
    """

    def __init__(self, path):
        self.path = path
        self.told = path.with_name(f"{path.name}.json")
        self.version = self._read_version()

    def size(self):
        return self.path.lstat().st_size if os.path.lexists(self.path) else 0

    def forget(self):
        for path in (self.told, self.path):
            path.unlink(missing_ok=True)
        self.version = Version()

    def begin(self, version):
        """Keep nothing of what came before."""
        self.forget()
        self.version = version
        self.told.write_text(json.dumps(asdict(version)), encoding="utf-8")

    def open(self):
        """To append to; never what a link leads to."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        return open(os.open(self.path, flags, 0o666), "ab")

    def _read_version(self):
        try:
            return Version(**json.loads(self.told.read_bytes()))
        except (OSError, ValueError, TypeError, RecursionError):
            self.forget()  # it came from nobody knows where
            return Version()


@dataclass(frozen=True)
class Version:
    """Which state of a file a server serves.

    Attributes:
        tag: the server's ``ETag``, if it is a strong one, or ``Last-Modified``.
        total: bytes of the file, where that is known.
    """

    tag: str | None = None
    total: int | None = None


def _fetch_from(url, part, source, pause):
    """Fill ``part`` with the right file, going on where an earlier attempt broke off.

    Raises:
        Unavailable: this mirror does not have it.
    """
    fruitless = 0
    while True:
        before = part.size()
        problem, is_slow = None, False
        try:
            problem = _attempt(url, part, source)
        except TooSlow as error:
            problem, is_slow = str(error), True
        except (*BROKEN_OFF, urllib.error.URLError) as error:
            problem = str(getattr(error, "reason", "") or error) or type(error).__name__
        if problem is None:
            break
        fruitless = 0 if part.size() > before and not is_slow else fruitless + 1
        if fruitless == ATTEMPTS:
            break  # a server may promise more than there is: what came may be whole
        say(f"{url}: {_line(problem)}; trying again")
        time.sleep(pause * 2**fruitless)
    wrong = _what_is_wrong(part.path, source)
    if wrong and problem is None:
        part.forget()  # nothing to go on from
    if wrong:
        raise Unavailable(problem or wrong)


def _attempt(url, part, source):
    """Ask for what ``part`` lacks and append it.

    Returns:
        None where the server says that this is all, or else what went wrong.

    Raises:
        Unavailable: there is no use in asking again.
    """
    headers = _headers_to_go_on(part, source)
    if not headers:
        part.forget()
    start = part.size()
    try:
        with ask(url, headers) as answer:
            version = _version(answer)
            if answer.status == http.HTTPStatus.PARTIAL_CONTENT:
                if not headers:
                    raise Unavailable("it sends a part that was not asked for")
                if wrong := _wrong_part(answer, version, part):
                    part.forget()
                    return wrong
            elif answer.status == http.HTTPStatus.OK:
                start = 0
                part.begin(version)
            else:
                raise Unavailable(f"{answer.status} {answer.reason}")
            _append(answer, part, source.name, start)
    except urllib.error.HTTPError as error:
        return _refusal(error, part)
    if part.version.total is not None and part.size() < part.version.total:
        return f"broke off after {part.size():,} of {part.version.total:,} bytes"
    return None


def _headers_to_go_on(part, source):
    """What asks for the rest of the file; nothing, where the rest may be that of another file."""
    if not part.size() or not (part.version.tag or source.sha256):
        return {}
    condition = {"If-Range": part.version.tag} if part.version.tag else {}
    return {"Range": f"bytes={part.size()}-", **condition}


def _append(answer, part, title, start):
    total = part.version.total
    if (total or 0) > LARGEST:
        raise Unavailable(f"it has {total:,} bytes, more than {LARGEST:,}")
    with part.open() as file, Progress(title, "bytes", total, start) as progress:
        while block := answer.read1(BLOCK):
            file.write(block)
            progress.add(len(block))
            if progress.count > LARGEST:
                raise Unavailable(f"it goes on after {LARGEST:,} bytes")


def _version(answer):
    """Which state of the file an answer is of, or a part of."""
    tag = answer.headers.get("ETag", "")
    if not tag.startswith('"'):  # a weak one does not tell files apart
        tag = answer.headers.get("Last-Modified")
    told = RANGE.fullmatch(answer.headers.get("Content-Range", ""))
    total = told[3] if told else answer.headers.get("Content-Length", "")
    is_number = total.isascii() and total.isdecimal() and len(total) <= 18
    return Version(tag, int(total) if is_number else None)


def _wrong_part(answer, version, part):
    """Why the part that a server sends is not the rest of the file, or None."""
    told = RANGE.fullmatch(answer.headers.get("Content-Range", ""))
    if not told or int(told[1]) != part.size():
        return "it sent another part than was asked for"
    if version.tag != part.version.tag and version.tag and part.version.tag:
        return "the file has changed"
    if version.total != part.version.total and None not in (version.total, part.version.total):
        return "the file has another size than before"
    return None


def _refusal(error, part):
    """What an answer that is none means; see :func:`_attempt`."""
    with error:
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and part.size():
            return None  # there is no more than this
        if error.code < 500 and error.code != http.HTTPStatus.TOO_MANY_REQUESTS:
            raise Unavailable(f"{error.code} {error.reason}") from None
        return f"{error.code} {error.reason}"


def _what_is_wrong(path, source):
    """Why a file cannot be the one that is wanted, or None."""
    if not path.is_file() or not path.stat().st_size:
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


def _line(told):
    """What a server says, as one line that does nothing to a terminal."""
    line = str(told).partition("\n")[0][:200]
    return "".join(letter if letter.isprintable() else " " for letter in line)
