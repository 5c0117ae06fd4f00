"""Builders of run records and evidence: a whole, valid one by default, with what a test is about changed by name."""

# ruff: noqa: ANN401  # builders take any field of what they build

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from suffice.decide.evidence import MachineEvidence, evidence_from
from suffice.model.demand import Demand, DemandKind, Lengths
from suffice.records.schema import (
    BandwidthRecord,
    ContentionRecord,
    DecodeSeries,
    EngineRecord,
    LoadRecord,
    MeasurementRecord,
    ModelRecord,
    PrefillSeries,
    RunRecord,
)
from suffice.stats import Estimate, estimate_from
from suffice.stats.estimate import Interval
from suffice.units import GIB, GIGA, KILO

if TYPE_CHECKING:
    from pathlib import Path

NOISE = (0.98, 0.99, 0.995, 1.0, 1.0, 1.005, 1.01, 1.02)


def estimate(point: float, low: float, high: float) -> Estimate:
    """An estimate with an interval of one's choice and no samples."""
    return Estimate(point=point, interval=Interval(low=low, high=high, level=0.95, method="given"), samples=())


def noisy(value: float) -> Estimate:
    """Eight repetitions around a value: the interval reaches from 0.98 to 1.02 of it."""
    return estimate_from([value * factor for factor in NOISE])


def run_record(*, decode: float = 20.0, depth: int = 512, prefill: float = 100.0, **changes: Any) -> RunRecord:
    """A complete record of a quiet machine: decode and prefill in tokens/s, a prompt of 512 in one chunk."""
    prompt_tokens = 512
    step_rows = tuple(tuple([1 / (decode * factor)] * 8) for factor in NOISE)
    chunk_rows = tuple((prompt_tokens / (prefill * factor),) for factor in NOISE)
    decode_estimate = estimate_from([len(row) / sum(row) for row in step_rows])
    prefill_estimate = estimate_from([prompt_tokens / sum(row) for row in chunk_rows])
    ttft = estimate_from([row[0] + 1 / decode for row in chunk_rows])
    record = RunRecord(
        decode_tokens_per_second=decode_estimate.point,
        prefill_tokens_per_second=prefill_estimate.point,
        ttft_s=ttft.point,
        disturbed=False,
        machine="Test CPU",
        model=ModelRecord(
            name="Toy",
            file_name="toy.gguf",
            file_bytes=GIGA,
            sha256="ab" * 32,
            streamed_bytes=float(GIGA),
            kv_bytes_per_token=float(100 * KILO),
            context_length=32768,
        ),
        engine=EngineRecord(name="fake", version="1"),
        measurement=MeasurementRecord(
            decode=(
                DecodeSeries(
                    depth=depth, threads=2, tokens_per_second=decode_estimate, step_s=step_rows, stopped="budget spent"
                ),
            ),
            prefill=PrefillSeries(
                prompt_tokens=prompt_tokens,
                threads=2,
                chunk_tokens=(prompt_tokens,),
                tokens_per_second=prefill_estimate,
                chunk_s=chunk_rows,
            ),
            ttft_s=ttft,
            load=LoadRecord(cold_s=1.5, warm_s=0.4),
        ),
        bandwidth_before=BandwidthRecord(read_bytes_per_s=float(KILO * KILO * GIGA), method="made up"),
        bandwidth_after=BandwidthRecord(read_bytes_per_s=float(KILO * KILO * GIGA), method="made up"),
        memory_usable_bytes=16 * GIB,
    )
    return replace(record, **changes)


def bare_record(decode: float | None, **changes: Any) -> RunRecord:
    """What the article's script leaves behind: a plain number and nothing else."""
    return replace(RunRecord(decode_tokens_per_second=decode, disturbed=False), **changes)


def evidence(*, lower_bound: bool = False, busy: bool = False, **changes: Any) -> MachineEvidence:
    """The evidence in :func:`run_record`, with the two marks that change what a verdict may say."""
    record = run_record(**changes)
    if lower_bound:
        record = replace(record, engine=EngineRecord(name="fake", lower_bound=True, isa_unused=("avx512",)))
    if busy:
        contention = ContentionRecord(disturbed=True, reasons=("another process ran",))
        record = replace(record, disturbed=True, contention=contention)
    return evidence_from(record)


def batch_demand(**changes: Any) -> Demand:
    """Prompts of 512, outputs of 128 tokens, one request a minute."""
    demand = Demand(
        kind=DemandKind.BATCH,
        prompt_tokens=Lengths(p50=512, p95=512),
        output_tokens=Lengths(p50=128, p95=128),
        requests_per_second=1 / 60,
    )
    return replace(demand, **changes)


def write_json(path: Path, document: object) -> Path:
    """Write any JSON document; returns ``path``."""
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def document_of(record: RunRecord) -> dict[str, Any]:
    """The record as the JSON document that is on disk."""
    document: dict[str, Any] = json.loads(json.dumps(asdict(record)))
    return document
