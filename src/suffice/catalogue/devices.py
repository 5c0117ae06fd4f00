"""Loads the devices that ship with the package, and finds them by the names that people use."""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from suffice.catalogue.entries import DEFAULT_CHANNEL_BITS, Device, Dtype, Sourced
from suffice.catalogue.names import Kind, correction_of, did_you_mean, plain, shown
from suffice.catalogue.table import Row, number, scaled, sourced, table_rows, whole
from suffice.errors import UsageError
from suffice.units import GIGA, TERA

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_RATE_COLUMNS: Final = {
    Dtype.FP32: "fp32_tflops",
    Dtype.BF16: "bf16_tflops",
    Dtype.FP16: "fp16_tflops",
    Dtype.FP8: "fp8_tflops",
    Dtype.FP4: "fp4_tflops",
    Dtype.INT8: "int8_tops",
    Dtype.INT4: "int4_tops",
}


@cache
def all_devices() -> tuple[Device, ...]:
    """Every device that ships, in the order of the file."""
    traits = {row["id"]: row for row in table_rows("device_traits.csv")}
    support = _support()
    return tuple(_device(row, traits[row["id"]], support) for row in table_rows("devices.csv"))


def device_named(name: str) -> Device:
    """The device that ships with an id, name or alias, in any spelling.

    Raises:
        UsageError: there is none; the message says what the name may mean, or the nearest ones.
    """
    return find_device(name, all_devices())


def find_device(name: str, devices: Iterable[Device]) -> Device:
    """As :func:`device_named`, among these devices.

    Raises:
        UsageError: there is none.
    """
    known: dict[str, Device] = {}
    for device in devices:
        for text in (device.id, device.name, *device.aliases):
            known.setdefault(plain(text), device)
    found = known.get(plain(name)) or known.get(plain(name).removeprefix("nvidia-"))
    if found is not None:
        return found
    correction = correction_of(Kind.DEVICE, name)
    if correction is not None:
        raise UsageError(f"no device is called {shown(name)}: {correction.answer}")
    ids = {key: device.id for key, device in known.items()}
    hint = did_you_mean(name, ids, "'suffice catalog devices' lists those that there are")
    raise UsageError(f"no device is called {shown(name)}; {hint}")


@cache
def accelerator_device_id(printed: str, memory_gb: float | None) -> str | None:
    """The id of the device behind an accelerator's name as a provider prints it; None where it is unknown, ambiguous or a slice.

    Args:
        printed: as printed, such as ``Tesla T4``.
        memory_gb: its memory, where the provider states it: it tells forms of one name apart.
    """
    for row in table_rows("accelerators.csv"):
        if row["printed"] == printed and (number(row["memory_gb"]) in {None, memory_gb}):
            return row["device"]
    return None


def _support() -> dict[str, dict[Dtype, bool]]:
    """Architecture -> type -> whether it multiplies in it."""
    table: dict[str, dict[Dtype, bool]] = defaultdict(dict)
    for row in table_rows("dtype_support.csv"):
        table[row["architecture"]][Dtype(row["dtype"])] = row["supported"] == "yes"
    return table


def _device(row: Row, traits: Row, support: Mapping[str, Mapping[Dtype, bool]]) -> Device:
    least, most = _memory_bytes(row["memory_gb"])
    return Device(
        id=row["id"],
        name=row["name"],
        kind=row["kind"],
        source=row["source"],
        seen=row["seen"],
        vendor=row["vendor"] or None,
        architecture=traits["architecture"] or None,
        bandwidth_bytes_per_s=_sourced(row, "bandwidth_gb_per_s", GIGA, row["bandwidth_basis"]),
        measured_read_bytes_per_s=_sourced(row, "measured_read_gb_per_s", GIGA, "measured by others, one socket"),
        flop_per_s=_rates(row),
        dtype_support=MappingProxyType(dict(support.get(traits["architecture"], {}))),
        memory_type=row["memory_type"] or None,
        memory_min_bytes=least,
        memory_max_bytes=most,
        tdp_w=number(row["tdp_w"]),
        cores=row["cores"] or None,
        threads=whole(row["threads"]),
        channels=whole(row["channels"]),
        channel_bits=whole(row["channel_bits"]) or DEFAULT_CHANNEL_BITS,
        mega_transfers_per_s=number(row["mt_per_s"]),
        isa=row["isa"] or None,
        chips=int(traits["chips"]),
        aliases=tuple(text for text in traits["aliases"].split("|") if text),
        note=row["note"] or None,
    )


def _rates(row: Row) -> Mapping[Dtype, Sourced]:
    rates = {dtype: _sourced(row, column, TERA, row["flops_basis"]) for dtype, column in _RATE_COLUMNS.items()}
    return MappingProxyType({dtype: rate for dtype, rate in rates.items() if rate is not None})


def _memory_bytes(text: str) -> tuple[float | None, float | None]:
    """The least and the most, from ``80``, ``8|16`` (sizes) or ``32..96`` (a range)."""
    sizes = [size for part in text.replace("..", "|").split("|") if (size := scaled(part, GIGA)) is not None]
    return (min(sizes), max(sizes)) if sizes else (None, None)


def _sourced(row: Row, column: str, factor: int, kind: str) -> Sourced | None:
    return sourced(row[column], factor, kind=kind, source=row["source"], seen=row["seen"])
