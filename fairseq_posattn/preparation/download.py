"""Published files: found in the user's folder, or downloaded from the first mirror that works.

published.yaml describes them and the data sets made of them. Downloads resume where they broke off.
"""

import hashlib
import http.client
import ssl
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from fairseq_posattn.common.errors import UsageError, shown
from fairseq_posattn.common.files import locked, read_table
from fairseq_posattn.common.progress import Progress, say
from fairseq_posattn.preparation.archives import Archive, SingleFile, joined, open_archive

ATTEMPTS = 4  # per mirror, in a row, that bring nothing new
PATIENCE = 60.0  # seconds without a byte
ARCHIVES = (".gz", ".tgz", ".zip")
USER_AGENT = "fairseq-posattn"  # some servers refuse urllib's
CHECKSUM = "sha256:"
BROKEN_OFF = (ConnectionError, TimeoutError, ssl.SSLError, URLError, HTTPException)


class Unavailable(Exception):
    """A mirror does not have the file, or must not be used."""


@dataclass(frozen=True)
class Source:
    """A published file, from the first of ``urls`` that works; all https, or with a checksum."""

    name: str
    urls: tuple[str, ...]
    sha256: str | None = None


def _source(name: str, entry: str) -> Source:
    urls = [word for word in entry.split() if not word.startswith(CHECKSUM)]
    digests = [word.removeprefix(CHECKSUM) for word in entry.split() if word.startswith(CHECKSUM)]
    whole = tuple(f"{url}{name}" if url.endswith("/") else url for url in urls)
    return Source(name, whole, *digests)


TABLES: dict[str, dict[str, Any]] = read_table(Path(__file__).with_name("published.yaml"))
FILES = {name: _source(name, entry) for name, entry in TABLES["files"].items()}


def obtain_any(
    alternatives: Sequence[Sequence[Source]], local: Path | None, folder: Path
) -> Archive:
    """Return the archive of a data set, from the first alternative (sources) that works.

    ``local`` is the user's file or folder; None: download to ``folder``.
    """
    if local is not None:
        for sources in alternatives:
            paths = [Path(local, source.name) for source in sources]
            if all(path.is_file() for path in paths):
                return joined(local, paths)
        return open_archive(local)
    failures: list[str] = []
    there = [all(Path(folder, source.name).exists() for source in files) for files in alternatives]
    for _, sources in sorted(zip(there, alternatives, strict=True), key=lambda pair: not pair[0]):
        try:
            return joined(folder, [fetch(source, folder) for source in sources])
        except UsageError as failure:
            failures.append(str(failure))
            if len(failures) < len(alternatives):
                say(failures[-1])
    raise UsageError("; or else ".join(failures))


def fetch(source: Source, folder: Path, pause: float = 1.0) -> Path:
    """Download a source, unless it is there; ``pause`` seconds double after failed attempts."""
    path, failures = Path(folder, source.name), []
    if path.exists():
        return path
    with locked(path.with_name(f".{source.name}.lock"), path):
        for url in source.urls:
            if path.exists():
                break
            say(f"downloading {url}")
            part = path.with_name(f".{source.name}.part")
            try:
                _fetch_from(url, part, source, pause)
                part.replace(path)
            except Unavailable as failure:
                failures.append(f"{url}: {shown(str(failure))[:200]}")
                say(failures[-1])
    if not path.exists():
        raise UsageError(
            f"{source.name} could not be downloaded ({'; '.join(failures)}): "
            f"fetch it by hand and put it at {path}, or name it with --source"
        )
    return path


def _fetch_from(url: str, part: Path, source: Source, pause: float) -> None:
    """Fill the file ``part``; raise :exc:`Unavailable` if this mirror does not serve the file."""
    fruitless = largest = 0
    while True:
        before = part.stat().st_size if part.exists() else 0
        largest = max(largest, before)
        try:
            _request(url, part, before, source.name)
            fault = _find_fault(part, source)
            if not fault:
                return
            part.unlink()
            if not before:
                raise Unavailable(fault)
            problem = f"{fault}, perhaps of two versions"  # fetched again from the start
        except BROKEN_OFF as error:
            problem = str(getattr(error, "reason", "") or error) or type(error).__name__
        # Progress is more than at any time before: some servers start again for ever.
        fruitless = 0 if part.exists() and part.stat().st_size > largest else fruitless + 1
        if fruitless == ATTEMPTS:
            raise Unavailable(problem)
        say(f"{url}: {shown(problem)[:200]}; trying again")
        time.sleep(pause * 2**fruitless)


def _request(url: str, part: Path, size: int, title: str) -> None:
    """Append the bytes from ``size`` on; ConnectionError: ask again."""
    headers = {"User-Agent": USER_AGENT} | ({"Range": f"bytes={size}-"} if size else {})
    request = urllib.request.Request(url, headers=headers)
    try:
        answer = urllib.request.build_opener(_Redirects).open(request, timeout=PATIENCE)
    except HTTPError as error:
        if error.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and size:
            return  # nothing is missing
        is_permanent = error.code < 500 and error.code != HTTPStatus.TOO_MANY_REQUESTS
        kind = Unavailable if is_permanent else ConnectionError
        raise kind(f"{error.code} {error.reason}") from None
    except ValueError as error:  # a redirect to what is no address
        raise Unavailable(str(error)) from None
    with answer:
        begin = answer.headers.get("Content-Range", "").startswith(f"bytes {size}-")
        if answer.status != HTTPStatus.PARTIAL_CONTENT or not begin:
            size = 0  # the server sends all
        total = None if answer.length is None else size + answer.length
        with (
            open(part, "ab" if size else "wb") as file,
            Progress(title, "bytes", total, size) as progress,
        ):
            while block := answer.read1(1 << 18):
                file.write(block)
                progress.add(len(block))
    if total is not None and progress.count < total:
        raise ConnectionError(f"broke off after {progress.count:,} of {total:,} bytes")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Redirects that stay on https, or on http where the checksum is known."""

    def redirect_request(
        self,
        request: urllib.request.Request,
        answer: IO[bytes],
        code: int,
        message: str,
        headers: http.client.HTTPMessage,
        url: str,
    ) -> urllib.request.Request | None:
        before, after = urlsplit(request.full_url).scheme, urlsplit(url).scheme
        if after not in ("https", before):
            raise Unavailable(f"it redirects from {before} to {url}, which is not followed")
        return super().redirect_request(request, answer, code, message, headers, url)


def _find_fault(path: Path, source: Source) -> str | None:
    """Return why a file cannot be the published one, or None."""
    with open(path, "rb") as file:
        if source.sha256:
            digest = hashlib.sha256()
            while block := file.read(1 << 20):
                digest.update(block)
            is_right = digest.hexdigest() == source.sha256
            return None if is_right else f"wrong file: its sha256 is {digest.hexdigest()}"
        if file.read(512).lstrip().lower().startswith((b"<!doctype", b"<html")):
            return "a web page instead of the file"
    if source.name.endswith(ARCHIVES):
        say(f"checking {source.name}")
        try:
            archive = open_archive(path)
            if isinstance(archive, SingleFile) and not archive.is_compressed:
                return "not an archive"
            for _, stream in archive.members():
                while stream.read(1 << 20):
                    pass
        except UsageError:
            return "wrong or damaged file"
    return None
