"""From the evidence of a machine to service curves that enclose the truth: one that is surely slow, one that is surely fast.

A measured curve is widened by its own scatter and by what a simulation leaves out. Without one, a single stream says this much:

- slow: a step of B sequences takes B single steps and a quarter more, as some kernels do with two rows instead of one;
- fast: a step of B sequences takes as long as one, until its tokens come at the prefill rate, which no step exceeds;
- a pass grows with depth as ``a + b d`` with neither negative, so that beyond the deepest measurement D it takes at most d / D times
  as long as there, and at least as long.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from suffice.model.basis import Basis, weakest
from suffice.model.extrapolation import STAND_IN_ERROR
from suffice.serving.curve import curve_of_points
from suffice.serving.surface import Point

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.decide.evidence import MachineEvidence
    from suffice.decide.quantity import Quantity
    from suffice.serving.curve import ServiceCurve

SIMULATION_ERROR: Final = 0.15
"""What a simulation leaves out, as a share of each time: how far simulated percentiles lay off a running server (docs/serving.md)."""
PASS_TOKENS: Final = 512  # llama-server's --ubatch-size
BATCH_OVERHEAD: Final = 1.25
"""A step of two sequences over two single ones at worst: 56 against 2 x 23 ms were seen (1.1B Q4_0, AMX, where one row goes another way)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """How far a load goes on a curve: sequences at once, tokens of its prompts, and tokens in a cache (both at P95)."""

    sequences: int
    prompt_tokens: float
    depth: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveEnds:
    """Curves that enclose the truth.

    Attributes:
        slow: no pass takes longer; None where nothing bounds it.
        likely: as measured; None where no curve was.
        fast: no pass is faster; None where nothing bounds it.
        basis: of what is simulated from them; a simulation is never "measured".
        beyond: what was asked beyond the measurements, in sentences.
        interval_known: False for plain numbers that were taken at face value.
        too_short: prompts or caches go beyond the lengths of the measured curve.
    """

    slow: ServiceCurve | None
    likely: ServiceCurve | None
    fast: ServiceCurve | None
    basis: Basis
    beyond: tuple[str, ...] = ()
    interval_known: bool = True
    too_short: bool = False


def curve_ends(evidence: MachineEvidence, extent: Extent, *, with_fast: bool = True) -> CurveEnds:
    """The curves of a machine for a load of some extent; ``with_fast``: a screen of thousands asks for the slow end of predictions alone."""
    if evidence.service is None:
        return _of_single_stream(evidence, extent, with_fast=with_fast)
    return _of_measured(_with_prompt(evidence.service, evidence), evidence.service_uncertainty, extent)


def _with_prompt(curve: ServiceCurve, evidence: MachineEvidence) -> ServiceCurve:
    """With the chunks of the prompt that was read beside it, where the curve's own were measured behind empty caches alone."""
    prompt = evidence.prefill_curve
    if prompt is None or not curve.prefill_points or curve.prefill.largest_depth != 0:
        return curve
    starts = itertools.accumulate(prompt.chunk_tokens, initial=0)
    read = [
        Point(size=tokens, depth=depth, seconds=seconds)
        for tokens, depth, seconds in zip(prompt.chunk_tokens, starts, prompt.chunk_s, strict=False)
        if depth > 0
    ]
    longer = curve_of_points(
        curve.decode_points, [*curve.prefill_points, *read], basis=curve.basis, name=curve.name, reach=curve.reach
    )
    return replace(longer, notes=curve.notes, fast_steps=curve.fast_steps)


def _of_measured(curve: ServiceCurve, uncertainty: float | None, extent: Extent) -> CurveEnds:
    stand_in = STAND_IN_ERROR if curve.basis is Basis.EXTRAPOLATED else 0.0
    slow = fast = None
    if uncertainty is not None:
        factor = 1 + math.hypot(uncertainty, SIMULATION_ERROR, stand_in)
        slow = _reaching(curve.slower(factor), extent, slow=True)
        fast = _reaching(curve.fast_end.slower(1 / factor), extent, slow=False)
    return CurveEnds(
        slow=slow,
        likely=curve,
        fast=fast,
        basis=weakest([curve.basis, Basis.EXTRAPOLATED]) or curve.basis,
        beyond=_beyond(curve, extent),
        too_short=_too_short(curve, extent),
    )


def _beyond(curve: ServiceCurve, extent: Extent) -> tuple[str, ...]:
    asked = (
        ("sequences in a step", float(extent.sequences), curve.decode.largest_size),
        ("tokens in a cache", extent.depth, curve.decode.largest_depth),
        ("tokens of a pass", min(extent.prompt_tokens, PASS_TOKENS), curve.prefill.largest_size),
    )
    return tuple(
        f"{value:.0f} {what}, {measured:.0f} were measured"
        for what, value, measured in asked
        if measured is not None and value > curve.reach * measured
    )


