"""Which passes make a machine's service curve, and how many of them a budget can repeat. Nothing is measured here.

A server makes two kinds of passes: decode steps of several sequences, and chunks of a prompt of which a part may be in the cache already.
Both are planned on a grid of sizes and depths. What does not fit into the budget is left out, points before repetitions: first the
deepest depth, then batches and chunks between the smallest and the largest, then chunks behind a filled cache.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

LEAST_REPETITIONS: Final = 3
MOST_REPETITIONS: Final = 8
# Kernels take several sequences at a time, so that 4 may be faster than 3 (docs/serving.md): between these nothing is interpolated.
EVERY_BATCH: Final = 8
SMALLEST_CHUNK: Final = 2  # one token of a prompt costs what a decode step of one sequence does
# Chunks up to this are small against what a prompt is read in; a curve without one of this size would be a guess.
LEAST_LARGEST_CHUNK: Final = 64
# The largest chunk, repeated, may take this share of the budget; a slow machine measures a smaller one.
LARGEST_CHUNK_SHARE: Final = 0.25
# The deepest depth is one of its own only when it lies so much beyond the working depth.
DEEPER_FACTOR: Final = 1.25
# A round that fills caches for longer than this share of its passes visits every point several times before they are filled again.
FILL_SHARE: Final = 0.5
# One repetition of a point lasts about so long, of so many passes; a longer pass is a repetition of its own.
REPETITION_TARGET_S: Final = 0.1
LONG_PASS_S: Final = 0.2
MOST_PASSES: Final = 6
# Passes of one repetition follow each other without cutting the cache: they may drift this much deeper than the point says.
DRIFT_TOKENS: Final = 64
_CONTEXT_PADDING: Final = 256
_WORTH_A_DEPTH: Final = 2  # an empty cache and the working depth are never left out
_SHARE_OF_STEP: Final = 0.25  # what a further sequence adds to a step at least, until it was measured


class PassKind(StrEnum):
    """What a pass evaluates."""

    DECODE = "decode"  # a token of each of several sequences
    PREFILL = "prefill"  # several tokens of one sequence


class PassPoint(NamedTuple):
    """A pass on the grid: so many sequences or tokens, behind so many tokens in the cache of each sequence."""

    kind: PassKind
    size: int
    depth: int


class Passes(NamedTuple):
    """How many passes make one repetition: those that only wake the engine's threads, and those that are timed."""

    waking: int
    timed: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.waking + self.timed


class PassCosts(Protocol):
    """What measuring takes."""

    def visit_s(self, point: PassPoint) -> float:
        """Seconds of one repetition of a point, in all sessions."""

    def fill_s(self, depth: int) -> float:
        """Seconds to fill the caches to a depth, in all sessions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedEstimate:
    """Costs from what the single stream has shown: only as exact as a plan needs to be.

    Attributes:
        step_s: seconds of a decode step of one sequence behind an empty cache.
        step_s_per_token: what each token in the cache of a sequence adds to a step.
        token_s: seconds of a token of a prompt, read in large chunks.
        can_cut: whether a cache can be cut back to a depth; recurrent state cannot, and is filled again for each point.
    """

    step_s: float
    token_s: float
    step_s_per_token: float = 0.0
    can_cut: bool = True

    def pass_s(self, point: PassPoint) -> float:
        """Seconds of one pass."""
        if point.kind is PassKind.PREFILL:
            return max(self.step_s, point.size * self.token_s) + point.depth * self.step_s_per_token
        further_s = (point.size - 1) * min(self.step_s, max(self.token_s, _SHARE_OF_STEP * self.step_s))
        return self.step_s + further_s + point.size * point.depth * self.step_s_per_token

    def visit_s(self, point: PassPoint) -> float:
        """Seconds of one repetition of a point."""
        pass_s = self.pass_s(point)
        filling_s = 0.0 if self.can_cut else self.fill_s(point.depth)
        return passes_of(point, pass_s).total * pass_s + filling_s

    def fill_s(self, depth: int) -> float:
        """Seconds to fill the caches to a depth."""
        return depth * self.token_s


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceNeeds:
    """What the curve should cover.

    Attributes:
        slots: largest number of sequences that decode together.
        working_depth: tokens in the cache while a typical request decodes.
        deepest: tokens of the longest request.
        largest_chunk: tokens that the engine evaluates at once.
    """

    slots: int
    working_depth: int
    deepest: int
    largest_chunk: int

    def layout(self) -> Layout:
        """The whole grid."""
        depths = [0, self.working_depth]
        if self.deepest >= DEEPER_FACTOR * self.working_depth:
            depths.append(self.deepest)
        return Layout(
            depths=tuple(dict.fromkeys(depths)),
            batches=tuple(_every_then_doubled(self.slots)),
            chunks=tuple(_doubled(min(SMALLEST_CHUNK, self.largest_chunk), self.largest_chunk)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A grid of points: decode steps at every depth, chunks behind an empty cache and at the deepest depth."""

    depths: tuple[int, ...]
    batches: tuple[int, ...]
    chunks: tuple[int, ...]
    deep_chunks: bool = True

    def points(self) -> tuple[PassPoint, ...]:
        """All points, shallow ones first."""
        chunk_depths = {0, self.depths[-1]} if self.deep_chunks else {0}
        return tuple(
            point
            for depth in self.depths
            for point in (
                *(PassPoint(PassKind.DECODE, batch, depth) for batch in self.batches),
                *(PassPoint(PassKind.PREFILL, chunk, depth) for chunk in self.chunks if depth in chunk_depths),
            )
        )

    def smaller(self) -> Iterator[Layout]:
        """This grid, then each with a little less, down to the least that is a curve."""
        layout = self
        yield layout
        while len(layout.depths) > _WORTH_A_DEPTH:
            layout = replace(layout, depths=layout.depths[:-1])
            yield layout
        for batch in _outer_first(layout.batches):
            layout = replace(layout, batches=tuple(one for one in layout.batches if one != batch))
            yield layout
        for chunk in _outer_first(layout.chunks):
            layout = replace(layout, chunks=tuple(one for one in layout.chunks if one != chunk))
            yield layout
        layout = replace(layout, deep_chunks=False)
        yield layout


