"""A demand of which a share waits for its answers, as two demands, and what arithmetic says of a machine under each.

Arithmetic bounds both ends before anything is simulated: one request after the other at the low end of what is predicted, and as many at
once as there are slots, until all tokens come at the prefill rate, at the high end (:mod:`suffice.decide.service_curves`). Between them lies the roofline through the
predicted speeds: what a step reads once it reads for all sequences.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Protocol

from suffice.decide.plan_load import paid_hours
from suffice.decide.service_curves import SIMULATION_ERROR, curve_ends
from suffice.decide.service_load import (
    SCREEN,
    arrivals_in_window,
    judged_limits,
    queue_case,
    served_case,
    slots_that_fit,
)
from suffice.decide.service_rate import KNOWN
from suffice.model.basis import Basis
from suffice.model.demand import DemandKind
from suffice.serving.curve import curve_of_physics
from suffice.serving.surface import PassPhysics
from suffice.units import SECONDS_PER_DAY

if TYPE_CHECKING:
    from suffice.catalogue.entries import Price
    from suffice.decide.evidence import MachineEvidence
    from suffice.decide.prospects import Prospect
    from suffice.decide.service_curves import CurveEnds, Extent
    from suffice.decide.service_load import ServedCase
    from suffice.model.demand import Demand
    from suffice.serving.curve import ServiceCurve

_ALWAYS_READ_BYTES: Final = 1.0
_WHOLE_PERCENTILE: Final = 95.0  # a limit there, or beyond, waits for a prompt of the length at P95


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The two demands. The margin of the whole holds for each.

    Attributes:
        waiting: requests that must keep the limits, a Poisson share of all.
        rest: requests that must be worked off in the window, or the day, at a sustained rate.
        rest_per_s: of them, while there is time for them.
        all_per_s: of both, as they come at the busiest time.
        prompt_tokens: mean length of a prompt.
        output_tokens: mean length of an answer.
    """

    waiting: Demand
    rest: Demand
    rest_per_s: float
    all_per_s: float
    prompt_tokens: float
    output_tokens: float

    @property
    def waiting_per_s(self) -> float:
        """Requests a second that must keep the limits."""
        return self.waiting.requests_per_second or 0.0

    @property
    def margin(self) -> float:
        """Factor of load that is kept free."""
        return self.waiting.margin

    @property
    def waiting_wanted_per_s(self) -> float:
        """With the margin."""
        return self.waiting_per_s * self.margin

    @property
    def rest_wanted_per_s(self) -> float:
        """With the margin."""
        return self.rest_per_s * self.margin

    @property
    def all_wanted_per_s(self) -> float:
        """All requests as they come, with the margin."""
        return self.all_per_s * self.margin

    @property
    def least_wanted_per_s(self) -> float:
        """What GPUs that do both answer at the very least, in whichever way: all requests as they come, or those that wait and the rest in its time."""
        return min(self.all_wanted_per_s, self.waiting_wanted_per_s + self.rest_wanted_per_s)

    @property
    def rest_hours(self) -> float:
        """Hours of a month for which machines are rented that do nothing but the rest."""
        return paid_hours(self.rest)


def parts_of(demand: Demand) -> Parts | None:
    """The two demands; None where no share, no rate, no lengths or no limit is stated: then there is nothing to divide."""
    share, rate, daily = demand.interactive_share, demand.requests_per_second, demand.requests_per_day
    if share is None or not 0 < share < 1 or rate is None or daily is None:
        return None
    elsewhere = replace(
        demand, interactive_share=None, memory_bytes=None, volume_per_day=None
    )  # stated memory is that of the machine at hand
    volume = None if demand.volume_per_day is None else share * demand.volume_per_day
    waiting = replace(elsewhere, requests_per_second=share * rate, volume_per_day=volume)
    rest = replace(
        elsewhere,
        kind=DemandKind.BATCH,
        requests_per_second=(1 - share) * daily / SECONDS_PER_DAY,
        rate_is_daily=True,  # a volume that may be worked off in the window
        ttft=None,
        tpot=None,
        tokens_per_second_per_user=None,
    )
    per_s, prompt, output = arrivals_in_window(rest), demand.prompt_tokens, demand.output_tokens
    if per_s is None or prompt is None or output is None or not judged_limits(waiting):
        return None
    return Parts(
        waiting=waiting,
        rest=rest,
        rest_per_s=per_s,
        all_per_s=rate,
        prompt_tokens=prompt.mean,
        output_tokens=output.mean,
    )


