"""Machines to rent as options: how many of each hold the demand, the cheapest first, each judged by the verdict rule.

Thousands of machines times several counts are ruled out by arithmetic (:mod:`suffice.decide.plan_load`); of the others the cheapest are
simulated, in the order of their bills, until as many are enough as are wanted.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from suffice.decide.plan_cost import always_on, machine_cost
from suffice.decide.plan_load import (
    Pace,
    Work,
    WorkKind,
    alone,
    asks_too_often,
    busy_share,
    elsewhere,
    paid_hours,
    paid_window_s,
    volume_of,
    work_of,
)
from suffice.decide.plan_rank import unit_name
from suffice.decide.plan_screen import holds, own_outlook
from suffice.decide.plan_types import OptionKind, PlanOption
from suffice.decide.service_load import machines_share
from suffice.decide.verdict import Grade, decide_machine
from suffice.decide.wording import label
from suffice.model.basis import weakest
from suffice.model.cost import HOURS_PER_MONTH
from suffice.model.demand import users_with_margin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.decide.constraint import Constraint
    from suffice.decide.plan_types import PriceTag
    from suffice.decide.prospects import Prospect
    from suffice.decide.service import ServiceOutlook
    from suffice.decide.verdict import Verdict
    from suffice.model.cost import Volume
    from suffice.model.demand import Demand

_USERS: Final = "capacity_users"
_TOO_DEAR: Final = 4.0  # times the cheapest that is enough: nobody asks for those
_FEW: Final = 3  # times as many as are kept that are looked at among those that fail


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A machine to rent. ``price`` of an hour; None: nobody states it."""

    prospect: Prospect
    price: PriceTag | None

    @property
    def kind(self) -> OptionKind:
        """By what computes."""
        return OptionKind.GPU if self.prospect.evidence.is_gpu else OptionKind.CPU


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is asked of every machine.

    Attributes:
        demand: as stated, without the memory of the machine at hand.
        work: the same as a load.
        single: one stream of it.
        volume: a month's work; None: none is stated.
        most: machines of a kind that are tried.
        keep: options that are wanted.
        proven: of each kind and currency so many that are enough are looked for.
    """

    demand: Demand
    work: Work
    single: Demand
    volume: Volume | None
    most: int
    keep: int
    proven: int

    @classmethod
    def of(
        cls,
        demand: Demand,
        offers: Sequence[Offer],
        *,
        most: int,
        keep: int,
        proven: int,
    ) -> Asked:
        """From a demand; ``offers``: at least one."""
        there = elsewhere(demand)
        return cls(
            demand=there,
            work=work_of(there, offers[0].prospect.evidence),
            single=alone(demand),
            volume=volume_of(demand),
            most=most,
            keep=keep,
            proven=proven,
        )

    @property
    def tokens(self) -> float | None:
        """Generated in a month."""
        return None if self.volume is None else self.volume.output_tokens_per_month


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """An offer with what arithmetic says of it."""

    offer: Offer
    pace: Pace
    least: float  # machines at the slow end; infinite: none would

    def hourly(self, count: float) -> float:
        """Money an hour, for an order; prices of several currencies are not compared, only ordered."""
        return math.inf if self.offer.price is None else self.offer.price.amount * count


def machine_options(offers: Sequence[Offer], asked: Asked) -> tuple[PlanOption, ...]:
    """The cheapest machines that are enough, then those of which that is not known, then those that are not and lack least."""
    needed = _least_memory(offers, asked)
    seen = [_seen(offer, asked) for offer in offers]
    able = [one for one in seen if _is_able(one, asked, needed)]
    found = list(_enough(able, asked))
    taken = {unit_name(option) for option in found}
    left = [one for one in seen if one.offer.prospect.name not in taken]
    return (*found, *_others(left, asked, needed, asked.keep - len(found)))


def _seen(offer: Offer, asked: Asked) -> _Seen:
    pace = Pace.of(offer.prospect.evidence)
    return _Seen(offer=offer, pace=pace, least=pace.least(asked.work))


def _least_memory(offers: Sequence[Offer], asked: Asked) -> float | None:
    """Bytes of the model with one cache of the demand's context: the same on all machines."""
    if not offers:
        return None
    evidence = offers[0].prospect.evidence
    context = asked.demand.needed_context_tokens or evidence.run_context_tokens
    return evidence.memory_needed_bytes(context, 1)


