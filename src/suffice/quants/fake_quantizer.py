"""A quantizer without an engine: files with the header that the real one would write, and zeros for weights.

It lies where it is told to, so that tests see what becomes of a crash or of a file that is not what was asked for.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from suffice.errors import EngineCrashError, EngineError, UsageError
from suffice.loaders.gguf import read_gguf_header
from suffice.measure.engine.fake import FAKE_IDENTITY
from suffice.measure.engine.quantizer import QuantizeJob, QuantizerFacts
from suffice.model.ggml_types import TYPES_BY_ID, type_by_name
from suffice.model.recipe import RECIPE_NAMES, quantized_header
from suffice.quants.gguf_spans import file_spans
from suffice.quants.recipe_plan import as_float

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from suffice.measure.engine.seam import EngineIdentity
    from suffice.model.gguf_header import GgufHeader

ALL_TYPES: Final = frozenset(kind.name for kind in TYPES_BY_ID.values())
FAKE_FACTS: Final = QuantizerFacts(type_names=ALL_TYPES, takes_imatrix=True, bounds_memory=True)
_FILE_TYPE: Final = "general.file_type"
_SET_BY_QUANTIZER: Final = (_FILE_TYPE, "general.quantization_version")
_UINT32: Final = 4  # of the types that metadata have


@dataclass(slots=True, kw_only=True)
class FakeQuantizer:
    """Implements :class:`~suffice.measure.engine.quantizer.Quantizer`.

    Attributes:
        crashes: it dies in the middle of the file.
        drops_key: it leaves out this metadata key.
        other_type: every tensor of a type gets another one: ``{"q4_K": "q5_K"}``.
        jobs: what it was asked to do.
    """

    identity: EngineIdentity = FAKE_IDENTITY
    facts: QuantizerFacts = FAKE_FACTS
    crashes: bool = False
    drops_key: str | None = None
    other_type: Mapping[str, str] = field(default_factory=dict)
    jobs: list[QuantizeJob] = field(default_factory=list)

    def quantize(self, job: QuantizeJob, progress: Callable[[int, int], None]) -> None:
        self.jobs.append(job)
        header = read_gguf_header(job.source)
        planned = _planned(header, job)
        count = len(planned.tensors)
        progress(1, count)
        start, n_bytes = self._start(job.source, header, planned)
        if self.crashes:
            job.target.write_bytes(start)
            raise EngineCrashError("the engine's process died of SIGABRT during quantize_model_wait")
        with job.target.open("wb") as file:
            file.write(start)
            file.truncate(n_bytes)
        progress(count, count)

    def _start(self, source: Path, header: GgufHeader, planned: GgufHeader) -> tuple[bytes, int]:
        """The bytes before the weights (keys as they stand in the source, and the planned tensors), and the size of the whole file."""
        spans = file_spans(source, header)
        with source.open("rb") as file:
            raw = file.read(spans.data_start)
        left_out = (*_SET_BY_QUANTIZER, self.drops_key)
        keys = [
            _text(span.key) + raw[span.start : span.end]
            for span in spans.keys
            if span.key not in left_out and not span.key.startswith("split.")
        ]
        keys += [_text(key) + struct.pack("<II", _UINT32, planned.metadata[key]) for key in _SET_BY_QUANTIZER]
        parts, offset = [], 0
        for tensor in planned.tensors:
            kind = type_by_name(self.other_type.get(tensor.type_name, tensor.type_name))
            place = struct.pack(f"<I{len(tensor.dims)}QIQ", len(tensor.dims), *tensor.dims, kind.type_id, offset)
            parts.append(_text(tensor.name) + place)
            offset += _aligned(kind.row_bytes(tensor.dims[0]) * (tensor.elements // tensor.dims[0]))
        start = b"GGUF" + struct.pack("<IQQ", 3, len(parts), len(keys)) + b"".join((*keys, *parts))
        start = start.ljust(_aligned(len(start)), b"\0")
        return start, len(start) + offset


def _planned(header: GgufHeader, job: QuantizeJob) -> GgufHeader:
    for recipe in RECIPE_NAMES:
        try:
            planned = quantized_header(as_float(header), recipe, has_imatrix=job.imatrix is not None)
        except UsageError:
            continue
        if planned.metadata[_FILE_TYPE] == job.file_type:
            return planned
    raise EngineError(f"llama.cpp could not quantize the model: invalid output file type {job.file_type}")


def _text(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _aligned(n_bytes: int) -> int:
    return -(-n_bytes // 32) * 32
