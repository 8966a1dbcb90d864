"""A local HTTP server that misbehaves on request."""

import http.server
import re
import threading

EVER = object()  # in a list of misdeeds: repeat the last item


class Server(http.server.ThreadingHTTPServer):
    """Serves ``files`` (name to content) and records its requests.

    Attributes:
        misdeeds: per file, what to do wrong at its first request, its second, and so on: an HTTP
            status such as ``503``; ``break`` half-way through what is left; ``overstate`` the
            length; ``whole``: send all though a part is requested; ``again``: the same, but call
            it the part; ``stall``: send nothing; ``->URL``: redirect there.
        requests: ``(name, first requested byte)``.
    """

    daemon_threads = True

    def __init__(self, **misdeeds):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.requests, self.is_closing = {}, [], threading.Event()
        self.misdeeds = {name: list(todo) for name, todo in misdeeds.items()}

    def __enter__(self):
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}).start()
        return self

    def __exit__(self, *exception):
        self.is_closing.set()
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
        pass  # the client has gone


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        server, name = self.server, self.path.removeprefix("/")
        start = int(re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", "bytes=0-"))[1])
        server.requests.append((name, start))
        misdeed = server.next_misdeed(name)
        if isinstance(misdeed, int) or name not in server.files:
            return self.send_error(misdeed or 404)
        if misdeed and misdeed.startswith("->"):
            self.send_response(302)
            self.send_header("Location", misdeed.removeprefix("->"))
            return self.end_headers()
        content = server.files[name]
        if misdeed in ("whole", "again"):
            start = 0
        if start and start >= len(content):
            return self.send_error(416)
        rest = content[start:]
        self.send_response(206 if start or misdeed == "again" else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(rest) + 1000 * (misdeed == "overstate")))
        self.end_headers()
        if misdeed == "stall":
            return server.is_closing.wait(60)
        self.wfile.write(rest[: len(rest) // 2] if misdeed == "break" else rest)

    def log_message(self, *args):
        pass