def _too_short(curve: ServiceCurve, extent: Extent) -> bool:
    chunk = min(extent.prompt_tokens, PASS_TOKENS)
    depths = (
        (extent.depth, curve.decode.largest_depth),
        (extent.prompt_tokens - chunk, curve.prefill.largest_depth),
    )
    if any(
        measured is not None and asked > max(curve.reach * measured, PASS_TOKENS * (curve.reach - 1))
        for asked, measured in depths
    ):
        return True
    largest = curve.prefill.largest_size
    return largest is not None and chunk > curve.reach * largest


def _reaching(curve: ServiceCurve, extent: Extent, *, slow: bool) -> ServiceCurve | None:
    """The curve with bounds beyond its reach; None where depth has no bound: measured with empty caches alone."""
    if not curve.decode_points:
        return curve  # a formula reaches everywhere
    chunk = min(float(PASS_TOKENS), extent.prompt_tokens)
    decode = _deeper(curve.decode_points, extent.depth, curve.reach, slow=slow)
    prefill = _deeper(curve.prefill_points, extent.prompt_tokens - chunk, curve.reach, slow=slow)
    if decode is None or prefill is None:
        return None
    return curve_of_points(
        _larger(decode, extent.sequences, curve.reach, slow=slow),
        _larger(prefill, math.ceil(chunk), curve.reach, slow=slow),
        basis=curve.basis,
        name=curve.name,
        reach=curve.reach,
    )


def _deeper(points: Sequence[Point], depth: float, reach: float, *, slow: bool) -> list[Point] | None:
    """Points with one more behind the deepest of each size, where a load goes deeper than the reach."""
    deepest: dict[int, Point] = {}
    for point in points:
        if point.size not in deepest or point.depth > deepest[point.size].depth:
            deepest[point.size] = point
    measured = max(point.depth for point in points)
    if depth <= max(reach * measured, PASS_TOKENS * (reach - 1)):
        return list(points)
    if slow and measured == 0:
        return None
    ends = [point for point in deepest.values() if point.depth > 0] if slow else list(deepest.values())
    grown = [replace(one, depth=depth, seconds=one.seconds * (depth / one.depth if slow else 1.0)) for one in ends]
    return [*points, *(point for point in grown if point.depth > deepest[point.size].depth)]


def _larger(points: Sequence[Point], size: int, reach: float, *, slow: bool) -> list[Point]:
    """Points with one more behind the largest size: no gain by more of them (slow), or more of them for nothing (fast)."""
    largest = max(point.size for point in points)
    if size <= reach * largest:
        return list(points)
    factor = size / largest if slow else 1.0
    ends = [replace(one, size=size, seconds=one.seconds * factor) for one in points if one.size == largest]
    return [*points, *ends]


@dataclass(frozen=True, slots=True)
class _Stream:
    """What a single stream says of one end: seconds of a step and of a chunk."""

    evidence: MachineEvidence
    slow: bool

    def step_s(self, depth: float) -> float | None:
        """A step of one sequence; None: no bound."""
        rate = self.evidence.decode_rate(depth)
        if rate is None:
            return None
        if not self.slow:
            return None if not rate.high else (1 / rate.high) / (1 + SIMULATION_ERROR)
        if rate.low:
            return (1 / rate.low) * (1 + SIMULATION_ERROR)
        deepest = max((point for point in self.evidence.decode), key=lambda point: point.depth or 0.0)
        if not deepest.depth or not deepest.rate.low or depth <= deepest.depth:
            return None
        return (1 / deepest.rate.low) * (depth / deepest.depth) * (1 + SIMULATION_ERROR)

    def chunk_s(self, tokens: float, depth: float) -> float | None:
        """A chunk of a prompt behind ``depth`` tokens of it; None: no bound."""
        curve, ratios = self.evidence.prefill_curve, self.evidence.prefill_interval_ratios
        rate = self.evidence.prefill_rate
        if curve is None:
            end = None if rate is None else (rate.low if self.slow else rate.high)
            return self._with_error(tokens / end) if end else None
        if ratios is None:
            return None
        seconds = (curve.seconds(depth + tokens) - curve.seconds(depth)) * ratios[1 if self.slow else 0]
        if self.slow and not curve.supports(depth + tokens):
            # A token costs a + b x at depth x; the measured prompt had a mean depth of half its length.
            per_token = curve.seconds(curve.measured_tokens) / curve.measured_tokens * ratios[1]
            seconds = max(seconds, tokens * per_token * (depth + tokens / 2) / (curve.measured_tokens / 2))
        return self._with_error(seconds)

    def _with_error(self, seconds: float) -> float:
        return seconds * (1 + SIMULATION_ERROR) if self.slow else seconds / (1 + SIMULATION_ERROR)

    @property
    def chunk_tokens(self) -> int:
        """The size in which the prompt was read."""
        curve = self.evidence.prefill_curve
        return PASS_TOKENS if curve is None else max(curve.chunk_tokens)


