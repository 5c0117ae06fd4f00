"""Loads the machines to rent that ship with the package: those that people name, and those that others measured, as one list."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Final

from suffice.catalogue.devices import accelerator_device_id
from suffice.catalogue.entries import Instance, Price, Sourced
from suffice.catalogue.names import Kind, correction_of, did_you_mean, plain, shown
from suffice.catalogue.table import Row, number, scaled, source_text, sourced, table_rows, whole
from suffice.errors import UsageError
from suffice.units import GIB, GIGA

if TYPE_CHECKING:
    from collections.abc import Iterable

PROVIDER_NAMES: Final = {
    "aws": "AWS",
    "azure": "Azure",
    "gcp": "Google Cloud",
    "alicloud": "Alibaba Cloud",
    "tencent": "Tencent Cloud",
    "huawei": "Huawei Cloud",
    "otc": "Open Telekom Cloud (Huawei)",
    "hcloud": "Hetzner Cloud",
    "ovh": "OVHcloud",
    "upcloud": "UpCloud",
    "vultr": "Vultr",
}
_PROVIDER_ALIASES: Final = {
    "alibaba": "alicloud", "aliyun": "alicloud", "alibaba-cloud": "alicloud", "google": "gcp", "google-cloud": "gcp",
    "microsoft": "azure", "amazon": "aws", "tencent-cloud": "tencent", "huawei-cloud": "huawei", "hetzner": "hcloud",
    "open-telekom-cloud": "otc", "ovhcloud": "ovh",
}  # fmt: skip
_PREFIXES: Final = ("ecs-", "standard-")  # that people leave out
_MOST_SIZES: Final = 6
_KIND_OF_READING: Final = "measured by others on one such machine, all vCPUs reading"


@cache
def all_instances() -> tuple[Instance, ...]:
    """Every machine to rent that ships: first those that people name, then the others that were measured."""
    measured = {machine.key: machine for machine in (_measured(row) for row in table_rows("cloud_instances.csv.gz"))}
    named = [_merged(named, measured.pop(named.key, None)) for named in map(_named, table_rows("instances.csv"))]
    return (*named, *measured.values())


def instance_named(name: str) -> Instance:
    """The machine that ships with a name, in any spelling, with or without ``ecs.`` or ``Standard_``; ``aws/c7i.4xlarge`` names the provider.

    Raises:
        UsageError: there is none; the message says what the name may mean, the sizes of a family, or the nearest names.
    """
    return find_instance(name, all_instances())


def provider_named(name: str) -> str:
    """The key of a provider: ``provider_named("Alibaba") == "alicloud"``.

    Raises:
        UsageError: there is none.
    """
    wanted = plain(name)
    by_name = {plain(text): key for key, text in PROVIDER_NAMES.items()}
    found = wanted if wanted in PROVIDER_NAMES else _PROVIDER_ALIASES.get(wanted) or by_name.get(wanted)
    if found is None:
        raise UsageError(f"no provider is called {shown(name)}; there are {', '.join(PROVIDER_NAMES)}")
    return found


def find_instance(name: str, instances: Iterable[Instance]) -> Instance:
    """As :func:`instance_named`, among these machines.

    Raises:
        UsageError: there is none, or machines of several providers have the name.
    """
    wanted = plain(name)
    listed = tuple(instances)
    for spelled in (_exact, _short):
        found = [machine for machine in listed if wanted in spelled(machine)]
        if len(found) == 1:
            return found[0]
        if found:
            raise UsageError(
                f"{shown(name)} is a machine of several providers: {', '.join(m.key for m in found)}; name one"
            )
    raise UsageError(f"no instance is called {shown(name)}{_hint(name, listed)}")


def _exact(machine: Instance) -> tuple[str, ...]:
    name = plain(machine.name)
    family = (name.removesuffix("-family"),) if machine.is_family else ()
    return (name, f"{machine.provider}-{name}", *family)


def _short(machine: Instance) -> tuple[str, ...]:
    name = plain(machine.name)
    return tuple(name.removeprefix(prefix) for prefix in _PREFIXES if name.startswith(prefix))


def _hint(name: str, listed: tuple[Instance, ...]) -> str:
    """What to say to somebody who asks for a family, for a name that misleads, or for one that is not here."""
    correction = correction_of(Kind.INSTANCE, name)
    sizes = family_sizes(name, listed)
    some = f"sizes of it here are {_some([machine.key for machine in sizes])}" if sizes else ""
    if correction is not None:
        return f": {correction.answer}" + (f"; {some}" if some else "")
    if some:
        return f", it is a family: {some}"
    known = {key: machine.name for machine in listed for key in (*_exact(machine), *_short(machine))}
    return "; " + did_you_mean(name, known, "'suffice catalog instances' lists those that there are")


def _some(names: list[str]) -> str:
    left = len(names) - _MOST_SIZES
    return ", ".join(names[:_MOST_SIZES]) + (f" and {left} more" if left > 0 else "")


def family_sizes(name: str, instances: Iterable[Instance]) -> tuple[Instance, ...]:
    """The machines of a family: those whose name is the family's, and then a size (``c7i`` -> ``c7i.xlarge``, ...)."""
    wanted = plain(name).removeprefix("ecs-")
    if not wanted:
        return ()
    start = re.compile(rf"(?:ecs-)?{re.escape(wanted)}-")
    return tuple(machine for machine in instances if start.match(plain(machine.name)))


