"""A llama.cpp server of our own for the time of a run: another process, on a free loopback port, ended with us whatever happens."""

from __future__ import annotations

import importlib.util
import json
import queue
import subprocess
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from suffice.errors import EngineCrashError, EngineMissingError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_START_S: Final = 600.0  # to load the model
_STOP_S: Final = 10.0


@contextmanager
def spawned_server(model: Path, *, slots: int, context_per_slot: int, threads: int | None) -> Iterator[str]:
    """The address of a server of ``model`` with ``slots`` slots; it is stopped at the end, and dies with us.

    Raises:
        EngineMissingError: xllamacpp is not installed.
        UsageError: the model is not there.
        EngineCrashError: the server did not start.
    """
    if importlib.util.find_spec("xllamacpp") is None:
        raise EngineMissingError("--spawn needs xllamacpp; install it with: pip install 'suffice[prebuilt]'")
    if not model.is_file():
        raise UsageError(f"--spawn {model} is not a file")
    command = [sys.executable, "-m", "suffice.load.spawn_child", str(model), str(slots), str(context_per_slot * slots)]
    process = subprocess.Popen(  # noqa: S603  # ourselves
        [*command, str(threads or 0)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is ours to handle: the partial result needs no crash of the server
    )
    try:
        yield _address(process)
    finally:
        _end(process)


def _address(process: subprocess.Popen[bytes]) -> str:
    """The address that the child says it listens at."""
    lines: queue.Queue[bytes] = queue.Queue()

    def read() -> None:
        assert process.stdout is not None  # noqa: S101  # a pipe was asked for
        with process.stdout as output:
            for line in output:
                lines.put(line)
        lines.put(b"")

    threading.Thread(
        target=read, daemon=True
    ).start()  # it also empties the pipe, which would block the server when full
    while True:
        try:
            line = lines.get(timeout=_START_S)
        except queue.Empty:
            raise EngineCrashError(f"the server was not ready within {_START_S:.0f} s") from None
        if not line:
            code = process.wait()
            raise EngineCrashError(f"llama.cpp's server did not start (exit code {code}); is the model whole?")
        try:
            return str(json.loads(line)["listening"])
        except (ValueError, KeyError, TypeError):
            continue  # the library's own chatter


def _end(process: subprocess.Popen[bytes]) -> None:
    """Closing its input asks the child to end; what does not listen is killed."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
