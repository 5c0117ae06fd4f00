"""The user's own entries: ``my.toml`` with ``[[device]]``, ``[[instance]]`` and ``[[api]]``. Pydantic stands at this border."""

from __future__ import annotations

import tomllib
from collections import Counter
from datetime import date
from types import MappingProxyType
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from suffice.catalogue.catalogue import Change, Overrides
from suffice.catalogue.entries import Dtype, Price, Sourced
from suffice.catalogue.instances import provider_named
from suffice.catalogue.names import plain, shown
from suffice.errors import UsageError
from suffice.units import GIB, GIGA, LARGEST_FIGURE, TERA

_STRICT: Final = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True, frozen=True)
_KIND: Final = "stated by the user"
_MOST_ENTRIES: Final = 10_000


def _day(value: object) -> object:
    """TOML has dates of its own; a date in quotes is as good."""
    return value.isoformat() if isinstance(value, date) else value


_Text = Annotated[str, Field(min_length=1, max_length=500, pattern=r"\S")]
# Wide enough for anything that is built; beyond are slips of the unit.
_Positive = Annotated[float, Field(gt=0), Field(ge=1 / LARGEST_FIGURE, le=LARGEST_FIGURE)]
_Count = Annotated[int, Field(gt=0, le=10_000_000)]
_Seen = Annotated[str, BeforeValidator(_day), Field(pattern=r"^\d{4}(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?$")]
_Currency = Annotated[str, Field(pattern=r"^[A-Z]{3}$")]


class _Entry(BaseModel):
    """What every entry needs: where its numbers are from, and when they were seen there."""

    model_config = _STRICT

    source: _Text
    seen: _Seen
    note: _Text | None = None


class _DeviceTable(_Entry):
    id: _Text
    name: _Text | None = None
    kind: _Text | None = None
    vendor: _Text | None = None
    memory_gb: _Positive | None = None
    bandwidth_gb_per_s: _Positive | None = None
    measured_read_gb_per_s: _Positive | None = None
    tflops: dict[str, _Positive] | None = None
    lacks: list[str] | None = None
    tdp_w: _Positive | None = None
    cores: _Count | None = None
    threads: _Count | None = None
    channels: _Count | None = None
    mt_per_s: _Positive | None = None
    isa: _Text | None = None
    chips: _Count | None = None
    aliases: list[_Text] | None = None


class _InstanceTable(_Entry):
    provider: _Text
    name: _Text
    vcpu: _Count | None = None
    memory_gib: _Positive | None = None
    cpu_model: _Text | None = None
    arch: _Text | None = None
    threads_per_core: _Count | None = None
    cores_per_socket: _Count | None = None
    sockets: _Count | None = None
    numa_nodes: _Count | None = None
    isa: list[_Text] | None = None
    read_gb_per_s: _Positive | None = None
    accelerator: _Text | None = None
    accelerator_count: _Positive | None = None
    accelerator_memory_gb: _Positive | None = None
    accelerator_device: _Text | None = None
    price_per_hour: _Positive | None = None
    currency: _Currency | None = None
    region: _Text | None = None


class _ApiTable(_Entry):
    platform: _Text
    model: _Text
    input_per_million: Annotated[float, Field(ge=0)]
    output_per_million: Annotated[float, Field(ge=0)]
    cached_input_per_million: Annotated[float, Field(ge=0)] | None = None
    currency: _Currency
    tier: _Text | None = None
    context_tokens: _Count | None = None


_TABLES: Final[dict[str, type[_Entry]]] = {"device": _DeviceTable, "instance": _InstanceTable, "api": _ApiTable}


def parse_own_catalogue(text: str, *, source: str) -> Overrides:
    """The user's entries in a TOML text; ``source`` names it in messages and as the origin of the entries.

    Raises:
        UsageError: no TOML, unknown tables or keys (the message lists those that are allowed), values of the wrong kind, an entry
            without source and date, or two of the same name.
    """
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a ValueError that is no TOMLDecodeError: a number of 5000 digits
        raise UsageError(f"{source} is not valid TOML: {error}") from error
    unknown = sorted(set(document) - set(_TABLES))
    if unknown:
        raise UsageError(
            f"{source} has {shown(unknown[0])}; allowed are the tables {', '.join(f'[[{name}]]' for name in _TABLES)}"
        )
    changes = {kind: _changes(kind, document.get(kind, []), source) for kind in _TABLES}
    return Overrides(devices=changes["device"], instances=changes["instance"], apis=changes["api"])


def _changes(kind: str, tables: object, source: str) -> tuple[Change, ...]:
    if (
        not isinstance(tables, list)
        or len(tables) > _MOST_ENTRIES
        or not all(isinstance(table, dict) for table in tables)
    ):
        raise UsageError(
            f"{source}: write [[{kind}]] in double brackets, once for each entry, at most {_MOST_ENTRIES} times"
        )
    changes = []
    for index, table in enumerate(tables, start=1):
        where = f"{source}, [[{kind}]] number {index}"
        try:
            parsed = _TABLES[kind].model_validate(table)
        except ValidationError as error:
            raise UsageError(f"{where}: {_explain(error, _TABLES[kind])}") from error
        changes.append(Change(values=MappingProxyType(_fields(parsed, where) | {"origin": source})))
    names = Counter(_key(kind, change) for change in changes)
    twice = next((name for name, count in names.items() if count > 1), None)
    if twice is not None:
        raise UsageError(f"{source} has two [[{kind}]] entries for {shown(twice)}; keep one")
    return tuple(changes)


