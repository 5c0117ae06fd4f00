"""What is asked of a server: when requests come, and how long they are."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

from suffice.units import MILLISECONDS_PER_SECOND, TERA

if TYPE_CHECKING:
    from collections.abc import Callable
    from functools import _lru_cache_wrapper

    from numpy.typing import NDArray

    from suffice.model.demand import Lengths

    Tokens = NDArray[np.int64]
    Seconds = NDArray[np.float64]

_Z95 = 1.6448536269514722  # standard normal quantile of 0.95
_Drawn = TypeVar("_Drawn")
_KNOWN_DRAWS = 64
_MOST_KNOWN_REQUESTS = 10_000  # of a draw that is kept
_LONGEST = float(TERA)  # tokens of a draw: far beyond any context, and a whole number that fits into 64 bits


class LengthModel(Hashable, Protocol):
    """Where lengths come from."""

    def draw(self, generator: np.random.Generator, count: int) -> Tokens:
        """So many lengths in tokens, each at least 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedLength:
    """All alike."""

    tokens: int

    def __post_init__(self) -> None:
        if self.tokens < 1:
            raise ValueError(f"a length is at least 1 token, not {self.tokens}")

    def draw(self, generator: np.random.Generator, count: int) -> Tokens:  # noqa: ARG002  # nothing is drawn
        """So many equal lengths."""
        return np.full(count, self.tokens, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class LognormalLength:
    """Log-normal through a median and a 95th percentile."""

    lengths: Lengths

    def draw(self, generator: np.random.Generator, count: int) -> Tokens:
        """Lengths, rounded to tokens."""
        sigma = math.log(self.lengths.p95 / self.lengths.p50) / _Z95
        logarithms = np.minimum(sigma * generator.standard_normal(count), math.log(_LONGEST))
        return np.clip(np.rint(self.lengths.p50 * np.exp(logarithms)), 1, _LONGEST).astype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmpiricalLength:
    """Drawn with replacement from lengths that were seen; or the very lengths in their order, again from the start when they end."""

    tokens: tuple[int, ...]
    in_order: bool = False

    def __post_init__(self) -> None:
        if not self.tokens or min(self.tokens) < 1:
            raise ValueError("lengths are at least 1 token, and there is at least one")

    def draw(self, generator: np.random.Generator, count: int) -> Tokens:
        """So many of them."""
        known = np.array(self.tokens, dtype=np.int64)
        if self.in_order:
            return np.resize(known, count)
        drawn: Tokens = known[generator.integers(0, len(known), count)]
        return drawn


class ArrivalKind(StrEnum):
    """The gaps of an open loop."""

    CONSTANT = "constant"
    POISSON = "poisson"
    GAMMA = "gamma"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenArrivals:
    """Requests come whatever the server does.

    Attributes:
        rate_per_s: mean number of requests a second.
        kind: how the gaps are drawn.
        cv: coefficient of variation of gamma gaps (1 is Poisson, over 1 comes in bursts).
    """

    rate_per_s: float
    kind: ArrivalKind = ArrivalKind.POISSON
    cv: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.rate_per_s < math.inf or not 0 < self.cv < math.inf:
            raise ValueError("a rate of arrivals and the variation of their gaps are positive numbers")

    def times(self, count: int, seed: int) -> Seconds:
        """Ascending times. The same seed at another rate gives the same pattern, faster or slower."""
        match self.kind:
            case ArrivalKind.CONSTANT:
                return np.arange(count, dtype=np.float64) / self.rate_per_s
            case ArrivalKind.POISSON:
                gaps = _unless_long(_exponentials, count)(count, seed)
            case ArrivalKind.GAMMA:
                gaps = _stream(seed, _TIMES).gamma(self.cv**-2, self.cv**2, count)
        times: Seconds = np.cumsum(gaps) / self.rate_per_s
        return times


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenArrivals:
    """Times that are known, in seconds from the start, ascending; all zero: a queue that is there at the start."""

    times_s: tuple[float, ...]

    def __post_init__(self) -> None:
        if any(not 0 <= time < math.inf for time in self.times_s) or list(self.times_s) != sorted(self.times_s):
            raise ValueError("arrival times ascend and are not negative")

    def times(self, count: int, seed: int) -> Seconds:  # noqa: ARG002  # nothing is drawn
        """The first ``count`` of them."""
        if count > len(self.times_s):
            raise ValueError(f"{count} requests, but only {len(self.times_s)} arrival times")
        return np.array(self.times_s[:count], dtype=np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedLoop:
    """Users who send the next request some time after the last answer.

    Attributes:
        users: all send their first request at the start.
        think_s: mean of exponential pauses; 0: none.
        turnaround_s: least time from an answer to the next request, which no client has below a millisecond or so. The server's next
            step has begun by then without it, so that it waits for one whole step: at 0 s a first token would come a step too early.
    """

    users: int
    think_s: float = 0.0
    turnaround_s: float = 1 / MILLISECONDS_PER_SECOND

    def __post_init__(self) -> None:
        if self.users < 1 or not 0 <= self.think_s < math.inf or not 0 <= self.turnaround_s < math.inf:
            raise ValueError(
                "a closed loop has at least 1 user, and a think time and a turnaround that are not negative"
            )


Arrivals = OpenArrivals | GivenArrivals | ClosedLoop


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Arrivals and lengths of so many requests."""

    arrivals: Arrivals
    prompt: LengthModel
    output: LengthModel
    requests: int

    def __post_init__(self) -> None:
        if self.requests < 1:
            raise ValueError(f"a load has at least 1 request, not {self.requests}")

    def draw(self, seed: int) -> DrawnLoad:
        """One realisation. Times, prompts and answers have streams of their own: a change of one leaves the others."""
        prompts, outputs = _unless_long(_lengths, self.requests)(self.prompt, self.output, self.requests, seed)
        if isinstance(self.arrivals, ClosedLoop):
            pauses_s = _unless_long(_exponentials, self.requests)(self.requests, seed) * self.arrivals.think_s
            return DrawnLoad(
                prompts=list(prompts),
                outputs=list(outputs),
                users=self.arrivals.users,
                pauses_s=(pauses_s + self.arrivals.turnaround_s).tolist(),
            )
        times = self.arrivals.times(self.requests, seed)
        return DrawnLoad(prompts=list(prompts), outputs=list(outputs), times_s=times.tolist())


_TIMES, _PROMPTS, _OUTPUTS = range(3)  # streams of their own


def _stream(seed: int, number: int) -> np.random.Generator:
    return np.random.default_rng(
        np.random.SeedSequence(seed, spawn_key=(number,))
    )  # as SeedSequence.spawn() makes them


@lru_cache(maxsize=_KNOWN_DRAWS)
def _lengths(prompt: LengthModel, output: LengthModel, count: int, seed: int) -> tuple[list[int], list[int]]:
    """Prompts and answers; a search asks for the same ones at dozens of rates."""
    prompts = prompt.draw(_stream(seed, _PROMPTS), count)
    return prompts.tolist(), output.draw(_stream(seed, _OUTPUTS), count).tolist()


def _unless_long(drawn: _lru_cache_wrapper[_Drawn], count: int) -> Callable[..., _Drawn]:
    """What is drawn, kept where it is of few requests."""
    return drawn if count <= _MOST_KNOWN_REQUESTS else drawn.__wrapped__


@lru_cache(maxsize=_KNOWN_DRAWS)
def _exponentials(count: int, seed: int) -> Seconds:
    """Gaps with a mean of 1."""
    gaps: Seconds = _stream(seed, _TIMES).standard_exponential(count)
    return gaps


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnLoad:
    """One realisation of a load; lists, because the event loop reads single values.

    Attributes:
        prompts: tokens of each prompt.
        outputs: tokens of each answer.
        times_s: arrival times of an open loop; None in a closed one.
        users: of a closed loop; 0 in an open one.
        pauses_s: the pause after each request of a closed loop; None in an open one.
    """

    prompts: list[int]
    outputs: list[int]
    times_s: list[float] | None = None
    users: int = 0
    pauses_s: list[float] | None = None
