"""Loads the devices that ship with the package."""

from __future__ import annotations

import csv
from difflib import get_close_matches
from functools import cache
from importlib.resources import files

from suffice.catalogue.entries import Device, Sourced
from suffice.errors import UsageError
from suffice.units import GIGA, TERA


@cache
def all_devices() -> tuple[Device, ...]:
    """Every device of the catalogue, in the order of the file."""
    text = files("suffice.catalogue").joinpath("data/devices.csv").read_text(encoding="utf-8")
    return tuple(_device(row) for row in csv.DictReader(text.splitlines()))


def device_named(name: str) -> Device:
    """The device with an id or name, in any case.

    Raises:
        UsageError: there is none; the message names the nearest ones.
    """
    wanted = name.strip().lower()
    for device in all_devices():
        if wanted in (device.id.lower(), device.name.lower()):
            return device
    known = [device.id for device in all_devices()]
    near = get_close_matches(wanted, known, n=3, cutoff=0.4) or known
    raise UsageError(f"no device is called {name!r}; did you mean {', '.join(near)}?")


def _device(row: dict[str, str]) -> Device:
    bandwidth, flops = _number(row["bandwidth_gb_per_s"]), _number(row["dense_bf16_tflops"])
    memory, channels, transfers = (_number(row[key]) for key in ("memory_gb", "channels", "mt_per_s"))
    return Device(
        id=row["id"],
        name=row["name"],
        kind=row["kind"],
        bandwidth_bytes_per_s=_sourced(row, bandwidth, GIGA, row["bandwidth_basis"]),
        dense_bf16_flop_per_s=_sourced(row, flops, TERA, "dense"),
        memory_bytes=None if memory is None else memory * GIGA,
        channels=None if channels is None else int(channels),
        mega_transfers_per_s=transfers,
    )


def _number(text: str) -> float | None:
    return float(text) if text.strip() else None


def _sourced(row: dict[str, str], value: float | None, factor: int, kind: str) -> Sourced | None:
    if value is None:
        return None
    return Sourced(value=value * factor, kind=kind, source=row["source"], seen=row["seen"])
