"""The machines of the catalogue that a plan looks at, and in sentences those that it leaves out."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from suffice.decide.plan_load import Pace, elsewhere
from suffice.decide.plan_machines import Asked, Offer, machine_options, with_own_figures
from suffice.decide.plan_rank import unit_name
from suffice.decide.plan_types import OptionKind
from suffice.decide.prospects import CPU_RESERVE_BYTES, predicted_lengths
from suffice.loaders.by_identity import ByIdentity
from suffice.loaders.plan_prices import hour_tag
from suffice.loaders.prospects import prospects_of, support_of
from suffice.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from suffice.catalogue.entries import Instance
    from suffice.decide.plan_types import PlanOption
    from suffice.loaders.planning import PlanRequest

_HYBRID_CPUS: Final = 40  # of one currency that are offered to hybrids: those with the most work for the money
_ROOMY: Final = 2.0  # so many times the weights is room for cache and buffers as well
_LARGEST: Final = 3  # of a kind that are shown where nothing has room
_HOSTS: Final = 2  # with the same accelerator that are looked at: the cheapest


@dataclass(frozen=True, slots=True, kw_only=True)
class Market:
    """What is offered.

    Attributes:
        offers: machines with what is predicted of them.
        machines: of the catalogue, by name.
        asked: what is asked of each; None: there is no offer.
        judged: machines that were looked at, those without room for the weights included.
        notes: why others are left out.
    """

    offers: tuple[Offer, ...]
    machines: Mapping[str, Instance]
    asked: Asked | None
    judged: int
    notes: tuple[str, ...]

    @classmethod
    def of(cls, request: PlanRequest) -> Market:
        """The machines of a request's catalogue that pass its filters."""
        weights_bytes = request.model.shape.tensor_bytes
        wanted = [one for one in request.catalogue.instances if _is_wanted(one, request)]
        priced = [one for one in wanted if one.price is not None]
        steady = [one for one in priced if not one.is_burstable]
        roomy = [one for one in steady if _has_room(one, weights_bytes)] or _largest(steady)
        cheap = roomy if request.siblings else _without_dear_siblings(roomy, weights_bytes)
        lengths = predicted_lengths(request.demand)
        found = prospects_of(cheap, request.catalogue, request.model, lengths, kv_type=request.kv_type)
        offers = tuple(
            Offer(prospect=one, price=None if one.price is None else hour_tag(one.price, request.today))
            for one in found
        )
        cache = "" if request.kv_type == "f16" else f", and of no GPU with a KV cache of {request.kv_type}"
        left_out = {
            "without a price that is known": len(wanted) - len(priced),
            "with CPU credits, which a short test flatters": len(priced) - len(steady),
            f"with less memory than the weights' {format_bytes(weights_bytes)}": len(steady) - len(roomy),
            "that cost more than another one of the provider with the same CPU or accelerator": len(roomy) - len(cheap),
            f"of which too little is known for a prediction{cache}": len(cheap) - len(found),
        }
        return cls(
            offers=offers,
            machines={one.key: one for one in cheap},
            asked=_asked(request, offers),
            judged=len(steady) - len(cheap) + len(found),
            notes=tuple(f"left out: {count:,} {why}" for why, count in left_out.items() if count),
        )

    def _of_kind(self, kind: OptionKind) -> list[Offer]:
        return [one for one in self.offers if one.kind is kind]

    def options(self, request: PlanRequest) -> tuple[PlanOption, ...]:
        """Machines to rent."""
        wanted = [one for one in self.offers if request.wants(one.kind)]
        return () if self.asked is None else machine_options(wanted, self.asked)

    def hybrids(self, request: PlanRequest) -> tuple[PlanOption, ...]:
        """A GPU for the share that waits, CPUs for the rest; and the GPUs alone against which that saves or not."""
        from suffice.decide.plan_hybrid import with_gpus_alone  # noqa: PLC0415  # few demands have a share

        if self.asked is None or request.demand.interactive_share is None or not request.wants(OptionKind.HYBRID):
            return ()
        cpu = _most_work_for_money(self._of_kind(OptionKind.CPU), self.asked)
        demand = elsewhere(request.demand)
        gpu = self._of_kind(OptionKind.GPU)
        tags = {one.prospect.name: one.price for one in (*gpu, *cpu) if one.price is not None}
        found = with_gpus_alone(demand, gpu, cpu, most=request.max_machines, tags=tags)
        return tuple(one for one in found if request.wants(one.kind))

    def offer_of(self, option: PlanOption) -> Offer | None:
        """The machine behind an option; None of another kind."""
        if option.kind not in (OptionKind.CPU, OptionKind.GPU):
            return None
        name = unit_name(option)
        return next((one for one in self.offers if one.prospect.name == name), None)

    def with_own_figures(self, option: PlanOption) -> PlanOption:
        """A machine with what is simulated of it alone; another option unchanged."""
        offer = self.offer_of(option)
        return option if offer is None or self.asked is None else with_own_figures(option, offer, self.asked)

    def explained(self, option: PlanOption, request: PlanRequest) -> PlanOption:
        """With what its prediction rests on, which is told late: for each machine it would take seconds."""
        machine = self.machines.get(unit_name(option))
        if option.kind is not OptionKind.CPU or machine is None:
            return option
        support = support_of(machine, request.model, predicted_lengths(request.demand))
        return replace(option, notes=tuple(dict.fromkeys((*option.notes, *support))))


