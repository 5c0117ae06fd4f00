"""The what-if page as a process of its own: its address, its guard, its secrets, and how it ends."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest

from helpers.records import run_record
from suffice.records.store import save_record
from suffice.web.form import default_form

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOKEN = "a-token-of-twenty-four-c"  # noqa: S105  # of a test
PROGRAM = "import typer; from suffice.cli.web import web; typer.run(web)"


@contextmanager
def served(folder: Path, *arguments: object, token: str | None = None) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The command in a folder, and the port that it says."""
    environment = {name: value for name, value in os.environ.items() if name != "SUFFICE_WEB_TOKEN"}
    if token is not None:
        environment["SUFFICE_WEB_TOKEN"] = token
    command = [sys.executable, "-c", PROGRAM, *map(str, arguments), "--json"]
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            text = ""
            while server.stdout is not None and not text.endswith("}\n"):
                line = server.stdout.readline()
                assert line, server.stderr.read() if server.stderr else ""
                text += line
            yield server, json.loads(text)["port"]
        finally:
            server.kill()


def got(port: int, path: str, **headers: str) -> tuple[int, str, http.client.HTTPMessage]:
    """What the server answers: status, text and headers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    found = answer.status, answer.read().decode(), answer.msg
    connection.close()
    return found


def ended(server: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Exit code and all that was still printed after Ctrl-C."""
    server.send_signal(signal.SIGINT)
    out, err = server.communicate(timeout=30)
    return server.returncode, out, err


def test_a_page_is_served_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    """It answers under its own name only, and Ctrl-C ends it with 0 and without a word, even while a browser keeps its connection."""
    save_record(run_record(), tmp_path / "run.json")
    with served(tmp_path, "run.json", "--demand", "demand.toml") as (server, port):
        status, page, headers = got(port, "/")
        stranger, _, _ = got(port, "/", Host="evil.example")
        part, result, _ = got(port, "/result?" + default_form().query.replace("model=", "model=record-1"))
        kept = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        kept.request("GET", "/page.js")
        script = kept.getresponse().read().decode()

        code, out, err = ended(server)
        kept.close()

    assert (status, stranger, part) == (200, 403, 200)
    assert "Test CPU" in page
    assert "Verdict: " in result
    assert "server" not in headers
    assert script.startswith('"use strict"')
    assert (code, out, err) == (0, "", "")
    assert not (tmp_path / "demand.toml").exists()


def test_a_token_is_asked_for_and_printed_nowhere(tmp_path: Path) -> None:
    """Other machines have to show it; neither the terminal nor an answer ever holds it."""
    with served(tmp_path, "--host", "0.0.0.0", token=TOKEN) as (server, port):  # noqa: S104  # the case
        shut, page, _ = got(port, "/")
        entered, _, headers = got(port, f"/?token={TOKEN}")
        cookie = headers["set-cookie"].partition(";")[0]
        inside, answer, _ = got(port, "/", Cookie=cookie)

        code, out, err = ended(server)

    assert (shut, entered, inside, code) == (401, 303, 200, 0)
    assert TOKEN not in page + answer + out + err + str(headers)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--host", "0.0.0.0"), "give a token"),  # noqa: S104  # the case
        (("--host", "no-such-host.invalid", "--token", TOKEN), "nothing can listen"),
        (("--demand", "."), "is a folder"),
    ],
)
def test_a_start_that_cannot_be_says_why(tmp_path: Path, arguments: tuple[str, ...], says: str) -> None:
    """One sentence, the code of bad usage, and nobody listens."""
    program = f"import sys; from suffice.errors import SufficeError\ntry:\n    {PROGRAM}\nexcept SufficeError as error:\n    sys.exit(str(error))"
    command = [sys.executable, "-c", program, *arguments]

    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode != 0
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_ctrl_c_ends_it_in_the_middle_of_a_simulation(tmp_path: Path) -> None:
    """What is being simulated is given up: the process ends before the answer to a rate is there, with 0 and without a word."""
    save_record(run_record(), tmp_path / "run.json")
    fields = dict(default_form().key) | {"model": "llama-3.1-8b", "quantization": "q4_k_m", "rate": "90000"}
    with served(tmp_path, "run.json") as (server, port):
        asking = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        asking.request("GET", f"/result?{urlencode(fields)}")
        first = asking.getresponse().read().decode()
        asking.request("GET", f"/result?{urlencode(fields)}&wait=1")

        code, out, err = ended(server)
        asking.close()

    assert "data-pending" in first
    assert (code, out, err) == (0, "", "")
