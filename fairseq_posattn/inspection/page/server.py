"""``--serve``: the page on this machine, with a field to type into."""

import json
import sys
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.inspection.page.page import page
from fairseq_posattn.inspection.page.view import View

HOST = "127.0.0.1"
LONGEST_TEXT = 2000  # characters
LARGEST_BODY = 4 * LONGEST_TEXT + 1000  # bytes
MOST_WEIGHTS = 2_000_000  # of a sentence


class LookServer(ThreadingHTTPServer):
    """An HTTP server for this machine alone, one sentence at a time.

    Args:
        view: what is asked.
        sentences: those that the page begins with.
        port: 0 for any that is free.

    Raises:
        UsageError: the port is taken.
    """

    daemon_threads = True
    request_queue_size = 128  # connections that wait to be accepted

    def __init__(self, view: View, sentences: list[dict], port: int):
        self.view = view
        self.lock = threading.Lock()
        model = view.description() if sentences else None
        asks = "Two sentences, a line each" if view.takes_pairs else "A sentence"
        self.page = page(model, sentences, asks=asks).encode()
        try:
            super().__init__((HOST, port), LookHandler)
        except OSError as error:
            raise UsageError(
                f"--serve {port}: {error.strerror}: name another port, or 0 for any"
            ) from None
        self.names = {f"{name}:{self.server_port}" for name in (HOST, "localhost")}

    def look(self, text: str) -> dict:
        """Return the data to show for a text."""
        with self.lock:
            sentence = self.view(text, room=MOST_WEIGHTS)
            return {"model": self.view.description(), "sentence": sentence}

    def handle_error(self, request, client_address):
        """Ignore browsers that disconnect during an answer."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class LookHandler(BaseHTTPRequestHandler):
    server: LookServer
    timeout = 20  # seconds, for a browser that opens a connection and says nothing

    def do_GET(self):
        if not self._is_own():
            return
        if self.path.partition("?")[0] == "/":
            self._send(HTTPStatus.OK, "text/html", self.server.page)
        else:
            self._refuse(HTTPStatus.NOT_FOUND, "there is nothing here")

    def do_POST(self):
        if not self._is_own():
            return
        if self.path != "/look":
            self._refuse(HTTPStatus.NOT_FOUND, "there is nothing here")
            return
        try:
            text = self._text()
            answer = self.server.look(text)
        except UsageError as error:
            self._refuse(HTTPStatus.BAD_REQUEST, str(error))
        else:
            self._send(HTTPStatus.OK, "application/json", json.dumps(answer).encode())

    def _is_own(self):
        """Return whether the request comes from the page: no other site, no other host name."""
        origin = self.headers.get("Origin")
        known = self.server.names
        if self.headers.get("Host") in known and origin in (None, *(f"http://{n}" for n in known)):
            return True
        self._refuse(HTTPStatus.FORBIDDEN, "only the page of this server may ask")
        return False

    def _text(self):
        """Return the requested text on one line; a TAB separates a pair."""
        length = self.headers.get("Content-Length", "")
        is_json = self.headers.get_content_type() == "application/json"
        if not is_json or not length.isdecimal() or len(length) > 9:
            raise UsageError("send a JSON object with a text")
        if int(length) > LARGEST_BODY:
            raise UsageError(_TOO_LONG)
        try:
            text = json.loads(self.rfile.read(int(length)))["text"]
            text.encode()
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise UsageError("send a JSON object with a text") from None
        if len(text) > LONGEST_TEXT:
            raise UsageError(_TOO_LONG)
        lines = [line for line in text.splitlines() if line.strip()]
        if not lines:
            raise UsageError("there are no words in it")
        return ("\t" if self.server.view.takes_pairs else " ").join(lines)

    def _refuse(self, status, reason):
        self.close_connection = True  # what has not been read of the request is no other one
        self._send(status, "application/json", json.dumps({"error": reason}).encode())

    def _send(self, status, kind, body):
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("X-Frame-Options", "DENY")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        """Log no answered requests."""


_TOO_LONG = f"the text is longer than {LONGEST_TEXT:,} characters"
