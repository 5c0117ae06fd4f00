from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest

from suffice.errors import OutputError, UsageError
from suffice.report.fake_browser import FakeBrowser
from suffice.report.pdf import BROWSER_VARIABLE, InstalledBrowser, Outcome, pdf_command, print_pdf, was_printed_here

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="the stand-in for a browser is a shell script")


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """A page whose name has to be escaped in an address."""
    path = tmp_path / "a page #1 ü.html"
    path.write_text("<!doctype html><p>page", encoding="utf-8")
    return path


def _script(folder: Path, body: str) -> str:
    path = folder / "browser"
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def test_what_the_browser_prints_is_written(page: Path, tmp_path: Path) -> None:
    """The PDF is the browser's with our mark behind it, and the folder that it worked in is gone."""
    browser = FakeBrowser(content=b"%PDF-1.7 made")

    print_pdf(page, tmp_path / "out.pdf", browser=browser)

    assert (tmp_path / "out.pdf").read_bytes() == b"%PDF-1.7 made\n% suffice report\n"
    profile = next(one for one in browser.commands[0] if one.startswith("--user-data-dir=")).partition("=")[2]
    assert not Path(profile).parent.exists()


def test_the_browser_gets_no_network_and_a_profile_of_its_own(page: Path, tmp_path: Path) -> None:
    """No name is looked up, everything goes to a proxy that is not there, loopback included; the page's address is escaped."""
    command = pdf_command("browser", page, tmp_path / "p.pdf", tmp_path / "profile")

    assert command[0] == "browser"
    assert command[-1] == page.resolve().as_uri()
    assert command[-1].startswith("file:///")
    assert " " not in command[-1]
    for flag in (
        "--headless",
        "--host-resolver-rules=MAP * ~NOTFOUND",
        "--proxy-server=socks5://127.0.0.1:9",
        "--proxy-bypass-list=<-loopback>",
        f"--user-data-dir={tmp_path / 'profile'}",
        f"--print-to-pdf={tmp_path / 'p.pdf'}",
    ):
        assert flag in command


@pytest.mark.parametrize("user", [0, 1000])
@posix_only
def test_the_sandbox_is_given_up_for_root_only(
    page: Path, tmp_path: Path, user: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chromium cannot sandbox root; everybody else keeps it."""
    monkeypatch.setattr(os, "geteuid", lambda: user)

    assert ("--no-sandbox" in pdf_command("b", page, tmp_path / "p", tmp_path / "q")) is (user == 0)


def test_without_a_browser_one_message_says_what_to_do(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What to install, how to name one, and what works without; nothing is written."""
    monkeypatch.delenv(BROWSER_VARIABLE, raising=False)

    with pytest.raises(UsageError, match=r"install Chromium, Chrome or Edge.*SUFFICE_BROWSER.*write \.html"):
        print_pdf(page, tmp_path / "out.pdf", browser=FakeBrowser(program=None))
    assert not (tmp_path / "out.pdf").exists()


def test_a_name_that_is_no_browser_is_told(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who names a browser gets that one or a message, never another one."""
    monkeypatch.setenv(BROWSER_VARIABLE, "no-such-browser")

    assert InstalledBrowser().find() is None
    with pytest.raises(UsageError, match="SUFFICE_BROWSER names 'no-such-browser'"):
        print_pdf(page, tmp_path / "out.pdf")


@pytest.mark.parametrize(
    ("browser", "message"),
    [
        (FakeBrowser(content=None, outcome=Outcome(exit_code=0, said="\n")), "printed no PDF; write"),
        (
            FakeBrowser(content=b"<html>", outcome=Outcome(exit_code=21, said="one\n\x1b[31mcannot print\n\n")),
            r"exit code 21 \(\[31mcannot print\)",
        ),
        (FakeBrowser(outcome=Outcome(exit_code=None)), "did not end within 60 s"),
        (FakeBrowser(fails=PermissionError(13, "Permission denied")), "does not start: Permission denied"),
    ],
    ids=["nothing", "no PDF", "timeout", "no start"],
)
def test_a_browser_that_fails_leaves_one_sentence_and_no_file(
    page: Path, tmp_path: Path, browser: FakeBrowser, message: str
) -> None:
    """Whatever goes wrong, an older PDF stays as it was."""
    (tmp_path / "out.pdf").write_bytes(b"%PDF-old")

    with pytest.raises(OutputError, match=message) as caught:
        print_pdf(page, tmp_path / "out.pdf", browser=browser)

    assert "\n" not in str(caught.value)
    assert (tmp_path / "out.pdf").read_bytes() == b"%PDF-old"


@posix_only
def test_a_program_of_that_name_is_found_and_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The installed one is a real process: what it prints and what it says come back."""
    script = _script(
        tmp_path, 'for a; do case $a in --print-to-pdf=*) printf "%%PDF-x" > "${a#*=}";; esac; done; echo told >&2'
    )
    monkeypatch.setenv(BROWSER_VARIABLE, script)

    print_pdf(page, tmp_path / "out.pdf")

    assert (tmp_path / "out.pdf").read_bytes().startswith(b"%PDF-x\n")
    assert InstalledBrowser().run([script], 60) == Outcome(exit_code=0, said="told\n")


@pytest.mark.parametrize(
    ("content", "ours"), [(b"", True), (b"%PDF-1.4\n%%EOF\n", False), (b"%PDF-1.4\n%%EOF\n\n% suffice report\n", True)]
)
def test_our_own_pdf_is_known_by_its_mark(tmp_path: Path, content: bytes, *, ours: bool) -> None:
    """Only what we printed, or what holds nothing, may be replaced by a later page."""
    (tmp_path / "old.pdf").write_bytes(content)

    assert was_printed_here(tmp_path / "old.pdf") is ours


@posix_only
def test_one_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    """After the time limit neither the browser nor what it started is left."""
    child = tmp_path / "child"
    script = _script(tmp_path, f"sleep 600 & echo $! > {shlex.quote(str(child))}; wait")

    outcome = InstalledBrowser().run([script], 0.5)

    assert outcome.exit_code is None
    state = Path("/proc") / child.read_text().strip() / "stat"
    assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] in "ZX"
