"""The calibrated model of CPUs: physics, what relatives did, a learned residual, and the width of the range.

Everything is done in logarithms: an error of +0.1 is 10 % too fast. Arrays have one entry a row; ``PredictionInput`` is made from
machines and workloads by :func:`join`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from suffice.predict.cpu_features import MACHINE_FEATURES, MachineTable
from suffice.predict.cpu_physics import PASS_TOKENS, BandwidthModel, PassModel, PassWork, believed_read, pass_seconds
from suffice.predict.machine import Phase, WorkloadSpec
from suffice.predict.model_files import typical_cache_bytes
from suffice.predict.relatives import RELATIVE_FEATURES, relative_columns, relative_keys, relatives_of
from suffice.units import GIGA

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from suffice.predict.forest import Forest
    from suffice.predict.relatives import Relatives

    Floats = npt.NDArray[np.float64]
    Indices = npt.NDArray[np.intp]

ROW_FEATURES: Final = (
    *MACHINE_FEATURES,
    "log_threads",
    "log_read_used",
    "log_read_per_thread",
    "log_parameters",
    "log_streamed_bytes",
    "log_tokens",
    "log_modelled_read",
    *RELATIVE_FEATURES,
)
SPREAD_FEATURES: Final = (
    *ROW_FEATURES,
    "log_machines_of_cpu",
    "log_machines_of_series",
    "log_machines_of_family",
    "log_machines_near",
)
MEASURED_QUANT: Final = "q4_k"
OTHER_QUANT_STRETCH: Final = 1.5
EXPERTS_STRETCH: Final = 2.0
_NODES_UNKNOWN: Final = 1.4
_NO_BANDWIDTH: Final = 1.2
_KNOWN_CAUTION: Final = 1.1


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkTable:
    """Workloads as arrays; ``threads`` is NaN where the default of the machine counts."""

    tokens: Floats
    depth: Floats
    streamed_bytes: Floats
    parameters: Floats
    cache_bytes_per_token: Floats
    threads: Floats
    stretch: Floats  # how many times as wide as usual the range is, for work unlike that which was measured

    def each(self, times: int) -> WorkTable:
        """Each work so many times, one beside the other."""
        return WorkTable(**{field.name: np.repeat(getattr(self, field.name), times) for field in fields(self)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """Rows of one phase: which machine, which work, and the physics of it."""

    machine: Indices
    work: WorkTable
    threads: Floats
    read_bytes_per_s: Floats
    columns: Floats
    log_physics: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseModel:
    """All that is known of one phase.

    Attributes:
        passes: the physics.
        relatives: what measured machines did against the physics.
        residual: what the physics leaves, learned; of ``ROW_FEATURES``.
        spread: logarithm of the typical error; of ``SPREAD_FEATURES``.
        low: at how many typical errors below the point the range begins.
        high: at how many above it ends.
    """

    passes: PassModel
    relatives: Relatives
    residual: Forest
    spread: Forest
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """How many machines of each kind were measured."""

    cpus: Mapping[str, int]
    series: Mapping[str, int]
    families: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuModel:
    """The whole calibration. ``level`` is the share of truths that the ranges hold."""

    bandwidth: BandwidthModel
    phases: Mapping[Phase, PhaseModel]
    seen: Seen
    level: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """Tokens per second with their range, one entry a row; NaN where nothing can be said."""

    point: Floats
    low: Floats
    high: Floats


def work_table(works: Sequence[WorkloadSpec]) -> WorkTable:
    """Workloads of one phase as arrays."""
    rows = [
        (
            float(work.n_tokens),
            float(work.depth),
            work.streamed_bytes,
            work.active_parameters or work.parameters,
            work.cache_bytes_per_token
            if work.cache_bytes_per_token is not None
            else typical_cache_bytes(work.parameters),
            float("nan") if work.threads is None else float(work.threads),
            stretch_of(work),
        )
        for work in works
    ]
    table = np.array(rows, dtype=np.float64).reshape(len(rows), 7)
    return WorkTable(
        tokens=table[:, 0],
        depth=table[:, 1],
        streamed_bytes=table[:, 2],
        parameters=table[:, 3],
        cache_bytes_per_token=table[:, 4],
        threads=table[:, 5],
        stretch=table[:, 6],
    )


def stretch_of(work: WorkloadSpec) -> float:
    """Only dense models in 4-bit K-quants were measured: others have a wider range, by judgement and not by calibration.

    Fewer than half of the parameters active means experts; a table of embeddings that is only looked up is less.
    """
    stretch = 1.0 if work.quant.lower().startswith(MEASURED_QUANT) else OTHER_QUANT_STRETCH
    experts = work.active_parameters is not None and work.active_parameters < work.parameters / 2
    return stretch * EXPERTS_STRETCH if experts else stretch


def resolve(
    bandwidth: BandwidthModel, machines: MachineTable, machine: Indices, work: WorkTable
) -> tuple[Floats, Floats, Floats]:
    """Threads, bandwidth and what the bandwidth usually is, of each row; NaN where neither cores nor bandwidth are known."""
    core, measured = machines.core[machine], machines.read_bytes_per_s[machine]
    cores = machines.threads[machine]
    threads = np.where(np.isnan(work.threads), cores, work.threads)
    threads = np.where(np.isnan(threads), bandwidth.cores_for(core, measured), threads)
    cores = np.where(np.isnan(cores), threads, cores)
    modelled = bandwidth.read_bytes_per_s(core, cores)
    return threads, np.where(np.isnan(measured), modelled, measured), modelled


def pass_work(phase: Phase, work: WorkTable) -> PassWork:
    """Tokens and passes of a phase: a decode step is a pass over one token, a prompt is passes over many."""
    if phase is Phase.DECODE:
        depth = work.depth + work.tokens / 2  # of the average token
        return PassWork(
            tokens=np.ones_like(work.tokens),
            passes=np.ones_like(work.tokens),
            bytes_per_pass=work.streamed_bytes + depth * work.cache_bytes_per_token,
            parameters=work.parameters,
            depth=depth,
        )
    return PassWork(
        tokens=work.tokens,
        passes=np.ceil(work.tokens / PASS_TOKENS),
        bytes_per_pass=work.streamed_bytes,
        parameters=work.parameters,
        depth=work.depth + work.tokens / 2,
    )


def join(
    phase: Phase,
    bandwidth: BandwidthModel,
    passes: PassModel,
    machines: MachineTable,
    machine: Indices,
    work: WorkTable,
) -> Joined:
    """Rows of one phase with their physics and the columns that the residual looks at.

    A stream that runs over several NUMA nodes without care is taken to have one node's bandwidth.
    """
    threads, read, modelled = resolve(bandwidth, machines, machine, work)
    done = pass_work(phase, work)
    believed = believed_read(passes, read, modelled) / machines.numa_nodes[machine]
    seconds = pass_seconds(passes, done, machines.core[machine], threads, believed)
    log_physics = np.log(done.tokens / seconds)
    columns = np.column_stack(
        (
            machines.features[machine],
            np.log(threads),
            np.log(read / GIGA),
            np.log(read / GIGA / threads),
            np.log(work.parameters),
            np.log(work.streamed_bytes),
            np.log(work.tokens + work.depth),
            np.log(modelled / GIGA),
        )
    )
    return Joined(
        machine=machine, work=work, threads=threads, read_bytes_per_s=read, columns=columns, log_physics=log_physics
    )


def with_relatives(rows: Joined, relatives: Relatives, machines: MachineTable, own: Indices | None = None) -> Joined:
    """The rows with the columns of what their machines' relatives did; ``own`` as in :func:`relatives_of`, by machine."""
    sums = relatives_of(relatives, relative_keys(machines), np.log(machines.threads), own)
    columns = relative_columns(sums[rows.machine], np.log(rows.work.parameters))
    return replace(rows, columns=np.column_stack((rows.columns, columns)))


