"""Requests that somebody waits for, and others that fill the idle time of the same server.

The others come from a client that keeps so many of them at the server and no more, a queue of which each answer draws the next; the server
has a slot for each of these streams beside those for the requests that arrive. That is what a router with a limit of concurrency does in
front of llama-server, whose own queue knows no priority: a request that arrives finds the same slots as without the others, and shares the
steps with them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

import numpy as np

from suffice.serving.load import ClosedLoop, DrawnLoad
from suffice.serving.misses import Misses
from suffice.serving.run import Outcome
from suffice.serving.search import run_holds
from suffice.serving.slots_engine import SlotsEngine
from suffice.serving.source import Source
from suffice.serving.summary import STEADY
from suffice.stats.intervals import median
from suffice.units import MILLISECONDS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from suffice.serving.curve import ServiceCurve
    from suffice.serving.load import Load
    from suffice.serving.run import Recorder, SimulatedRun
    from suffice.serving.schedulers import LlamaCppScheduler
    from suffice.serving.search import LatencyLimit, Trial
    from suffice.serving.summary import Window

_NEVER: Final = float("inf")
_TURNAROUND_S: Final = 1 / MILLISECONDS_PER_SECOND  # from an answer to the client's next request, as in a closed loop
_ROUNDING: Final = 2e-9  # of a sum that is taken up one by one
_OTHER_SEED: Final = 1_000_003  # added to a seed, so that lengths of both sorts are drawn apart


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """Two sorts of requests on one server.

    Attributes:
        waited_for: an open loop; the run ends with its last answer.
        others: whose lengths are drawn, as often as the run needs them; its arrivals do not count.
        streams: of the others that are at the server at the same time.
    """

    waited_for: Load
    others: Load
    streams: int

    def __post_init__(self) -> None:
        if isinstance(self.waited_for.arrivals, ClosedLoop):
            raise ValueError("requests that somebody waits for come in an open loop")  # noqa: TRY004  # of a load, one kind among several
        if self.streams < 1:
            raise ValueError(f"a mix has at least 1 stream of other requests, not {self.streams}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedRun:
    """What one run leaves of each sort: the requests that somebody waits for, and the others."""

    waited_for: SimulatedRun
    others: SimulatedRun

    def others_per_s(self, window: Window) -> float:
        """Other requests answered a second while those that count of the first sort arrived; 0 where these took no time.

        A request that reaches over an edge counts by the share of its time that lies inside.
        """
        kept = window.requests(self.waited_for)
        start, end = (float(self.waited_for.arrival_s[place]) for place in (kept.start, kept.stop - 1))
        if end <= start:
            return 0.0
        begun, finished = self.others.start_s, self.others.finish_s
        inside = np.clip(np.minimum(finished, end) - np.maximum(begun, start), 0.0, None)
        shares = np.divide(inside, finished - begun, out=np.zeros(len(begun)), where=finished > begun)
        return float(shares.sum()) / (end - start)


class _MixedSource(Source):
    """Arrivals of both sorts in the order in which they come; numbers are given in that order.

    Attributes:
        is_other: of each request.
        places: of each among those that somebody waits for; -1 of another one.
    """

    def __init__(self, waited_for: DrawnLoad, others: DrawnLoad, streams: int, limit_tokens: int) -> None:
        super().__init__(DrawnLoad(prompts=[], outputs=[], times_s=[]), limit_tokens)
        self.is_other: list[bool] = []
        self.places: list[int] = []
        self._waited_for, self._others = waited_for, others
        self._times_s = waited_for.times_s or []
        self._came = self._ended = self._drawn = 0
        self._refused = 0  # others in a row
        self._ready = [0.0] * streams
        self.next_s = self._next()

    def _next(self) -> float:
        if self._ended == len(self._times_s):
            return _NEVER  # nobody waits any more, and what the others have begun is the last of them
        first = self._times_s[self._came] if self._came < len(self._times_s) else _NEVER
        return min(first, self._ready[0]) if self._ready else first

    def take(self) -> int | None:
        """The number of the request that arrives at ``next_s``, or None when its prompt does not fit and it is rejected."""
        now, number = self.next_s, len(self.is_other)
        is_other = bool(self._ready) and self._ready[0] == now
        if is_other:
            heappop(self._ready)
            drawn, place = self._others, self._drawn % len(self._others.prompts)
            self._drawn += 1
        else:
            drawn, place = self._waited_for, self._came
            self._came += 1
        self.is_other.append(is_other)
        self.places.append(-1 if is_other else place)
        outcome = self._record(now, drawn.prompts[place], drawn.outputs[place])
        if outcome is Outcome.REJECTED:
            self._reject(number, now)
            return None
        self._refused = 0 if is_other else self._refused
        self.next_s = self._next()
        return number

    def _reject(self, number: int, now: float) -> None:
        """A prompt does not fit. A stream of which none does ends: it would ask again each millisecond for as long as nobody comes."""
        self._refused += self.is_other[number]
        if self.is_other[number] and self._refused >= len(self._others.prompts):
            self.next_s = self._next()
        else:
            self.answered(number, now)

    def _record(self, now: float, prompt: int, output: int) -> Outcome:
        recorder, room = self.recorder, max(0, self._limit_tokens - prompt)
        outcome = Outcome.DONE if output <= room else Outcome.TRUNCATED if room else Outcome.REJECTED
        recorder.prompt_tokens.append(prompt)
        recorder.output_tokens.append(min(output, room))
        recorder.outcome.append(int(outcome))
        recorder.arrival_s.append(now)
        for unknown in (recorder.start_s, recorder.first_token_s, recorder.finish_s):
            unknown.append(math.nan)
        return outcome

    def answered(self, number: int, now: float) -> None:
        """A request has ended; another one takes the place of one of the others."""
        if self.is_other[number]:
            heappush(self._ready, now + _TURNAROUND_S)
        else:
            self._ended += 1
        self.next_s = self._next()


class _WaitedMisses(Misses):
    """Misses of the requests that somebody waits for.

    Attributes:
        is_broken: a limit cannot be kept any more. The run ends there, but not before the others surely got what is asked for.
    """

    __slots__ = ("_others_left", "_places", "_span", "is_broken")

    def __init__(
        self,
        limits: Sequence[LatencyLimit],
        window: Window,
        waited_for: DrawnLoad,
        scheduler: LlamaCppScheduler,
        source: _MixedSource,
        least_per_s: float,
    ) -> None:
        super().__init__(limits, window, waited_for, scheduler.request_tokens)
        self._places, self.is_broken = source.places, False
        times_s = waited_for.times_s or []
        self._span = times_s[self._start], times_s[self._end - 1]
        self._others_left = least_per_s * (self._span[1] - self._span[0]) * (1 + _ROUNDING)
        self.goes_on()  # for what the others get

    def ended(self, number: int, recorder: Recorder) -> None:
        """The others miss nothing."""
        place = self._places[number]
        if place >= 0:
            if self._start <= place < self._end:
                self._count(number, recorder)
                self.is_broken |= self.kept is False
        elif self._others_left > 0:
            self._others_left -= self._share(recorder.start_s[number], recorder.finish_s[number])
        self.kept = False if self.is_broken and self._others_left <= 0 else None

    def _share(self, start_s: float, finish_s: float) -> float:
        """Of the time of an answered request, the part in which requests that count arrived; as in :meth:`MixedRun.others_per_s`."""
        inside = min(finish_s, self._span[1]) - max(start_s, self._span[0])
        return inside / (finish_s - start_s) if inside > 0 else 0.0


class _MixedEngine(SlotsEngine):
    """llama.cpp's server under both sorts."""

    def __init__(
        self,
        curve: ServiceCurve,
        scheduler: LlamaCppScheduler,
        mix: Mix,
        seed: int,
        limits: Sequence[LatencyLimit] = (),
        window: Window = STEADY,
        least_per_s: float = 0.0,
    ) -> None:
        waited_for, others = mix.waited_for.draw(seed), mix.others.draw(seed + _OTHER_SEED)
        both = DrawnLoad(prompts=waited_for.prompts + others.prompts, outputs=waited_for.outputs + others.outputs)
        self._mixed = _MixedSource(waited_for, others, mix.streams, scheduler.request_tokens)
        self._waited_misses = _WaitedMisses(limits, window, waited_for, scheduler, self._mixed, least_per_s)
        super().__init__(curve, scheduler, both, self._waited_misses)
        self._source = self._mixed
        self._recorder = self._mixed.recorder
        self._closed = True  # the source hears of every answer

    @property
    def ended_early(self) -> bool:
        """Whether a limit cannot be kept any more, and the others surely got what was asked for, at which the run ended."""
        return self._waited_misses.kept is False

    def run_both(self) -> MixedRun:
        """Serve until the last request that somebody waits for is answered, or a limit is broken for sure."""
        run = self.run()
        is_other = np.array(self._mixed.is_other, dtype=np.bool_)
        return MixedRun(waited_for=_those(run, ~is_other), others=_those(run, is_other))


