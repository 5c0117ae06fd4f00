"""What would have been predicted for a machine that was measured: the one figure beside the other, as a test of the prediction."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from suffice.predict.cpu import predict_cpu
from suffice.predict.machine import MachineSpec, Phase, WorkloadSpec

if TYPE_CHECKING:
    from suffice.records.schema import RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """A measured rate and the prediction for the same machine and work, in tokens per second.

    Attributes:
        what: for people.
        measured: by this run, or extrapolated from its slices.
        predicted: from cores, instruction sets and bandwidth alone.
        low: lower end of the prediction's range.
        high: upper end.
        level: share of truths that such ranges hold.
    """

    what: str
    measured: float
    predicted: float
    low: float
    high: float
    level: float

    @property
    def ratio(self) -> float:
        """Measured over predicted."""
        return self.measured / self.predicted

    @property
    def is_inside(self) -> bool:
        """Whether the range holds what was measured."""
        return self.low <= self.measured <= self.high


def beside_of(record: RunRecord) -> tuple[Beside, ...]:
    """Decode and prefill of a record as they were measured and as they are predicted; none of a GPU, or where too little is known."""
    decode, prefill = record.measurement.decode, record.measurement.prefill
    work = _decode_work(record)
    if work is None or record.device_kind != "cpu" or not decode or decode[0].batch != 1:
        return ()
    pairs = [(f"decode at depth {work.depth}", work, record.decode_tokens_per_second)]
    if prefill is not None:
        reading = replace(work, phase=Phase.PREFILL, n_tokens=prefill.prompt_tokens, depth=0)
        pairs.append((f"prefill of {prefill.prompt_tokens}", reading, record.prefill_tokens_per_second))
    return tuple(
        found
        for what, asked, measured in pairs
        if measured is not None and (found := _beside(record, what, asked, measured)) is not None
    )


def _beside(record: RunRecord, what: str, work: WorkloadSpec, measured: float) -> Beside | None:
    found = predict_cpu(_machine(record), work)
    if found is None:
        return None
    rate = found.tokens_per_second
    return Beside(what=what, measured=measured, predicted=rate, low=found.low, high=found.high, level=found.level)


def _decode_work(record: RunRecord) -> WorkloadSpec | None:
    model, decode = record.model, record.measurement.decode
    if not model.parameters or not model.streamed_bytes or not model.tensor_types or not decode:
        return None
    largest = max(model.tensor_types, key=lambda name: model.tensor_types[name].bytes)
    return WorkloadSpec(
        phase=Phase.DECODE,
        n_tokens=max((len(row) for row in decode[0].step_s), default=1),
        depth=decode[0].depth,
        streamed_bytes=model.streamed_bytes,
        file_bytes=None if model.file_bytes is None else float(model.file_bytes),
        cache_bytes_per_token=model.kv_bytes_per_token,
        parameters=float(model.parameters),
        active_parameters=None if model.active_parameters is None else float(model.active_parameters),
        quant=largest.lower(),
        threads=decode[0].threads or None,
    )


def _machine(record: RunRecord) -> MachineSpec:
    """The machine as a stranger would describe it, and its bandwidth as this run read it."""
    told, reading = record.environment, record.bandwidth_before
    cores, threads = _count(told.get("usable_physical_cores")), _count(told.get("usable_cpus"))
    isa = told.get("isa")
    return MachineSpec(
        name="this machine",
        cpu_model=record.machine,
        vcpus=threads,
        threads_per_core=None if not cores or not threads else max(1, threads // cores),
        sockets=_count(told.get("sockets")),
        numa_nodes=_count(told.get("numa_nodes")),
        isa=frozenset(map(str, isa)) if isinstance(isa, list | tuple) else None,
        llc_bytes=_count(told.get("llc_bytes")),
        read_bytes_per_s=None if reading is None else reading.read_bytes_per_s,
    )


def _count(value: Any) -> int | None:  # noqa: ANN401  # a record's fingerprint is free JSON
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