def _is_able(one: _Seen, asked: Asked, needed: float | None) -> bool:
    memory = one.offer.prospect.evidence.memory_usable_bytes
    return (
        one.offer.price is not None
        and one.least <= asked.most
        and memory is not None
        and needed is not None
        and memory >= needed
    )


def _enough(able: Sequence[_Seen], asked: Asked) -> list[PlanOption]:
    """In the order of their bills, within each kind and currency, until as many as are wanted are found."""
    markets: dict[tuple[OptionKind, str], list[_Seen]] = {}
    for one in able:
        if one.offer.price is not None:
            markets.setdefault((one.offer.kind, one.offer.price.currency), []).append(one)
    return [option for own in markets.values() for option in _cheapest(own, asked)]


def _cheapest(able: Sequence[_Seen], asked: Asked) -> list[PlanOption]:
    queue = [(one.hourly(one.least), one.offer.prospect.name, int(one.least), one) for one in able]
    heapq.heapify(queue)
    found: list[PlanOption] = []
    dearest = math.inf
    while queue and len(found) < asked.proven and queue[0][0] <= dearest:
        hourly, name, count, one = heapq.heappop(queue)
        option = _judged(one, count, asked)
        if option is not None:
            found.append(option)
            dearest = min(dearest, hourly * _TOO_DEAR)
        elif count < asked.most and asked.work.kind is not WorkKind.STREAM:
            heapq.heappush(queue, (one.hourly(count + 1), name, count + 1, one))
    return found


def _judged(one: _Seen, count: int, asked: Asked) -> PlanOption | None:
    """``count`` machines as an option where they are shown to be enough."""
    evidence = one.offer.prospect.evidence
    service = None
    if asked.work.kind is not WorkKind.STREAM:
        service = holds(asked.demand, evidence, count)
        if service is None:
            return None
    verdict = _verdict(one, count, asked, service)
    return None if verdict.grade is not Grade.ENOUGH else _option(one, count, asked, verdict)


def _verdict(one: _Seen, count: int, asked: Asked, service: ServiceOutlook | None) -> Verdict:
    return decide_machine(machines_share(asked.demand, count), one.offer.prospect.evidence, service)


def _option(one: _Seen, count: int, asked: Asked, verdict: Verdict) -> PlanOption:
    name = one.offer.prospect.name
    binding = next((c.constraint for c in verdict.constraints if c.constraint.name == verdict.binding), None)
    price = one.offer.price
    least = min(count, one.pace.least_at_best(asked.work))
    too_often = asks_too_often(asked.demand, asked.volume, one.pace.request_s(asked.work))
    return PlanOption(
        kind=one.offer.kind,
        name=name if count == 1 else f"{count} x {name}",
        count=count,
        grade=verdict.grade,
        reason=_share_words(count, asked) + verdict.reason,
        binding=verdict.binding,
        headroom=None if binding is None else _headroom(binding, count, asked),
        basis=verdict.basis,
        cost=None if price is None else machine_cost(price, count, paid_hours(asked.demand), least),
        cost_unknown="nobody states its price" if price is None else None,
        tokens_per_month=None if too_often else asked.tokens,
        utilisation=None if too_often else busy_share(asked.demand, asked.volume, _point_request_s(one, asked), count),
        verdict=verdict,
        notes=(*_notes(one, count, asked), *([] if too_often is None else [too_often])),
        prices=() if price is None else (price,),
    )


def _share_words(count: int, asked: Asked) -> str:
    if count == 1:
        return ""
    share = machines_share(asked.demand, count)
    if asked.work.kind is not WorkKind.USERS or share.margin == asked.work.margin:
        return f"Each of {count} takes its part of the load. "
    users, margin = asked.demand.streams, asked.work.margin
    whole, each = users_with_margin(users, margin), users_with_margin(share.streams, share.margin)
    return f"Each of {count} takes its part of the load: {users} users with the margin of {margin:g} are {whole}, {each} each. "


def _headroom(binding: Constraint, count: int, asked: Asked) -> float | None:
    """Available over required; of users, who cannot be halved, what all machines carry over all of the load."""
    if binding.headroom is None or binding.name != _USERS or asked.work.kind is not WorkKind.USERS:
        return binding.headroom
    return binding.headroom * machines_share(asked.demand, count).streams * count / asked.demand.streams


