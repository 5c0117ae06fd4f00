"""The service curve that physics allows a model on a machine: both roofs, at a grid of batches, depths and chunks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from suffice.model.basis import Basis
from suffice.model.roofline import PhaseWork, decode_work, least_time
from suffice.serving.curve import curve_of_points
from suffice.serving.surface import Point

if TYPE_CHECKING:
    from collections.abc import Iterator

    from suffice.model.roofline import Roofs
    from suffice.model.shape import ModelShape
    from suffice.serving.curve import ServiceCurve


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """How far a computed curve goes, and what share of its ceilings is reached.

    Attributes:
        batch: most sequences of a step.
        depth: most tokens of a sequence.
        chunk: most tokens of a pass.
        decode_share: speed of decode over its ceiling; 1 is the ceiling itself.
        prefill_share: the same of prefill.
        type_k: of the cache.
        type_v: of the cache.
    """

    batch: int = 32
    depth: int = 8192
    chunk: int = 512
    decode_share: float = 1.0
    prefill_share: float = 1.0
    type_k: str = "f16"
    type_v: str = "f16"

    def __post_init__(self) -> None:
        if min(self.batch, self.depth, self.chunk) < 1:
            raise ValueError("a curve reaches at least one sequence, one token of depth and one token of a chunk")
        if not (0 < self.decode_share <= 1 and 0 < self.prefill_share <= 1):
            raise ValueError("shares of a ceiling lie in (0, 1]")


def curve_of_model(
    shape: ModelShape, roofs: Roofs, reach: Reach, *, basis: Basis = Basis.CEILING, name: str = ""
) -> ServiceCurve:
    """The curve of a model on a machine: a decode step and a chunk take the longer of their bytes and their operations.

    Experts are those that so many tokens touch when routing is even. A cache whose layout is not known is taken as empty, and
    unknown operations as none: the truth is then slower, never faster.
    """
    decode = [
        Point(size=batch, depth=depth, seconds=_decode_s(shape, roofs, reach, batch, depth) / reach.decode_share)
        for batch in _powers(reach.batch)
        for depth in (0, *_powers(reach.depth))
    ]
    prefill = [
        Point(size=tokens, depth=depth, seconds=_chunk_s(shape, roofs, reach, tokens, depth) / reach.prefill_share)
        for tokens in _powers(reach.chunk)
        for depth in (0, *_powers(reach.depth))
    ]
    return curve_of_points(decode, prefill, basis=basis, name=name or shape.name)


def _powers(most: int) -> Iterator[int]:
    """1, 2, 4 ... and ``most``."""
    value = 1
    while value < most:
        yield value
        value *= 2
    yield most


def _decode_s(shape: ModelShape, roofs: Roofs, reach: Reach, batch: int, depth: int) -> float:
    work = decode_work(
        weight_bytes=shape.streamed_bytes(batch),
        kv_bytes=shape.kv_read_bytes(depth, reach.type_k, reach.type_v) or 0.0,
        flop_per_token=shape.flops_per_token(depth + 1) or 0.0,
        batch=batch,
    )
    return least_time(work, roofs).seconds


def _chunk_s(shape: ModelShape, roofs: Roofs, reach: Reach, tokens: int, depth: int) -> float:
    work = PhaseWork(
        read_bytes=shape.streamed_bytes(tokens) + (shape.kv_read_bytes(depth, reach.type_k, reach.type_v) or 0.0),
        flop=shape.prefill_flops(tokens, depth) or 0.0,
    )
    return least_time(work, roofs).seconds
