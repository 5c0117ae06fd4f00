"""llama.cpp's own quantizer of whole models, inside the worker's process; :class:`~suffice.measure.engine.worker.Worker` has it in its table.

It runs on a thread of its own, so that the client can ask how far it is, and so that this process still ends when the client does.
Its client is :mod:`suffice.measure.engine.quantizer`.
"""

from __future__ import annotations

import ctypes
import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from suffice.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from suffice.measure.engine.binding import Binding

QUANTIZE: Final = "llama_model_quantize"
_BUFFER_FIELD: Final = "max_buf_size"
_TENSOR_LINE: Final = re.compile(r"^\[\s*(?P<number>\d+)/\s*(?P<count>\d+)\]")
_WAIT_S: Final = 0.5
_FLOAT_BYTES: Final = 4


class _Importance(ctypes.Structure):
    """``llama_model_imatrix_data``; an array of them ends with one without a name."""

    _fields_ = (("name", ctypes.c_char_p), ("data", ctypes.c_void_p), ("size", ctypes.c_size_t))


class ModelQuantizer:
    """At most one model at a time."""

    def __init__(self, loaded: Callable[[], Binding]) -> None:
        self._loaded = loaded
        self._thread: threading.Thread | None = None
        self._failure: str | None = None
        self._done, self._count = 0, 0

    def table(self) -> dict[str, Callable[[dict[str, Any]], object]]:
        """The operations by name."""
        return {
            "quantizer_facts": lambda _: self._facts(),
            "quantize_model": self._begin,
            "quantize_model_wait": lambda _: self._wait(),
        }

    def _facts(self) -> dict[str, object] | None:
        """What the library's quantizer can; None: it has none, or hides it."""
        binding = self._loaded()
        if not binding.has(QUANTIZE):
            return None
        params = binding.default_quantize_params()
        is_bounded = hasattr(params, _BUFFER_FIELD)
        # The default of both types is GGML_TYPE_COUNT, which is the number of types that this ggml has.
        names = [binding.call("ggml_type_name", number) for number in range(params.output_tensor_type)]
        return {
            "type_names": [name.decode(errors="replace") for name in names if name],
            # The array of matrices came half a year before the bound on memory; before that it was a C++ map.
            "takes_imatrix": is_bounded,
            "bounds_memory": is_bounded,
        }

    def _begin(self, arguments: dict[str, Any]) -> None:
        if self._thread is not None:
            raise EngineError("the engine's worker quantizes one model only")
        binding = self._loaded()
        binding.watch = self._on_line
        self._thread = threading.Thread(target=self._run, args=(binding,), kwargs=arguments, daemon=True)
        self._thread.start()

    def _run(self, binding: Binding, *, source: str, target: str, settings: dict[str, Any]) -> None:
        try:
            params, _kept = _params(binding, **settings)
        except (OSError, ValueError) as error:
            self._failure = f"the importance matrix could not be passed on: {error}"
            return
        if binding.call(QUANTIZE, source.encode(), target.encode(), ctypes.addressof(params)):
            lines = binding.log.last_errors().split(" | ")
            self._failure = " | ".join(line.strip() for line in lines if line.strip("= ")) or "it gave no reason"

    def _wait(self) -> dict[str, object]:
        """How far it is, half a second later or when it is done.

        Raises:
            EngineError: it failed, with llama.cpp's words.
        """
        if self._thread is None:
            raise EngineError("the engine's worker quantizes nothing")
        self._thread.join(_WAIT_S)
        is_over = not self._thread.is_alive()
        if is_over and self._failure is not None:
            raise EngineError(f"llama.cpp could not quantize the model: {self._failure}")
        return {"is_over": is_over, "done": self._done, "count": self._count}

    def _on_line(self, line: str) -> None:
        match = _TENSOR_LINE.match(line)
        if match is not None:
            self._done, self._count = int(match["number"]), int(match["count"])


def _params(
    binding: Binding,
    *,
    file_type: int,
    n_threads: int,
    max_buffer_bytes: int,
    imatrix: str | None,
    imatrix_sizes: Sequence[tuple[str, int]],
) -> tuple[ctypes.Structure, object]:
    """The parameters, and what must live as long as they do. ``imatrix`` is a file of native 32-bit floats, tensor after tensor."""
    params = binding.default_quantize_params()
    params.ftype = file_type
    params.nthread = n_threads
    params.allow_requantize = True
    if hasattr(params, _BUFFER_FIELD):
        params.max_buf_size = max_buffer_bytes
    if imatrix is None:
        return params, None
    numbers = bytearray(Path(imatrix).read_bytes())
    matrix = (_Importance * (len(imatrix_sizes) + 1))()
    place = 0
    for entry, (name, count) in zip(matrix, imatrix_sizes, strict=False):
        start = (ctypes.c_float * count).from_buffer(numbers, place)  # ValueError where the file is too short
        entry.name, entry.data, entry.size = name.encode(), ctypes.addressof(start), count
        place += count * _FLOAT_BYTES
    params.imatrix = ctypes.addressof(matrix)
    return params, (numbers, matrix)
