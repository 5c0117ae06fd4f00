"""The llama.cpp engine as the rest of suffice sees it: every session lives in a process of its own."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Final, Self

from suffice.errors import EngineCrashError, EngineError
from suffice.measure.engine import protocol
from suffice.measure.engine.advice import NATIVE_COMMAND
from suffice.measure.engine.library import LibraryChoice, choose_library
from suffice.units import SECONDS_PER_HOUR

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from suffice.measure.engine.seam import ChunkTimings, EngineIdentity, EngineSettings, ExpertUse, SessionFacts

_CLOSE_TIMEOUT_S: Final = 5.0
_WORDS_BYTES: Final = 4000  # of a dead worker's last output
_WORDS_LINES: Final = 5
_ILLEGAL_HINT: Final = (
    "; the library was compiled for another CPU, or by a compiler that gets AMX wrong (GCC 12 does): compile it with "
    f"{NATIVE_COMMAND}, or use the prebuilt engine with --engine xllamacpp"
)
_SHRUNK_HINT: Final = "; the model file became shorter, or its disk failed, while it was read"
_KILLED_HINT: Final = "; if you did not end it yourself, the system did, most likely because memory ran out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How long the worker may be silent. Generous: they end a hang, not a slow machine."""

    load_s: float = 120.0  # of the library
    open_s: float = float(SECONDS_PER_HOUR)  # of a model
    request_s: float = float(SECONDS_PER_HOUR)  # of one evaluation


class WorkerProcess:
    """A worker and the conversation with it. Not thread-safe."""

    def __init__(self) -> None:
        # -P: never import from the current directory, where anybody's files may lie.
        command = [sys.executable, "-P", "-m", "suffice.measure.engine.worker"]
        environment = {**os.environ, "GGML_NO_BACKTRACE": "1", "PYTHONIOENCODING": "utf-8"}
        self._words: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process, closed in close()
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own module, our own interpreter
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._words, env=environment
            )
        except OSError as error:
            self._words.close()
            raise EngineError(f"cannot start the engine's process: {error}") from error
        self._replies: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read_replies, daemon=True)
        self._reader.start()
        self._stopped = False

    @property
    def pid(self) -> int:
        """Process id of the worker."""
        return self._process.pid

    @property
    def is_open(self) -> bool:
        """Whether it can be asked; False once it was closed or found dead."""
        return not self._words.closed

    def ask(self, operation: str, arguments: dict[str, Any], timeout_s: float) -> Any:  # noqa: ANN401 - any JSON value
        """Send a request and wait for its reply.

        Raises:
            EngineError: the worker reports one, or it was silent for ``timeout_s`` and was killed.
            EngineCrashError: the process died.
        """
        if self._words.closed:
            raise EngineError("the engine's session is over: it was closed, or its process has died")
        self._wake()
        try:
            self._stdin().write(protocol.request_line(operation, arguments).encode())
            self._stdin().flush()
            reply = self._replies.get(timeout=timeout_s)
        except queue.Empty:
            self.close(kill=True)
            raise EngineError(
                f"the engine did not answer within {timeout_s:g} s ({operation}) and was ended; "
                "the machine may be out of memory, or the process was stopped"
            ) from None
        except OSError:
            reply = None
        if reply is None:
            raise self._crash(operation)
        return protocol.parse_reply(reply)

    @property
    def is_resting(self) -> bool:
        """Whether :meth:`rest` has stopped it, and nothing was asked since."""
        return self._stopped

    def rest(self) -> None:
        """Stop all its threads until the next request. Only on Linux: there the worker is woken when this process dies, whatever ends it."""
        if sys.platform == "linux" and self.is_open and not self._stopped:
            self._send(signal.SIGSTOP)
            self._stopped = True

    def _wake(self) -> None:
        if self._stopped:
            self._stopped = False
            self._send(signal.SIGCONT)

    def _send(self, number: signal.Signals) -> None:
        if self._process.poll() is None:  # it was not collected, so that nobody else has its number
            self._process.send_signal(number)

    def close(self, *, kill: bool = False) -> None:
        """End the process and collect it. A worker ends when its stdin closes; one that does not is killed."""
        if self._words.closed:
            return
        self._wake()
        with contextlib.suppress(OSError):
            self._stdin().close()
        if kill:
            self._process.kill()
        try:
            self._process.wait(timeout=_CLOSE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._words.close()

    def _stdin(self) -> IO[bytes]:
        if self._process.stdin is None:  # cannot be: it was opened as a pipe
            raise EngineError("the engine's process has no input")
        return self._process.stdin

    def _read_replies(self) -> None:
        for line in self._process.stdout or ():
            self._replies.put(line.decode("utf-8", errors="replace"))
        self._replies.put(None)

    def _crash(self, operation: str) -> EngineCrashError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=_CLOSE_TIMEOUT_S)
        how, hint = describe_exit(self._process.returncode)
        words = self._last_words()
        self.close(kill=True)
        said = f"; its last words: {words}" if words else ""
        return EngineCrashError(f"the engine's process {how} during {operation}{said}{hint}")

    def _last_words(self) -> str:
        size = self._words.seek(0, os.SEEK_END)
        self._words.seek(max(0, size - _WORDS_BYTES))
        lines = self._words.read().decode("utf-8", errors="replace").splitlines()
        return " | ".join([line.strip() for line in lines if line.strip()][-_WORDS_LINES:])


