"""One load against one demand: whether it was as heavy or as light as the demand, and whether each limit held or failed in it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from suffice.decide.served_words import PREBUILT, lengths_text
from suffice.decide.service_load import arrivals_in_window, limits_of
from suffice.model.demand import DemandKind
from suffice.model.served import LoadKind, Mapping
from suffice.model.served_range import ServedRange, served_range
from suffice.units import format_seconds

if TYPE_CHECKING:
    from suffice.model.demand import Demand, Lengths
    from suffice.model.served import ServedLengths, ServedLoad
    from suffice.serving.search import LatencyLimit

# Lengths within 10 % are the same lengths: templates and tokenizers differ by as much (reference: MLPerf's rule for outputs).
LENGTH_TOLERANCE: Final = 0.1
KEEPS_UP: Final = (
    0.9  # of the requests that were sent must be answered in the same time, or the latencies are of a start
)
_PERCENT: Final = 100
_SHORT: Final = {"ttft_s": "TTFT", "tpot_s": "TPOT"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedNeed:
    """What a load has to show.

    ``demanded`` counts users, or requests/s where ``counts_users`` is False. ``needed_requests_per_s`` is of work that nobody waits for.
    ``has_capacity`` False: one stream, whose margin is one of time.
    """

    demanded: float
    counts_users: bool
    has_capacity: bool
    limits: tuple[LatencyLimit, ...]
    prompt: Lengths | None
    output: Lengths | None
    margin: float
    needed_requests_per_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadStanding:
    """How one load stands to the demand.

    Attributes:
        load: which.
        ranges: of each limit, in the order of the demand's; None where the file has no such time.
        level_low: the load was at least this, in the demand's units; None where it cannot be compared.
        level_high: at most this.
        long_enough: its prompts and answers are at least as long as the demand's.
        short_enough: at most as long.
        is_as_heavy: it is at least the demanded load in everything, so what held in it holds for the demand.
        is_as_light: it is at most that.
        shows_holding: every limit held in it, with lengths as long as the demand's, whatever its level.
        shows_failing: a limit failed in it, with lengths no longer than the demand's.
        reasons: why it shows less than one could hope.
        failures: what is to be said of failed requests.
    """

    load: ServedLoad
    limits: tuple[LatencyLimit, ...]
    ranges: tuple[ServedRange | None, ...]
    level_low: float | None
    level_high: float | None
    long_enough: bool
    short_enough: bool
    is_as_heavy: bool
    is_as_light: bool
    shows_holding: bool
    shows_failing: bool
    reasons: tuple[str, ...]
    failures: tuple[str, ...]

    def range_of(self, limit: LatencyLimit) -> ServedRange | None:
        """The range of a limit's time in this load."""
        return self.ranges[self.limits.index(limit)]

    def high_of(self, limit: LatencyLimit) -> float | None:
        """Its upper end; None where nothing bounds it."""
        found = self.range_of(limit)
        return None if found is None else found.high

    def low_of(self, limit: LatencyLimit) -> float | None:
        """Its lower end."""
        found = self.range_of(limit)
        return None if found is None else found.low


def need_of(demand: Demand) -> ServedNeed:
    """What the demand needs of a server. A rate is judged by rates, users by users, one stream by any load."""
    limits = limits_of(demand)
    counts_users = demand.requests_per_second is None
    demanded = float(demand.streams) if demand.requests_per_second is None else demand.requests_per_second
    waits = bool(limits) and demand.kind is not DemandKind.SCHEDULED
    needs_throughput = demand.requests_per_second is not None and (
        demand.kind is not DemandKind.INTERACTIVE or not limits
    )
    return ServedNeed(
        demanded=demanded,
        counts_users=counts_users,
        has_capacity=waits and (not counts_users or demand.streams > 1),
        limits=limits if waits else (),
        prompt=demand.prompt_tokens,
        output=demand.output_tokens,
        margin=demand.margin,
        needed_requests_per_s=arrivals_in_window(demand) if needs_throughput else None,
    )