def _named(row: Row) -> Instance:
    gb = number(row["accelerator_memory_gb"])
    return Instance(
        provider=row["provider"],
        name=row["instance"],
        source=row["source"],
        seen=row["seen"],
        vcpu=whole(row["vcpu"]),
        memory_bytes=scaled(row["memory_gib"], GIB),
        cpu_model=row["cpu_model"] or None,
        other_cpu_model=row["llm_cpu"] or None,
        threads_per_core=whole(row["threads_per_core"]),
        numa_nodes=whole(row["numa_nodes"]),
        read_bytes_per_s=sourced(
            row["read_gb_s"],
            GIGA,
            kind=f"{_KIND_OF_READING}; {row['read_basis']}",
            source=source_text("sparecores"),
            seen=row["read_date"],
        ),
        llama_7b_decode_tokens_per_second=_llama_7b(row, "llama7b_decode_tok_s"),
        llama_7b_prefill_tokens_per_second=_llama_7b(row, "llama7b_prefill128_tok_s"),
        accelerator=row["accelerator"] or None,
        accelerator_count=number(row["accelerator_count"]),
        accelerator_memory_bytes=scaled(row["accelerator_memory_gb"], GIGA),
        accelerator_device=accelerator_device_id(row["accelerator"], gb) if row["accelerator"] else None,
        price=_price(row),
        note=row["note"] or None,
    )


def _llama_7b(row: Row, column: str) -> Sourced | None:
    kind = f"measured by others: Llama-7B Q4_K_M, batch 1, llama.cpp build 4753, {row['llama7b_backend']}"
    return sourced(row[column], 1, kind=kind, source=source_text("sparecores"), seen=row["read_date"])


def _measured(row: Row) -> Instance:
    source = source_text("sparecores")
    return Instance(
        provider=row["provider"],
        name=row["instance"],
        source=source,
        seen=row["seen"],
        vcpu=whole(row["vcpu"]),
        memory_floor_bytes=number(row["ran_model_bytes"]),
        cpu_model=row["cpu_model"],
        other_cpu_model=row["llm_cpu"] or None,
        arch=row["arch"],
        threads_per_core=whole(row["threads_per_core"]),
        cores_per_socket=whole(row["cores_per_socket"]),
        sockets=whole(row["sockets"]),
        numa_nodes=whole(row["numa_nodes"]),
        isa=tuple(row["isa"].split()),
        read_bytes_per_s=sourced(
            row["read_gb_s"], GIGA, kind=f"{_KIND_OF_READING}; lmbench bw_mem rd", source=source, seen=row["read_date"]
        ),
        accelerator=row["gpu"] or None,
        accelerator_count=number(row["gpu_count"]),
        accelerator_device=accelerator_device_id(row["gpu"], None) if row["gpu"] else None,
        price=_price(row),
        note=row["price_note"] or None,
    )


def _price(row: Row) -> Price | None:
    per_hour = number(row["price_per_hour"])
    if per_hour is None:
        return None
    return Price(
        per_hour=per_hour,
        currency=row["currency"],
        region=row["region"],
        date=row["price_date"],
        source=source_text(row["price_source"]),
        note=row["price_note"] or None,
    )


def _merged(named: Instance, seen: Instance | None) -> Instance:
    """What the provider says of a machine, with what was seen on one."""
    if seen is None:
        return named
    return replace(
        named,
        cpu_model=seen.cpu_model,
        other_cpu_model=seen.other_cpu_model or named.other_cpu_model,
        arch=seen.arch,
        threads_per_core=seen.threads_per_core,
        cores_per_socket=seen.cores_per_socket,
        sockets=seen.sockets,
        numa_nodes=seen.numa_nodes,
        isa=seen.isa,
        memory_floor_bytes=seen.memory_floor_bytes,
        read_bytes_per_s=seen.read_bytes_per_s or named.read_bytes_per_s,
        price=named.price or seen.price,
        source=f"{named.source}; topology and bandwidth: {seen.source}",
    )