class Turns:
    """Whose turn it is among the sessions of one engine.

    For some milliseconds after an evaluation an engine's threads still look for work, and would take a CPU from another session's
    first step: that step took half as long again. So before the turn changes, the old session is waited for.
    """

    def __init__(self) -> None:
        self._last: WorkerProcess | None = None

    def take(self, worker: WorkerProcess, timeout_s: float) -> None:
        """Called before an evaluation in ``worker``: waits until the threads of the one before are asleep, unless it rests."""
        last, self._last = self._last, worker
        if last is not None and last is not worker and last.is_open and not last.is_resting:
            with contextlib.suppress(EngineError):  # if it died or hangs, its own next request says so
                guarded(last, "settle", {}, timeout_s)


class WorkerClient:
    """One conversation with a worker, which ends with it. Use it in ``with``."""

    def __init__(self, worker: WorkerProcess, timeout_s: float) -> None:
        self._worker = worker
        self.timeout_s = timeout_s  # of each request from now on

    @property
    def pid(self) -> int:
        """Process id of the engine, for those who watch it from outside."""
        return self._worker.pid

    def close(self) -> None:
        """End the worker."""
        self._worker.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, operation: str, **arguments: Any) -> Any:  # noqa: ANN401 - JSON values both ways
        return guarded(self._worker, operation, arguments, self.timeout_s)


class LlamaCppClient(WorkerClient):
    """A session in a worker; implements the seam's Session."""

    def __init__(self, worker: WorkerProcess, facts: SessionFacts, timeout_s: float, turns: Turns) -> None:
        super().__init__(worker, timeout_s)
        self._facts = facts
        self._turns = turns

    @property
    def facts(self) -> SessionFacts:
        """What was known once the model was open."""
        return self._facts

    def set_threads(self, n_threads: int, n_threads_batch: int) -> None:
        """Use these thread counts from the next evaluation on."""
        self._ask("set_threads", n_threads=n_threads, n_threads_batch=n_threads_batch)

    def prefill(self, n_tokens: int, *, prompt: str | None = None) -> ChunkTimings:
        """Clear the cache and evaluate that many tokens; seconds of each chunk."""
        return protocol.timings_from_json(self._evaluate("prefill", n_tokens=n_tokens, prompt=prompt))

    def spread(self, batch: int) -> None:
        """Make the sequences 1 to ``batch - 1`` copies of sequence 0."""
        self._ask("spread", batch=batch)

    def decode(self, n_steps: int, *, batch: int = 1) -> tuple[float, ...]:
        """Seconds of each of ``n_steps`` steps of one token for each of ``batch`` sequences."""
        return tuple(self._evaluate("decode", n_steps=n_steps, batch=batch))

    def extend(self, n_tokens: int, *, n_chunks: int = 1) -> tuple[float, ...]:
        """Seconds of each of ``n_chunks`` chunks of so many tokens of sequence 0, one evaluation each."""
        return tuple(self._evaluate("extend", n_tokens=n_tokens, n_chunks=n_chunks))

    def experts_touched(self, n_steps: int, *, batch: int = 1) -> tuple[ExpertUse, ...] | None:
        """Different experts that each of ``n_steps`` steps chose, by layer; None for a dense model."""
        return protocol.experts_from_json(self._evaluate("experts_touched", n_steps=n_steps, batch=batch))

    def rewind(self, depth: int) -> bool:
        """Forget all tokens beyond ``depth``; False if this model cannot."""
        return bool(self._ask("rewind", depth=depth))

    def count_tokens(self, text: str) -> int:
        """Tokens of the text, without BOS."""
        return int(self._ask("count_tokens", text=text))

    def peak_rss_bytes(self) -> int | None:
        """Largest resident memory of the worker so far, mapped model pages included."""
        peak: int | None = self._ask("peak_rss_bytes")
        return peak

    def rest(self) -> None:
        """Stop the worker's threads until the next request, where the system can."""
        self._worker.rest()

    def cpu_time_s(self) -> float | None:
        """CPU time of the worker so far, all threads."""
        used: float | None = self._ask("cpu_time_s")
        return used

    def node_bytes(self) -> dict[int, int] | None:
        """Resident memory of the worker now, by NUMA node."""
        told: list[tuple[int, int]] | None = self._ask("node_bytes")
        return None if told is None else dict(told)

    def _evaluate(self, operation: str, **arguments: Any) -> Any:  # noqa: ANN401 - JSON values both ways
        self._turns.take(self._worker, self.timeout_s)
        return self._ask(operation, **arguments)