def _explain(error: ValidationError, table: type[_Entry]) -> str:
    """The first complaint as one sentence, with the key and what is allowed; a misspelt key explains others that are missing."""
    complaints = error.errors(include_url=False)
    first = next((item for item in complaints if item["type"] == "extra_forbidden"), complaints[0])
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return f"unknown key {shown(key)}; allowed are {', '.join(table.model_fields)}"
    if first["type"] == "missing":
        reason = {
            "source": "say where the numbers are from",
            "seen": "say when they were seen, such as seen = 2026-11-30",
        }
        return f"key '{key}' is missing; {reason.get(key, 'it makes the entry what it is')}"
    return f"key '{key}': {first['msg']} (found {shown(str(first['input']))})"


def _fields(table: _Entry, where: str) -> dict[str, Any]:
    """The fields of an entry's class that the table states."""
    if isinstance(table, _DeviceTable):
        return _device_fields(table, where)
    if isinstance(table, _InstanceTable):
        return _instance_fields(table, where)
    return {**table.model_dump(exclude_none=True), "date": table.seen, "kind": _KIND}


def _stated(table: _Entry, value: float | None, factor: int) -> Sourced | None:
    return None if value is None else Sourced(value=value * factor, kind=_KIND, source=table.source, seen=table.seen)


def _device_fields(table: _DeviceTable, where: str) -> dict[str, Any]:
    rates = {_dtype(name, where): _stated(table, value, TERA) for name, value in (table.tflops or {}).items()}
    lacks = [_dtype(name, where) for name in table.lacks or ()]
    both = sorted(set(rates) & set(lacks))
    if both:
        raise UsageError(f"{where}: '{both[0]}' has a rate in tflops and is in lacks; keep one")
    memory = None if table.memory_gb is None else table.memory_gb * GIGA
    values = {
        "name": table.name, "kind": table.kind, "vendor": table.vendor, "memory_min_bytes": memory, "memory_max_bytes": memory,
        "bandwidth_bytes_per_s": _stated(table, table.bandwidth_gb_per_s, GIGA),
        "measured_read_bytes_per_s": _stated(table, table.measured_read_gb_per_s, GIGA),
        "flop_per_s": MappingProxyType(rates) if rates else None,
        "dtype_support": MappingProxyType(dict.fromkeys(lacks, False)) if lacks else None,
        "tdp_w": table.tdp_w, "cores": None if table.cores is None else str(table.cores), "threads": table.threads,
        "channels": table.channels, "mega_transfers_per_s": table.mt_per_s, "isa": table.isa, "chips": table.chips,
        "aliases": None if table.aliases is None else tuple(table.aliases), "note": table.note,
    }  # fmt: skip
    return {"id": table.id, "source": table.source, "seen": table.seen} | _known(values)


def _instance_fields(table: _InstanceTable, where: str) -> dict[str, Any]:
    values = {
        "vcpu": table.vcpu, "memory_bytes": None if table.memory_gib is None else table.memory_gib * GIB,
        "cpu_model": table.cpu_model, "arch": table.arch, "threads_per_core": table.threads_per_core,
        "cores_per_socket": table.cores_per_socket, "sockets": table.sockets, "numa_nodes": table.numa_nodes,
        "isa": None if table.isa is None else tuple(table.isa),
        "read_bytes_per_s": _stated(table, table.read_gb_per_s, GIGA),
        "accelerator": table.accelerator, "accelerator_count": table.accelerator_count,
        "accelerator_memory_bytes": None if table.accelerator_memory_gb is None else table.accelerator_memory_gb * GIGA,
        "accelerator_device": table.accelerator_device, "price": _price(table, where), "note": table.note,
    }  # fmt: skip
    key = {"provider": _provider(table.provider), "name": table.name, "source": table.source, "seen": table.seen}
    return key | _known(values)


def _known(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _price(table: _InstanceTable, where: str) -> Price | None:
    if table.price_per_hour is None:
        if table.currency is not None or table.region is not None:
            raise UsageError(f"{where}: 'currency' and 'region' belong to a 'price_per_hour', which is missing")
        return None
    if table.currency is None or table.region is None:
        raise UsageError(f"{where}: a 'price_per_hour' needs a 'currency', such as \"USD\", and a 'region'")
    return Price(
        per_hour=table.price_per_hour,
        currency=table.currency,
        region=table.region,
        date=table.seen,
        source=table.source,
        kind=_KIND,
        origin=where.partition(", [[")[0],
    )


def _provider(name: str) -> str:
    """The key of a known provider, or the name of one that only the user knows."""
    try:
        return provider_named(name)
    except UsageError:
        return plain(name)


def _dtype(name: str, where: str) -> Dtype:
    try:
        return Dtype(name.lower())
    except ValueError:
        raise UsageError(f"{where}: {shown(name)} is no type; there are {', '.join(Dtype)}") from None


def _key(kind: str, change: Change) -> str:
    values = change.values
    if kind == "device":
        return plain(values["id"])
    if kind == "instance":
        return f"{values['provider']}/{values['name']}".lower()
    return "|".join(str(values.get(name, "")) for name in ("platform", "model", "tier", "currency")).lower()
