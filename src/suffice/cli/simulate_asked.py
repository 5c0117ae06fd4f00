"""What the flags of ``suffice simulate`` ask for: the server, the load, the limits, and how often it is tried."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from suffice.cli import options
from suffice.errors import UsageError
from suffice.units import GIGA

if TYPE_CHECKING:
    from collections.abc import Collection

    from suffice.model.demand import Demand
    from suffice.serving.curve import ServiceCurve
    from suffice.serving.load import ClosedLoop, GivenArrivals, LengthModel, Load, OpenArrivals
    from suffice.serving.schedulers import Scheduler
    from suffice.serving.search import LatencyLimit, Trial

MOST_TOKENS: Final = GIGA  # of a prompt, an answer or a context: what is over it is a slip
MOST_REQUESTS: Final = 10_000_000


class SchedulerName(StrEnum):
    """Whose scheduler is simulated."""

    LLAMA_CPP = "llama.cpp"
    VLLM = "vllm"


class ArrivalName(StrEnum):
    """How requests arrive."""

    CONSTANT = "constant"
    POISSON = "poisson"
    GAMMA = "gamma"
    AT_ONCE = "at-once"


class Search(StrEnum):
    """What is searched for."""

    RATE = "rate"
    SLOTS = "slots"
    MACHINES = "machines"


class Cache(StrEnum):
    """Who shares the cache of llama.cpp."""

    UNIFIED = "unified"
    PER_SLOT = "per-slot"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """The flags that describe the server."""

    scheduler: SchedulerName
    context: int
    batch_tokens: int
    ubatch: int
    cache: Cache
    blocks: int | None
    block_tokens: int

    def of(self, slots: int) -> Scheduler:
        """The scheduler with so many slots; the context is that of each request.

        Raises:
            UsageError: there is no such server.
        """
        from suffice.serving.schedulers import KvLayout, LlamaCppScheduler, VllmScheduler

        try:
            if self.scheduler is SchedulerName.VLLM:
                blocks = -(-self.context // self.block_tokens) * slots if self.blocks is None else self.blocks
                return VllmScheduler(
                    max_sequences=slots,
                    context_tokens=self.context,
                    blocks=blocks,
                    batched_tokens=self.batch_tokens,
                    block_tokens=self.block_tokens,
                )
            return LlamaCppScheduler(
                slots=slots,
                context_tokens=self.context * slots,
                batch_tokens=self.batch_tokens,
                micro_batch_tokens=self.ubatch,
                layout=KvLayout.UNIFIED if self.cache is Cache.UNIFIED else KvLayout.PER_SLOT,
            )
        except ValueError as error:
            raise UsageError(str(error)) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """The flags that say how requests come and how long they are; ``None``: the flag was not given."""

    arrivals: ArrivalName
    rate: float | None
    users: int | None
    cv: float
    think: str | None
    prompt_tokens: int
    prompt_p95: int | None
    output_tokens: int
    output_p95: int | None
    requests: int

    def load(self) -> Load:
        """The load.

        Raises:
            UsageError: flags that contradict each other, or a value that cannot be.
        """
        from suffice.serving.load import Load

        return Load(
            arrivals=self._arrivals(),
            prompt=_lengths(self.prompt_tokens, self.prompt_p95, "--prompt-p95"),
            output=_lengths(self.output_tokens, self.output_p95, "--output-p95"),
            requests=self.requests,
        )

    def _arrivals(self) -> OpenArrivals | GivenArrivals | ClosedLoop:
        from suffice.serving.load import ArrivalKind, ClosedLoop, GivenArrivals, OpenArrivals

        if self.think is not None and self.users is None:
            raise UsageError("--think is the pause of a user: give --users")
        if self.arrivals is ArrivalName.AT_ONCE:
            if self.rate is not None or self.users is not None:
                raise UsageError(
                    "--arrivals at-once has neither a --rate nor --users: all --requests are there at the start"
                )
            return GivenArrivals(times_s=(0.0,) * self.requests)
        if (self.rate is None) == (self.users is None):
            raise UsageError("give either --rate (open loop) or --users (closed loop)")
        if self.users is not None:
            pause_s = 0.0 if self.think is None else _duration_s(self.think, "--think")
            return ClosedLoop(users=self.users, think_s=pause_s)
        rate_per_s = options.positive(self.rate or 0.0, "--rate")
        return OpenArrivals(
            rate_per_s=rate_per_s, kind=ArrivalKind(self.arrivals.value), cv=options.positive(self.cv, "--cv")
        )


_LIMITS: Final = frozenset({"ttft_limit", "tpot_limit", "e2e_limit"})


def with_demand(
    demand: Demand, asked: LoadOptions, limits: tuple[LatencyLimit, ...], said: Collection[str]
) -> tuple[LoadOptions, tuple[LatencyLimit, ...]]:
    """What a demand states, where the command line says nothing of it.

    A job that nobody waits for is there at once, with a day's requests. A demand without a load is one user who never pauses.

    Args:
        demand: as stated.
        asked: the flags, with their defaults.
        limits: those of the flags.
        said: flags that stand on the command line, by the names of their parameters.

    Raises:
        UsageError: a job of more requests than are simulated.
    """
    from suffice.decide.service_load import judged_limits

    for name, lengths in (("prompt", demand.prompt_tokens), ("output", demand.output_tokens)):
        if lengths is not None and not {f"{name}_tokens", f"{name}_p95"} & set(said):
            median, p95 = (max(1, round(value)) for value in (lengths.p50, lengths.p95))
            changes: dict[str, Any] = {f"{name}_tokens": median, f"{name}_p95": None if p95 == median else p95}
            asked = replace(asked, **changes)
    if not {"rate", "users", "arrivals"} & set(said):
        asked = _with_load(demand, asked, said)
    waits = asked.arrivals is not ArrivalName.AT_ONCE
    return asked, limits if _LIMITS & set(said) else (judged_limits(demand) if waits else ())


def _with_load(demand: Demand, asked: LoadOptions, said: Collection[str]) -> LoadOptions:
    from suffice.decide.service_load import arrivals_in_window
    from suffice.model.demand import DemandKind

    if demand.kind is DemandKind.SCHEDULED and demand.requests_per_day is not None:
        count = asked.requests if "requests" in said else max(1, round(demand.requests_per_day))
        if count > MOST_REQUESTS:
            raise UsageError(
                f"a job of {count:,} requests is not simulated; give --requests, {MOST_REQUESTS:,} at most"
            )
        return replace(asked, arrivals=ArrivalName.AT_ONCE, requests=count)
    rate_per_s = arrivals_in_window(demand)
    if rate_per_s is not None:
        return replace(asked, rate=rate_per_s)
    return replace(asked, users=demand.streams)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """All that one call of the command simulates."""

    curve: ServiceCurve
    server: ServerOptions
    slots: int
    load: Load
    limits: tuple[LatencyLimit, ...]
    trial: Trial


def _lengths(p50: int, p95: int | None, flag: str) -> LengthModel:
    from suffice.model.demand import Lengths
    from suffice.serving.load import FixedLength, LognormalLength

    if p95 is None:
        return FixedLength(tokens=p50)
    if p95 < p50:
        raise UsageError(f"{flag} {p95} is under the median {p50}")
    return LognormalLength(lengths=Lengths(p50=p50, p95=p95))


def _duration_s(text: str, flag: str) -> float:
    from suffice.units import parse_duration_s

    try:
        return options.positive(parse_duration_s(text), flag)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from error


def limits_of(asked: dict[str, str | None], percent: float) -> tuple[LatencyLimit, ...]:
    """The limits that were given, by metric.

    Raises:
        UsageError: one is no duration.
    """
    from suffice.serving.search import LatencyLimit

    return tuple(
        LatencyLimit(metric=metric, seconds=_duration_s(text, f"--{metric.removesuffix('_s')}-limit"), percent=percent)
        for metric, text in asked.items()
        if text is not None
    )


def trial_of(
    limits: tuple[LatencyLimit, ...], seeds: int, seed: int, confidence: float, arrivals: ArrivalName
) -> Trial:
    """How often the load is simulated, and which part of a run counts.

    Raises:
        UsageError: so few runs cannot show what is asked with this confidence.
    """
    from suffice.serving.search import Trial
    from suffice.serving.summary import STEADY, WHOLE

    window = WHOLE if arrivals is ArrivalName.AT_ONCE else STEADY
    try:
        return Trial(runs=seeds, seed=seed, confidence=confidence if limits else 0.5, window=window)
    except ValueError as error:
        raise UsageError(f"--seeds and --confidence: {error}") from error
