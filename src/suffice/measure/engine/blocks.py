"""Blocks of quantized random numbers, for models of random weights: made by ggml's own quantizer, so that every engine accepts them.

A block of random *bits* would not do: its scale may be infinite or not a number, and one such weight spoils all activations.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from suffice.errors import EngineError
from suffice.measure.engine import protocol
from suffice.measure.engine.client import Timeouts, WorkerProcess
from suffice.model.ggml_types import type_by_name

if TYPE_CHECKING:
    from types import TracebackType

    from suffice.measure.engine.library import LibraryChoice
    from suffice.model.ggml_types import GgmlType

PLAIN_TYPES: Final = ("f32", "f16", "bf16")
QUANTIZED_TYPES: Final = (
    *("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_K", "q3_K", "q4_K", "q5_K", "q6_K"),
    *("iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s", "iq4_nl", "iq4_xs"),
    *("tq1_0", "tq2_0", "mxfp4", "nvfp4", "q1_0"),
)
"""What ``ggml_quantize_chunk`` accepts, as far as the engine is new enough. It aborts the process on anything else."""

_BF16_SHIFT: Final = 16  # bits of a float32 that bf16 leaves out


class EngineBlocks:
    """A :class:`~suffice.slices.contents.BlockSource`: blocks from the quantizer of an engine's library, in a process of its own that starts with the first use.

    The blocks of each (type, sigma, seed) are kept in memory, so asking again costs nothing. A million numbers take some tenths of a
    second; ggml's search tables for the smallest types take 1 s (iq2_xxs) to 8 s (iq1_s) more, once for each process.
    Close it, or use it in ``with``.
    """

    def __init__(self, choice: LibraryChoice, timeouts: Timeouts | None = None) -> None:
        self._choice = choice
        self._timeouts = timeouts or Timeouts()
        self._worker: WorkerProcess | None = None
        self._made: dict[tuple[str, float, int], bytes] = {}

    def blocks(self, type_name: str, n_elements: int, *, sigma: float, seed: int) -> bytes:
        """See :class:`~suffice.slices.contents.BlockSource`. The types f32, f16 and bf16 need no engine."""
        kind = _checked_type(type_name, n_elements)
        if kind.name not in (*PLAIN_TYPES, *QUANTIZED_TYPES):
            raise EngineError(f"there is no quantizer for the type {kind.name}; choose another quantization")
        n_bytes = kind.row_bytes(n_elements)
        key = (kind.name, sigma, seed)
        made = self._made.get(key, b"")
        if len(made) < n_bytes:
            numbers = normal_numbers(n_elements, sigma=sigma, seed=seed)
            made = plain_bytes(numbers, kind.name) if kind.name in PLAIN_TYPES else self._quantized(numbers, kind)
            self._made[key] = made
        return made if len(made) == n_bytes else made[:n_bytes]

    def close(self) -> None:
        """End the process; twice is harmless, and a later use starts a new one."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _quantized(self, numbers: np.ndarray[tuple[int], np.dtype[np.float32]], kind: GgmlType) -> bytes:
        try:
            with tempfile.TemporaryDirectory(prefix="suffice-blocks-") as folder:
                source, target = Path(folder, "numbers"), Path(folder, "blocks")
                source.write_bytes(numbers.tobytes())
                files = {"numbers": str(source), "blocks": str(target)}
                self._ask("quantize", {**files, "type_id": kind.type_id, "type_name": kind.name})
                made = target.read_bytes()
        except OSError as error:
            raise EngineError(f"no room for quantized blocks in the temporary directory: {error}") from error
        expected = kind.row_bytes(numbers.size)
        if len(made) != expected:
            raise EngineError(f"{self._choice.library} made {len(made)} bytes of {kind.name} instead of {expected}")
        return made

    def _ask(self, operation: str, arguments: dict[str, object]) -> None:
        try:
            if self._worker is None:
                self._worker = WorkerProcess()
                self._worker.ask("load", protocol.choice_to_json(self._choice), self._timeouts.load_s)
            self._worker.ask(operation, arguments, self._timeouts.request_s)
        except (EngineError, KeyboardInterrupt):
            # An answer that comes too late would be taken for that of the next request.
            if self._worker is not None:
                self._worker.close(kill=True)
                self._worker = None
            raise


def normal_numbers(n_elements: int, *, sigma: float, seed: int) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """Normally distributed random numbers; more of them begin with the same ones."""
    return np.random.default_rng(seed).standard_normal(n_elements, dtype=np.float32) * np.float32(sigma)


def plain_bytes(numbers: np.ndarray[tuple[int], np.dtype[np.float32]], type_name: str) -> bytes:
    """Numbers as f32, f16 or bf16, rounded to the nearest and ties to even, little-endian as in a GGUF file."""
    if type_name == "f32":
        return numbers.astype("<f4").tobytes()
    if type_name == "f16":
        return numbers.astype("<f2").tobytes()
    bits = numbers.view(np.uint32)
    half = np.uint32((1 << (_BF16_SHIFT - 1)) - 1) + ((bits >> _BF16_SHIFT) & np.uint32(1))
    return ((bits + half) >> _BF16_SHIFT).astype("<u2").tobytes()


def _checked_type(type_name: str, n_elements: int) -> GgmlType:
    kind = type_by_name(type_name)
    if n_elements < 1:
        raise ValueError(f"at least one block must be made, not {n_elements} elements")
    kind.row_bytes(n_elements)
    return kind
