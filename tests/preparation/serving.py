"""A local HTTP server that misbehaves as it is told."""

import http.server
import re
import threading

EVER = object()  # of a list of misdeeds: go on with the last one


class Server(http.server.ThreadingHTTPServer):
    """Serves ``files`` (name to content) and notes what it was asked for.

    Attributes:
        misdeeds: of a file, what to do wrong at its first request, its second, and so on:
            ``break`` half-way through what is left, ``overstate`` or ``understate`` the length,
            ``whole`` (ignore that only a range is wanted), or an HTTP status such as ``503``.
        requests: ``(name, first byte that was asked for)``.
    """

    def __init__(self, **misdeeds):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.requests = {}, []
        self.misdeeds = {name: list(todo) for name, todo in misdeeds.items()}

    def __enter__(self):
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}).start()
        return self

    def __exit__(self, *exception):
        self.shutdown()
        self.server_close()

    def url(self, name):
        return f"http://127.0.0.1:{self.server_port}/{name}"

    def next_misdeed(self, name):
        todo = self.misdeeds.get(name, [])
        if todo[1:] == [EVER]:
            return todo[0]
        return todo.pop(0) if todo else None


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        server, name = self.server, self.path.removeprefix("/")
        start = int(re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", "bytes=0-"))[1])
        server.requests.append((name, start))
        misdeed = server.next_misdeed(name)
        if isinstance(misdeed, int) or name not in server.files:
            return self.send_error(misdeed or 404)
        content = server.files[name]
        if start >= len(content):
            return self.send_error(416)
        if misdeed == "whole":
            start = 0
        rest = content[start:]
        told = len(rest) + {"overstate": 1000, "understate": -len(rest) // 2}.get(misdeed, 0)
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(told))
        self.end_headers()
        self.wfile.write(rest[: len(rest) // 2] if misdeed == "break" else rest)

    def log_message(self, *args):
        pass
