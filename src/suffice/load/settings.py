"""What is to be sent, as the user asked for it and as it was resolved."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from suffice.errors import UsageError
from suffice.units import SECONDS_PER_DAY

MAX_REQUESTS: Final = 500_000  # rows are kept in memory
MAX_CONCURRENCY: Final = 4096


class Api(StrEnum):
    """Which of the two OpenAI interfaces is spoken."""

    CHAT = "chat"
    COMPLETIONS = "completions"


class Loop(StrEnum):
    """Whether answers decide when the next request is sent."""

    CLOSED = "closed loop"
    OPEN = "open loop"
    TRACE = "trace"


class Arrivals(StrEnum):
    """How the gaps between arrivals of an open loop are distributed."""

    CONSTANT = "constant"
    POISSON = "poisson"
    GAMMA = "gamma"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """When requests are sent and how long one may take.

    ``warm_up`` requests are sent first, in the same stream and without a pause, and are left out of every percentile.
    ``requests`` counts those that are measured; with ``duration_s`` sending ends by whichever comes first.
    With ``ramp_to_per_s`` the rate goes evenly from ``rate_per_s`` to it during ``duration_s``, from the first measured request on.
    ``spawned`` describes the server that is started for it, if one is. ``burstiness`` is the gamma distribution's shape: 1 is Poisson, less is burstier; the gaps' CV is 1/sqrt(burstiness).
    """

    loop: Loop
    requests: int | None = None
    duration_s: float | None = None
    warm_up: int = 0
    concurrency: int | None = None
    rate_per_s: float | None = None
    ramp_to_per_s: float | None = None
    arrivals: Arrivals = Arrivals.POISSON
    burstiness: float = 1.0
    seed: int = 0
    timeout_s: float = 600.0
    connect_timeout_s: float = 10.0
    spawned: str | None = None

    def __post_init__(self) -> None:
        if (self.loop is Loop.CLOSED) != (self.concurrency is not None):
            raise UsageError("a closed loop has a concurrency, and only a closed loop: give --concurrency or --rate")
        if (self.loop is Loop.OPEN) != (self.rate_per_s is not None):
            raise UsageError("an open loop has a rate, and only an open loop: give --concurrency or --rate")
        if self.ramp_to_per_s is not None and (self.rate_per_s is None or self.duration_s is None):
            raise UsageError("a ramp needs the rate that it begins with and a --duration")
        if self.requests is None and self.duration_s is None:
            raise UsageError("a load needs an end: give --requests or --duration")
        self._check_numbers()

    def _check_numbers(self) -> None:
        if self.requests is not None and not 1 <= self.requests <= MAX_REQUESTS:
            raise UsageError(f"--requests {self.requests} is not between 1 and {MAX_REQUESTS}")
        if self.concurrency is not None and not 1 <= self.concurrency <= MAX_CONCURRENCY:
            raise UsageError(f"--concurrency {self.concurrency} is not between 1 and {MAX_CONCURRENCY}")
        if not 0 <= self.warm_up <= MAX_REQUESTS:
            raise UsageError(f"--warmup {self.warm_up} is not between 0 and {MAX_REQUESTS}")
        positive = {
            "--rate": self.rate_per_s,
            "--ramp": self.ramp_to_per_s,
            "--burstiness": self.burstiness,
            "--timeout": self.timeout_s,
            "--duration": self.duration_s,
        }
        for flag, value in positive.items():
            if value is not None and not 0 < value < float("inf"):
                raise UsageError(f"{flag} {value:g} is not a positive number")
        if self.timeout_s > SECONDS_PER_DAY:
            raise UsageError("--timeout is more than a day")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request to be sent: its text or messages, and the lengths asked for."""

    index: int
    prompt: str | None = None
    messages: tuple[dict[str, str], ...] = ()
    prompt_tokens: int | None = None
    output_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """Which fields beyond the standard's core the server takes: found out by one request before the run."""

    usage: bool = True
    exact_length: bool = True  # ignore_eos and min_tokens