def _those(run: SimulatedRun, kept: NDArray[np.bool_]) -> SimulatedRun:
    """The times and lengths of some requests; what the engine did as a whole stays."""
    return replace(
        run,
        arrival_s=run.arrival_s[kept],
        start_s=run.start_s[kept],
        first_token_s=run.first_token_s[kept],
        finish_s=run.finish_s[kept],
        prompt_tokens=run.prompt_tokens[kept],
        output_tokens=run.output_tokens[kept],
        outcome=run.outcome[kept],
    )


def simulate_mix(curve: ServiceCurve, scheduler: LlamaCppScheduler, mix: Mix, seed: int = 0) -> MixedRun:
    """Serve one realisation of both sorts; the same seed gives the same run."""
    return _MixedEngine(curve, scheduler, mix, seed).run_both()


def others_beside(
    curve: ServiceCurve,
    scheduler: LlamaCppScheduler,
    mix: Mix,
    limits: Sequence[LatencyLimit],
    trial: Trial,
    *,
    least_per_s: float = 0.0,
) -> float | None:
    """Other requests a second that are answered while the limits hold: the median over runs.

    None: the runs do not show that the limits hold; the first runs that settle it are the last, and end where one breaks a limit for sure.

    Args:
        curve: what a step costs.
        scheduler: with slots for both sorts.
        mix: of both.
        limits: on those that somebody waits for.
        trial: how to test.
        least_per_s: a first run that answers fewer of the others is the last one, whatever the limits: its rate is returned.
    """
    rates: list[float] = []
    for number in range(trial.runs):
        least = least_per_s if number == 0 else 0.0
        engine = _MixedEngine(curve, scheduler, mix, trial.seed + number, limits, trial.window, least)
        run = engine.run_both()
        if not engine.ended_early:
            rate = run.others_per_s(trial.window)
            if rate < least:
                return rate
            if run_holds(run.waited_for, limits, trial.window):
                rates.append(rate)
        if number + 1 - len(rates) > trial.runs - trial.passes_needed:
            return None
    return median(rates)
