"""What a demand sends to a server: limits at percentiles, lengths, the slots that memory allows, and how finely it is simulated."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from suffice.decide.encoder import encoder_text, with_encoder
from suffice.decide.service_curves import PASS_TOKENS, Extent
from suffice.errors import DemandError
from suffice.model.basis import Basis
from suffice.model.demand import DEFAULT_PROMPT_TOKENS, DemandKind, Lengths, users_with_margin
from suffice.serving.capacity import arrivals_at
from suffice.serving.load import ClosedLoop, GivenArrivals, Load, LognormalLength
from suffice.serving.schedulers import KvLayout, LlamaCppScheduler
from suffice.serving.search import LatencyLimit, Trial
from suffice.serving.summary import DEFAULT_TAIL, Window, least_samples
from suffice.units import KILO, SECONDS_PER_DAY

if TYPE_CHECKING:
    from suffice.decide.evidence import MachineEvidence
    from suffice.model.demand import Demand

MOST_SLOTS: Final = 64  # that are tried for a rate or a queue
MOST_STREAMS: Final = 128  # users that are simulated at once
MOST_DRAINED: Final = 2000  # requests of a job that are simulated; the time of the others follows
DEFAULT_OUTPUT_TOKENS: Final = 128  # where a demand of users says nothing of its answers
_USUAL_PERCENTILE: Final = 95.0  # of a rate that each user needs
_ROOM: Final = (
    64  # a simulated slot holds so many times the stated context: long requests count with their whole length
)


class LoadKind(StrEnum):
    """How a load is counted."""

    USERS = "users"  # who never pause: streams at the same time
    RATE = "requests/s"  # in a Poisson open loop
    QUEUE = "queue"  # that is never empty


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How finely a machine is simulated: requests of a run for P95, and the share by which a capacity is found."""

    requests: int
    tolerance: float
    finds_capacity: bool = True  # False: only whether the load holds with its margin, at the slow end
    bounds_high: bool = True  # False: nothing of the fast end
    simulates: bool = True  # False: not at all, and nothing is known


