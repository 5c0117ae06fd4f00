"""Devices, machines to rent and API prices as JSON documents: base units, unknown as null, every price with currency, date and age."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from suffice.catalogue.ages import age_days, is_old
from suffice.catalogue.entries import Dtype

if TYPE_CHECKING:
    from datetime import date

    from suffice.catalogue.entries import ApiPrice, Device, Instance, Price, Sourced
    from suffice.loaders.price_refresh import RefreshOutcome


def device_document(device: Device) -> dict[str, Any]:
    """A device in base units; unknown is null."""
    bandwidth, flops = device.bandwidth_bytes_per_s, device.dense_bf16_flop_per_s
    return {
        "id": device.id,
        "name": device.name,
        "kind": device.kind,
        "vendor": device.vendor,
        "architecture": device.architecture,
        "memory_bytes": device.memory_bytes,
        "memory_min_bytes": device.memory_min_bytes,
        "memory_max_bytes": device.memory_max_bytes,
        "memory_type": device.memory_type,
        "bandwidth_bytes_per_s": None if bandwidth is None else bandwidth.value,
        "bandwidth_basis": None if bandwidth is None else bandwidth.kind,
        "measured_read_bytes_per_s": _sourced(device.measured_read_bytes_per_s),
        "dense_bf16_flop_per_s": None if flops is None else flops.value,
        "flop_per_s": {dtype.value: _sourced(rate) for dtype, rate in device.flop_per_s.items()},
        "supports": {dtype.value: device.supports(dtype) for dtype in Dtype},
        "tdp_w": device.tdp_w,
        "cores": device.cores,
        "threads": device.threads,
        "channels": device.channels,
        "mega_transfers_per_s": device.mega_transfers_per_s,
        "isa": device.isa,
        "chips": device.chips,
        "aliases": list(device.aliases),
        "source": device.source,
        "seen": device.seen,
        "origin": device.origin,
        "note": device.note,
    }


def instance_document(machine: Instance, today: date) -> dict[str, Any]:
    """A machine in base units; unknown is null."""
    return {
        "provider": machine.provider,
        "name": machine.name,
        "vcpu": machine.vcpu,
        "memory_bytes": machine.memory_bytes,
        "memory_floor_bytes": machine.memory_floor_bytes,
        "cpu_model": machine.cpu_model,
        "other_cpu_model": machine.other_cpu_model,
        "arch": machine.arch,
        "threads_per_core": machine.threads_per_core,
        "cores_per_socket": machine.cores_per_socket,
        "sockets": machine.sockets,
        "numa_nodes": machine.numa_nodes,
        "isa": None if machine.isa is None else list(machine.isa),
        "read_bytes_per_s": _sourced(machine.read_bytes_per_s),
        "llama_7b_decode_tokens_per_second": _sourced(machine.llama_7b_decode_tokens_per_second),
        "llama_7b_prefill_tokens_per_second": _sourced(machine.llama_7b_prefill_tokens_per_second),
        "accelerator": machine.accelerator,
        "accelerator_count": machine.accelerator_count,
        "accelerator_memory_bytes": machine.accelerator_memory_bytes,
        "accelerator_device": machine.accelerator_device,
        "price": None if machine.price is None else _price(machine.price, today),
        "source": machine.source,
        "seen": machine.seen,
        "origin": machine.origin,
        "note": machine.note,
    }


def api_document(api: ApiPrice, today: date) -> dict[str, Any]:
    """An API price; unknown is null."""
    return {
        "platform": api.platform,
        "model": api.model,
        "input_per_million": api.input_per_million,
        "cached_input_per_million": api.cached_input_per_million,
        "output_per_million": api.output_per_million,
        "currency": api.currency,
        "tier": api.tier,
        "context_tokens": api.context_tokens,
        "kind": api.kind,
        "date": api.date,
        "age_days": age_days(api.date, today),
        "old": is_old(api.date, today),
        "source": api.source,
        "seen": api.seen,
        "origin": api.origin,
        "note": api.note,
    }


def refresh_document(outcome: RefreshOutcome) -> dict[str, Any]:
    """What came of a refresh."""
    return {
        "refreshed": [
            {"name": item.name, "date": item.date, "prices": item.count, "path": str(item.path)}
            for item in outcome.refreshed
        ],
        "failed": [
            {"name": item.name, "reason": item.reason, "in_use_date": item.in_use, "in_use_age_days": item.age_days}
            for item in outcome.failed
        ],
    }


def _sourced(number: Sourced | None) -> dict[str, Any] | None:
    if number is None:
        return None
    return {"value": number.value, "kind": number.kind, "source": number.source, "seen": number.seen}


def _price(price: Price, today: date) -> dict[str, Any]:
    return {
        "per_hour": price.per_hour,
        "per_month": price.per_month,
        "currency": price.currency,
        "region": price.region,
        "date": price.date,
        "age_days": age_days(price.date, today),
        "old": is_old(price.date, today),
        "kind": price.kind,
        "source": price.source,
        "origin": price.origin,
        "note": price.note,
    }