class Offered(Protocol):
    """A machine to rent with what is predicted of it: an offer of a plan, or a standing."""

    @property
    def prospect(self) -> Prospect:
        """The machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rented:
    """A machine of the catalogue with its price, and both loads as they would be put to it.

    Attributes:
        evidence: what is known of it.
        price: of an hour.
        waiting: the requests that wait, under their limits.
        rest: the queue.
        one_by_one_per_s: requests a second one after the other, at the low end; 0: not known.
        most_per_s: requests a second that it answers at the very most; infinite: nothing bounds it.
    """

    evidence: MachineEvidence
    price: Price
    waiting: ServedCase
    rest: ServedCase
    one_by_one_per_s: float
    most_per_s: float

    @property
    def name(self) -> str:
        """As the catalogue calls it."""
        return self.evidence.name

    @property
    def ends(self) -> CurveEnds:
        """Its curves, for as many slots as are tried."""
        return _ends(self.evidence, self.waiting.extent(self.waiting.most_slots))

    @property
    def slow(self) -> ServiceCurve | None:
        """That of the slow end alone."""
        return _slow_end(self.evidence, self.waiting.extent(self.waiting.most_slots))

    @property
    def likely(self) -> ServiceCurve | None:
        """The roofline through the points of its predicted speeds; None where one of them, or the bytes of the model, is not known."""
        return _roofline(self.evidence)

    @property
    def may_keep_limits(self) -> bool:
        """Whether a request that is alone keeps every limit at the high end of what is known."""
        rate, prefill = self.evidence.decode[0].rate.high, self.evidence.prefill_rate
        for limit in self.waiting.limits:
            if limit.metric == "tpot_s":
                seconds = 0.0 if not rate else 1 / rate
            else:
                prompt = self.waiting.prompt
                tokens = prompt.p95 if limit.percent >= _WHOLE_PERCENTILE else prompt.p50
                seconds = 0.0 if prefill is None or not prefill.high else tokens / prefill.high
            if seconds / (1 + SIMULATION_ERROR) > limit.seconds:
                return False
        return True

    def least_machines(self, requests_per_s: float) -> int:
        """That answer so many requests a second at their very best."""
        return max(1, math.ceil(requests_per_s / self.most_per_s))


@lru_cache(maxsize=KNOWN)
def _ends(evidence: MachineEvidence, extent: Extent) -> CurveEnds:
    return curve_ends(evidence, extent)


@lru_cache(maxsize=KNOWN)
def _slow_end(evidence: MachineEvidence, extent: Extent) -> ServiceCurve | None:
    return curve_ends(evidence, extent, with_fast=False).slow


@lru_cache(maxsize=KNOWN)
def _roofline(evidence: MachineEvidence) -> ServiceCurve | None:
    """A step of B sequences at depth d takes ``max(bytes(B, d) / bandwidth, B / prefill rate)`` (Williams et al., CACM 52(4), 2009).

    The bandwidth is that at which one sequence decodes as fast as predicted. Weights that one token does not read are read the more,
    the more tokens there are, as experts are when routing is even.
    """
    decode, prefill = evidence.decode[0], evidence.prefill_rate
    streamed, weights = evidence.streamed_bytes, evidence.weights_bytes
    if prefill is None or not streamed or not weights or not decode.rate.point > 0 or not prefill.point > 0:
        return None
    per_token = evidence.kv_bytes_per_token or 0.0
    work = PassPhysics(
        weight_bytes=_ALWAYS_READ_BYTES,  # what of a model of experts is none of them, nobody says here
        expert_bytes=max(weights, streamed),
        expert_share=min(1.0, streamed / weights),
        kv_bytes_per_token=per_token,
        bandwidth_bytes_per_s=(streamed + per_token * (decode.depth or 0.0)) * decode.rate.point,
        flop_per_token=1.0,
        flop_per_s=prefill.point,
    )
    return curve_of_physics(work, basis=Basis.PREDICTED, name=evidence.name)


def rented(offered: Offered, parts: Parts) -> Rented | None:
    """The machine under both loads; None where its price, its speed or its memory is not known, or the model does not fit."""
    evidence, price = offered.prospect.evidence, offered.prospect.price
    if price is None or not price.per_hour > 0 or not evidence.decode or evidence.memory_usable_bytes is None:
        return None
    waiting, rest = served_case(parts.waiting, evidence, SCREEN), queue_case(parts.rest, evidence, SCREEN)
    if waiting is None or rest is None:
        return None
    if slots_that_fit(parts.waiting, evidence, waiting.context) == 0:
        return None
    return Rented(
        evidence=evidence,
        price=price,
        waiting=waiting,
        rest=rest,
        one_by_one_per_s=one_by_one_per_s(evidence, parts),
        most_per_s=most_per_s(evidence, waiting),
    )


def one_by_one_per_s(evidence: MachineEvidence, parts: Parts) -> float:
    """Requests a second, each alone, at the low end of what is predicted of the depth in the middle of one; 0: not known."""
    decode, prefill = evidence.decode[0].rate.low if evidence.decode else None, evidence.prefill_rate
    if not decode or prefill is None or not prefill.low:
        return 0.0
    return 1 / (parts.prompt_tokens / prefill.low + parts.output_tokens / decode) / (1 + SIMULATION_ERROR)


def most_per_s(evidence: MachineEvidence, case: ServedCase) -> float:
    """Requests a second that no schedule exceeds: ``1 / (P t + (O - 1) max(step / slots, t))``.

    P and O are the mean lengths, t the seconds of a token at the prefill rate, and a step answers one token of each slot in no less time
    than one sequence takes; both at the high end of their ranges, with what a simulation leaves out. Infinite where that is not known.
    """
    decode, prefill = evidence.decode[0].rate.high, evidence.prefill_rate
    if not decode or prefill is None or not prefill.high:
        return math.inf
    token_s = 1 / prefill.high
    later_s = max(1 / decode / case.most_slots, token_s)
    return (1 + SIMULATION_ERROR) / (case.prompt.mean * token_s + max(0.0, case.output.mean - 1) * later_s)
