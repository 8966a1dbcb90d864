"""The page as one file that loads nothing else, and ``--serve``: a server with a field for text."""

import base64
import hashlib
import json
import sys
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from typing import Any

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.inspection.page.view import View
from fairseq_posattn.text.lines import SEPARATORS

HOST = "127.0.0.1"
LONGEST_TEXT = 2000  # characters
LARGEST_BODY = 4 * LONGEST_TEXT + 1000  # bytes
MOST_WEIGHTS = 2_000_000  # of a sentence

TOO_LONG = f"the text is longer than {LONGEST_TEXT:,} characters"
NO_TEXT = "send a JSON object with a text"


def page(model: dict[str, Any], sentences: list[dict[str, Any]], *, asks: str = "") -> str:
    """Return an HTML page of the data of :mod:`.view`; ``asks`` labels the field of a server."""
    html, style, script = (
        resources.files(__package__).joinpath(f"page.{kind}").read_text(encoding="utf-8")
        for kind in ("html", "css", "js")
    )
    data = as_script({"model": model, "sentences": sentences, "asks": asks})
    connect = "'self'" if asks else "'none'"
    # Whatever the texts contain, only the page's own script and style run, and nothing is loaded.
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
        f"connect-src {connect}; base-uri 'none'; form-action 'none'"
    )
    # Split once at each mark, so that a mark in a text is left alone.
    parts = []
    for mark, part in (("POLICY", policy), ("STYLE", style), ("DATA", data), ("SCRIPT", script)):
        before, html = html.split(f"@{mark}@")
        parts += [before, part]
    return "".join([*parts, html])


def as_script(content: Any) -> str:
    """Return JSON that is safe inside an HTML script element."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    text = text.encode(errors="replace").decode()  # names of files may hold halves of characters
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


class LookServer(ThreadingHTTPServer):
    """A server for this machine alone, a sentence at a time; ``port`` 0 is any that is free."""

    daemon_threads = True
    request_queue_size = 128  # connections that wait to be accepted

    def __init__(self, view: View, sentences: list[dict[str, Any]], port: int):
        self.view = view
        self.lock = threading.Lock()
        asks = "Two sentences, a line each" if view.takes_pairs else "A sentence"
        self.page = page(view.description(), sentences, asks=asks).encode()
        try:
            super().__init__((HOST, port), LookHandler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", error)
            raise UsageError(f"--serve {port}: {reason}: name another port, or 0 for any") from None
        names = [f"{name}:{self.server_port}" for name in (HOST, "localhost")]
        self.names, self.origins = set(names), {None, *(f"http://{name}" for name in names)}

    def look(self, text: str) -> dict[str, Any]:
        with self.lock:
            sentence = self.view(text, room=MOST_WEIGHTS)
            return {"model": self.view.description(), "sentence": sentence}

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore browsers that disconnect during an answer."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class LookHandler(BaseHTTPRequestHandler):
    server: LookServer
    timeout = 20  # seconds, for a browser that opens a connection and sends nothing

    def do_GET(self) -> None:
        if self._is_allowed(self.path.partition("?")[0] == "/"):
            self._send(HTTPStatus.OK, "text/html", self.server.page)

    def do_POST(self) -> None:
        if not self._is_allowed(self.path == "/look"):
            return
        try:
            answer = self.server.look(self._text())
        except UsageError as error:
            self._refuse(HTTPStatus.BAD_REQUEST, str(error))
        else:
            self._send(HTTPStatus.OK, "application/json", json.dumps(answer).encode())

    def _is_allowed(self, exists: bool) -> bool:
        """Return whether the page itself sent the request, not another site or host name."""
        allowed = self.headers.get("Host") in self.server.names
        if not allowed or self.headers.get("Origin") not in self.server.origins:
            self._refuse(HTTPStatus.FORBIDDEN, "only the page of this server may ask")
            return False
        if not exists:
            self._refuse(HTTPStatus.NOT_FOUND, "there is nothing here")
        return exists

    def _text(self) -> str:
        """Return the requested text on one line; a TAB separates a pair."""
        length = self.headers.get("Content-Length", "")
        is_json = self.headers.get_content_type() == "application/json"
        if not is_json or not length.isdecimal() or len(length) > 9:
            raise UsageError(NO_TEXT)
        if int(length) > LARGEST_BODY:
            raise UsageError(TOO_LONG)
        try:
            text = json.loads(self.rfile.read(int(length)))["text"]
            text.encode()
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise UsageError(NO_TEXT) from None
        if len(text) > LONGEST_TEXT:
            raise UsageError(TOO_LONG)
        lines = [line for line in SEPARATORS.split(text) if line.strip()]
        if not lines:
            raise UsageError("there are no words in it")
        if not self.server.view.takes_pairs:
            return " ".join(lines)
        if (pair := "\t".join(lines)).count("\t") != 1:
            raise UsageError("type two sentences, a line each")
        return pair

    def _refuse(self, status: HTTPStatus, reason: str) -> None:
        self.close_connection = True  # the unread rest of the request is not another request
        self._send(status, "application/json", json.dumps({"error": reason}).encode())

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        headers = {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(body))}
        headers |= {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
        self.send_response(status)
        for name, value in (headers | {"X-Frame-Options": "DENY"}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Log no answered requests."""