@dataclass(frozen=True, slots=True, kw_only=True)
class ServicePlan:
    """What to measure next.

    Attributes:
        points: that lack repetitions, shallow ones first; none when the grid that the budget allows is complete.
        turns: repetitions of every point each time the caches are filled.
    """

    points: tuple[PassPoint, ...] = ()
    turns: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ServicePlanner:
    """Chooses the grid, anew whenever more is known of what it costs.

    Attributes:
        needs: what the curve should cover.
        budget_s: of the whole curve.
        fits: whether the memory holds so many sequences with room for so many tokens each.
    """

    needs: ServiceNeeds
    budget_s: float
    fits: Callable[[int, int], bool] = lambda _sequences, _context: True

    @property
    def whole(self) -> Layout:
        """All that the memory holds: without the deepest depth first, then without the largest batches."""
        layout = self.needs.layout()
        while not self.fits(layout.batches[-1], context_of(layout.points())):
            if len(layout.depths) > _WORTH_A_DEPTH:
                layout = replace(layout, depths=layout.depths[:-1])
            elif len(layout.batches) > 1:
                layout = replace(layout, batches=layout.batches[:-1])
            else:
                break
        return layout

    def plan(self, costs: PassCosts, left_s: float, done: Callable[[PassPoint], int]) -> ServicePlan:
        """The points of the largest grid that can have all its repetitions in the time that is left.

        Args:
            costs: what measuring takes.
            left_s: of the budget; the least grid is planned where it is enough for none.
            done: repetitions that a point has already.
        """
        missing: dict[PassPoint, int] = {}
        for layout in self._without_long_chunks(costs).smaller():
            lacking = {point: LEAST_REPETITIONS - done(point) for point in layout.points()}
            missing = {point: count for point, count in lacking.items() if count > 0}
            if not missing or cost_s(missing, costs) <= left_s:
                break
        return ServicePlan(points=tuple(missing), turns=turns_of(missing, costs))

    def _without_long_chunks(self, costs: PassCosts) -> Layout:
        """The grid without chunks that would take more than their share of a round."""
        layout, most_s = self.whole, LARGEST_CHUNK_SHARE * self.budget_s / LEAST_REPETITIONS
        chunks = tuple(
            chunk
            for chunk in layout.chunks
            if chunk <= LEAST_LARGEST_CHUNK or costs.visit_s(PassPoint(PassKind.PREFILL, chunk, 0)) <= most_s
        )
        return replace(layout, chunks=chunks)


def cost_s(repetitions: Mapping[PassPoint, int], costs: PassCosts) -> float:
    """Seconds of so many repetitions of each point, caches filled as often as :func:`turns_of` says."""
    rounds = math.ceil(max(repetitions.values(), default=0) / turns_of(repetitions, costs))
    visits_s = math.fsum(count * costs.visit_s(point) for point, count in repetitions.items())
    return visits_s + rounds * _filling_s(repetitions, costs)


def turns_of(repetitions: Mapping[PassPoint, int], costs: PassCosts) -> int:
    """Repetitions for each filling of the caches: one, unless filling takes too large a part of the time."""
    visits_s = math.fsum(costs.visit_s(point) for point in repetitions)
    if _filling_s(repetitions, costs) <= FILL_SHARE * visits_s:
        return 1
    return max((1, *repetitions.values()))