def _falls_behind(load: ServedLoad) -> str:
    """Fewer requests were answered than came, so that a queue may have grown: no latency of such a run says what a longer one has."""
    answered, sent = load.requests_per_s, load.level_low
    if load.kind is not LoadKind.RATE or answered is None or sent is None or answered >= KEEPS_UP * sent:
        return ""
    return f"{answered:.3g} of {sent:.3g} requests/s were answered while they were sent: the server falls behind, or the run is too short"


def judge_load(need: ServedNeed, load: ServedLoad) -> LoadStanding:
    """How a load stands to what is needed."""
    reasons = list(load.problems)
    low, high, unlike = _level(need, load)
    ranges = tuple(_range(load, limit) for limit in need.limits)
    long_enough = not load.problems and all(_long(*pair) for pair in _pairs(need, load))
    short_enough = not load.problems and all(_short(*pair) for pair in _pairs(need, load))
    comparable = not load.problems and not unlike
    if unlike and need.limits:
        reasons.append(unlike)
    if not load.problems and not long_enough:
        reasons.append(_length_reason(need, load, short_enough=short_enough))
    reasons += _range_reasons(load, need, ranges)
    if long_enough and not short_enough:
        reasons.append(
            f"its lengths are longer than the demand's ({lengths_text(load)}), so it may fail where the demand holds"
        )
    behind = _falls_behind(load)
    if behind and need.limits:
        reasons.append(behind)
    pairs = list(zip(need.limits, ranges, strict=True))
    holds = (
        bool(pairs)
        and not behind
        and all(seen is not None and seen.high is not None and seen.high <= limit.seconds for limit, seen in pairs)
    )
    fails = any(seen is not None and seen.low is not None and seen.low > limit.seconds for limit, seen in pairs)
    return LoadStanding(
        load=load,
        limits=need.limits,
        ranges=ranges,
        level_low=low,
        level_high=high,
        long_enough=long_enough,
        short_enough=short_enough,
        is_as_heavy=comparable and long_enough and low is not None and low >= need.demanded,
        is_as_light=comparable and short_enough and high is not None and high <= need.demanded,
        shows_holding=comparable and long_enough and holds,
        shows_failing=comparable and short_enough and fails,
        reasons=tuple(reasons),
        failures=_failures(load),
    )


def _level(need: ServedNeed, load: ServedLoad) -> tuple[float | None, float | None, str]:
    """The load in the demand's units, or why it has none."""
    if not need.has_capacity:  # one stream: other requests beside it only slow it down
        if load.kind is LoadKind.USERS:
            return load.level_low, load.level_high, ""
        return 1.0, None, ""
    wanted = LoadKind.USERS if need.counts_users else LoadKind.RATE
    if load.kind is wanted:
        return load.level_low, load.level_high, ""
    if load.kind is LoadKind.USERS:
        return None, None, "a closed loop of users says nothing of a rate: a slow server is sent less"
    if load.kind is LoadKind.RATE:
        return None, None, "a rate says nothing of users who never pause"
    return None, None, f"the load ({load.kind}) is neither a number of users nor a rate"


def _range(load: ServedLoad, limit: LatencyLimit) -> ServedRange | None:
    times = load.ttft if limit.metric == "ttft_s" else load.tpot
    if times is None:
        return None
    found = served_range(times, limit.percent / _PERCENT, load.failed, load.cut_off)
    if found is not None and load.of_prebuilt:
        found = replace(found, low=None)  # another build of the engine may be faster
    if found is None or limit.metric != "ttft_s" or load.kind is not LoadKind.RATE:
        return found
    late_s = load.late_s or 0.0
    high = found.high if load.keeps_schedule else None
    return ServedRange(
        point=found.point,
        low=found.low,
        high=None if high is None else high + late_s,
        attempts=found.attempts,
        needed=found.needed,
    )


def _pairs(need: ServedNeed, load: ServedLoad) -> list[tuple[Lengths, ServedLengths]]:
    pairs = ((need.prompt, load.prompt), (need.output, load.output))
    return [(wanted, had) for wanted, had in pairs if wanted is not None]


