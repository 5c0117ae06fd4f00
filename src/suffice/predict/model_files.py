"""What the name of a model's file tells about the bytes and operations of a token."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from suffice.units import BITS_PER_BYTE, GIGA, MEGA

# Bits per weight of a whole file, embedding and norms included: typical of 7B to 14B models.
_FILE_BITS: Final = {
    "f32": 32.0,
    "bf16": 16.0,
    "f16": 16.0,
    "q8_0": 8.5,
    "q6_k": 6.56,
    "q5_k": 5.7,
    "q5_0": 5.54,
    "q4_k": 4.85,
    "q4_0": 4.6,
    "q4": 4.85,
    "iq4": 4.4,
    "q3_k": 3.9,
    "q2_k": 3.0,
}
_DEFAULT_QUANT: Final = "q4_k"
# Grouped-query models cache about this much per token at 8 billion parameters, and less with the square root of the size.
_CACHE_BYTES_AT_8B: Final = 131072


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFile:
    """A model as an engine reads it.

    Attributes:
        parameters: of the file.
        active_parameters: that a token is multiplied with: without a table of embeddings that is only looked up.
        file_bytes: of the tensors.
        streamed_bytes: read for each token.
        cache_bytes_per_token: of the KV cache at 16 bits.
        quant: family of the quantization.
        exact: whether the tensors are known, or the figures follow from sizes alone.
    """

    parameters: float
    active_parameters: float
    file_bytes: float
    streamed_bytes: float
    cache_bytes_per_token: float
    quant: str
    exact: bool


def _known(parameters: int, file_bytes: int, looked_up: int, cache: int) -> ModelFile:
    """``looked_up`` parameters of a token embedding at 4.5 bits (q4_K) that is not the output head as well."""
    return ModelFile(
        parameters=parameters,
        active_parameters=parameters - looked_up,
        file_bytes=file_bytes,
        streamed_bytes=file_bytes - looked_up * 4.5 / BITS_PER_BYTE,
        cache_bytes_per_token=cache,
        quant="q4_k",
        exact=True,
    )


# Vocabulary x width of the embedding where the head is a tensor of its own; cache: 2 x layers x KV heads x head size x 2 bytes.
KNOWN_FILES: Final = {
    "smollm-135m": _known(134515008, 103668480, 0, 2 * 30 * 3 * 64 * 2),
    "qwen1_5-0_5b": _known(619570176, 401210368, 151936 * 1024, 2 * 24 * 16 * 64 * 2),
    "gemma-2b": _known(2506172416, 1489055744, 0, 2 * 18 * 1 * 256 * 2),
    "llama-7b": _known(6738415616, 4080263168, 32000 * 4096, 2 * 32 * 32 * 128 * 2),
    "phi-4": _known(14659507200, 9049559040, 100352 * 5120, 2 * 40 * 10 * 128 * 2),
    "llama-3.3-70b": _known(70553706560, 42512531712, 128256 * 8192, 2 * 80 * 8 * 128 * 2),
}


@lru_cache(maxsize=4096)
def model_file(name: str, file_bytes: float | None, parameters: float | None) -> ModelFile | None:
    """The model that a name, a size and a count of parameters describe; None where they say too little.

    A known name counts only where the file's size does not contradict it: another quantization is another file.
    """
    lowered = name.strip().lower()
    known = next((model for key, model in KNOWN_FILES.items() if lowered.startswith(key)), None)
    quant = _quant(lowered)
    if known and quant == "q4_k" and (file_bytes is None or math.isclose(file_bytes, known.file_bytes, rel_tol=0.05)):
        return known
    if known and file_bytes is None:
        parameters = known.parameters
    count = parameters or _stated_parameters(lowered) or (known.parameters if known else None)
    if count is None and file_bytes is None:
        return None
    bits = _FILE_BITS[quant]
    count = count or (file_bytes or 0.0) * BITS_PER_BYTE / bits
    size = file_bytes or count * bits / BITS_PER_BYTE
    return ModelFile(
        parameters=count,
        active_parameters=count,
        file_bytes=size,
        streamed_bytes=size,
        cache_bytes_per_token=typical_cache_bytes(count),
        quant=quant,
        exact=False,
    )


def typical_cache_bytes(parameters: float) -> float:
    """Cache per token of a model of which only the size is known: some per cent of what is streamed, at most."""
    return _CACHE_BYTES_AT_8B * math.sqrt(parameters / (8 * GIGA))


def _quant(name: str) -> str:
    return next((quant for quant in _FILE_BITS if quant in name), _DEFAULT_QUANT)


def _stated_parameters(name: str) -> float | None:
    found = re.search(r"(?<![a-z0-9])(\d+(?:[._]\d+)?)([bm])(?![a-z0-9])", name)
    if not found:
        return None
    value = float(found.group(1).replace("_", "."))
    return value * (GIGA if found.group(2) == "b" else MEGA) if value > 0 else None
