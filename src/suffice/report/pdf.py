"""A page of HTML printed as PDF by a browser that is installed; nothing of the page leaves this machine."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from suffice.errors import OutputError, UsageError
from suffice.records.store import write_atomically
from suffice.report.tables import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

BROWSER_VARIABLE: Final = "SUFFICE_BROWSER"
"""Names the browser, where the usual names do not find it."""
TIMEOUT_S: Final = 60.0
_NAMES: Final = (
    *("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"),
    *("microsoft-edge", "microsoft-edge-stable", "msedge", "brave-browser"),
)
_PLACES: Final = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
    "C:/Program Files/Google/Chrome/Application/chrome.exe",
    "C:/Program Files (x86)/Microsoft/Edge/Application/msedge.exe",
)
# The page needs neither network nor extensions, and the browser is not to phone home from a run of ours.
_QUIET: Final = (
    *("--headless", "--disable-gpu", "--no-first-run", "--no-default-browser-check", "--disable-extensions"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-default-apps"),
    *("--disable-breakpad", "--disable-crash-reporter", "--no-pings", "--mute-audio", "--disable-dev-shm-usage"),
)
# No name is looked up, and what has an address already, loopback included, is sent to a port where nobody listens.
_NO_NETWORK: Final = (
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--proxy-server=socks5://127.0.0.1:9",
    "--proxy-bypass-list=<-loopback>",
)
_PDF_START: Final = b"%PDF-"
_MARK: Final = b"\n% suffice report\n"  # a comment behind the end, where PDF allows one: by it we know that we may replace the file
_TOLD_CHARACTERS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run of a browser ended. ``exit_code`` None: it was stopped since it took too long. ``said``: its stderr."""

    exit_code: int | None
    said: str = ""


class Browser(Protocol):
    """What printing needs of the outside; :class:`suffice.report.fake_browser.FakeBrowser` is the other one."""

    def find(self) -> str | None:
        """The program to run; None: there is none."""
        ...

    def run(self, command: Sequence[str], timeout_s: float) -> Outcome:
        """Run a command to its end, or stop it and all that it started after so many seconds.

        Raises:
            OSError: it cannot be started.
        """
        ...


class InstalledBrowser:
    """Chromium, Chrome, Edge or Brave, whichever is found first; ``SUFFICE_BROWSER`` comes before all."""

    def find(self) -> str | None:
        """The program to run; None: there is none."""
        named = os.environ.get(BROWSER_VARIABLE, "").strip()
        if named:
            return shutil.which(named)
        found = (shutil.which(name) for name in (*_NAMES, *_PLACES))
        return next((one for one in found if one is not None), None)

    def run(self, command: Sequence[str], timeout_s: float) -> Outcome:
        """Run a command to its end, or stop it and all that it started after so many seconds.

        Raises:
            OSError: it cannot be started.
        """
        with tempfile.TemporaryFile() as said:  # a pipe would stay open in a child that outlives the browser
            process = subprocess.Popen(  # noqa: S603  # the browser that was found, with our own flags
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                start_new_session=True,  # the browser's children end with it
            )
            try:
                exit_code: int | None = process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                exit_code = None
            finally:
                _end(process)
            said.seek(0)
            return Outcome(exit_code=exit_code, said=said.read().decode("utf-8", "replace"))


def print_pdf(html_path: Path, pdf_path: Path, *, browser: Browser | None = None, timeout_s: float = TIMEOUT_S) -> None:
    """Print a page of HTML into a PDF, as its print rules say, without network, in a profile of its own that is removed.

    Args:
        html_path: the page; it needs nothing but itself.
        pdf_path: what is written, whole or not at all.
        browser: by default one that is installed.
        timeout_s: after so many seconds the browser is stopped.

    Raises:
        UsageError: no browser is installed, or ``SUFFICE_BROWSER`` names none.
        OutputError: the browser printed nothing, or the PDF cannot be written.
    """
    browser = InstalledBrowser() if browser is None else browser
    program = browser.find()
    if program is None:
        raise UsageError(_missing(pdf_path))
    with tempfile.TemporaryDirectory(prefix="suffice-pdf-", ignore_cleanup_errors=True) as folder:
        printed = Path(folder) / "page.pdf"
        command = pdf_command(program, html_path, printed, Path(folder) / "profile")
        try:
            outcome = browser.run(command, timeout_s)
        except OSError as error:
            raise OutputError(
                f"cannot write {pdf_path}: {program} does not start: {error.strerror or error}"
            ) from error
        content = printed.read_bytes() if printed.is_file() else b""
    if outcome.exit_code is None:
        raise OutputError(f"cannot write {pdf_path}: {program} did not end within {timeout_s:g} s; write .html instead")
    if not content.startswith(_PDF_START):
        raise OutputError(
            f"cannot write {pdf_path}: {program} printed no PDF{_last_words(outcome)}; write .html instead"
        )
    write_atomically(pdf_path, content + _MARK)


def was_printed_here(path: Path) -> bool:
    """Whether a file is a PDF that :func:`print_pdf` wrote, or holds nothing.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - len(_MARK)))
        return size == 0 or file.read() == _MARK


def pdf_command(program: str, html_path: Path, printed: Path, profile: Path) -> list[str]:
    """What is run: no sandbox only where there can be none, as root."""
    as_root = ["--no-sandbox"] if _is_root() else []
    own = [f"--user-data-dir={profile}", f"--print-to-pdf={printed}", "--no-pdf-header-footer"]
    return [program, *_QUIET, *_NO_NETWORK, *as_root, *own, html_path.resolve().as_uri()]


def _is_root() -> bool:
    return sys.platform != "win32" and os.geteuid() == 0


def _end(process: subprocess.Popen[bytes]) -> None:
    """Whatever is left of a browser and its children."""
    if sys.platform == "win32":
        process.kill()
    else:
        with suppress(ProcessLookupError, PermissionError):  # all have ended; macOS says it in another way
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _missing(pdf_path: Path) -> str:
    named = os.environ.get(BROWSER_VARIABLE, "").strip()
    if named:
        return f"--out {pdf_path}: {BROWSER_VARIABLE} names {named!r}, which is no program; name a Chromium, Chrome or Edge"
    return (
        f"--out {pdf_path} needs a browser that prints: install Chromium, Chrome or Edge, or name one in {BROWSER_VARIABLE};"
        " or write .html and print it in your own browser"
    )


def _last_words(outcome: Outcome) -> str:
    lines = [one_line(line).strip() for line in outcome.said.splitlines() if line.strip()]
    told = f" ({lines[-1][:_TOLD_CHARACTERS]})" if lines else ""
    return told if outcome.exit_code == 0 else f", exit code {outcome.exit_code}{told}"