def likeness(seen: Seen, machines: MachineTable) -> Floats:
    """Columns that say how many machines like each one were measured, as logarithms of one more than the count."""
    counts = np.array(
        [
            (seen.cpus.get(cpu, 0), seen.series.get(series, 0), seen.families.get(family, 0))
            for cpu, series, family in zip(machines.identity, machines.series, machines.family, strict=True)
        ],
        dtype=np.float64,
    ).reshape(len(machines.identity), 3)
    near = np.where(counts[:, 0] > 0, counts[:, 1], 0)
    logarithms: Floats = np.log1p(np.column_stack((counts, near)))
    return logarithms


def predict_rows(model: CpuModel, phase: Phase, machines: MachineTable, machine: Indices, work: WorkTable) -> Predicted:
    """Rows of one phase, in their order."""
    part = model.phases[phase]
    rows = join(phase, model.bandwidth, part.passes, machines, machine, work)
    rows = with_relatives(rows, part.relatives, machines)
    log_point = rows.log_physics + part.residual(rows.columns)
    spread = np.exp(part.spread(np.column_stack((rows.columns, likeness(model.seen, machines)[machine]))))
    spread = spread * _unknown_factor(machines, machine) * _caution(model, machines, machine) * work.stretch
    known = np.isfinite(rows.log_physics)
    return Predicted(
        point=np.where(known, np.exp(log_point), np.nan),
        low=np.where(known, np.exp(log_point - part.low * spread), np.nan),
        high=np.where(known, np.exp(log_point + part.high * spread), np.nan),
    )


def _unknown_factor(machines: MachineTable, machine: Indices) -> Floats:
    """What not knowing the layout costs: calibrated on the same rows with those cells taken away, of all machines at once."""
    nodes = machines.features[machine, MACHINE_FEATURES.index("numa_nodes")]
    return np.where(np.isnan(nodes), _NODES_UNKNOWN, 1.0)


def _caution(model: CpuModel, machines: MachineTable, machine: Indices) -> Floats:
    """Where ranges held fewer than 80 % out of fold: without a bandwidth, and a little for CPUs that were measured, whose new machines differ more than folds."""
    known = np.array([bool(name) and name in model.seen.cpus for name in machines.identity])[machine]
    bare = np.isnan(machines.read_bytes_per_s[machine])
    return np.where(known, _KNOWN_CAUTION, 1.0) * np.where(bare, _NO_BANDWIDTH, 1.0)
