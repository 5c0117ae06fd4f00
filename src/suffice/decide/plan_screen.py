"""Whether so many machines hold a load, simulated: each machine stands for all that are at least as fast, of whatever model.

As :mod:`suffice.decide.service_screen`, for shares of a load and for several models: speeds are rounded down to a grid, and a machine is
reduced to what decides (decode, prefill, slots that fit), so that eighteen files of a model need not much more than one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from suffice.decide.covering import Covering, all_as_fast
from suffice.decide.quantity import Quantity
from suffice.decide.service import Served, ServiceOutlook, outlook
from suffice.decide.service_curves import curve_ends
from suffice.decide.service_load import (
    MOST_SLOTS,
    SCREEN,
    LoadKind,
    queue_case,
    served_case,
    share_of,
    slots_that_fit,
)
from suffice.decide.service_rate import doubled
from suffice.serving.capacity import Proof, at_rate, saturated_rate
from suffice.serving.capacity import holds as limits_hold

if TYPE_CHECKING:
    from suffice.decide.evidence import MachineEvidence
    from suffice.decide.service_load import Effort, ServedCase
    from suffice.model.demand import Demand
    from suffice.serving.curve import ServiceCurve

_GRID: Final = 1.05  # speeds are rounded down to powers of it
_KNOWN: Final = 64  # shares of loads that are remembered
# A screen works off 90 requests; of 2,000 some are far longer than the mean, and they took up to 8 % more.
_QUEUE_SLACK: Final = 1.1
# That are tried where figures of its own are not asked for: at the slow end more of them share the same speed.
_SCREEN_SLOTS: Final = 8


@dataclass(frozen=True, slots=True)
class _Key:
    """What decides whether a machine is enough: more of each is never worse."""

    decode: tuple[float, ...]  # at each depth that is told
    prefill: float
    slots: int
    load: float  # users or requests a second: the one figure of which less is easier

    def covers(self, other: _Key) -> bool:
        faster = all_as_fast(self.decode, other.decode) and self.prefill >= other.prefill
        return faster and self.slots >= other.slots and self.load <= other.load


@lru_cache(maxsize=_KNOWN)
def _known_of(unloaded: Demand) -> Covering[_Key, ServiceOutlook]:  # noqa: ARG001  # the key of the cache
    """By the demand without its load, so that what holds more shows that it holds less."""
    return Covering()


def forget() -> None:
    """Know nothing of any load, as a new process does.

    What was found out first decides which machine stands for which, so that a long-lived process that answers the same twice forgets between two plans.
    """
    _known_of.cache_clear()


def _shown(share: Demand, machine: MachineEvidence) -> ServiceOutlook | None:
    """What is simulated, where it is enough."""
    found = _simulated(share, machine)
    return found if found is not None and found.is_enough and _works_off(found) else None


def _simulated(share: Demand, machine: MachineEvidence) -> ServiceOutlook | None:
    """Whether the machine holds its share with the margin; of a rate that alone, not with which slots best, nor what it gets there."""
    case = served_case(share, machine, SCREEN)
    if case is None or case.kind is not LoadKind.RATE or queue_case(share, machine) is not None:
        return outlook(share, machine, SCREEN)
    ends = replace(curve_ends(machine, case.extent(case.most_slots), with_fast=False), fast=None)
    if ends.slow is None:
        return None
    curve, wanted = ends.slow, case.demanded * case.margin
    slots = next((count for count in reversed(doubled(case.most_slots)) if _keeps(curve, case, count, wanted)), None)
    if slots is None:
        return None
    capacity = Quantity(
        point=wanted, low=wanted, high=None, basis=ends.basis, interval_known=ends.interval_known, more_untried=True
    )
    return ServiceOutlook(served=Served.of_capacity(case, ends, slots, capacity), drained=None)


def _keeps(curve: ServiceCurve, case: ServedCase, slots: int, rate_per_s: float) -> bool:
    """As :meth:`suffice.decide.service_rate.RateServer.holds`; that the queue does not grow for ever is asked last, since most that fail do so at once."""
    scheduler, load = case.scheduler(slots), case.load()
    if not limits_hold(curve, scheduler, at_rate(load, rate_per_s), case.limits, case.trial, Proof.HOLDS):
        return False
    return rate_per_s <= saturated_rate(curve, scheduler, load)


def _under(known: ServiceOutlook, part: float) -> ServiceOutlook:
    """What was simulated of a load, said of a part of it: that much is carried at least."""
    served, drained = known.served, known.drained
    if served is not None:
        case = replace(served.case, demanded=served.case.demanded * part)
        users = case.kind is LoadKind.USERS
        served = replace(served, case=case, slots=math.ceil(case.demanded) if users else served.slots)
    if drained is not None:
        drained = replace(drained, case=replace(drained.case, demanded=drained.case.demanded * part))
    return replace(known, served=served, drained=drained)


def _works_off(found: ServiceOutlook) -> bool:
    drained = found.drained
    if drained is None:
        return True
    rate = drained.requests_per_second
    wanted = drained.case.demanded * drained.case.margin * _QUEUE_SLACK
    return rate is not None and rate.low is not None and rate.low >= wanted


def holds(demand: Demand, evidence: MachineEvidence, count: int) -> ServiceOutlook | None:
    """What is simulated of one of ``count`` machines under its share, where it holds that with the margin at the slow end; else None.

    What stands in it is of the machine or of a slower one, and nothing bounds the high end. "Not shown" is never "not enough".
    """
    share = share_of(demand, count)
    key, machine = _reduced(share, evidence)
    unloaded = replace(share, concurrent_users=None, requests_per_second=None, is_share=share.is_of_users)
    found = _known_of(unloaded).found(key, lambda: _shown(share, machine))
    if found is None:
        return None
    other, known = found
    return known if other.load == key.load else _under(known, key.load / other.load)


def own_outlook(
    demand: Demand, evidence: MachineEvidence, count: int, effort: Effort | None = None
) -> ServiceOutlook | None:
    """The same with the figures of this machine, its speeds rounded down by 5 % at most, and with its high end and its capacity."""
    share = share_of(demand, count)
    _, machine = _reduced(share, evidence, rounds_high=True)
    return outlook(share, machine, effort)


def _low(rate: Quantity | None) -> float:
    return 0.0 if rate is None or rate.low is None else rate.low


def _reduced(share: Demand, evidence: MachineEvidence, *, rounds_high: bool = False) -> tuple[_Key, MachineEvidence]:
    """The machine on a grid of speeds and slots, with nothing left that tells one machine or model from another."""
    context = share.needed_context_tokens or evidence.run_context_tokens
    fitting = slots_that_fit(share, evidence, context)
    most = MOST_SLOTS if rounds_high else max(_SCREEN_SLOTS, share.streams)
    slots = most if fitting is None else min(fitting, most)
    decode = tuple(replace(point, rate=_slower(point.rate, keeps_high=rounds_high)) for point in evidence.decode)
    prefill = evidence.prefill_rate and _slower(evidence.prefill_rate, keeps_high=rounds_high)
    machine = replace(
        evidence,
        name="",
        is_gpu=False,
        decode=decode,
        prefill_rate=prefill,
        weights_bytes=0.0,
        kv_bytes_per_token=1.0,
        kv_layers=(),
        kv_state_bytes=0.0,
        overhead_bytes=0.0,
        memory_usable_bytes=float(slots * context),
        context_length=None,
        streamed_bytes=None,
        model_identity=None,
        model_name=None,
        model_file=None,
        bits_per_weight=None,
    )
    load = float(share.streams) if share.requests_per_second is None else share.requests_per_second
    key = _Key(decode=tuple(_low(point.rate) for point in decode), prefill=_low(prefill), slots=slots, load=load)
    return key, machine


def _slower(rate: Quantity, *, keeps_high: bool) -> Quantity:
    low = None if not rate.low else _GRID ** math.floor(math.log(rate.low, _GRID))
    point = low or rate.point
    if not keeps_high:
        return replace(rate, point=point, low=low, high=point)
    high = None if not rate.high else _GRID ** math.ceil(math.log(rate.high, _GRID))
    return replace(rate, point=point, low=low, high=high)
