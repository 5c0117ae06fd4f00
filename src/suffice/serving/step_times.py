"""Times of many decode steps at once: the closed form that lets a simulation jump from event to event."""

from __future__ import annotations

import math
from array import array
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from suffice.serving.curve import Reached

if TYPE_CHECKING:
    from collections.abc import Callable

    from suffice.serving.curve import ServiceCurve

_FIRST_ROW_TOKENS: Final = 2048
_MOST_KNOWN_PASSES: Final = 200_000


class Jump(NamedTuple):  # made millions of times, and three times as fast as a frozen dataclass
    """So many steps at once, and their seconds."""

    steps: int
    seconds: float


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
        return Jump(low, reached)
    high = min(most, max(low + 1, math.ceil(gap_s * low / reached)))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if seconds_of(middle) >= gap_s else (middle, high)
    return Jump(high, seconds_of(high))


class StepTimes:
    """Step times of a curve, linear between whole tokens of depth, with running sums per batch size.

    With ``S[n]`` the time of the steps at depths 0 .. n-1, the k steps from a whole depth m on take ``S[m+k] - S[m]``; from a
    mean depth between m and m+1 they take the same share of the two sums. So k steps cost four look-ups, and the sum is exact.
    """

    def __init__(self, curve: ServiceCurve) -> None:
        self._curve = curve
        self._sums: dict[int, array[float]] = {}
        self._empty_s: dict[int, float] = {}
        self._prefill: dict[tuple[int, float], float] = {}
        self._deepest = 0
        self._largest_chunk = 0

    @property
    def reached(self) -> Reached:
        """The largest batch, mean depth and chunk that were asked for."""
        return Reached(batch=max(self._sums, default=0), depth=self._deepest, chunk=self._largest_chunk)

    def _longer(self, batch: int, tokens: int) -> array[float]:
        """The running sums of a batch size, made long enough for a depth."""
        if tokens < 0:
            raise ValueError("a depth is not negative")
        length = max(_FIRST_ROW_TOKENS, 2 ** math.ceil(math.log2(tokens + 2)))
        steps = self._curve.decode.row(batch, np.arange(length, dtype=np.float64))
        sums = array("d", [0.0])
        sums.frombytes(np.cumsum(steps).tobytes())
        self._sums[batch] = sums
        return sums

    def steps_s(self, batch: int, total_depth: int, steps: int) -> float:
        """Seconds of the next ``steps`` decode steps of ``batch`` sequences that hold ``total_depth`` tokens together."""
        whole, rest = divmod(total_depth, batch)
        end = whole + steps
        sums = self._sums.get(batch)
        if sums is None or end + 1 >= len(sums):
            sums = self._longer(batch, end + 1)
        if end > self._deepest:  # noqa: PLR1730  # a call of max() costs a fifth of this function
            self._deepest = end
        taken = sums[end] - sums[whole]
        if rest:
            return taken + (sums[end + 1] - sums[whole + 1] - taken) * (rest / batch)
        return taken

    def jump(self, batch: int, total_depth: int, most: int, gap_s: float) -> Jump:
        """``most`` steps, or the least number of them that last ``gap_s``, whichever is less."""
        seconds = self.steps_s(batch, total_depth, most)
        if seconds <= gap_s:
            return Jump(most, seconds)
        whole, rest = divmod(total_depth, batch)
        share, sums = rest / batch, self._sums[batch]
        start, after = sums[whole], sums[whole + 1]

        def seconds_of(count: int) -> float:  # steps_s without its checks
            taken = sums[whole + count] - start
            return taken + (sums[whole + count + 1] - after - taken) * share

        return jump_of(seconds_of, most, gap_s, seconds)

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
            known = self._prefill[key] = self._curve.prefill_s(tokens, depth)
        return known
