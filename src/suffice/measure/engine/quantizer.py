"""The seam for making a model of fewer bits: llama.cpp's own quantizer, in a process of its own.

:class:`~suffice.quants.fake_quantizer.FakeQuantizer` ships beside the real one.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from suffice.errors import EngineError, EngineMissingError
from suffice.measure.engine.client import LlamaCppEngine, Timeouts, WorkerProcess, guarded
from suffice.measure.engine.library import INSTALL_NATIVE, LibraryChoice, available_engines, choose_library
from suffice.units import MIB

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from suffice.measure.engine.seam import EngineIdentity

MAX_BUFFER_BYTES: Final = 512 * MIB
"""Of a tensor's rows, at both ends and as 32-bit floats between, that the quantizer is told to hold at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizerFacts:
    """What a quantizer can.

    Attributes:
        type_names: the number formats that it knows, as ggml writes them.
        takes_imatrix: importance matrices can be handed to it.
        bounds_memory: it holds :data:`MAX_BUFFER_BYTES` of a tensor at most; else the whole of the largest one.
    """

    type_names: frozenset[str]
    takes_imatrix: bool
    bounds_memory: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizeJob:
    """A model to make.

    Attributes:
        source: the reference, or the first of its parts.
        target: the file to write.
        file_type: llama.cpp's number of the recipe (``llama_ftype``).
        n_threads: threads to use.
        imatrix: a file of native 32-bit floats, the importance of each column, tensor after tensor; None: no matrix.
        imatrix_sizes: the tensors in that file, with how many numbers each has.
    """

    source: Path
    target: Path
    file_type: int
    n_threads: int
    imatrix: Path | None = None
    imatrix_sizes: tuple[tuple[str, int], ...] = ()


class Quantizer(Protocol):
    """Something that quantizes GGUF models."""

    @property
    def identity(self) -> EngineIdentity:
        """What the engine is, as it says itself."""

    @property
    def facts(self) -> QuantizerFacts:
        """What it can."""

    def quantize(self, job: QuantizeJob, progress: Callable[[int, int], None]) -> None:
        """Write the model; ``progress`` gets how many tensors of how many are done or being done.

        Raises:
            EngineError: it refused or failed, with its own words. A part of the target may be there.
            EngineCrashError: its process died.
        """


class LlamaCppQuantizer(LlamaCppEngine):
    """The quantizer of one of llama.cpp's shared libraries; implements :class:`Quantizer`."""

    def __init__(self, choice: LibraryChoice, timeouts: Timeouts | None = None) -> None:
        super().__init__(choice, timeouts)
        self._facts: QuantizerFacts | None = None

    @property
    def facts(self) -> QuantizerFacts:
        """What it can; asked once.

        Raises:
            EngineMissingError: the library has no quantizer that others could call.
            EngineError: the library cannot be loaded, or its interface is unknown.
        """
        if self._facts is None:
            worker = self._start()
            try:
                told = guarded(worker, "quantizer_facts", {}, self.timeouts.load_s)
            finally:
                worker.close()
            if told is None:
                raise EngineMissingError(
                    f"{self.choice.name} ({self.choice.library}) has no quantizer that can be called"
                )
            self._facts = QuantizerFacts(
                type_names=frozenset(told["type_names"]),
                takes_imatrix=bool(told["takes_imatrix"]),
                bounds_memory=bool(told["bounds_memory"]),
            )
        return self._facts

    def quantize(self, job: QuantizeJob, progress: Callable[[int, int], None]) -> None:
        """Write the model; see :class:`Quantizer`."""
        worker = self._start()
        try:
            guarded(worker, "quantize_model", _arguments(job), self.timeouts.request_s)
            self._follow(worker, progress)
        finally:
            worker.close(kill=True)

    def _follow(self, worker: WorkerProcess, progress: Callable[[int, int], None]) -> None:
        before = (0, 0)
        while True:
            told = guarded(worker, "quantize_model_wait", {}, self.timeouts.request_s)
            at = (int(told["done"]), int(told["count"]))
            if at != before:
                progress(*at)
                before = at
            if told["is_over"]:
                return


def _arguments(job: QuantizeJob) -> dict[str, object]:
    return {
        "source": os.fspath(job.source.expanduser().absolute()),
        "target": os.fspath(job.target.expanduser().absolute()),
        "settings": {
            "file_type": job.file_type,
            "n_threads": job.n_threads,
            "max_buffer_bytes": MAX_BUFFER_BYTES,
            "imatrix": None if job.imatrix is None else os.fspath(job.imatrix.absolute()),
            "imatrix_sizes": [list(size) for size in job.imatrix_sizes],
        },
    }


def find_quantizer(
    library: Path | None = None, prefer: str | None = None, *, timeouts: Timeouts | None = None
) -> LlamaCppQuantizer:
    """The quantizer to use: that of the engine which is asked for, else of any other that is installed.

    Raises:
        EngineMissingError: none has one; the message holds the command that installs one.
        EngineError: the engine that is asked for cannot be loaded.
        UsageError: ``prefer`` is no known package.
    """
    without = []
    for is_asked_for, choice in _choices(library, prefer):
        quantizer = LlamaCppQuantizer(choice, timeouts)
        try:
            _ = quantizer.facts
        except EngineMissingError:
            without.append(choice.name)
        except EngineError:
            if is_asked_for:
                raise
            without.append(choice.name)
        else:
            return quantizer
    raise EngineMissingError(
        f"llama.cpp's quantizer cannot be called in {' or in '.join(without)}; run: {INSTALL_NATIVE}, or name a llama.cpp library "
        "(libllama) with --engine-library"
    )


def _choices(library: Path | None, prefer: str | None) -> Iterator[tuple[bool, LibraryChoice]]:
    """The engine that is asked for, then the others; True: it was asked for."""
    first = choose_library(library, prefer)
    yield True, first
    yield from ((False, choice) for choice in available_engines() if choice.library != first.library)
