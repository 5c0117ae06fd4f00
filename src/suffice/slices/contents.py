"""Random weights for a slice: cheap to make, and such that activations stay finite and differ from token to token.

========================================  ===========================================================================
tensor                                    contents
========================================  ===========================================================================
``*.bias``, ``exp_probs_b*``, ``*sinks*``  0: they only add
``ffn_gate_inp*`` (the router)             really random, never repeated, sigma 1/sqrt(row length): the router's scores then
                                           have a spread of about 1, so experts are chosen evenly and no gate saturates
``ssm_a``                                  -0.5: a recurrent state decays, whatever the tokens
``ssm_d``, ``rope_freqs``, ``*norm*``,     1
``rope_factors_*``, ``*.scale``
other F32 of one dimension                 1
``*conv1d*``, ``shortconv.conv``           random, sigma 0.5: a filter of 3 or 4 taps keeps the size of its input
``token_embd``                             random, sigma 1: tokens differ
all other matrices                         random, sigma 0.01: layers add little to the stream, so tokens still differ, and choose
                                           different experts, after many layers
========================================  ===========================================================================

Large random tensors are made of a pool of about a million numbers, tiled from an offset that depends on the tensor's name. The
pool's length in blocks is prime, so rows do not repeat in step. What matters for speed are distinct pages, not distinct values.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from suffice.errors import ModelFileError
from suffice.model.ggml_types import type_by_name
from suffice.units import MIB

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from suffice.model.gguf_header import TensorInfo

# Part of every key in the cache: raise it whenever this module gives other bytes for the same tensor.
CONTENTS_VERSION: Final = 1
_POOL_ELEMENTS: Final = MIB
_CHUNK_ELEMENTS: Final = MIB
_PLAIN_TYPES: Final = ("f32", "f16", "bf16")
_SEED_BYTES: Final = 8


class BlockSource(Protocol):
    """Something that makes blocks of random numbers; the real one is ggml's own quantizer."""

    def blocks(self, type_name: str, n_elements: int, *, sigma: float, seed: int) -> bytes:
        """``n_elements`` random numbers, normally distributed around 0 with deviation ``sigma``, in the format ``type_name``.

        Equal arguments give equal bytes, and fewer elements give the beginning of what more elements give.

        Raises:
            EngineError: the engine has no quantizer for this type, or it failed.
            ValueError: no such type, or ``n_elements`` is not a positive whole number of its blocks.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What fills a tensor: the number ``constant``, or random numbers of deviation ``sigma`` (None: 1/sqrt(row length))."""

    constant: float | None = None
    sigma: float | None = None
    repeated: bool = True  # from a pool


_ZERO: Final = Content(constant=0.0)
_ONE: Final = Content(constant=1.0)
_MATRIX: Final = Content(sigma=0.01)

# The first pattern that is found in a tensor's name, without "blk.N.", decides.
_RULES: Final = tuple(
    (re.compile(pattern), content)
    for pattern, content in (
        (r"\.bias$|^exp_probs_b|sinks", _ZERO),
        (r"^ffn_gate_inp[^.]*\.weight$", Content(repeated=False)),
        (r"^ssm_a$", Content(constant=-0.5)),
        (r"^ssm_d$|norm[^.]*\.weight$|norm$|^rope_freqs|^rope_factors|\.scale$", _ONE),
        (r"conv1d|shortconv\.conv", Content(sigma=0.5, repeated=False)),
        (r"^token_embd\.weight$", Content(sigma=1.0)),
    )
)
_LAYER: Final = re.compile(r"^blk\.\d+\.")


def content_of(tensor: TensorInfo) -> Content:
    """What fills a tensor, by its name, type and dimensions."""
    name = _LAYER.sub("", tensor.name)
    for pattern, content in _RULES:
        if pattern.search(name):
            return content
    return _ONE if len(tensor.dims) == 1 else _MATRIX


