"""Machines of the catalogue for a model that is too big elsewhere: which hold it, which are enough, and which of them to name."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from suffice.decide.alternatives import chained_evidence, has_load, needed_bytes, one_stream
from suffice.decide.plan_load import Pace, elsewhere, work_of
from suffice.decide.prospects import CPU_RESERVE_BYTES, Prospect, Standing
from suffice.decide.verdict import decide_machine
from suffice.errors import UsageError
from suffice.loaders.prospects import device_prospect, prospects_of
from suffice.model.rpc import RpcChain, fewest_machines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from suffice.catalogue.catalogue import Catalogue
    from suffice.catalogue.entries import Device, Instance
    from suffice.loaders.model_file import ModelFile
    from suffice.loaders.shape_model import ShapeModel
    from suffice.model.demand import Demand, StreamLengths
    from suffice.model.rpc import Network

_DEVICES_TRIED: Final = 6
_ACCELERATORS_TRIED: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Chained:
    """Machines of one type that share the layers, and what is predicted of them together; the price is that of one."""

    chain: RpcChain
    prospect: Prospect


@dataclass(frozen=True, slots=True, kw_only=True)
class Market:
    """What is offered, and for whom.

    Attributes:
        catalogue: with its prices.
        demand: that is judged, without the memory of the machine at hand.
        lengths: of one stream.
        kv_type: of the cache.
        currency: of the prices that are compared.
        plain: machines without an accelerator whose memory and price are known.
        accelerated: machines with whole accelerators that are known.
    """

    catalogue: Catalogue
    demand: Demand
    lengths: StreamLengths
    kv_type: str
    currency: str
    plain: tuple[Instance, ...]
    accelerated: tuple[Instance, ...]

    @classmethod
    def of(cls, catalogue: Catalogue, demand: Demand, lengths: StreamLengths, kv_type: str) -> Market:
        """Those at a price in the demand's currency (USD where it states none) that keep their speed."""
        currency = (demand.currency or "USD").upper()
        priced = [
            machine
            for machine in catalogue.instances
            if machine.price is not None and machine.price.currency == currency and not machine.is_burstable
        ]
        return cls(
            catalogue=catalogue,
            demand=elsewhere(demand),
            lengths=lengths,
            kv_type=kv_type,
            currency=currency,
            plain=tuple(m for m in priced if m.accelerator is None and m.vcpu is not None and m.memory_bytes),
            accelerated=tuple(
                m for m in priced if m.accelerator_device is not None and (m.accelerator_count or 0) >= 1
            ),
        )

    def holding(self, model: ModelFile | ShapeModel, machines: Iterable[Instance]) -> list[Prospect]:
        """The machines that hold weights and caches, the cheapest first."""
        roomy = [machine for machine in machines if _may_hold(machine, model.shape.tensor_bytes)]
        found = prospects_of(roomy, self.catalogue, model, self.lengths, kv_type=self.kv_type)
        return by_price([one for one in found if self._holds(one)])

    def judged(self, one: Prospect) -> Standing:
        """One stream on it."""
        return Standing(prospect=one, verdict=decide_machine(one_stream(self.demand), one.evidence))

    def enough(self, found: Iterable[Prospect]) -> Iterator[Standing]:
        """Those that are enough for a stream; what is too slow at the low end is told without a verdict, which takes longer."""
        needed = self.demand.required_decode_tokens_per_second
        for one in found:
            if (needed is None or decode_low(one) >= needed) and (standing := self.judged(one)).is_enough:
                yield standing

    def suited(self, found: Iterable[Prospect]) -> Standing | None:
        """The first that is enough for a stream, and for the load so far as it can be told without simulating it."""
        return next((one for one in self.enough(found) if self._carries(one)), None)

    def _holds(self, one: Prospect) -> bool:
        needed, usable = needed_bytes(one.evidence, self.demand), one.evidence.memory_usable_bytes
        return needed is not None and usable is not None and needed <= usable

    def _carries(self, one: Standing) -> bool:
        """Whether one machine holds the load with its margin even without any gain by batching."""
        if not has_load(self.demand):
            return True
        evidence = one.prospect.evidence
        return Pace.of(evidence).least(work_of(self.demand, evidence)) <= 1

    def best(self, model: ModelFile | ShapeModel) -> Standing | None:
        """The cheapest machine without an accelerator that suits, else the cheapest with one, else the fastest without."""
        found = self.holding(model, self.plain)
        suited = self.suited(found) or self._cheapest_accelerated(model)
        return suited or (self.judged(fastest(found)) if found else None)

    def _cheapest_accelerated(self, model: ModelFile | ShapeModel) -> Standing | None:
        """Of the cheapest machine with each number of each accelerator the first that is enough for a stream; few are tried."""
        cheapest = {
            (one.accelerator_device, one.accelerator_count): one for one in reversed(_by_hour(self.accelerated))
        }
        roomy = [one for one in cheapest.values() if _may_hold(one, model.shape.tensor_bytes)]
        for machine in _by_hour(roomy)[:_ACCELERATORS_TRIED]:
            standing = next(self.enough(self.holding(model, [machine])), None)
            if standing is not None:
                return standing
        return None

    def cheapest_plain(self, model: ModelFile | ShapeModel) -> Prospect | None:
        """The cheapest machine without an accelerator that holds it, whatever its speed."""
        for machine in _by_hour(self.plain):
            if _may_hold(machine, model.shape.tensor_bytes):
                found = prospects_of([machine], self.catalogue, model, self.lengths, kv_type=self.kv_type)
                if found and self._holds(found[0]):
                    return found[0]
        return None

    def accelerators(self, model: ModelFile | ShapeModel, most: int) -> list[Standing]:
        """Machines with accelerators that hold it: the cheapest of each kind that is enough for a stream; else the cheapest and the fastest."""
        kinds = {machine.key: machine.accelerator_device for machine in self.accelerated}
        found = self.holding(model, self.accelerated)
        first: dict[str | None, Standing] = {}
        for one in self.enough(found):
            first.setdefault(kinds[one.prospect.name], one)
            if len(first) == most:
                break
        if first or not found:
            return list(first.values())
        best = fastest(found)
        return [self.judged(one) for one in ([found[0]] if best is found[0] else [found[0], best])]

    def devices(self, model: ModelFile | ShapeModel, most: int) -> list[Standing]:
        """Single cards of the catalogue that hold it, the smallest memory first; nobody states what they cost."""
        offered = {machine.accelerator_device for machine in self.accelerated}
        roomy = [
            device
            for device in self.catalogue.devices
            if device.kind == "gpu"
            and device.id not in offered
            and (device.memory_min_bytes or 0) > model.shape.tensor_bytes
        ]
        ranked = sorted(roomy, key=lambda device: (device.memory_min_bytes or 0, device.name))
        found = [one for device in ranked[:_DEVICES_TRIED] if (one := self._card(device, model)) is not None]
        return [self.judged(one) for one in found if self._holds(one)][:most]

    def _card(self, device: Device, model: ModelFile | ShapeModel) -> Prospect | None:
        try:
            return device_prospect(device, model, self.lengths, kv_type=self.kv_type)
        except UsageError:  # nothing can be said of its speed
            return None

    def chains(
        self, model: ModelFile | ShapeModel, needed: Sequence[float], networks: tuple[Network, Network]
    ) -> list[Chained]:
        """Equal machines that hold it together and not alone: as few as do; the cheapest first.

        Args:
            model: that they share.
            needed: bytes of the fullest of 1, 2, 3 ... machines.
            networks: the best and the worst that may lie between them.
        """
        counts = {
            machine.key: count
            for machine in self.plain
            if (count := fewest_machines(needed, _usable(machine))) is not None and count > 1
        }
        machines = [machine for machine in self.plain if machine.key in counts]
        found = []
        for one in prospects_of(machines, self.catalogue, model, self.lengths, kv_type=self.kv_type):
            chain = chain_of(model, counts[one.name])
            evidence = chained_evidence(one.evidence, chain, networks, self.lengths.prompt_tokens, one.name)
            found.append(Chained(chain=chain, prospect=replace(one, evidence=evidence)))
        return sorted(found, key=lambda one: (_per_hour(one.prospect) * one.chain.machines, one.prospect.name))


