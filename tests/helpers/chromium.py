"""A real Chromium, driven through its debugging pipe: what a page shows, logs and asks for. Standard library only.

The protocol: https://chromedevtools.github.io/devtools-protocol/, messages of JSON that end with a zero byte, over the descriptors 3 and 4.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from suffice.report.pdf import InstalledBrowser

if TYPE_CHECKING:
    from pathlib import Path

_TIMEOUT_S = 30.0
_HIGH = 20  # descriptors from here on are neither 3 nor 4
_LAUNCH = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execv(sys.argv[3], sys.argv[3:])"
)
_FLAGS = (
    *("--headless", "--remote-debugging-pipe", "--disable-gpu", "--no-first-run", "--disable-extensions"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
)
_PHONE_PIXELS = 600  # narrower windows obey the page's viewport, as phones do


def why_no_browser() -> str:
    """Why pages cannot be looked at here; empty: they can."""
    if sys.platform == "win32":
        return "the debugging pipe needs descriptors as POSIX has them"
    return "" if InstalledBrowser().find() else "no Chromium, Chrome or Edge is installed"


@dataclass(slots=True)
class Page:
    """One page: what it logged (warnings and errors of its own too) and asked for since it was opened."""

    browser: Chromium
    session: str
    console: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def evaluate(self, expression: str) -> Any:  # noqa: ANN401  # any JSON value
        """The value of an expression of JavaScript in the page; the page's own policy does not bind it."""
        asked = {"expression": expression, "returnByValue": True, "awaitPromise": True}
        answer = self.browser.call("Runtime.evaluate", asked, self.session)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def screenshot(self, path: Path) -> None:
        """The whole page, as long as it is, as PNG."""
        asked = {"format": "png", "captureBeyondViewport": True}
        answer = self.browser.call("Page.captureScreenshot", asked, self.session)
        path.write_bytes(base64.b64decode(answer["data"]))

    def hear(self, method: str, told: dict[str, Any]) -> None:
        """Keep what an event says."""
        if method == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])
        elif method == "Runtime.consoleAPICalled":
            self.console.append(f"{told['type']}: {[one.get('value') for one in told['args']]}")
        elif method == "Runtime.exceptionThrown":
            self.console.append(f"exception: {told['exceptionDetails'].get('text')}")
        elif method == "Log.entryAdded":
            self.console.append(f"{told['entry']['level']}: {told['entry']['text']}")


class Chromium:
    """A browser without a window, for a `with` statement; it and its profile are gone afterwards."""

    def __enter__(self) -> Self:
        import fcntl  # noqa: PLC0415  # Windows has none, and the tests there are skipped

        program = InstalledBrowser().find()
        assert program is not None
        self._profile = tempfile.mkdtemp(prefix="suffice-browser-")
        to_child, self._to = os.pipe()
        self._from, from_child = os.pipe()
        ends = [fcntl.fcntl(one, fcntl.F_DUPFD, _HIGH) for one in (to_child, from_child)]
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-c", _LAUNCH, *map(str, ends), program, *_FLAGS, *sandbox),
                *(f"--user-data-dir={self._profile}", "about:blank"),
            ],
            pass_fds=ends,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        for one in (to_child, from_child, *ends):
            os.close(one)
        self._number = 0
        self._buffer = b""
        self._pages: dict[str, Page] = {}
        self._loaded: set[str] = set()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._to)
        os.close(self._from)
        shutil.rmtree(self._profile, ignore_errors=True)

    def open(self, url: str, *, width: int = 1280, height: int = 900, scheme: str = "light") -> Page:
        """A page of its own, loaded, in a window of that size, for a reader who prefers light or dark."""
        target = self.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        session = self.call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        page = self._pages[session] = Page(self, session)
        for room in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{room}.enable", {}, session)
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < _PHONE_PIXELS}
        self.call("Emulation.setDeviceMetricsOverride", size, session)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", {"features": features}, session)
        self._loaded.discard(session)
        self.call("Page.navigate", {"url": url}, session)
        while session not in self._loaded:
            self._hear(self._read())
        return page

    def call(self, method: str, asked: dict[str, Any], session: str | None = None) -> dict[str, Any]:
        """Send a command and wait for its answer; events that come meanwhile are kept."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": asked}
        if session is not None:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer["error"])
                result: dict[str, Any] = answer["result"]
                return result
            self._hear(answer)

    def _read(self) -> dict[str, Any]:
        until = time.monotonic() + _TIMEOUT_S
        while b"\0" not in self._buffer:
            ready = select.select([self._from], [], [], max(0.0, until - time.monotonic()))[0]
            assert ready, "the browser does not answer"
            more = os.read(self._from, 1 << 16)
            assert more, "the browser has ended"
            self._buffer += more
        message, _, self._buffer = self._buffer.partition(b"\0")
        parsed: dict[str, Any] = json.loads(message)
        return parsed

    def _hear(self, message: dict[str, Any]) -> None:
        session, method = message.get("sessionId", ""), message.get("method", "")
        if method == "Page.loadEventFired":
            self._loaded.add(session)
        if session in self._pages:
            self._pages[session].hear(method, message["params"])
