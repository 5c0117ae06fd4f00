"""The catalogue as one object: what ships, prices that were refreshed, and the user's own entries over them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from suffice.catalogue.ages import is_newer
from suffice.catalogue.apis import all_apis, find_apis
from suffice.catalogue.devices import all_devices, find_device
from suffice.catalogue.entries import ApiPrice, Device, Instance
from suffice.catalogue.instances import all_instances, find_instance
from suffice.catalogue.names import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from suffice.catalogue.entries import Price


_Entry = TypeVar("_Entry", bound=Device | Instance | ApiPrice)
# What identifies an entry or says where it is from, and is no news about it.
_BESIDE: Final = frozenset(
    {"id", "provider", "name", "platform", "model", "tier", "currency", "source", "seen", "date", "origin"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What somebody states of one entry: fields of its class by name, with ``source`` and ``seen``; the fields that make its key are in."""

    values: Mapping[str, Any]

    @property
    def changed(self) -> tuple[str, ...]:
        """The fields that say something new."""
        return tuple(name for name in self.values if name not in _BESIDE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """Entries of the user: they change those with the same key, or are added."""

    devices: tuple[Change, ...] = ()
    instances: tuple[Change, ...] = ()
    apis: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshPrices:
    """Prices of a later date than those that ship.

    ``machines`` holds them by ``Instance.key``.
    """

    machines: tuple[tuple[str, Price], ...] = ()
    apis: tuple[ApiPrice, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """Devices, machines to rent and API prices. Immutable: what changes it returns another one."""

    devices: tuple[Device, ...]
    instances: tuple[Instance, ...]
    apis: tuple[ApiPrice, ...]

    def device_named(self, name: str) -> Device:
        """The device with an id, name or alias; raises UsageError with a hint."""
        return find_device(name, self.devices)

    def instance_named(self, name: str) -> Instance:
        """The machine with a name; raises UsageError with a hint."""
        return find_instance(name, self.instances)

    def api_named(self, name: str) -> tuple[ApiPrice, ...]:
        """Every price of a model; raises UsageError with a hint."""
        return find_apis(name, self.apis)

    def with_prices(self, fresh: FreshPrices) -> Catalogue:
        """The catalogue with prices that are newer than its own; older and equally old ones change nothing.

        Prices of machines that are not in the catalogue are left out: nothing else is known of them.
        """
        prices = dict(fresh.machines)
        machines = tuple(_repriced(machine, prices.get(machine.key)) for machine in self.instances)
        return replace(self, instances=machines, apis=_newer_apis(self.apis, fresh.apis))

    def with_overrides(self, own: Overrides) -> Catalogue:
        """The catalogue with the user's entries over it.

        One with the key of another (a device's id, ``provider/name``, or what makes two API prices two) replaces the fields that it states
        and leaves the others, and ``source`` says which are whose; the others are added in front.
        """
        return Catalogue(
            devices=_changed(own.devices, self.devices, _own_device, lambda device: plain(device.id)),
            instances=_changed(
                own.instances, self.instances, lambda values: Instance(**values), lambda machine: machine.key.lower()
            ),
            apis=_changed(
                own.apis, self.apis, lambda values: ApiPrice(**values), lambda api: "|".join(api.key).lower()
            ),
        )


@cache
def shipped() -> Catalogue:
    """The catalogue as it ships. The devices, machines and prices are loaded when it is first asked for."""
    return Catalogue(devices=all_devices(), instances=all_instances(), apis=all_apis())


def _repriced(machine: Instance, price: Price | None) -> Instance:
    if price is None or (machine.price is not None and not is_newer(price.date, machine.price.date)):
        return machine
    return replace(machine, price=price)


def _newer_apis(old: tuple[ApiPrice, ...], fresh: Iterable[ApiPrice]) -> tuple[ApiPrice, ...]:
    """Fresh prices in place of older ones of the same platform, model, tier and currency; new ones behind."""
    left = {api.key: api for api in fresh}
    kept = []
    for api in old:
        newer = left.pop(api.key, None)
        kept.append(newer if newer is not None and is_newer(newer.date, api.date) else api)
    return (*kept, *left.values())


def _own_device(values: Mapping[str, Any]) -> Device:
    return Device(**{"name": values["id"], "kind": "of the user", **values})


def _changed(
    changes: Iterable[Change],
    others: tuple[_Entry, ...],
    made: Callable[[Mapping[str, Any]], _Entry],
    key: Callable[[_Entry], str],
) -> tuple[_Entry, ...]:
    known: dict[str, _Entry] = {key(entry): entry for entry in others}
    added: list[_Entry] = []
    for change in changes:
        entry = made(change.values)
        old = known.get(key(entry))
        if old is None:
            added.append(entry)
        else:
            known[key(entry)] = _merged(old, change)
    return (*added, *known.values())


def _merged(old: _Entry, change: Change) -> _Entry:
    """The old entry with what is stated anew; rates of a device that are not stated anew stay."""
    values = dict(change.values)
    for name in ("flop_per_s", "dtype_support"):
        if name in values:
            values[name] = MappingProxyType({**getattr(old, name), **values[name]})
    values["source"] = f"{', '.join(change.changed) or 'nothing new'}: {values['source']}; the rest: {old.source}"
    return replace(old, **values)
