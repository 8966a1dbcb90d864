"""A local HTTP server that misbehaves as it is told."""

import hashlib
import http.server
import re
import threading
import time

EVER = object()  # of a list of misdeeds: go on with the last one


class Server(http.server.ThreadingHTTPServer):
    """Serves ``files`` (name to content) and notes what it was asked for.

    Attributes:
        misdeeds: of a file, what to do wrong at its first request, its second, and so on: an HTTP
            status such as ``503``, or some of these words:
            ``break`` half-way through what is left; ``overstate`` or ``understate`` the length;
            ``whole``, ``unasked``: send all where a part is wanted, a part where all is;
            ``deaf``: do not look at If-Range; ``untagged``: tell of no ETag; ``dated``: tell of
            Last-Modified instead; ``askew``, ``resized``, ``garbled``: another Content-Range;
            ``drip``: a byte now and then; ``dribble``: the same from the first header on;
            ``endless``; ``²``: that Content-Length; ``->URL``: redirect there.
        requests: ``(name, first byte that was asked for)``.
    """

    daemon_threads = True

    def __init__(self, **misdeeds):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.requests, self.is_closing = {}, [], False
        self.misdeeds = {name: list(todo) for name, todo in misdeeds.items()}

    def __enter__(self):
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}).start()
        return self

    def __exit__(self, *exception):
        self.is_closing = True
        self.shutdown()
        self.server_close()

    def url(self, name):
        return f"http://127.0.0.1:{self.server_port}/{name}"

    def next_misdeed(self, name):
        todo = self.misdeeds.get(name, [])
        if todo[1:] == [EVER]:
            return todo[0]
        return todo.pop(0) if todo else None

    def handle_error(self, request, address):
        pass  # who asked has gone


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        server, name = self.server, self.path.removeprefix("/")
        start = int(re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", "bytes=0-"))[1])
        server.requests.append((name, start))
        misdeed = server.next_misdeed(name)
        if isinstance(misdeed, int) or name not in server.files:
            return self.send_error(misdeed or 404)
        misdeeds = (misdeed or "").split()
        if misdeeds and misdeeds[0].startswith("->"):
            return self.redirect(misdeeds[0].removeprefix("->"))
        content = server.files[name]
        tag = f'"{hashlib.sha256(content).hexdigest()}"'
        if "whole" in misdeeds or self.is_for_another(tag, misdeeds):
            start = 0
        if "unasked" in misdeeds:
            start = len(content) // 2
        if start and start >= len(content):
            return self.send_error(416)
        rest = content[start:]
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", content_range(start, len(content), misdeeds))
        if "dated" in misdeeds:
            self.send_header("Last-Modified", tag.strip('"'))
        elif "untagged" not in misdeeds:
            self.send_header("ETag", tag)
        if "endless" not in misdeeds:
            self.send_header("Content-Length", content_length(rest, misdeeds))
        if "dribble" in misdeeds:
            return self.drip(b"".join(self._headers_buffer) + b"X-More: ")
        self.end_headers()
        if "drip" in misdeeds:
            return self.drip(rest)
        while "endless" in misdeeds and not server.is_closing:
            self.wfile.write(rest)
        self.wfile.write(rest[: len(rest) // 2] if "break" in misdeeds else rest)

    def is_for_another(self, tag, misdeeds):
        """Whether a part is wanted of another state of the file."""
        return "deaf" not in misdeeds and self.headers.get("If-Range", tag).strip('"') != tag[1:-1]

    def redirect(self, url):
        self.send_response(302)
        self.send_header("Location", url)
        self.end_headers()

    def drip(self, content):
        for byte in content:
            if self.server.is_closing:
                return
            self.wfile.write(bytes([byte]))
            time.sleep(0.02)

    def log_message(self, *args):
        pass


def content_range(start, total, misdeeds):
    if "garbled" in misdeeds:
        return "bytes all of it"
    if "askew" in misdeeds:
        start += 1
    if "resized" in misdeeds:
        total += 1
    return f"bytes {start}-{total - 1}/{total}"


def content_length(content, misdeeds):
    if "²" in misdeeds:
        return "²"
    lie = {"overstate": 1000, "understate": -len(content) // 2}
    return str(len(content) + sum(lie.get(misdeed, 0) for misdeed in misdeeds))
