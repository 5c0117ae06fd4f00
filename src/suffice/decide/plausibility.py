"""Measurements against their ceilings. One above its ceiling is a contradiction to report, never to clamp."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from suffice.units import format_bandwidth, format_bytes

if TYPE_CHECKING:
    from suffice.stats.estimate import Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Plausibility:
    """``contradictions`` make a verdict "undecided"; ``warnings`` are within what the intervals allow."""

    contradictions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def check_rate(
    what: str,
    measured: Estimate | None,
    *,
    ceiling_tokens_per_second: float | None,
    bandwidth_spread: float,
    streamed_bytes: float | None,
) -> Plausibility:
    """A measured rate against its ceiling.

    The ceiling rests on a bandwidth that was itself measured, as a lower bound, with a relative spread of
    ``bandwidth_spread`` upwards. A rate above the ceiling by less than both intervals allow is a warning: the reading of
    the bandwidth was a little low. Beyond that, one of the two is wrong.
    """
    if measured is None or ceiling_tokens_per_second is None or measured.point <= ceiling_tokens_per_second:
        return Plausibility()
    figures = f"{what} {measured.point:.4g} tokens/s is above its ceiling of {ceiling_tokens_per_second:.4g}"
    if streamed_bytes is not None:
        implied = format_bandwidth(measured.point * streamed_bytes)
        figures += f" (it implies reading {format_bytes(streamed_bytes)} per step at {implied})"
    low = measured.point if measured.interval is None else measured.interval.low
    if low <= ceiling_tokens_per_second * (1 + bandwidth_spread):
        return Plausibility(
            warnings=(f"{figures}; within the spread of the bandwidth reading, which is a lower bound",)
        )
    doubt = "doubt the bandwidth reading (taken while the machine was busy?) and the bytes per token (are all weights read?)"
    return Plausibility(contradictions=(f"{figures}; {doubt}",))
