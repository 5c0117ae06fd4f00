"""What the layers of slices have to do in a pass, and how much memory they take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.measure.service_plan import PassKind
from suffice.measure.slice_series import SliceModel
from suffice.model.layer_work import decode_work, prefill_work
from suffice.model.slices import SliceDesign, design_bytes
from suffice.units import MIB

if TYPE_CHECKING:
    from suffice.measure.request import RunRequest
    from suffice.measure.series import DecodeAt, SeriesPlan
    from suffice.measure.service_plan import PassPoint
    from suffice.model.shape import ModelShape

# Buffers and the process of each session beside its weights.
SESSION_BYTES: Final = 96 * MIB
# Chunks up to this many tokens wait for the weights as a decode step does; kinds of layers then differ by their bytes.
READING_CHUNK: Final = 8


def open_bytes(design: SliceDesign) -> float:
    """What all slices take when they are open, without caches."""
    return design_bytes(design) + len(design.plans) * SESSION_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceWork:
    """The work of one layer of each kind, with the settings of a run."""

    design: SliceDesign
    shape: ModelShape
    request: RunRequest

    def of_pass(self, point: PassPoint) -> tuple[float, ...]:
        """Of a pass of the service curve: small chunks read more than they multiply, as decode steps do."""
        design, shape, request = self.design, self.shape, self.request
        if point.kind is PassKind.DECODE or point.size <= READING_CHUNK:
            return decode_work(
                design, shape, point.depth, batch=point.size, type_k=request.type_k, type_v=request.type_v
            )
        # Multiplications per token of a prompt that ends behind the chunk, less those of its beginning in the cache.
        end = point.depth + point.size
        until_end, until_start = prefill_work(design, shape, end), prefill_work(design, shape, max(point.depth, 1))
        return tuple(
            (whole * end - before * point.depth) / point.size
            for whole, before in zip(until_end, until_start, strict=True)
        )

    def series_model(self, plan: SeriesPlan) -> SliceModel:
        """Of the series of a plan."""
        request, design, shape = self.request, self.design, self.shape

        def work(at: DecodeAt) -> tuple[float, ...]:
            return decode_work(design, shape, at.depth, batch=at.batch, type_k=request.type_k, type_v=request.type_v)

        return SliceModel(
            counts=tuple(design.counts(slice_plan) for slice_plan in design.plans),
            full_counts=design.full_counts,
            decode_work=work,
            prefill_work=prefill_work(design, shape, plan.prompt_tokens),
        )

    def fits(self, sequences: int, context: int, *, usable_bytes: float) -> bool:
        """Whether the slices and so many caches of their layers fit in the usable memory."""
        shape, request, design = self.shape, self.request, self.design
        kv = shape.kv_cache_bytes(context, request.type_k, request.type_v, sequences=sequences) or 0.0
        share = sum(len(plan.layers) for plan in design.plans) / shape.n_layer
        return open_bytes(design) + kv * share <= usable_bytes
