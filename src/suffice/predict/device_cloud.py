"""Rows of llama-bench on rented machines with GPUs, as the law takes them.

Columns are those of ``machines.csv`` joined with ``llama-bench.csv``: gpu, gpu_count, llm_gpu, backend, gpu_layers, model, model_bytes, model_params,
n_prompt, n_gen; any may be missing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from suffice.predict.device_classes import classify, is_gpu_slice
from suffice.predict.device_model import Work
from suffice.predict.device_models import catalogue_model, step_bytes, typical_layers
from suffice.predict.device_ratings import peak_ratio, rating_of
from suffice.predict.device_terms import DeviceCase
from suffice.predict.device_words import EngineFamily, quant_format
from suffice.predict.model_files import model_file
from suffice.units import BITS_PER_BYTE

if TYPE_CHECKING:
    from collections.abc import Mapping

_CACHE_ROWS: Final = 65_536
_ALL_LAYERS: Final = 99  # llama.cpp takes any larger number for "all of them"
_FLOPS_PER_PARAMETER: Final = 2
_FORMATS: Final = ("q4_k_m", "q8_0", "q4_0", "q5_k_m", "q6_k", "q3_k_m", "q2_k", "f16", "bf16")
_FORMAT_BY_DEFAULT: Final = "q4_k_m"  # phi-4-q4.gguf


@dataclass(frozen=True, slots=True, kw_only=True)
class _OldShape:
    """A model that is measured on many clouds, and too old for the catalogue."""

    layers: int
    kv_elements_per_token: int
    looked_up_bits: float  # of the embedding, where the file holds a head beside it


# From the models' config.json: 18 layers with one key head of 256 numbers; 24 layers with keys of 1,024, and an embedding of 151,936 rows
# of as many in q4_K beside the head.
_OLD: Final = {
    "gemma-2b": _OldShape(layers=18, kv_elements_per_token=9_216, looked_up_bits=0.0),
    "qwen1-5-0-5b": _OldShape(layers=24, kv_elements_per_token=49_152, looked_up_bits=4.5 * 155_582_464),
}
_F16_BYTES: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudRow:
    """One row, ready for the law. ``tokens`` are those of the prompt, or 1 in decode."""

    case: DeviceCase
    work: Work
    tokens: int
    is_decode: bool
    count: int
    memory_bytes: float | None
    file_bytes: float


def read_cloud(row: Mapping[str, str]) -> CloudRow | None:
    """The row of a GPU that runs all layers; None: it has no GPU that is known, or the row says too little.

    Layers that stay on the CPU make it a run of the CPU, or of both, which this law does not describe.
    """
    name, count = _gpu(row)
    layers = _number(row.get("gpu_layers"))
    if not name or (layers is not None and layers < _ALL_LAYERS) or row.get("backend") == "CPU":
        return None
    prompt, generated = int(_number(row.get("n_prompt")) or 0), int(_number(row.get("n_gen")) or 0)
    size, parameters = _number(row.get("model_bytes")), _number(row.get("model_params"))
    if not size or not parameters:  # the name of a model may say both
        known = model_file(row.get("model") or "", size or None, parameters or None)
        size, parameters = (size, parameters) if known is None else (known.file_bytes, known.parameters)
    if not size or not parameters or not (prompt or generated):
        return None
    return _ready(name, count, row.get("model") or "", size, parameters, prompt, generated)


def _number(text: str | None) -> float | None:
    """A finite number of zero or more; None: there is none."""
    try:
        value = float(text or "nan")
    except ValueError:
        return None
    return value if 0 <= value < math.inf else None


def _gpu(row: Mapping[str, str]) -> tuple[str, int]:
    seen = row.get("llm_gpu") or ""
    names = [name.strip() for name in (seen or row.get("gpu") or "").split(",") if name.strip()]
    if not names:
        return "", 0
    listed = _number(row.get("gpu_count"))
    return names[0], len(names) if seen or listed is None else max(1, round(listed))


@lru_cache(maxsize=_CACHE_ROWS)
def _ready(  # a row's columns, as the key of the cache
    name: str, count: int, model: str, size: float, parameters: float, prompt: int, generated: int
) -> CloudRow | None:
    rating = rating_of(name, "gpu")
    quant = _quant(model)
    known = quant_format(quant)
    if rating is None or known is None or is_gpu_slice(name):
        return None
    is_decode = generated > 0
    weight_bytes, kv_bytes, layers, flop = _read(model, quant, size, parameters, prompt, generated)
    return CloudRow(
        case=DeviceCase(device=classify(name, "gpu"), quant=known.family, engine=EngineFamily.LLAMA_CPP),
        work=Work(
            bandwidth_bytes_per_s=rating.bandwidth_bytes_per_s,
            weight_bytes=weight_bytes,
            kv_bytes=kv_bytes if is_decode else 0.0,
            layers=layers,
            flop=0.0 if is_decode else flop,
            peak_ratio=peak_ratio(name, "gpu", rating.bandwidth_bytes_per_s),
            count=count,
        ),
        tokens=1 if is_decode else prompt,
        is_decode=is_decode,
        count=count,
        memory_bytes=rating.memory_bytes,
        file_bytes=size,
    )


def _quant(model: str) -> str:
    text = model.lower().replace("-", "_")
    return next((name for name in _FORMATS if name in text), _FORMAT_BY_DEFAULT)


def _read(  # as above
    model: str, quant: str, size: float, parameters: float, prompt: int, generated: int
) -> tuple[float, float, float, float]:
    """Weight bytes, cache bytes halfway through, layers, and the FLOP of the prompt."""
    depth = generated // 2
    plain_flop = _FLOPS_PER_PARAMETER * parameters * max(prompt, 1)
    old = next((shape for stem, shape in _OLD.items() if model.lower().replace("_", "-").startswith(stem)), None)
    if old is not None:
        streamed = size - old.looked_up_bits / BITS_PER_BYTE
        return streamed, float(old.kv_elements_per_token * _F16_BYTES * depth), float(old.layers), plain_flop
    step = step_bytes(model, quant, size, parameters) if catalogue_model(model) else None
    if step is None or step.shape is None:
        return size, 0.0, typical_layers(parameters), plain_flop
    flop = step.shape.prefill_flops(prompt) if prompt else None
    return step.weight_bytes, step.kv_bytes(depth) or 0.0, step.layers, flop or plain_flop