def _of_single_stream(evidence: MachineEvidence, extent: Extent, *, with_fast: bool) -> CurveEnds:
    decode = evidence.decode_rate(extent.depth)
    prefill = evidence.prefill_seconds(extent.prompt_tokens)
    bases = [quantity.basis for quantity in (decode, prefill) if quantity is not None]
    known = [quantity.interval_known for quantity in (decode, evidence.prefill_rate) if quantity is not None]
    return CurveEnds(
        slow=_slow_curve(_Stream(evidence, slow=True), extent),
        likely=None,
        fast=_fast_curve(_Stream(evidence, slow=False), extent) if with_fast else None,
        basis=weakest([*bases, Basis.EXTRAPOLATED]) or Basis.EXTRAPOLATED,
        interval_known=all(known),
    )


def _depths(evidence: MachineEvidence, depth: float) -> list[float]:
    """Where a step is asked for: at the depths that were measured, and at the deepest of the load and twice that."""
    measured = {point.depth for point in evidence.decode if point.depth is not None and point.depth < depth}
    return sorted({0.0, *measured, depth, 2 * depth})


def _prompt_depths(extent: Extent) -> list[float]:
    return sorted({0.0, extent.prompt_tokens / 2, extent.prompt_tokens})


def _slow_curve(stream: _Stream, extent: Extent) -> ServiceCurve | None:
    """No gain by batches."""
    most = max(2, extent.sequences)
    decode: list[Point] = []
    for depth in _depths(stream.evidence, extent.depth):
        step_s = stream.step_s(depth)
        if step_s is None:
            return None
        decode.append(Point(size=1, depth=depth, seconds=step_s))
        decode += [Point(size=size, depth=depth, seconds=BATCH_OVERHEAD * size * step_s) for size in sorted({2, most})]
    chunks = _slow_chunks(stream, extent, decode[0].seconds)
    if chunks is None:
        return None
    return curve_of_points(decode, chunks, basis=Basis.EXTRAPOLATED, name=stream.evidence.name)


def _slow_chunks(stream: _Stream, extent: Extent, single_s: float) -> list[Point] | None:
    """A chunk that a prompt only begins costs as much as a whole one, or as its tokens one by one if that is less."""
    tokens = stream.chunk_tokens
    whole = {depth: stream.chunk_s(tokens, depth) for depth in _prompt_depths(extent)}
    known = {depth: seconds for depth, seconds in whole.items() if seconds is not None}
    if len(known) < len(whole):
        return None
    sizes = {tokens}
    if stream.evidence.prefill_curve is not None:
        sizes |= {min(tokens, max(2, math.ceil(seconds / single_s))) for seconds in known.values()}
    points = [
        Point(size=size, depth=depth, seconds=seconds if size == tokens else min(seconds, size * single_s))
        for depth, seconds in known.items()
        for size in sizes
    ]
    return points + _larger_chunks(tokens, known)


def _larger_chunks(tokens: int, known: dict[float, float]) -> list[Point]:
    """A server's pass, where a prompt was read in smaller ones: in proportion."""
    if tokens >= PASS_TOKENS:
        return []
    return [
        Point(size=PASS_TOKENS, depth=depth, seconds=seconds * PASS_TOKENS / tokens) for depth, seconds in known.items()
    ]


def _fast_curve(stream: _Stream, extent: Extent) -> ServiceCurve | None:
    """A step costs one single step, until all its tokens come at the prefill rate."""
    per_token_s = _least_token_s(stream.evidence.prefill_rate)
    most = max(2, extent.sequences)
    steps: dict[float, float] = {}
    for depth in _depths(stream.evidence, extent.depth):
        step_s = stream.step_s(depth)
        if step_s is None:
            return None
        steps[depth] = step_s
    sizes = {1, most}
    if per_token_s:
        kinks = [seconds / per_token_s for seconds in steps.values()]
        sizes |= {size for kink in kinks for size in (math.floor(kink), math.ceil(kink)) if 1 < size < most}
    decode = [
        Point(size=size, depth=depth, seconds=max(step_s, size * per_token_s))
        for depth, step_s in steps.items()
        for size in sorted(sizes)
    ]
    chunks = _fast_chunks(stream, extent, decode[0].seconds)
    return curve_of_points(decode, chunks, basis=Basis.EXTRAPOLATED, name=stream.evidence.name)


def _least_token_s(rate: Quantity | None) -> float:
    """Least seconds of a token of a prompt; 0 where nobody knows."""
    return 0.0 if rate is None or not rate.high else 1 / rate.high / (1 + SIMULATION_ERROR)


def _fast_chunks(stream: _Stream, extent: Extent, single_s: float) -> list[Point]:
    """Chunks cost their tokens' share, and never less than one step; as little as that where nothing is known of prefill."""
    tokens = stream.chunk_tokens
    known = {depth: max(single_s, stream.chunk_s(tokens, depth) or single_s) for depth in _prompt_depths(extent)}
    kinks = {math.floor(single_s / seconds * tokens) for seconds in known.values()}
    sizes = {tokens, *(kink for kink in kinks if 1 < kink < tokens)}
    points = [
        Point(size=size, depth=depth, seconds=max(single_s, seconds * size / tokens))
        for depth, seconds in known.items()
        for size in sizes
    ]
    return points + _larger_chunks(tokens, known)
