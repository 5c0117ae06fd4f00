"""Tables of devices, machines to rent and API prices, from their documents. No price is shown without currency and date."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from suffice.catalogue.ages import OLD_AFTER_DAYS, age_days
from suffice.catalogue.entries import SHIPPED
from suffice.report.tables import one_line, plain_table
from suffice.units import GIGA, TERA, format_bandwidth, format_bytes, format_memory

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import date

    from suffice.loaders.price_refresh import RefreshOutcome
    from suffice.loaders.price_store import SavedPrices

_UNKNOWN = "?"
_DEVICE_COLUMNS = ["device", "name", "kind", "memory", "bandwidth", "dense BF16", "does not do", "basis"]
_INSTANCE_COLUMNS = [
    "provider",
    "instance",
    "vCPU",
    "memory",
    "CPU",
    "accelerator",
    "read by others",
    "price",
    "region",
    "of",
    "from",
]
_API_COLUMNS = ["platform", "model", "in", "cached", "out", "per million", "tier", "of", "from"]


def devices_text(devices: Sequence[dict[str, Any]]) -> str:
    """A table of devices; what is not known is a question mark."""
    lines = [plain_table([_DEVICE_COLUMNS, *(_device_row(device) for device in devices)])]
    lines += [
        f"{device['id']}: {device['chips']} chips; one process on one of them gets its share"
        for device in devices
        if device["chips"] > 1
    ]
    return "\n".join(lines)


def _device_row(device: dict[str, Any]) -> list[str]:
    bandwidth, flops = device["bandwidth_bytes_per_s"], device["dense_bf16_flop_per_s"]
    lacks = [name for name, done in device["supports"].items() if done is False]
    return [
        device["id"],
        device["name"],
        device["kind"],
        _memory_range(device["memory_min_bytes"], device["memory_max_bytes"]),
        _UNKNOWN if bandwidth is None else format_bandwidth(bandwidth),
        _UNKNOWN if flops is None else f"{flops / TERA:.4g} TFLOP/s",
        " ".join(lacks),
        device["bandwidth_basis"] or _UNKNOWN,
    ]


def _memory_range(least: float | None, most: float | None) -> str:
    if least is None or most is None:
        return _UNKNOWN
    return format_bytes(least) if least == most else f"{format_bytes(least)} to {format_bytes(most)}"


def instances_text(machines: Sequence[dict[str, Any]], *, left: int) -> str:
    """A table of machines, and what its signs mean."""
    lines = [plain_table([_INSTANCE_COLUMNS, *(_instance_row(machine) for machine in machines)])]
    if left:
        lines.append(f"... and {left} more: give words, --vendor, --max-price or --min-memory, or --limit 0")
    if any(machine["memory_bytes"] is None and machine["memory_floor_bytes"] for machine in machines):
        lines.append(
            "~ is the largest model that ran there: mapped from disk, it may have more bytes than the memory, which nobody states"
        )
    if any(machine["other_cpu_model"] for machine in machines):
        lines.append("a second CPU is one on which another run of the same type landed: you may get either")
    lines += [f"{machine['name']}: {_price_note(machine)}" for machine in machines if _price_note(machine)]
    lines.append(f"prices are list prices on demand per hour; * marks those over {OLD_AFTER_DAYS} days old or undated")
    return "\n".join(lines)


def _price_note(machine: dict[str, Any]) -> str | None:
    """What is to be known about a price, or about its absence."""
    price = machine["price"]
    note = machine["note"] if price is None else price["note"]
    return note if note and "Windows" in note else None


def _instance_row(machine: dict[str, Any]) -> list[str]:
    read, price = machine["read_bytes_per_s"], machine["price"]
    cpus = [cpu for cpu in (machine["cpu_model"], machine["other_cpu_model"]) if cpu]
    return [
        machine["provider"],
        machine["name"],
        _UNKNOWN if machine["vcpu"] is None else str(machine["vcpu"]),
        _memory(machine),
        " / ".join(cpus) or _UNKNOWN,
        _accelerators(machine),
        _UNKNOWN if read is None else format_bandwidth(read["value"]),
        _UNKNOWN if price is None else f"{price['per_hour']:.4g} {price['currency']}/h",
        "" if price is None else price["region"],
        "" if price is None else _when(price),
        "" if price is None else _from(price),
    ]


def _memory(machine: dict[str, Any]) -> str:
    if machine["memory_bytes"] is not None:
        return format_memory(machine["memory_bytes"])
    floor = machine["memory_floor_bytes"]
    return _UNKNOWN if floor is None else f">= {format_memory(floor)}"


def _accelerators(machine: dict[str, Any]) -> str:
    if machine["accelerator"] is None:
        return ""
    count, memory = machine["accelerator_count"], machine["accelerator_memory_bytes"]
    named = machine["accelerator"] if count is None else f"{count:g} x {machine['accelerator']}"
    return named if memory is None else f"{named}, {memory / GIGA:g} GB"


def _when(priced: dict[str, Any]) -> str:
    """The date of a price, its age, and a star when it is old."""
    age = "undated" if priced["age_days"] is None else f"{priced['age_days']} days"
    return f"{priced['date']} ({age}){'*' if priced['old'] else ''}"


def _from(priced: dict[str, Any]) -> str:
    """The file that a price comes from."""
    return "shipped" if priced["origin"] == SHIPPED else Path(priced["origin"]).name


def apis_text(prices: Sequence[dict[str, Any]], *, left: int) -> str:
    """A table of API prices."""
    lines = [plain_table([_API_COLUMNS, *(_api_row(price) for price in prices)])]
    if left:
        lines.append(f"... and {left} more: give words, or --limit 0")
    lines.append(f"* marks prices over {OLD_AFTER_DAYS} days old or undated")
    return "\n".join(lines)


def _api_row(price: dict[str, Any]) -> list[str]:
    cached = price["cached_input_per_million"]
    return [
        price["platform"],
        price["model"],
        f"{price['input_per_million']:.4g}",
        "" if cached is None else f"{cached:.4g}",
        f"{price['output_per_million']:.4g}",
        price["currency"],
        price["tier"] or "",
        _when(price),
        _from(price),
    ]


def sources_text(entries: Iterable[dict[str, Any]]) -> str:
    """Where each entry is from, and its price apart."""
    lines = ["Sources"]
    for entry in entries:
        name = entry.get("id") or entry.get("name") or entry["model"]
        lines.append(f"  {name}: {one_line(entry['source'])} (seen {entry['seen']}; {entry['origin']})")
        price = entry.get("price")
        if price is not None:
            lines.append(f"    price: {one_line(price['source'])} ({price['origin']})")
        read = entry.get("read_bytes_per_s") or entry.get("measured_read_bytes_per_s")
        if read is not None:
            lines.append(f"    reading: {read['kind']}: {one_line(read['source'])} (seen {read['seen']})")
        if entry["note"]:
            lines.append(f"    note: {one_line(entry['note'])}")
    return "\n".join(lines)


def notes_text(notes: Sequence[str]) -> str:
    """What is to be said about a name that misleads."""
    return "\n".join(f"note: {one_line(note)}" for note in notes)


def price_files_text(saved: Sequence[SavedPrices], today: date) -> str:
    """From which files prices may come, and how old each is."""
    if not saved:
        return "prices are those that ship with suffice; 'suffice catalog refresh' fetches newer ones"
    lines = ["prices are the newer of those that ship with suffice and of these files:"]
    lines += [
        f"  {one_line(str(item.path))}: prices of {item.date} ({age_days(item.date, today)} days), fetched {item.fetched}"
        for item in saved
    ]
    return "\n".join(lines)


def refreshed_text(outcome: RefreshOutcome) -> str:
    """The files that came."""
    return "\n".join(
        f"{item.name}: {item.count} prices of {item.date}, in {one_line(str(item.path))}" for item in outcome.refreshed
    )


def failed_text(outcome: RefreshOutcome) -> str:
    """One sentence: what did not come, why, and how old what is there is."""
    reasons: dict[str, list[str]] = {}
    for item in outcome.failed:
        reasons.setdefault(item.reason, []).append(item.name)
    why = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in reasons.items())
    kept = ", ".join(
        f"{item.name} of {item.in_use} ({item.age_days} days old)" for item in outcome.failed if item.in_use is not None
    )
    total = len(outcome.failed) + len(outcome.refreshed)
    return f"{len(outcome.failed)} of {total} price files could not be refreshed ({why}); still in use are the prices: {kept or 'none'}"
