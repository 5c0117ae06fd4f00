"""Builders for the guard: runs with chosen figures on chosen machines."""

# ruff: noqa: ANN401  # builders take any field of what they build

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from helpers.records import run_record
from suffice.decide.guard_facts import facts_of
from suffice.records.schema import BandwidthRecord, CeilingRecord
from suffice.units import GIB, GIGA

if TYPE_CHECKING:
    from suffice.decide.guard_types import RunFacts
    from suffice.records.schema import RunRecord

ENVIRONMENT: Final[dict[str, Any]] = {
    "os": "Linux",
    "kernel": "6.1",
    "architecture": "x86_64",
    "isa": ["avx2", "avx512"],
    "cpu_stepping": "1",
    "usable_cpus": 2,
    "memory_total_bytes": 16 * GIB,
    "microcode": "0x1",
    "governor": None,
}


def guarded_record(
    *, decode: float = 20.0, prefill: float = 100.0, gigabytes_per_s: float = 40.0, share: float = 0.8, **changes: Any
) -> RunRecord:
    """A run on a machine with a fingerprint, whose decode reaches ``share`` of the ceiling at that bandwidth."""
    environment = {**ENVIRONMENT, **changes.pop("environment", {})}
    reading = BandwidthRecord(read_bytes_per_s=gigabytes_per_s * GIGA, method="made up")
    record = run_record(
        decode=decode,
        prefill=prefill,
        environment=environment,
        bandwidth_before=reading,
        bandwidth_after=reading,
        ceiling=CeilingRecord(decode_tokens_per_second=decode / share, bandwidth_bytes_per_s=gigabytes_per_s * GIGA),
        created_at="2026-01-01T00:00:00+00:00",
    )
    measurement = replace(record.measurement, peak_rss_bytes=changes.pop("peak_rss_bytes", GIB))
    return replace(record, measurement=measurement, **changes)


def guarded(name: str = "the run", **changes: Any) -> RunFacts:
    """What a guard needs of such a run."""
    return facts_of(guarded_record(**changes), name)