def _asked(request: PlanRequest, offers: tuple[Offer, ...]) -> Asked | None:
    if not offers:
        return None
    return Asked.of(
        request.demand,
        offers,
        most=request.max_machines,
        keep=request.keep,
        proven=request.proven,
    )


def _is_wanted(machine: Instance, request: PlanRequest) -> bool:
    """By provider, by region, and by what is surely of a kind that is not asked for."""
    if request.providers and machine.provider not in request.providers:
        return False
    region = None if machine.price is None else machine.price.region
    if request.regions and region not in request.regions:
        return False
    kind = OptionKind.CPU if machine.accelerator is None else OptionKind.GPU
    return request.wants(kind) or request.wants(OptionKind.HYBRID)


def _memory(machine: Instance) -> float | None:
    """Of the machine, or of its accelerators together; None: nobody states it."""
    if machine.accelerator is None:
        return machine.memory_bytes
    each = machine.accelerator_memory_bytes
    return None if each is None else each * max(1.0, machine.accelerator_count or 1.0)


def _has_room(machine: Instance, weights_bytes: int) -> bool:
    """Whether the weights may fit; a machine whose memory nobody states may hold them."""
    memory = _memory(machine)
    return memory is None or memory >= weights_bytes


def _largest(machines: Sequence[Instance]) -> list[Instance]:
    """Those with most memory of each kind: where none has room for the weights, they say how much lacks."""
    found = []
    for has_accelerator in (False, True):
        own = [one for one in machines if (one.accelerator is not None) is has_accelerator]
        found += sorted(own, key=lambda one: (-(_memory(one) or 0.0), one.key))[:_LARGEST]
    return found


def _surely_holds(machine: Instance, weights_bytes: int) -> bool:
    memory, floor = _memory(machine), machine.memory_floor_bytes
    if memory is not None:
        return memory >= _ROOMY * weights_bytes + CPU_RESERVE_BYTES
    return floor is not None and floor >= _ROOMY * _ROOMY * weights_bytes


def _without_dear_siblings(machines: Iterable[Instance], weights_bytes: int) -> list[Instance]:
    """Of machines that compute alike the cheapest, and the cheapest that surely has room: the others are as fast and cost more."""
    taken: dict[tuple[object, ...], int] = {}
    kept = []
    for one in sorted(machines, key=_by_price):
        surely = _surely_holds(one, weights_bytes)
        alike = _computes_as(one)
        most = 1 if one.accelerator is None else _HOSTS
        if taken.get((*alike, surely), 0) < most and not (not surely and taken.get((*alike, True), 0)):
            taken[*alike, surely] = taken.get((*alike, surely), 0) + 1
            kept.append(one)
    return kept


def _order(machine: Instance) -> tuple[float, str]:
    return machine.price.per_hour if machine.price else math.inf, machine.key


def _like(machine: Instance) -> tuple[object, ...]:
    """What is the same of machines that are equally fast; which of them one gets, chance decides more."""
    region = None if machine.price is None else (machine.price.currency, machine.price.region)
    if machine.accelerator is not None:
        accelerator = (machine.accelerator, machine.accelerator_device, machine.accelerator_count)
        return (machine.provider, region, *accelerator, machine.accelerator_memory_bytes)
    # A flexible machine (c7i-flex) has the same CPU and is promised a part of it.
    cores = (machine.vcpu, machine.threads_per_core, machine.sockets, machine.numa_nodes, "flex" in machine.name)
    return (machine.provider, region, machine.cpu_model or machine.key, *cores)


_KNOWN_MACHINES: Final = 8192  # of catalogues: each model asks for the same ones
_by_price = ByIdentity(_order, _KNOWN_MACHINES)
_computes_as = ByIdentity(_like, _KNOWN_MACHINES)


def _most_work_for_money(offers: Sequence[Offer], asked: Asked) -> list[Offer]:
    """Of each currency those that work off most requests for their price."""
    by_currency: dict[str, list[tuple[float, str, Offer]]] = {}
    for offer in offers:
        if offer.price is not None:
            cost = offer.price.amount * Pace.of(offer.prospect.evidence).request_s(asked.work)
            by_currency.setdefault(offer.price.currency, []).append((cost, offer.prospect.name, offer))
    return [one[2] for own in by_currency.values() for one in sorted(own, key=lambda one: one[:2])[:_HYBRID_CPUS]]
