"""Downloads from a server that breaks off, lies, or serves another file; several sources."""

import hashlib
import random
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from archive_files import gzipped, tarred, write_archive, write_folder
from download_server import EVER, Server

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation import download as downloads
from fairseq_posattn.preparation.download import Source, fetch, obtain_any

# Random, so that it stays long when it is compressed.
TEXT = random.Random(1).randbytes(30_000)
ARCHIVE = tarred({"folder/text": TEXT}, "gz")
CHANGED = tarred({"folder/text": random.Random(2).randbytes(30_000)}, "gz")


@pytest.fixture(autouse=True)
def direct(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")


def download(server, folder, *names, content=None):
    sha256 = hashlib.sha256(content).hexdigest() if content else None
    urls = tuple(server.url(name) for name in names or ["text.tgz"])
    return fetch(Source("text.tgz", urls, sha256), folder, pause=0)


def failure(server, folder, *names, **options):
    with pytest.raises(UsageError) as caught:
        download(server, folder, *names, **options)
    assert not (folder / "text.tgz").exists()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def left_in(folder):
    return [path.name for path in folder.iterdir() if path.suffix != ".lock"]


@pytest.fixture
def serve():
    """Return a function that starts a server of text.tgz."""
    with ExitStack() as stack:

        def start(**misdeeds):
            misdeeds = {name.replace("_", "."): todo for name, todo in misdeeds.items()}
            server = stack.enter_context(Server(**misdeeds))
            server.files["text.tgz"] = ARCHIVE
            return server

        yield start


HALF = len(ARCHIVE) // 2


@pytest.mark.parametrize(
    ("misdeeds", "requested"),
    [
        (["break", "break"], [0, HALF, HALF + (len(ARCHIVE) - HALF) // 2]),
        (["break", "whole"], [0, HALF]),  # the server sends all of it
        (["break", "again"], [0, HALF]),
        (["overstate"], [0, len(ARCHIVE)]),  # longer than the file is
    ],
)
def test_broken_downloads_resume(serve, tmp_path, misdeeds, requested):
    server = serve(text_tgz=misdeeds)
    assert download(server, tmp_path).read_bytes() == ARCHIVE
    assert [first for _, first in server.requests] == requested
    assert left_in(tmp_path) == ["text.tgz"]


@pytest.mark.parametrize(
    ("second", "requested"), [(ARCHIVE, [HALF]), (CHANGED, [HALF, 0])], ids=["same", "changed"]
)
def test_a_second_run_resumes_but_never_joins_two_versions(serve, tmp_path, second, requested):
    server = serve(text_tgz=["break", 503, 503, 503, 503])
    assert "503" in failure(server, tmp_path)
    server.files["text.tgz"] = second
    for _ in range(2):
        assert download(server, tmp_path).read_bytes() == second
    assert [first for _, first in server.requests[5:]] == requested
    assert left_in(tmp_path) == ["text.tgz"]


@pytest.mark.parametrize(
    ("served", "published", "complaint"),
    [
        (b"<!DOCTYPE html>\n<html>Sign in</html>", None, "a web page instead of the file"),
        (b"plain text\n" * 100, None, "not an archive"),
        (ARCHIVE[:-100], None, "wrong or damaged file"),
        (gzipped(tarred({"text": TEXT})[:20_000]), None, "wrong or damaged file"),
        (CHANGED, ARCHIVE, f"its sha256 is {hashlib.sha256(CHANGED).hexdigest()}"),
    ],
    ids=["web page", "plain text", "gzip cut off", "tar cut off", "checksum"],
)
def test_wrong_files_are_refused(serve, tmp_path, served, published, complaint):
    server = serve()
    server.files["first"] = served
    assert complaint in failure(server, tmp_path, "first", content=published)
    assert len(server.requests) == 1 and not left_in(tmp_path)
    path = download(server, tmp_path, "first", "text.tgz", content=published)
    assert path.read_bytes() == ARCHIVE


@pytest.mark.parametrize("misdeeds", [["break", 416], ["break", "whole", "break"]])
def test_a_server_that_starts_again_for_ever_is_left(serve, tmp_path, misdeeds):
    server = serve(first=misdeeds * 20)
    server.files["first"] = ARCHIVE[:-100] if "whole" in misdeeds else ARCHIVE
    assert download(server, tmp_path, "first", "text.tgz").read_bytes() == ARCHIVE
    assert len(server.requests) < 12


def test_a_redirect_to_what_is_no_address_ends_one_mirror_only(serve, tmp_path, capsys):
    server = serve(first=["->http://[nowhere/text.tgz"], second=["->https://" + "a" * 99 + ".de/"])
    server.files |= {"first": b"", "second": b""}
    path = download(server, tmp_path, "first", "second", "text.tgz")
    assert path.read_bytes() == ARCHIVE
    assert f"{server.url('first')}: " in capsys.readouterr().err


def test_failures_of_all_mirrors_are_reported(serve, tmp_path):
    server = serve(second=[503, EVER])
    message = failure(server, tmp_path, "gone", "second")
    assert f"{server.url('gone')}: 404 Not Found; {server.url('second')}: 503 Service" in message
    assert f"fetch it by hand and put it at {tmp_path / 'text.tgz'}, or name it with" in message


def test_redirects_are_followed_unless_they_leave_http_or_https(serve, tmp_path):
    server = serve(moved=["->" + serve().url("text.tgz")])
    server.files["moved"] = b""
    assert download(server, tmp_path, "moved").read_bytes() == ARCHIVE
    for address in ("ftp://127.0.0.1/text.tgz", "file:///etc/passwd"):
        server, folder = serve(text_tgz=[f"->{address}", EVER]), tmp_path / address[:3]
        folder.mkdir()
        message = failure(server, folder)
        assert "not followed" in message or "not allowed" in message
        assert len(server.requests) == 1
    request = urllib.request.Request("https://secure.example/text.tgz")
    handler, url = downloads._Redirects(), "http://other.example/"
    with pytest.raises(downloads.Unavailable, match=f"redirects from https to {url}"):
        handler.redirect_request(request, None, 302, "", {}, url)
    followed = handler.redirect_request(request, None, 302, "", {}, "https://other.example/")
    assert followed.full_url == "https://other.example/"


def test_addresses_are_https_or_pinned():
    for source in downloads.FILES.values():
        schemes = {url.partition(":")[0] for url in source.urls}
        assert schemes <= ({"https", "http"} if source.sha256 else {"https"}), source


def test_a_stalling_mirror_is_replaced(serve, tmp_path, monkeypatch):
    monkeypatch.setattr(downloads, "PATIENCE", 0.2)
    server = serve(text_tgz=["stall", EVER])
    server.files["mirror"] = ARCHIVE
    assert download(server, tmp_path, "text.tgz", "mirror").read_bytes() == ARCHIVE
    assert len(server.requests) <= 6


def test_concurrent_downloads_share_one_file(serve, tmp_path):
    server = serve(text_tgz=["break", "break", "break"])
    with ThreadPoolExecutor(4) as pool:
        paths = list(pool.map(lambda _: download(server, tmp_path), range(4)))
    assert {path.read_bytes() for path in paths} == {ARCHIVE}
    assert [name for name, _ in server.requests] == ["text.tgz"] * 4  # one download, in four parts


PARTS = tuple(Source(f"{part}.zip", ("https://nowhere.invalid",)) for part in ("one", "two"))
WHOLE = (Source("whole.zip", ("https://nowhere.invalid",)),)


def content(archive, member):
    with archive.open(member) as stream:
        return stream.read()


def write_parts(folder):
    folder.mkdir(exist_ok=True)
    for part in ("one", "two"):
        write_archive(folder / f"{part}.zip", {f"{part}.txt": part})
    return folder


def test_several_downloads_are_read_as_one_archive(tmp_path):
    archive = obtain_any((PARTS, WHOLE), None, write_parts(tmp_path))
    assert archive.names == ["one.txt", "two.txt"]
    assert content(archive, "two.txt") == b"two"
    assert archive.label("two.txt") == f"{tmp_path}/two.zip/two.txt"
    with pytest.raises(UsageError, match="holds no three.txt"):
        content(archive, "three.txt")
    before = archive.fingerprint()
    write_archive(tmp_path / "two.zip", {"two.txt": "something else"})
    assert obtain_any((PARTS,), tmp_path, tmp_path).fingerprint() != before


def test_the_second_source_replaces_the_first(tmp_path, monkeypatch):
    def fetch(source, folder):
        if source.name != "whole.zip":
            raise UsageError(f"no {source.name}")
        return folder / source.name

    monkeypatch.setattr(downloads, "fetch", fetch)
    write_archive(tmp_path / "whole.zip", {"all.txt": "x"})
    assert obtain_any((PARTS, WHOLE), None, tmp_path).names == ["all.txt"]


def test_a_source_folder_may_be_packed_or_unpacked(tmp_path):
    packed, unpacked = write_parts(tmp_path / "packed"), tmp_path / "unpacked"
    write_folder(unpacked / "folder", {"one.txt": "one", "two.txt": "two"})
    for path in (packed, packed / "one.zip", unpacked, unpacked / "folder"):
        assert content(obtain_any((WHOLE, PARTS), path, tmp_path), "one.txt") == b"one"
