"""Requests of published files, from servers that may be wrong, slow or hostile.

Only https, and http where what comes is known by its SHA-256; no redirect leads elsewhere. Every
answer ends: it has to keep a rate from its first byte on, and may not be larger than a data set is.
"""

import http.client
import io
import ssl
import time
import urllib.request
from urllib.parse import urlsplit

PATIENCE = 60.0  # seconds without a byte, and seconds that an answer has beyond what its rate gives
SLOWEST = 10_000  # bytes a second
BROKEN_OFF = (ConnectionError, TimeoutError, ssl.SSLError, http.client.HTTPException)
USER_AGENT = "fairseq-posattn"  # some servers turn away the one that urllib sends
HERE = ("127.0.0.1", "::1", "localhost")  # nobody is between this machine and itself


class Unavailable(Exception):
    """A server does not have the file, or must not be asked."""


class TooSlow(TimeoutError):
    """An answer that does not keep the rate."""


def is_safe(url, is_pinned):
    """Whether nobody on the way can change what an address serves, unseen."""
    parts = urlsplit(url)
    return parts.scheme == "https" or (
        parts.scheme == "http" and (is_pinned or parts.hostname in HERE)
    )


def ask(url, headers):
    """Open ``url``; the answer is closed by its ``with`` block.

    Raises:
        Unavailable: there is no use in asking again.
        OSError, http.client.HTTPException: there may be.
    """
    request = urllib.request.Request(url, headers={"User-Agent": USER_AGENT, **headers})
    try:
        return _opener().open(request, timeout=PATIENCE)
    except (ValueError, http.client.InvalidURL) as error:  # of a redirect
        raise Unavailable(f"it names an address that is none ({error})") from None


def _opener():
    """What urllib does by default, without its ftp, file and data."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler,
        _HTTPHandler,
        _HTTPSHandler,
        _RedirectHandler,
        urllib.request.HTTPDefaultErrorHandler,
        urllib.request.HTTPErrorProcessor,
    ):
        opener.add_handler(handler())
    return opener


class _RedirectHandler(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, request, answer, code, message, headers, url):
        before, after = urlsplit(request.full_url).scheme, urlsplit(url).scheme
        if after not in ("http", "https") or (before, after) == ("https", "http"):
            raise Unavailable(f"it redirects from {before} to {url}, which is not followed")
        return super().redirect_request(request, answer, code, message, headers, url)


class _SteadyAnswer(http.client.HTTPResponse):
    """An answer that is given up where it comes too slowly, from its first line on."""

    def __init__(self, sock, *arguments, **options):
        super().__init__(sock, *arguments, **options)
        self.fp = io.BufferedReader(_Steady(self.fp.detach(), sock))


class _Steady(io.RawIOBase):
    def __init__(self, raw, sock):
        self.raw, self.sock = raw, sock
        self.began, self.count = time.monotonic(), 0

    def readable(self):
        return True

    def readinto(self, buffer):
        self.sock.settimeout(min(self._time_left(), PATIENCE))
        try:
            count = self.raw.readinto(buffer)
        except TimeoutError:
            self._time_left()
            raise
        self.count += count or 0
        return count

    def _time_left(self):
        left = PATIENCE + self.count / SLOWEST - (time.monotonic() - self.began)
        if left <= 0:
            raise TooSlow(f"slower than {SLOWEST:,} bytes a second")
        return left

    def close(self):
        self.raw.close()
        super().close()


class _Connection(http.client.HTTPConnection):
    response_class = _SteadyAnswer


class _SecureConnection(http.client.HTTPSConnection):
    response_class = _SteadyAnswer


class _HTTPHandler(urllib.request.HTTPHandler):
    def http_open(self, request):
        return self.do_open(_Connection, request)


class _HTTPSHandler(urllib.request.HTTPSHandler):
    def https_open(self, request):
        return self.do_open(_SecureConnection, request, context=ssl.create_default_context())
