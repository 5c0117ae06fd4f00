"""The guard's rule: does a record still hold the floor that a decision once rested on?"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from suffice.decide.evidence import residual_of, supported_rate
from suffice.decide.plausibility import contradictions_in
from suffice.model.extrapolation import RESIDUAL_TOLERANCE

if TYPE_CHECKING:
    from suffice.decide.quantity import Quantity
    from suffice.records.schema import DecodeSeries, RunRecord


class Outcome(StrEnum):
    """What a guard says."""

    PASS = "pass"  # an outcome, not a password  # noqa: S105  # an outcome, not a password
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardResult:
    """``smallest_detectable_change``: the relative drop that this many repetitions would have told from noise; None: unknown."""

    outcome: Outcome
    reason: str
    measured_tokens_per_second: float | None
    floor_tokens_per_second: float
    smallest_detectable_change: float | None


def guard_floor(record: RunRecord, floor_tokens_per_second: float) -> GuardResult:
    """Decode against a floor: FAIL under it, PASS when the low end of the interval holds it, else INCONCLUSIVE.

    A record without a number, or marked as measured on a busy machine, is INCONCLUSIVE: it is evidence of neither.
    """
    measured = record.decode_tokens_per_second
    series = record.measurement.decode[0] if record.measurement.decode else None
    rate = supported_rate(record, series.tokens_per_second, "decode", series.depth) if series else None
    outcome, reason = _judge(record, series, rate, floor_tokens_per_second)
    return GuardResult(
        outcome=outcome,
        reason=reason,
        measured_tokens_per_second=measured,
        floor_tokens_per_second=floor_tokens_per_second,
        smallest_detectable_change=_detectable(rate),
    )


def _judge(record: RunRecord, series: DecodeSeries | None, rate: Quantity | None, floor: float) -> tuple[Outcome, str]:
    measured = record.decode_tokens_per_second
    if measured is None:
        return Outcome.INCONCLUSIVE, "the record has no decode measurement"
    figures = f"decode {measured:.2f} tokens/s, floor {floor:g}"
    doubt = _doubt(record)
    if doubt:
        return Outcome.INCONCLUSIVE, f"{figures}: {doubt}"
    if measured < floor:
        return Outcome.FAIL, f"{figures}: below the floor"
    if rate is None:
        return Outcome.PASS, f"{figures}: holds (a plain number without an interval)"
    interval = None if series is None or series.tokens_per_second is None else series.tokens_per_second.interval
    return _judge_range(rate, 0.0 if interval is None else interval.level, floor, figures)


def _doubt(record: RunRecord) -> str:
    """Why the record is no evidence, or "" when it is."""
    if record.disturbed:
        return f"measured on a busy machine ({'; '.join(record.contention.reasons) or 'marked in the record'})"
    series = record.measurement.decode
    residual = residual_of(record, "decode", series[0].depth) if series else 0.0
    if residual > RESIDUAL_TOLERANCE:
        return f"extrapolated from slices that do not lie on a line (one is {residual:.1%} off)"
    return next(iter(contradictions_in(record)), "")


def _judge_range(rate: Quantity, level: float, floor: float, figures: str) -> tuple[Outcome, str]:
    if rate.low is None or rate.high is None:
        return Outcome.INCONCLUSIVE, f"{figures}: a single repetition has no interval, measure with a larger --budget"
    interval = f"{level:.0%} interval {rate.low:.2f} to {rate.high:.2f}"
    if rate.low >= floor:
        return Outcome.PASS, f"{figures}: holds, {interval}"
    return Outcome.INCONCLUSIVE, f"{figures}: the {interval} reaches below the floor"


def _detectable(rate: Quantity | None) -> float | None:
    return None if rate is None or rate.low is None else (rate.point - rate.low) / rate.point