class Contents:
    """The bytes of tensors. Pools are made once per type and deviation and kept while this object lives."""

    def __init__(self, blocks: BlockSource) -> None:
        self._blocks = blocks
        self._pools: dict[tuple[str, float], memoryview] = {}

    def fill(self, tensor: TensorInfo) -> Iterator[memoryview]:
        """The bytes of ``tensor``, in pieces.

        Raises:
            ModelFileError: a tensor of whole numbers, for which random values would be wrong.
            EngineError: the engine cannot make blocks of its type.
        """
        kind = tensor.type_name.lower()
        content = content_of(tensor)
        if kind in _PLAIN_TYPES and content.constant is not None:
            return _constant(tensor.elements, content.constant, kind)
        if kind in _PLAIN_TYPES and not content.repeated:
            return _unique(tensor, _sigma(content, tensor), kind)
        if re.fullmatch(r"[if]\d\d?", kind) and kind not in _PLAIN_TYPES:
            raise ModelFileError(f"tensor {tensor.name} has the type {kind}, for which suffice has no random values")
        return self._tiled(tensor, _sigma(content, tensor))

    def _tiled(self, tensor: TensorInfo, sigma: float) -> Iterator[memoryview]:
        pool = self._pool(tensor.type_name, sigma)
        block_bytes = type_by_name(tensor.type_name).block_bytes
        start = _seed(tensor.name) % (len(pool) // block_bytes) * block_bytes
        left = tensor.n_bytes
        while left:
            piece = pool[start : start + left]
            yield piece
            left -= len(piece)
            start = 0

    def _pool(self, type_name: str, sigma: float) -> memoryview:
        kind = type_by_name(type_name)
        key = (kind.name, sigma)
        if key not in self._pools:
            n_elements = _largest_prime(_POOL_ELEMENTS // kind.block_elements) * kind.block_elements
            self._pools[key] = memoryview(self._random_blocks(kind.name, n_elements, sigma))
        return self._pools[key]

    def _random_blocks(self, type_name: str, n_elements: int, sigma: float) -> bytes:
        seed = _seed(f"{type_name} {sigma}") % (1 << 31)
        if type_name in _PLAIN_TYPES:
            numbers = np.random.default_rng(seed).standard_normal(n_elements, dtype=np.float32) * np.float32(sigma)
            return _as_type(numbers, type_name).tobytes()
        raw = self._blocks.blocks(type_name, n_elements, sigma=sigma, seed=seed)
        expected = type_by_name(type_name).row_bytes(n_elements)
        if len(raw) != expected:
            raise ValueError(
                f"{n_elements} numbers in {type_name} are {expected} bytes, but the source gave {len(raw)}"
            )
        return raw


def _sigma(content: Content, tensor: TensorInfo) -> float:
    if content.sigma is not None:
        return content.sigma
    return 1 / float(np.sqrt(tensor.dims[0])) if content.constant is None else _MATRIX.sigma or 0.0


def _constant(n_elements: int, value: float, kind: str) -> Iterator[memoryview]:
    chunk = _as_type(np.full(min(n_elements, _CHUNK_ELEMENTS), value, dtype=np.float32), kind)
    for start in range(0, n_elements, _CHUNK_ELEMENTS):
        yield chunk[: n_elements - start].data


def _unique(tensor: TensorInfo, sigma: float, kind: str) -> Iterator[memoryview]:
    generator = np.random.default_rng(_seed(tensor.name))
    for start in range(0, tensor.elements, _CHUNK_ELEMENTS):
        size = min(_CHUNK_ELEMENTS, tensor.elements - start)
        numbers = generator.standard_normal(size, dtype=np.float32) * np.float32(sigma)
        yield _as_type(numbers, kind).data


def _as_type(numbers: NDArray[np.float32], kind: str) -> NDArray[np.generic]:
    """Numbers in the bytes of an unquantized type, little endian."""
    if kind == "f16":
        return numbers.astype("<f2")
    if kind == "bf16":
        # The upper half of a float32, rounded to nearest; there are no NaN here that rounding could spoil.
        return ((numbers.astype("<f4").view("<u4") + np.uint32(1 << 15)) >> np.uint32(16)).astype("<u2")
    return numbers.astype("<f4")


def _seed(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:_SEED_BYTES], "big")


def _largest_prime(limit: int) -> int:
    """The largest prime up to ``limit``: ``_largest_prime(4096) == 4093``."""
    return next(n for n in range(limit, 1, -1) if all(n % d for d in range(2, int(n**0.5) + 1)))