def passes_of(point: PassPoint, pass_s: float) -> Passes:
    """How many passes make a repetition, when one takes about ``pass_s``."""
    if pass_s >= LONG_PASS_S:
        return Passes(0, 1)
    timed = min(MOST_PASSES, max(2, math.ceil(REPETITION_TARGET_S / pass_s)))
    if point.kind is PassKind.PREFILL:
        timed = min(timed, DRIFT_TOKENS // point.size - 1)
    return Passes(1, timed) if timed >= 1 else Passes(0, 1)


def context_of(points: Iterable[PassPoint]) -> int:
    """Room that each sequence needs for these points, rounded up as engines do."""
    needed = max((point.depth + _reach(point) for point in points), default=1)
    return -(-needed // _CONTEXT_PADDING) * _CONTEXT_PADDING


def kept_points(needs: ServiceNeeds, repetitions: Mapping[PassPoint, int]) -> frozenset[PassPoint]:
    """The points that a finished curve is made of: those with enough repetitions, and ends of the grid however often they were measured.

    A single visit in a slow moment would lift all larger passes with it, as no curve falls. But one sequence and all of them, empty and
    at the working depth, and a chunk of some size are needed.
    """
    enough = {point for point, count in repetitions.items() if count >= LEAST_REPETITIONS}
    few = {point for point, count in repetitions.items() if count} - enough
    ends = {
        PassPoint(PassKind.DECODE, batch, depth) for batch in (1, needs.slots) for depth in (0, needs.working_depth)
    }
    fresh = [point for point in enough if point.kind is PassKind.PREFILL and point.depth == 0]
    if max((point.size for point in fresh), default=0) < min(LEAST_LARGEST_CHUNK, needs.largest_chunk):
        ends |= set(sorted(point for point in few if point.kind is PassKind.PREFILL and point.depth == 0)[-1:])
    kept = enough | (few & ends)
    if all(point.kind is not PassKind.DECODE for point in kept):
        kept |= {point for point in few if point.kind is PassKind.DECODE}
    return frozenset(kept)


def shortfall(needs: ServiceNeeds, repetitions: Mapping[PassPoint, int]) -> tuple[str, ...]:
    """What the measured points lack of the whole curve, in words; ``repetitions`` of each point that was measured."""
    whole = needs.layout()
    measured = kept_points(needs, repetitions)
    depths = {point.depth for point in measured if point.kind is PassKind.DECODE}
    batches = {point.size for point in measured if point.kind is PassKind.DECODE}
    chunks = {point.size for point in measured if point.kind is PassKind.PREFILL}
    lacking = [
        _listed("depth", set(whole.depths) - depths),
        _listed("steps of", set(whole.batches) - batches),
        _listed("chunks of", set(whole.chunks) - chunks),
    ]
    if not any(point.kind is PassKind.PREFILL and point.depth > 0 for point in measured):
        lacking.append("chunks behind a filled cache")
    few = sum(repetitions[point] < LEAST_REPETITIONS for point in measured)
    if few:
        lacking.append(f"{LEAST_REPETITIONS} repetitions of {few} of its {len(measured)} points")
    dropped = sum(count > 0 for count in repetitions.values()) - len(measured)
    if dropped:
        lacking.append(f"{dropped} points that were measured fewer than {LEAST_REPETITIONS} times")
    return tuple(text for text in lacking if text)


def _listed(what: str, numbers: Iterable[int]) -> str:
    listed = ", ".join(str(number) for number in sorted(numbers))
    return f"{what} {listed}" if listed else ""


def _doubled(first: int, last: int) -> Iterator[int]:
    """Powers of two from ``first`` on, and ``last``."""
    while first < last:
        yield first
        first *= 2
    yield last


def _every_then_doubled(last: int) -> Iterator[int]:
    """Every number up to ``EVERY_BATCH``, then twice as many each time, and ``last``."""
    yield from range(1, min(last, EVERY_BATCH))
    yield from _doubled(min(last, EVERY_BATCH), last)


def _outer_first(sizes: Sequence[int]) -> list[int]:
    """Sizes between the smallest and the largest; the one nearest to the middle, on a scale of ratios, last."""
    middle = math.sqrt(sizes[0] * sizes[-1])
    return sorted(sizes[1:-1], key=lambda size: (abs(math.log(size / middle)), size), reverse=True)


def _reach(point: PassPoint) -> int:
    """Tokens beyond its depth that the passes of a point may reach, where a cache that cannot be cut has drifted before."""
    passes = max(point.size, DRIFT_TOKENS) if point.kind is PassKind.PREFILL else MOST_PASSES + 1
    return DRIFT_TOKENS + passes


def _filling_s(points: Iterable[PassPoint], costs: PassCosts) -> float:
    """Of one round: it fills the deepest, and cuts the caches back for the others."""
    deepest = max((point.depth for point in points), default=0)
    return costs.fill_s(deepest) if deepest else 0.0
