"""Times of many decode steps at once: the closed form that lets a simulation jump from event to event."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from suffice.serving.curve import Reached
from suffice.serving.surface import MeasuredSurface

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from suffice.serving.curve import ServiceCurve
    from suffice.serving.surface import Surface

_FIRST_ROW_TOKENS: Final = 2048
_TABLE_TOKENS: Final = 2**16  # deeper sums are computed: a table of a prompt of 10^9 tokens would fill the memory
_DEEPEST_OCTAVE: Final = 62
_MOST_KNOWN_PASSES: Final = 200_000  # of one run
_KNOWN_CURVES: Final = (
    16  # of which tables are kept for the next run: some 30 MB, were all of them asked for everything that is kept
)
_KEPT_TOKENS: Final = 4096
_MOST_KEPT_PASSES: Final = 10_000


# So many steps at once, and their seconds.
Jump = tuple[int, float]


def jump_of(seconds_of: Callable[[int], float], most: int, gap_s: float, most_s: float) -> Jump:
    """The least number of steps, from 1 to ``most``, that last ``gap_s`` or longer, where steps never get shorter.

    The mean of fewer steps is not above the mean of more: the mean of all steps gives a lower bound of the number, and the mean
    of that many an upper bound. The two are close, because a step grows little from one to the next.

    Args:
        seconds_of: the time of so many steps.
        most: the largest number.
        gap_s: what they have to reach.
        most_s: ``seconds_of(most)``, which is known to be longer than ``gap_s``.
    """
    low = max(1, min(most, math.ceil(gap_s * most / most_s)))
    reached = seconds_of(low)
    if reached >= gap_s or low == most:
        return low, reached
    high = min(most, max(low + 1, math.ceil(gap_s * low / reached)))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if seconds_of(middle) >= gap_s else (middle, high)
    return high, seconds_of(high)


class Sums(NamedTuple):
    """Of the times of some steps: their sum, and the sum of each times its number (from 0)."""

    seconds: float
    weighted: float


def line_sums(seconds_of: Callable[[int], float], count: int) -> Sums:
    """The sums of ``seconds_of(0)`` to ``seconds_of(count - 1)``, a function that is linear in pieces, by the ends of the pieces.

    A range whose middle and one point beside it lie on the line between its ends counts as one piece.
    """
    return _line_sums(seconds_of, 0, count, seconds_of(0), seconds_of(count - 1))


def _line_sums(seconds_of: Callable[[int], float], start: int, end: int, first: float, last: float) -> Sums:
    steps = end - 1 - start
    if steps <= _FEW_STEPS:
        values = [first, *map(seconds_of, range(start + 1, end - 1)), *([last] if steps else [])]
        return Sums(sum(values), sum(index * value for index, value in enumerate(values, start)))
    middle, beside = start + steps // 2, start + steps // 3
    at_middle = seconds_of(middle)
    slope = (last - first) / steps
    if (
        abs(at_middle - first - slope * (middle - start)) <= _STRAIGHT * last
        and abs(seconds_of(beside) - first - slope * (beside - start)) <= _STRAIGHT * last
    ):
        total = (first + last) / 2 * (steps + 1)
        own = steps * (steps + 1) / 2 * (first + slope * (2 * steps + 1) / 3)
        return Sums(total, start * total + own)
    left = _line_sums(seconds_of, start, middle + 1, first, at_middle)
    right = _line_sums(seconds_of, middle + 1, end, seconds_of(middle + 1), last)
    return Sums(left.seconds + right.seconds, left.weighted + right.weighted)


_FEW_STEPS: Final = 3
_STRAIGHT: Final = 5e-10  # relative; sums of 65,536 steps leave a tenth of it to rounding


class _FarSteps:
    """Steps of one batch size at depths behind the table: linear in depth between knots, so that their sums are closed forms.

    Knots are those of the surface, and every doubling of the depth. A formula with a kink between two of them is replaced by its chord there, which
    is never too fast. Sums are made of a piece each, not of differences of two large sums: a step must not drown in their rounding.
    """

    def __init__(self, surface: Surface, batch: int, start: int) -> None:
        octaves = {2**power for power in range(start.bit_length() - 1, _DEEPEST_OCTAVE + 1)}
        own = (math.ceil(depth) for depth in _depths(surface))
        self._starts = sorted(octaves | {depth for depth in own if depth > start})
        self._steps: list[float] = surface.row(batch, np.array(self._starts, dtype=np.float64)).tolist()

    def between_s(self, start: int, end: int) -> float:
        """The steps at depths start .. end - 1."""
        seconds, starts, steps = 0.0, self._starts, self._steps
        index = bisect_right(starts, start) - 1
        while start < end:
            stop = min(end, starts[index + 1])
            slope = (steps[index + 1] - steps[index]) / (starts[index + 1] - starts[index])
            mean_depth = start - starts[index] + (stop - start - 1) / 2
            seconds += (stop - start) * (steps[index] + slope * mean_depth)
            start, index = stop, index + 1
        return seconds


def _depths(surface: Surface) -> Iterable[float]:
    return surface.depths if isinstance(surface, MeasuredSurface) else ()


class Read(NamedTuple):
    """A whole prompt that is read by a server which does nothing else."""

    seconds: float
    steps: int
    token_seconds: float  # integral of its tokens in the cache over that time
    largest_chunk: int
    depth: int  # that passes over one token, which are decode steps, reached; 0: there were none


@dataclass(slots=True)
class _Known:
    """What was computed of one curve, for the runs to come: searches simulate it dozens of times with the same prompts."""

    sums: dict[int, array[float]] = field(default_factory=dict)
    prefill: dict[tuple[int, float], float] = field(default_factory=dict)
    reads: dict[Hashable, dict[int, Read]] = field(default_factory=dict)  # by the rules of a scheduler


@lru_cache(maxsize=_KNOWN_CURVES)
def _known_of(curve: ServiceCurve) -> _Known:  # noqa: ARG001  # the curve is the key
    return _Known()


class StepTimes:
    """Step times of a curve, linear between whole tokens of depth, with running sums per batch size.

    With ``S[n]`` the time of the steps at depths 0 .. n-1, the k steps from a whole depth m on take ``S[m+k] - S[m]``; from a
    mean depth between m and m+1 they take the same share of the two sums. So k steps cost four look-ups, and the sum is exact.
    """

    def __init__(self, curve: ServiceCurve, known: _Known | None = None) -> None:
        self._curve = curve
        self._known = known or _known_of(curve)
        self._sums: dict[int, array[float]] = {}
        self._far: dict[int, _FarSteps] = {}
        self._empty_s: dict[int, float] = {}
        self._prefill: dict[tuple[int, float], float] = {}
        self._deepest = 0
        self._has_single = False  # a step of one sequence whose time was known
        self._largest_chunk = 0

    @property
    def reached(self) -> Reached:
        """The largest batch, mean depth and chunk that were asked for."""
        largest = max(self._sums, default=int(self._has_single))
        return Reached(batch=largest, depth=self._deepest, chunk=self._largest_chunk)

    def _longer(self, batch: int, tokens: int) -> array[float]:
        """The running sums of a batch size, made long enough for a depth."""
        if tokens < 0:
            raise ValueError("a depth is not negative")
        length = max(_FIRST_ROW_TOKENS, 2 ** math.ceil(math.log2(tokens + 2)))
        sums = self._known.sums.get(batch)
        if sums is None or len(sums) <= length:
            steps = self._curve.decode.row(batch, np.arange(length, dtype=np.float64))
            sums = array("d", [0.0])
            sums.frombytes(np.cumsum(steps).tobytes())
            if length <= _KEPT_TOKENS:
                self._known.sums[batch] = sums
        self._sums[batch] = sums
        return sums

    def sums_of_one(self) -> array[float]:
        """Running sums of the steps of one sequence, some thousand of them."""
        return self._longer(1, 0)

    def steps_s(self, batch: int, total_depth: int, steps: int) -> float:
        """Seconds of the next ``steps`` decode steps of ``batch`` sequences that hold ``total_depth`` tokens together."""
        whole, rest = divmod(total_depth, batch)
        end = whole + steps
        sums = self._sums.get(batch)
        if sums is None or end + 1 >= len(sums):
            if end >= _TABLE_TOKENS:
                return self._far_s(batch, total_depth, steps)
            sums = self._longer(batch, end + 1)
        if end > self._deepest:  # noqa: PLR1730  # a call of max() costs a fifth of this function
            self._deepest = end
        taken = sums[end] - sums[whole]
        if rest:
            return taken + (sums[end + 1] - sums[whole + 1] - taken) * (rest / batch)
        return taken

    def _far_s(self, batch: int, total_depth: int, steps: int) -> float:
        """The same beyond the table."""
        whole, rest = divmod(total_depth, batch)
        end = whole + steps
        self._deepest = max(self._deepest, end)
        taken = self._between_s(batch, whole, end)
        return taken + (self._between_s(batch, whole + 1, end + 1) - taken) * (rest / batch) if rest else taken

    def _between_s(self, batch: int, start: int, end: int) -> float:
        """Seconds of the steps at depths start .. end - 1, of which the last lie beyond the table."""
        sums = self._sums.get(batch)
        if sums is None or len(sums) <= _TABLE_TOKENS:
            sums = self._longer(batch, _TABLE_TOKENS - 1)
        far = self._far.get(batch)
        if far is None:
            far = self._far[batch] = _FarSteps(self._curve.decode, batch, _TABLE_TOKENS)
        if start >= _TABLE_TOKENS:
            return far.between_s(start, end)
        return sums[min(end, _TABLE_TOKENS)] - sums[start] + far.between_s(_TABLE_TOKENS, end)

    def jump(self, batch: int, total_depth: int, most: int, gap_s: float) -> Jump:
        """``most`` steps, or the least number of them that last ``gap_s``, whichever is less."""
        seconds = self.steps_s(batch, total_depth, most)
        if seconds <= gap_s:
            return most, seconds
        whole, rest = divmod(total_depth, batch)
        share, sums = rest / batch, self._sums[batch]
        if whole + most + 1 >= len(sums):
            return jump_of(lambda count: self.steps_s(batch, total_depth, count), most, gap_s, seconds)
        start, after = sums[whole], sums[whole + 1]

        def seconds_of(count: int) -> float:  # steps_s without its checks
            taken = sums[whole + count] - start
            return taken + (sums[whole + count + 1] - after - taken) * share

        return jump_of(seconds_of, most, gap_s, seconds)

    def apart(self) -> StepTimes:
        """Times of the same curve whose reach is counted apart."""
        return StepTimes(self._curve, self._known)

    def reads_under(self, rules: Hashable) -> dict[int, Read]:
        """Whole prompts that were read alone under the rules of a scheduler, by their tokens; who reads another one adds it."""
        return self._known.reads.setdefault(rules, {})

    def asked_again(self, largest_chunk: int, depth: int) -> None:
        """Times that are known were used: of a prompt, and of one sequence down to a depth (0: of none)."""
        self._largest_chunk = max(self._largest_chunk, largest_chunk)
        self._deepest = max(self._deepest, depth)
        self._has_single |= depth > 0

    def empty_s(self, batch: int) -> float:
        """Seconds of one decode step of ``batch`` sequences with empty caches."""
        empty = self._empty_s.get(batch)
        if empty is None:
            empty = self._empty_s[batch] = self._curve.decode_s(batch, 0.0)
        return empty

    def prefill_s(self, tokens: int, depth: float) -> float:
        """Seconds of one pass over ``tokens`` that start at ``depth``."""
        key = (tokens, depth)
        known = self._prefill.get(key)
        if known is None:
            self._largest_chunk = max(self._largest_chunk, tokens)
            if len(self._prefill) >= _MOST_KNOWN_PASSES:
                self._prefill.clear()
            known = self._known.prefill.get(key)
            if known is None:
                known = self._curve.prefill_s(tokens, depth)
                if len(self._known.prefill) < _MOST_KEPT_PASSES:
                    self._known.prefill[key] = known
            self._prefill[key] = known
        return known