def _long(wanted: Lengths, had: ServedLengths) -> bool:
    """At least as long, in the mean and at the long end."""
    if had.mean is None or had.long_end is None:
        return False
    share = 1 - LENGTH_TOLERANCE
    return had.mean >= share * wanted.mean and had.long_end >= share * wanted.p95


def _short(wanted: Lengths, had: ServedLengths) -> bool:
    """At most as long; a count that may be too small, or a long end that nobody told, shows nothing."""
    if had.mean is None or had.p95 is None or had.at_least:
        return False
    share = 1 + LENGTH_TOLERANCE
    return had.mean <= share * wanted.mean and had.p95 <= share * wanted.p95


def _length_reason(need: ServedNeed, load: ServedLoad, *, short_enough: bool) -> str:
    if any(had.mean is None for _, had in _pairs(need, load)):
        return "its lengths are not in the file, so it may have been lighter or heavier than the demand"
    if short_enough:
        return f"its lengths are shorter than the demand's ({lengths_text(load)})"
    return f"its lengths are partly shorter than the demand's, or its long end is not told ({lengths_text(load)})"


def _range_reasons(load: ServedLoad, need: ServedNeed, ranges: tuple[ServedRange | None, ...]) -> list[str]:
    """Why a limit's percentile is not known, or from one side only."""
    found: list[str] = []
    for limit, seen in zip(need.limits, ranges, strict=True):
        found += _limit_reasons(load, limit, seen)
        if load.of_prebuilt and seen is not None and seen.point > limit.seconds:
            found.append(PREBUILT)
    if load.failed is None:
        found.append("how many requests failed is not told, and so no percentile of all attempts is known")
    if need.limits and not load.keeps_schedule:
        found.append(
            "less was sent than the schedule asked for, and how late requests went out is not told: TTFT is a lower bound"
        )
    return found


def _limit_reasons(load: ServedLoad, limit: LatencyLimit, seen: ServedRange | None) -> list[str]:
    name = _SHORT[limit.metric]
    times = load.ttft if limit.metric == "ttft_s" else load.tpot
    why = "" if times is None else times.why
    if seen is None:
        return [f"no usable {name} in the file" + (f": {why}" if why else "")]
    if not seen.supported:
        made = f"{seen.attempts} were made"
        if times is not None and times.of_attempts and load.attempted and seen.attempts < load.attempted:
            made = f"the {load.attempted} that were made count as {seen.attempts} independent ones"
        return [f"P{limit.percent:g} of {name} needs {seen.needed} attempts, {made}"]
    found = []
    if times is not None and times.mapping is not Mapping.EXACT:
        found.append(f"{name} is a {times.mapping} of ours: {why}")
    if seen.high == math.inf:
        found.append(f"{_lost_text(load)}, so P{limit.percent:g} of {name} has no upper end")
    elif seen.high is None and not found and load.failed is not None and load.keeps_schedule:
        found.append(f"the file has no percentile of {name} as high as P{limit.percent:g} needs")
    elif seen.high is not None and (seen.low or 0.0) <= limit.seconds < seen.high:
        low = "up" if seen.low is None else f"from {format_seconds(seen.low)}"
        ends = f"{low} to {format_seconds(seen.high)}"
        found.append(
            f"P{limit.percent:g} of {name} may be {ends}, and its limit of {format_seconds(limit.seconds)} lies in between"
        )
    return found


def _lost_text(load: ServedLoad) -> str:
    """Attempts without an answer: ``4 of 80 failed``."""
    lost = ((load.failed, "failed"), (load.cut_off, "were cut off"))
    parts = [f"{count} of {load.attempted or 'the attempts'} {what}" for count, what in lost if count]
    return " and ".join(parts) or "requests failed"


def _failures(load: ServedLoad) -> tuple[str, ...]:
    """Failures and cut-off requests: they are in the upper end, and never in the lower one."""
    found = []
    if load.failed and load.attempted:
        found.append(f"{load.failed} of {load.attempted} requests failed and count as infinitely slow; find out why")
    if load.cut_off and load.attempted:
        found.append(f"{load.cut_off} of {load.attempted} were cut off at the end and may have become anything")
    return tuple(found)
