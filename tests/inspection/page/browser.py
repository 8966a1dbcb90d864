"""A headless Chromium or Chrome, controlled through pipes by the DevTools protocol."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--remote-debugging-pipe",
)
# The browser reads descriptor 3 and writes descriptor 4.
LAUNCH = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
for number, end in enumerate(ends, start=3):
    os.dup2(end, number)
os.execvp(sys.argv[3], sys.argv[3:])
"""
PATIENCE = 60  # seconds


def find() -> str | None:
    """Return the path of a browser: ``POSATTN_BROWSER``, or a browser by a usual name."""
    wanted = (os.environ.get("POSATTN_BROWSER"), *NAMES)
    return next(filter(None, (name and shutil.which(name) for name in wanted)), None)


class Browser:
    """One page of a browser; ``events`` are its messages, such as requests and exceptions."""

    def __init__(self, executable: str, folder):
        reading, to_browser = os.pipe()
        from_browser, writing = os.pipe()
        command = [sys.executable, "-c", LAUNCH, str(reading), str(writing), executable, *FLAGS]
        self.process = subprocess.Popen(
            [*command, f"--user-data-dir={folder}"],
            pass_fds=(reading, writing),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"HOME": str(folder)},
        )
        os.close(reading)
        os.close(writing)
        self.incoming, self.outgoing = os.fdopen(from_browser, "rb"), os.fdopen(to_browser, "wb")
        self.number, self.session, self.events = 0, None, []
        self.buffer = b""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self.ask("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **params):
        """Send a command of the protocol; return its result."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        self.outgoing.write(json.dumps(message).encode() + b"\0")
        self.outgoing.flush()
        answer = self._read(lambda event: event.get("id") == self.number)
        assert "error" not in answer, answer
        return answer["result"]

    def _read(self, wanted: Callable[[dict], bool]) -> dict:
        while True:
            while b"\0" not in self.buffer:
                chunk = os.read(self.incoming.fileno(), 1 << 16)
                assert chunk, "the browser has gone"
                self.buffer += chunk
            line, _, self.buffer = self.buffer.partition(b"\0")
            event = json.loads(line)
            self.events.append(event)
            if wanted(event):
                return event

    def open(self, address: str):
        """Load a page and wait for its load event."""
        page, sign, chosen = address.partition("#")
        self.events.clear()
        # A page is not loaded again if only the fragment differs.
        self.ask("Page.navigate", url=f"{page}?{self.number}{sign}{chosen}")
        if not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self._read(lambda event: event.get("method") == "Page.loadEventFired")

    def run(self, script: str):
        """Return the value of an expression in the page; a promise is awaited."""
        answer = self.ask(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def point(self, selector: str):
        """Move the mouse to an element."""
        box = self.run(
            f"document.querySelector({json.dumps(selector)}).getBoundingClientRect().toJSON()"
        )
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        self.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        return x, y

    def click(self, selector: str):
        x, y = self.point(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key: str):
        for kind in ("rawKeyDown", "keyUp"):
            code = {"Tab": 9, "ArrowLeft": 37, "ArrowRight": 39, "End": 35, "Home": 36}[key]
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code)

    def type(self, text: str):
        self.ask("Input.insertText", text=text)

    def window(self, width: int, height: int = 900):
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.ask("Emulation.setDeviceMetricsOverride", **size)

    def requests(self) -> list[str]:
        """Return the addresses that the page requested."""
        return [
            event["params"]["request"]["url"]
            for event in self.events
            if event.get("method") == "Network.requestWillBeSent"
        ]

    def complaints(self) -> list:
        """Return exceptions and messages of the console and the log."""
        wanted = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        return [event["params"] for event in self.events if event.get("method") in wanted]

    def close(self):
        with suppress(AssertionError, OSError):
            self.session = None
            self.ask("Browser.close")
        try:
            self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self.incoming.close()
            with suppress(OSError):
                self.outgoing.close()