def chain_of(model: ModelFile | ShapeModel, machines: int) -> RpcChain:
    """The chain of a model over so many machines; a vocabulary that the file does not state sends no logits."""
    return RpcChain(machines=machines, n_embd=model.shape.n_embd, n_vocab=model.shape.n_vocab or 0)


def _may_hold(machine: Instance, weights_bytes: float) -> bool:
    """Whether its weights alone fit; an unknown memory may."""
    if machine.accelerator is None:
        return (machine.memory_bytes or 0.0) > weights_bytes
    each = machine.accelerator_memory_bytes
    return each is None or each * (machine.accelerator_count or 0.0) > weights_bytes


def _usable(machine: Instance) -> float:
    return max((machine.memory_bytes or 0.0) - CPU_RESERVE_BYTES, 0.0)


def _by_hour(machines: Iterable[Instance]) -> list[Instance]:
    """The cheapest first; all of a market have a price."""
    return sorted(machines, key=lambda one: (0.0 if one.price is None else one.price.per_hour, one.key))


def by_price(found: Iterable[Prospect]) -> list[Prospect]:
    """The cheapest first; those without a price last."""
    return sorted(found, key=lambda one: (_per_hour(one), one.name))


def _per_hour(one: Prospect) -> float:
    return math.inf if one.price is None else one.price.per_hour


def fastest(found: Sequence[Prospect]) -> Prospect:
    """The one with the highest decode rate at the low end."""
    return max(found, key=lambda one: (decode_low(one), one.name))


def decode_low(one: Prospect) -> float:
    """The low end of its decode rate; 0 where nothing is known."""
    decode = one.evidence.decode
    return (decode[0].rate.low or 0.0) if decode else 0.0