def _point_request_s(one: _Seen, asked: Asked) -> float:
    """Seconds of a request at the middle of what is predicted."""
    work, evidence = asked.work, one.offer.prospect.evidence
    if work.prompt_tokens is None or work.output_tokens is None or evidence.prefill_rate is None or not evidence.decode:
        return math.inf
    return work.prompt_tokens / evidence.prefill_rate.point + work.output_tokens / evidence.decode[0].rate.point


def _notes(one: _Seen, count: int, asked: Asked) -> tuple[str, ...]:
    notes = list(one.offer.prospect.rests_on)
    price = one.offer.price
    if price is not None and paid_window_s(asked.demand) is not None:
        hours = paid_hours(asked.demand)
        notes.append(
            f"rented for the window only, {hours:,.4g} hours a month; never given back it is {always_on(price, count):,.2f} {price.currency} "
            f"({HOURS_PER_MONTH:.0f} hours), and starting it and loading the model take their time in the window"
        )
    return tuple(notes)


def _others(left: Sequence[_Seen], asked: Asked, needed: float | None, room: int) -> list[PlanOption]:
    """Those that are not shown to be enough: open ones by their price, then failing ones by what they lack."""
    failing = [one for one in left if _fails(one, asked, needed)]
    names = {one.offer.prospect.name for one in failing}
    opened = [one for one in left if one.offer.prospect.name not in names]
    opened.sort(key=lambda one: (_unknown(one), one.hourly(_fewest(one, asked)), one.offer.prospect.name))
    failing.sort(key=lambda one: (-_closeness(one, asked, needed), one.hourly(1), one.offer.prospect.name))
    wanted = max(room, asked.keep // _FEW)
    return [_unproven(one, asked) for one in (*opened[:wanted], *failing[:wanted])]


def _unknown(one: _Seen) -> tuple[bool, bool]:
    """First those of which memory and the slow end are known."""
    return one.offer.prospect.evidence.memory_usable_bytes is None, math.isinf(one.least)


def _fails(one: _Seen, asked: Asked, needed: float | None) -> bool:
    evidence = one.offer.prospect.evidence
    memory = None if evidence.memory_is_floor else evidence.memory_usable_bytes
    if memory is not None and needed is not None and memory < needed:
        return True
    return one.pace.misses_alone(asked.work) or _most_needed(one, asked) > asked.most


def _most_needed(one: _Seen, asked: Asked) -> int:
    """The fewest machines that even the fast end needs, without any margin."""
    return one.pace.least_at_best(asked.work, with_margin=False)


def _closeness(one: _Seen, asked: Asked, needed: float | None) -> float:
    """Available over required of what lacks most, at the fast end."""
    memory, work, pace = one.offer.prospect.evidence.memory_usable_bytes, asked.work, one.pace
    shares = [1.0] if memory is None or not needed else [memory / needed]
    if work.need is not None:
        shares.append(pace.decode_high / work.need)
    if work.ttft_s is not None and work.ttft_tokens:
        shares.append(work.ttft_s * pace.prefill_high / work.ttft_tokens)
    return min(shares)


def _unproven(one: _Seen, asked: Asked) -> PlanOption:
    """An option that is not shown to be enough: judged for one stream first, which no number of machines makes faster."""
    kind = asked.work.kind
    demand = asked.demand if kind is WorkKind.STREAM else asked.single
    verdict = decide_machine(demand, one.offer.prospect.evidence)
    if kind is WorkKind.STREAM or verdict.grade is Grade.NOT_ENOUGH:
        return replace(_option(one, 1, asked, verdict), utilisation=None)
    most = _most_needed(one, asked)
    count = asked.most if most > asked.most else _fewest(one, asked)
    option = replace(_option(one, count, asked, verdict), utilisation=None)
    if most > asked.most:
        reason = f"Not enough: even at the fast end of what is predicted it takes {most} of them, and at most {asked.most} are tried."
        return _under_load(option, one, asked, grade=Grade.NOT_ENOUGH, reason=reason, headroom=asked.most / most)
    reason = _open_reason(one, asked, verdict)
    if verdict.grade is Grade.OPEN:
        return replace(option, reason=reason)
    return _under_load(option, one, asked, grade=Grade.OPEN, reason=reason, headroom=None)


def _fewest(one: _Seen, asked: Asked) -> int:
    """Machines that may do at the fast end, with the margin: what an open option costs at least."""
    return min(asked.most, one.pace.least_at_best(asked.work))


def _under_load(
    option: PlanOption, one: _Seen, asked: Asked, *, grade: Grade, reason: str, headroom: float | None
) -> PlanOption:
    """The option of a machine that serves one stream, as it stands under the load: nothing of that stream binds."""
    speeds = [point.rate.basis for point in one.offer.prospect.evidence.decode]
    basis = weakest(speeds) if speeds else option.basis
    return replace(option, grade=grade, reason=reason, binding=_load_name(asked), headroom=headroom, basis=basis)


def _open_reason(one: _Seen, asked: Asked, verdict: Verdict) -> str:
    if verdict.grade is Grade.OPEN and verdict.binding is not None:
        return f"One stream alone: {verdict.reason} Measure it: `suffice check` on one of them, or see what `suffice ceiling` says."
    what = f"{label(_load_name(asked))} with margin {asked.work.margin:g}"
    measure = "Measure one: `suffice check` with the same demand."
    if math.isinf(one.least):
        return f"Not settled: at the slow end of what is predicted no number of them holds {what}, at the fast end they may. {measure}"
    if one.least > asked.most:
        return (
            f"Not settled: at the slow end of what is predicted it takes {one.least:.0f} of them at least to hold {what}, and at most "
            f"{asked.most} are tried; at the fast end fewer may do. {measure}"
        )
    return (
        f"Not settled: by arithmetic {one.least:.0f} or more of them may hold {what}; up to {asked.most} are not shown to, or cost more than the "
        f"{asked.proven} cheapest of their kind that are enough, beyond which none is looked for. {measure}"
    )


def _load_name(asked: Asked) -> str:
    names = {
        WorkKind.USERS: _USERS,
        WorkKind.RATE: "capacity_requests_per_second",
        WorkKind.QUEUE: "wall_time_s" if paid_window_s(asked.demand) is not None else "sustained_tokens_per_second",
    }
    return names.get(asked.work.kind, "decode_tokens_per_second")


def with_own_figures(option: PlanOption, offer: Offer, asked: Asked) -> PlanOption:
    """An option with what is simulated of its own machine, both ends and the capacity, where it was judged by those of a slower one.

    By its own figures more of them may be needed.
    """
    if asked.work.kind is WorkKind.STREAM or option.verdict is None:
        return option
    one = _seen(offer, asked)
    count, (verdict, service) = _fewest_by_own(one, option.count, asked)
    fresh = _option(one, count, asked, verdict)
    return replace(fresh, notes=option.notes, tokens_per_machine=_carried(service, asked))


def _fewest_by_own(one: _Seen, count: int, asked: Asked) -> tuple[int, tuple[Verdict, ServiceOutlook | None]]:
    """The first number from ``count`` on at which they are enough; else what is said of ``count``."""
    known = _own(one, count, asked)
    if _is_enough(known):
        return count, known
    more = ((number, _own(one, number, asked)) for number in range(count + 1, asked.most + 1))
    return next(((number, own) for number, own in more if _is_enough(own)), (count, known))


def _is_enough(own: tuple[Verdict, ServiceOutlook | None]) -> bool:
    return own[0].grade is Grade.ENOUGH


def _own(one: _Seen, count: int, asked: Asked) -> tuple[Verdict, ServiceOutlook | None]:
    service = own_outlook(asked.demand, one.offer.prospect.evidence, count)
    return _verdict(one, count, asked, service), service


def _carried(service: ServiceOutlook | None, asked: Asked) -> float | None:
    """Generated tokens a month that one machine carries with the margin, at the slow end."""
    if service is None or asked.volume is None or asked.work.kind is WorkKind.USERS:
        return None
    part = service.served or service.drained
    quantity = None if service.served is None else service.served.capacity
    if service.served is None and service.drained is not None:
        quantity = service.drained.requests_per_second
    if part is None or quantity is None or not quantity.low:
        return None
    return asked.volume.output_tokens_per_month * quantity.low / (asked.work.demanded * asked.work.margin)
