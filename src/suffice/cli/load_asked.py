"""What the flags of ``suffice load`` ask for: content, limits, endpoint, and the plan of a run or of a search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from suffice.errors import UsageError

if TYPE_CHECKING:
    from enum import StrEnum
    from pathlib import Path

    from suffice.load.capacity_plan import CapacityPlan
    from suffice.load.endpoint import Endpoint
    from suffice.load.session import Content
    from suffice.load.settings import LoadPlan, Loop
    from suffice.model.demand import Demand, Lengths
    from suffice.model.load_metrics import Limits
    from suffice.model.load_physics import PhysicalLimits

    Word = TypeVar("Word", bound=StrEnum)

_DEFAULT_DURATION_S: Final = 60.0
_DEFAULT_TIMEOUT_S: Final = 600.0
_DEFAULT_LEVEL_S: Final = 300.0
_DEFAULT_LEVEL_REQUESTS: Final = 1200
_DEFAULT_PROMPT_TOKENS: Final = 256
_DEFAULT_OUTPUT_TOKENS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The flags as they were given; the names are those of the command's arguments."""

    url: str | None
    what: str | None
    find_capacity: bool
    concurrency: int | None
    rate: float | None
    ramp: str | None
    arrivals: str
    burstiness: float
    trace: Path | None
    trace_speed: float
    requests: int | None
    duration: float | None
    warmup: int | None
    timeout: float | None
    prompt_tokens: int | None
    output_tokens: int | None
    shared_prefix: int
    prompts: Path | None
    exact_length: bool
    keep_alive: bool
    api: str
    model: str | None
    api_key_env: str | None
    ca_file: Path | None
    temperature: float | None
    seed: int
    ttft_limit: float | None
    tpot_limit: float | None
    e2e_limit: float | None
    demand: Path | None
    record: Path | None
    percentile: float
    confidence: float
    tolerance: float
    most_probes: int
    spawn: Path | None
    slots: int
    threads: int | None
    out: Path | None
    resume: bool
    chart: Path | None
    json_output: bool

    @property
    def need(self) -> Demand | None:
        """The demand in the file of ``--demand``.

        Raises:
            DemandError: the file cannot be used.
        """
        from suffice.loaders.demand import load_demand

        return None if self.demand is None else load_demand(self.demand)

    @property
    def physics(self) -> PhysicalLimits | None:
        """What the machine of ``--record`` can do at most with its model; None without one.

        Raises:
            RecordError: the file cannot be used.
            UsageError: it says nothing of a CPU's bandwidth.
        """
        from suffice.loaders.any_record import load_any_record
        from suffice.model.load_physics import physical_limits

        if self.record is None:
            return None
        limits = physical_limits(load_any_record(self.record))
        if limits is None:
            raise UsageError(
                f"--record {self.record}: it has no ceiling of a CPU; make one on the server's machine with `suffice measure MODEL --out run.json`"
            )
        return limits

    def limits(self, need: Demand | None) -> Limits:
        """The limits of the command line, and where it has none those of a demand, as the verdict takes them: a rate limits TPOT."""
        from suffice.decide.service_load import limits_of
        from suffice.model.load_metrics import Limits

        stated = {} if need is None else {limit.metric: limit.seconds for limit in reversed(limits_of(need))}
        return Limits(
            ttft_s=self.ttft_limit or stated.get("ttft_s"),
            tpot_s=self.tpot_limit or stated.get("tpot_s"),
            e2e_s=self.e2e_limit,
        )

    def content(self, need: Demand | None) -> Content:
        """What is sent: lengths of the command line, else those of a demand, drawn from its distribution."""
        from suffice.cli.options import positive
        from suffice.load.session import Content

        prompt = None if need is None or self.prompt_tokens is not None else need.prompt_tokens
        output = None if need is None or self.output_tokens is not None else need.output_tokens
        return Content(
            prompt_tokens=self.prompt_tokens or _median(prompt, _DEFAULT_PROMPT_TOKENS),
            output_tokens=self.output_tokens or _median(output, _DEFAULT_OUTPUT_TOKENS),
            prompt_lengths=prompt,
            output_lengths=output,
            shared_prefix=self.shared_prefix,
            prompts=self.prompts,
            trace=self.trace,
            trace_speed=positive(self.trace_speed, "--trace-speed"),
            exact_length=self.exact_length,
            temperature=self.temperature,
        )

    def endpoint(self, url: str) -> tuple[Endpoint, list[str]]:
        """Where requests go, and warnings about the address."""
        from suffice.load.endpoint import endpoint_of, key_from
        from suffice.load.settings import Api

        api, key = word(Api, self.api, "--api"), key_from(self.api_key_env)
        return endpoint_of(url, api, self.model, key, keep_alive=self.keep_alive, ca_file=self.ca_file)

    def plan(self) -> LoadPlan:
        """The plan of one run, with its defaults filled in.

        Raises:
            UsageError: flags that contradict each other.
        """
        from suffice.load.settings import MAX_REQUESTS, Arrivals, LoadPlan, Loop

        loop, (first_rate, last_rate) = self._loop(), self._rates()
        concurrency = (self.concurrency or 1) if loop is Loop.CLOSED else None
        duration_s = self.duration
        if duration_s is None and (self.ramp is not None or (self.requests is None and loop is not Loop.TRACE)):
            duration_s = _DEFAULT_DURATION_S
        usual = {Loop.CLOSED: concurrency or 1, Loop.OPEN: 1, Loop.TRACE: 0}
        return LoadPlan(
            loop=loop,
            requests=MAX_REQUESTS if loop is Loop.TRACE and self.requests is None else self.requests,
            duration_s=duration_s,
            warm_up=usual[loop] if self.warmup is None else self.warmup,
            concurrency=concurrency,
            rate_per_s=first_rate,
            ramp_to_per_s=last_rate,
            arrivals=word(Arrivals, self.arrivals, "--arrivals"),
            burstiness=self.burstiness,
            seed=self.seed,
            timeout_s=self.timeout or _DEFAULT_TIMEOUT_S,
            spawned=self._spawned(),
        )

    def _loop(self) -> Loop:
        """The one kind of load that the flags ask for."""
        from suffice.load.settings import Loop

        given = {
            "--concurrency": (self.concurrency, Loop.CLOSED),
            "--rate": (self.rate, Loop.OPEN),
            "--ramp": (self.ramp, Loop.OPEN),
            "--trace": (self.trace, Loop.TRACE),
        }
        kinds = [loop for value, loop in given.values() if value is not None]
        if len(kinds) > 1:
            raise UsageError(f"{', '.join(list(given)[:-1])} and --trace are kinds of load; give one of them")
        return kinds[0] if kinds else Loop.CLOSED

    def _rates(self) -> tuple[float | None, float | None]:
        """The rate of an open loop and, of a ramp, the one that it ends with."""
        if self.ramp is None:
            return self.rate, None
        first, colon, last = self.ramp.partition(":")
        try:
            rates = float(first), float(last)
        except ValueError:
            colon = ""
        if not colon:
            raise UsageError(f"--ramp {self.ramp!r} is not FROM:TO in requests/s, such as 0.5:8")
        return rates

    def _spawned(self) -> str | None:
        """The server that is started, for a search that may go on with another one like it."""
        if self.spawn is None:
            return None
        return f"{self.spawn.name}, {self.slots} slots, {self.threads or 'automatic'} threads"

    def capacity_plan(self, need: Demand | None) -> CapacityPlan:
        """The plan of a search.

        Raises:
            UsageError: no limit, a load that a search chooses itself, or flags that contradict each other.
        """
        from suffice.cli.load_capacity import criteria_of, what_of
        from suffice.cli.options import positive
        from suffice.load.capacity_plan import CapacityPlan
        from suffice.load.settings import Arrivals
        from suffice.model.load_metrics import Limits

        if self.trace is not None or self.ramp is not None:
            raise UsageError("--find-capacity chooses the load itself: leave out --trace and --ramp")
        own = Limits(ttft_s=self.ttft_limit, tpot_s=self.tpot_limit, e2e_s=self.e2e_limit)
        return CapacityPlan(
            of=what_of(self.what, self.concurrency, self.rate),
            criteria=criteria_of(own, self.percentile, need),
            confidence=self.confidence,
            tolerance=self.tolerance,
            most_probes=self.most_probes,
            requests=self.requests or _DEFAULT_LEVEL_REQUESTS,
            duration_s=self.duration or _DEFAULT_LEVEL_S,
            warm_up=self.warmup,
            start=self.concurrency or (None if self.rate is None else positive(self.rate, "--rate")),
            arrivals=word(Arrivals, self.arrivals, "--arrivals"),
            burstiness=positive(self.burstiness, "--burstiness"),
            seed=self.seed,
            timeout_s=self.timeout or _DEFAULT_TIMEOUT_S,
            spawned=self._spawned(),
        )


def _median(lengths: Lengths | None, usual: int) -> int:
    return usual if lengths is None else max(1, round(lengths.p50))


def word(kind: type[Word], text: str, flag: str) -> Word:
    """One of a flag's words.

    Raises:
        UsageError: it is none of them.
    """
    try:
        return kind(text)
    except ValueError:
        raise UsageError(f"{flag} {text!r} is none of {', '.join(kind)}") from None