FULL: Final = Effort(requests=400, tolerance=0.04)
PREDICTED: Final = Effort(requests=100, tolerance=0.1)
# As many requests as of those that are predicted: with fewer, other machines would hold by chance than by their own figures.
SCREEN: Final = Effort(requests=100, tolerance=0.1, finds_capacity=False, bounds_high=False)
DRAIN: Final = Effort(requests=100, tolerance=0.1, bounds_high=False)
NOTHING: Final = Effort(requests=100, tolerance=0.1, finds_capacity=False, bounds_high=False, simulates=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedCase:
    """One load with its limits, as it is put to every curve of a machine.

    Attributes:
        kind: what ``demanded`` counts.
        demanded: users or requests a second.
        margin: factor of load that is kept free.
        limits: at percentiles; none of a queue.
        prompt: lengths in tokens; with those as which the encoder of images works.
        output: lengths in tokens.
        context: tokens of one slot.
        most_slots: that are tried.
        effort: how finely.
        assumed: what the demand does not say and was taken, in words; empty where it says all.
        images: what the prompts hold of them, in words; empty without any.
    """

    kind: LoadKind
    demanded: float
    margin: float
    limits: tuple[LatencyLimit, ...]
    prompt: Lengths
    output: Lengths
    context: int
    most_slots: int = MOST_SLOTS
    effort: Effort = field(default=FULL)
    assumed: str = ""
    images: str = ""

    @property
    def trial(self) -> Trial:
        """Five runs, which show with 97 % what they agree on."""
        return Trial()

    @property
    def requests(self) -> int:
        """Of a run, so that each percentile rests on enough of them."""
        window = self.trial.window
        needed = max((least_samples(limit.percent) for limit in self.limits), default=0)
        return max(self.effort.requests, math.ceil(needed / (1 - window.lead - window.tail)) + 1)

    def scheduler(self, slots: int) -> LlamaCppScheduler:
        """llama-server with --parallel: a cache each."""
        room = _ROOM * max(self.context, 2)
        return LlamaCppScheduler(slots=slots, context_tokens=slots * room, layout=KvLayout.PER_SLOT)

    def load(self, requests: int | None = None) -> Load:
        """The demanded load."""
        count = self.requests if requests is None else requests
        is_rate = self.kind is LoadKind.RATE
        return Load(
            arrivals=arrivals_at(self.demanded) if is_rate else GivenArrivals(times_s=(0.0,) * count),
            prompt=LognormalLength(lengths=self.prompt),
            output=LognormalLength(lengths=self.output),
            requests=count,
        )

    def crowd(self, users: int) -> tuple[Load, Trial]:
        """So many users who never pause; the first request of each is warm-up and does not count."""
        counted = math.ceil(self.requests * (1 - self.trial.window.lead))
        requests = max(self.requests, users + max(counted, 2 * users))  # never too few for a percentile
        lead = max(self.trial.window.lead, users / requests)
        load = Load(
            arrivals=ClosedLoop(users=users),
            prompt=LognormalLength(lengths=self.prompt),
            output=LognormalLength(lengths=self.output),
            requests=requests,
        )
        return load, Trial(window=Window(lead=lead, tail=DEFAULT_TAIL))

    def extent(self, sequences: int) -> Extent:
        """How far the load goes on a curve."""
        return Extent(sequences=sequences, prompt_tokens=self.prompt.p95, depth=self.prompt.p95 + self.output.p95)


def limits_of(demand: Demand) -> tuple[LatencyLimit, ...]:
    """All stated limits. A rate that each user needs is a limit on TPOT at P95, beside one that is stated; the tightest comes first."""
    limits = []
    if demand.ttft is not None:
        limits.append(LatencyLimit(metric="ttft_s", seconds=demand.ttft.value_s, percent=demand.ttft.percentile))
    tpot = []
    if demand.tpot is not None:
        tpot.append(LatencyLimit(metric="tpot_s", seconds=demand.tpot.value_s, percent=demand.tpot.percentile))
    rate = demand.tokens_per_second_per_user
    if rate is not None and all(one.seconds > 1 / rate or one.percent != _USUAL_PERCENTILE for one in tpot):
        tpot.append(LatencyLimit(metric="tpot_s", seconds=1 / rate, percent=_USUAL_PERCENTILE))
    return tuple(limits + sorted(tpot, key=lambda one: one.seconds))


def judged_limits(demand: Demand) -> tuple[LatencyLimit, ...]:
    """Those that its answers can keep or miss: answers that are all of one token have no time per further token."""
    output = demand.output_tokens
    single = output is not None and output.p95 < 2  # noqa: PLR2004  # tokens
    return tuple(limit for limit in limits_of(demand) if limit.metric != "tpot_s" or not single)


def share_of(demand: Demand, engines: int) -> Demand:
    """What each of several equal engines of one machine gets: its part of the users, of the requests and of the memory.

    Users are shared out evenly, requests at random: a share of Poisson arrivals is Poisson.
    """
    users, rate, memory = demand.concurrent_users, demand.requests_per_second, demand.memory_bytes
    return replace(
        demand,
        concurrent_users=None if users is None else math.ceil(users / engines),
        is_share=demand.is_share or (engines > 1 and demand.streams > 1),
        requests_per_second=None if rate is None else rate / engines,
        memory_bytes=None if memory is None else memory / engines,
    )


def machines_share(demand: Demand, count: int) -> Demand:
    """What each of several equal machines gets, of users with the margin of all of them.

    8 users with a margin of 1.5 are 12: each of 3 machines has 4 of them, and not the 5 that 3 users with that margin would be.
    """
    share = share_of(demand, count)
    if count == 1 or demand.requests_per_second is not None or not demand.is_of_users:
        return share
    each = math.ceil(users_with_margin(demand.streams, demand.margin) / count)
    said = each * KILO // share.streams / KILO  # with three digits, and not more than is reached
    return replace(share, margin=said)


def served_case(demand: Demand, evidence: MachineEvidence, effort: Effort | None = None) -> ServedCase | None:
    """Users or a rate with limits on latency; None where the demand has no such thing.

    Raises:
        DemandError: users whose only limit cannot be judged.
    """
    if demand.requests_per_second is not None and _has_lengths(demand):
        kind, demanded = LoadKind.RATE, demand.requests_per_second
    elif demand.is_of_users:
        kind, demanded = LoadKind.USERS, float(demand.streams)
    else:
        return None
    case = _case(demand, evidence, kind, demanded, effort)
    if kind is LoadKind.USERS and not case.limits and limits_of(demand):
        raise DemandError(
            "answers of one token have no rate of further tokens, so that nothing is left to judge the users by; state ttft_s"
        )
    return case if case.limits else None


def queue_case(demand: Demand, evidence: MachineEvidence, effort: Effort | None = None) -> ServedCase | None:
    """Work that nobody waits for: a rate without limits, or a job in its window; None where the demand has no such thing."""
    arrivals = arrivals_in_window(demand)
    if arrivals is None or not _has_lengths(demand):
        return None
    if demand.kind is not DemandKind.SCHEDULED and judged_limits(demand):
        return None
    return _case(demand, evidence, LoadKind.QUEUE, arrivals, effort)


def arrivals_in_window(demand: Demand) -> float | None:
    """Requests a second while there is time for them: a day's work of a job, or of a rate stated by the day, in its window."""
    arrivals = demand.requests_per_second
    if arrivals is None or demand.window_s is None:
        return arrivals
    in_window = demand.rate_is_daily or demand.kind is DemandKind.SCHEDULED
    return arrivals * SECONDS_PER_DAY / demand.window_s if in_window else arrivals


def _has_lengths(demand: Demand) -> bool:
    return demand.prompt_tokens is not None and demand.output_tokens is not None


def _case(
    demand: Demand, evidence: MachineEvidence, kind: LoadKind, demanded: float, effort: Effort | None
) -> ServedCase:
    assumed = []
    prompt, output = demand.prompt_tokens, demand.output_tokens
    if prompt is None:
        prompt = Lengths(p50=DEFAULT_PROMPT_TOKENS, p95=DEFAULT_PROMPT_TOKENS)
        assumed.append(f"prompts of {DEFAULT_PROMPT_TOKENS}")
    if output is None:
        output = Lengths(p50=DEFAULT_OUTPUT_TOKENS, p95=DEFAULT_OUTPUT_TOKENS)
        assumed.append(f"answers of {DEFAULT_OUTPUT_TOKENS}")
    limits = () if kind is LoadKind.QUEUE else judged_limits(demand)
    context = demand.needed_context_tokens or math.ceil(prompt.p95 + output.p95)
    return ServedCase(
        kind=kind,
        demanded=demanded,
        margin=demand.margin,
        limits=limits,
        prompt=with_encoder(prompt, demand.images, evidence),
        output=output,
        context=context,
        most_slots=most_slots(demand, evidence, context),
        effort=effort or (PREDICTED if _is_predicted(evidence) else FULL),
        assumed=f"{' and '.join(assumed)} tokens are taken, the demand states none" if assumed else "",
        images=encoder_text(demand.images, evidence),
    )


def _is_predicted(evidence: MachineEvidence) -> bool:
    return bool(evidence.decode) and evidence.decode[0].rate.basis in (Basis.PREDICTED, Basis.MEASURED_ELSEWHERE)


def slots_that_fit(demand: Demand, evidence: MachineEvidence, context: int) -> int | None:
    """Slots whose caches of a whole context fit beside the weights; 0: not even one; None: not known, or as many as one likes."""
    usable = demand.memory_bytes if demand.memory_bytes is not None else evidence.memory_usable_bytes
    none, one = (evidence.memory_needed_bytes(context, count) for count in (0, 1))
    if usable is None or none is None or one is None or one == none:
        return None
    return max(0, math.floor((usable - none) / (one - none)))


def most_slots(demand: Demand, evidence: MachineEvidence, context: int) -> int:
    """Slots to try: as memory and the measured curve allow; one at least, so that speed is known where memory lacks."""
    allowed = [MOST_SLOTS, PASS_TOKENS]
    fitting = slots_that_fit(demand, evidence, context)
    if fitting is not None:
        allowed.append(fitting)
    if evidence.service is not None and evidence.service.decode.largest_size is not None:
        allowed.append(math.floor(evidence.service.reach * evidence.service.decode.largest_size))
    return max(1, min(allowed))
