"""The process in which llama.cpp runs, so that its crash is an error message and not the end of suffice.

Started by :mod:`suffice.measure.engine.client` as ``python -P -m suffice.measure.engine.worker``. Reads requests from stdin and
writes replies to what was stdout; the engine's own prints go to stderr instead, which the client keeps for an error message. It
ends when stdin closes, thus also when the client is killed, even in the middle of an evaluation. Ctrl-C is the client's business.
"""

from __future__ import annotations

import ctypes
import dataclasses
import os
import queue
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from suffice.errors import EngineError, SufficeError
from suffice.measure.engine import protocol
from suffice.measure.engine.binding import Binding
from suffice.measure.engine.llama_cpp import LlamaCppSession
from suffice.measure.engine.quantize import quantize_file
from suffice.measure.engine.quantize_model import ModelQuantizer
from suffice.measure.system_files import parse_cpu_list, read_node_bytes
from suffice.units import KIB

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

_STATUS_FILE: Final = Path("/proc/self/status")
_NUMA_FILE: Final = Path("/proc/self/numa_maps")
_PR_SET_PDEATHSIG: Final = 1  # of <linux/prctl.h>
_SETTLE_LOOK_S: Final = 0.002
_SETTLE_LOOKS: Final = 200  # 0.4 s; threads that look for work longer than that do so for ever
_SETTLED_SHARE: Final = 0.25  # of one CPU; looking itself takes some microseconds


class Worker:
    """Executes requests on one library: at most one session, or blocks of quantized numbers."""

    def __init__(self) -> None:
        self._binding: Binding | None = None
        self._session: LlamaCppSession | None = None
        self._operations: dict[str, Callable[[dict[str, Any]], object]] = {
            "load": self._load,
            "open": self._open,
            "set_threads": lambda args: self._opened().set_threads(**args),
            "prefill": lambda args: dataclasses.asdict(self._opened().prefill(args["n_tokens"], prompt=args["prompt"])),
            "spread": lambda args: self._opened().spread(**args),
            "decode": lambda args: self._opened().decode(**args),
            "extend": lambda args: self._opened().extend(**args),
            "experts_touched": self._experts_touched,
            "quantize": lambda args: quantize_file(self._loaded(), **args),
            "rewind": lambda args: self._opened().rewind(**args),
            "count_tokens": lambda args: self._opened().count_tokens(**args),
            "peak_rss_bytes": lambda _: peak_rss_bytes(),
            "cpu_time_s": lambda _: cpu_time_s(),
            "node_bytes": lambda _: node_bytes(),
            "pin": lambda args: pin(**args),
            "settle": lambda _: settle(),
            **ModelQuantizer(self._loaded).table(),
        }
        self._knows_texts = False

    def answer(self, line: str) -> str:
        """The reply to a request line."""
        try:
            operation, arguments = protocol.parse_request(line)
            if operation not in self._operations and not self._knows_texts:
                self._learn_texts()
            if operation not in self._operations:
                raise EngineError(f"the engine's worker cannot {operation!r}")
            return protocol.result_line(self._operations[operation](arguments))
        except SufficeError as error:
            return protocol.error_line(error)

    def _learn_texts(self) -> None:
        """The operations of a text session, which costs an import that most workers never need."""
        from suffice.measure.engine.text_worker import TextOperations  # noqa: PLC0415  # 27 ms

        self._operations |= TextOperations(self._loaded).table()
        self._knows_texts = True

    def close(self) -> None:
        """Free the model."""
        if self._session is not None:
            self._session.close()

    def _load(self, arguments: dict[str, Any]) -> object:
        self._binding = Binding(protocol.choice_from_json(arguments))
        return dataclasses.asdict(self._binding.identity())

    def _open(self, arguments: dict[str, Any]) -> object:
        binding = self._loaded()
        if self._session is not None:
            raise EngineError("the engine's worker opens one model only")
        settings = protocol.settings_from_json(arguments["settings"])
        model = Path(arguments["model"])
        self._session = LlamaCppSession(binding, model, settings, evict_first=arguments["evict_first"])
        return dataclasses.asdict(self._session.facts)

    def _experts_touched(self, arguments: dict[str, Any]) -> object:
        uses = self._opened().experts_touched(**arguments)
        return None if uses is None else [dataclasses.asdict(use) for use in uses]

    def _loaded(self) -> Binding:
        if self._binding is None:
            raise EngineError("no library is loaded in the engine's worker")
        return self._binding

    def _opened(self) -> LlamaCppSession:
        if self._session is None:
            raise EngineError("no model is open in the engine's worker")
        return self._session


def peak_rss_bytes() -> int | None:
    """Largest resident memory of this process; mapped model pages count. None where the system does not tell."""
    if _STATUS_FILE.exists():
        for line in _STATUS_FILE.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * KIB
    if sys.platform == "win32":
        return None
    import resource  # noqa: PLC0415 - does not exist on Windows

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * KIB


def cpu_time_s() -> float:
    """User and system time of this process, all threads."""
    times = os.times()
    return times.user + times.system


def node_bytes() -> list[tuple[int, int]] | None:
    """Resident memory of this process by NUMA node; None where the system does not tell."""
    found = read_node_bytes(_NUMA_FILE)
    return None if found is None else sorted(found.items())


def pin(cpus: str) -> None:
    """Keep this thread, and all that it and the engine start from now on, on these CPUs; memory comes from their NUMA node by first touch.

    Raises:
        EngineError: the system cannot, or refuses.
    """
    if not hasattr(os, "sched_setaffinity"):
        raise EngineError("this system cannot keep an engine on some of its CPUs; Linux can")
    try:
        os.sched_setaffinity(0, parse_cpu_list(cpus))
    except OSError as error:
        raise EngineError(f"the engine cannot run on the CPUs {cpus}: {error.strerror or error}") from error


def settle() -> None:
    """Return once this process uses no CPU: after an evaluation its threads look for more work for some milliseconds."""
    for _ in range(_SETTLE_LOOKS):
        used_s = time.process_time()
        time.sleep(_SETTLE_LOOK_S)
        if time.process_time() - used_s < _SETTLE_LOOK_S * _SETTLED_SHARE:
            return


def take_stdout() -> TextIO:
    """The real stdout as a private stream; file descriptor 1 then leads to stderr, whoever prints to it."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return replies


def read_requests(requests: queue.SimpleQueue[str]) -> None:
    """Pass on lines from stdin; at its end the client is gone, and so is this process, whatever it is computing."""
    for line in sys.stdin:
        requests.put(line)
    os._exit(0)


def wake_with_parent_death() -> None:
    """A worker that was stopped for a rest must see that the client is gone: on Linux the kernel then wakes it, however the client ended."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGCONT), 0, 0, 0)


def main() -> None:
    """Serve until stdin closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    wake_with_parent_death()
    replies = take_stdout()
    requests: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=read_requests, args=(requests,), daemon=True).start()
    worker = Worker()
    while True:
        replies.write(worker.answer(requests.get()))
        replies.flush()


if __name__ == "__main__":
    main()