class LlamaCppEngine:
    """llama.cpp through one of its shared libraries; implements the seam's Engine."""

    def __init__(self, choice: LibraryChoice, timeouts: Timeouts | None = None) -> None:
        self.choice = choice
        self.timeouts = timeouts or Timeouts()
        self._identity: EngineIdentity | None = None
        self._turns: dict[str | None, Turns] = {}  # by their CPUs: sessions on others disturb nobody's

    @property
    def identity(self) -> EngineIdentity:
        """What the library says of itself; asked once, in a process of its own.

        Raises:
            EngineError: the library cannot be loaded or is not one that suffice knows.
        """
        if self._identity is None:
            worker = self._start()
            worker.close()
        if self._identity is None:  # cannot be: _start has set it or raised
            raise EngineError("the engine did not tell what it is")
        return self._identity

    def open(self, model: Path, settings: EngineSettings, *, evict_first: bool = False) -> LlamaCppClient:
        """Load a model in a new worker; see the seam."""
        worker = self._start(settings.cpus)
        arguments = {
            "model": str(model.expanduser().absolute()),
            "settings": protocol.settings_to_json(settings),
            "evict_first": evict_first,
        }
        try:
            facts = protocol.facts_from_json(guarded(worker, "open", arguments, self.timeouts.open_s))
        except EngineError:
            worker.close(kill=True)
            raise
        turns = self._turns.setdefault(settings.cpus, Turns())
        return LlamaCppClient(worker, facts, self.timeouts.request_s, turns)

    def _start(self, cpus: str | None = None) -> WorkerProcess:
        worker = WorkerProcess()
        try:
            if cpus is not None:  # before the library is loaded: OpenMP counts the CPUs only once
                guarded(worker, "pin", {"cpus": cpus}, self.timeouts.load_s)
            told = guarded(worker, "load", protocol.choice_to_json(self.choice), self.timeouts.load_s)
        except EngineError:
            worker.close(kill=True)
            raise
        self._identity = protocol.identity_from_json(told)
        return worker


def find_engine(
    library: Path | None = None, prefer: str | None = None, *, timeouts: Timeouts | None = None
) -> LlamaCppEngine:
    """The engine to use; nothing is loaded yet. See :func:`~suffice.measure.engine.library.choose_library` for the choice.

    Raises:
        EngineMissingError: none is installed; the message holds the commands that install one.
    """
    return LlamaCppEngine(choose_library(library, prefer), timeouts)


def describe_exit(code: int | None) -> tuple[str, str]:
    """How a process ended, and a hint for what the person can do: ``(-4)`` -> ``died of SIGILL``."""
    if code is None:
        return "closed its output", ""
    if code >= 0:
        return f"ended with exit code {code}", ""
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    hints = {"SIGILL": _ILLEGAL_HINT, "SIGKILL": _KILLED_HINT, "SIGBUS": _SHRUNK_HINT}
    return f"died of {name}", hints.get(name, "")


def guarded(worker: WorkerProcess, operation: str, arguments: dict[str, Any], timeout_s: float) -> Any:  # noqa: ANN401
    """Ask, and let no worker outlive an interruption: its answer would be taken for that of the next request."""
    try:
        return worker.ask(operation, arguments, timeout_s)
    except KeyboardInterrupt:
        worker.close(kill=True)
        raise
