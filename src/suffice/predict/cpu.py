"""The prediction of one machine and workload, with what it rests on and why its range is wide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from suffice.model.basis import Basis
from suffice.predict.cpu_data import shipped_cpu_model
from suffice.predict.cpu_features import CORES, MACHINE_FEATURES, UNKNOWN_CORE, machine_table
from suffice.predict.cpu_model import MEASURED_QUANT, predict_rows, work_table
from suffice.predict.machine import Phase
from suffice.units import GIGA

if TYPE_CHECKING:
    from suffice.predict.cpu_features import MachineTable
    from suffice.predict.cpu_model import CpuModel
    from suffice.predict.machine import MachineSpec, WorkloadSpec

_SMALLEST_PARAMETERS: Final = 0.3 * GIGA
_LARGEST_PARAMETERS: Final = 72 * GIGA
_LONGEST_TOKENS: Final = 16384
_CACHE_TIMES: Final = 4  # weights of so many times the last-level cache are hardly held by it


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """A rate that nobody measured, with the range that holds the truth as often as ``level`` says.

    Attributes:
        tokens_per_second: the point.
        low: lower end of the range.
        high: upper end.
        level: share of truths within ranges made this way.
        basis: ``predicted``.
        rests_on: measurements that stand behind it.
        wide_because: what makes the machine unlike those, and notes on doubtful inputs.
    """

    tokens_per_second: float
    low: float
    high: float
    level: float
    rests_on: tuple[str, ...]
    wide_because: tuple[str, ...]
    basis: Basis = Basis.PREDICTED


def predict_cpu(machine: MachineSpec, workload: WorkloadSpec, model: CpuModel | None = None) -> Prediction | None:
    """What a workload does on the CPU of a machine that is not at hand; None where nothing is known of cores and bandwidth.

    A decode faster than the stated bandwidth can stream the weights is a contradiction, unless a cache holds them. It is not clamped:
    ``wide_because`` then says which inputs to doubt, because one reading of the bandwidth is the less certain of the two.

    Raises:
        ValueError: a batch of more than one, which the calibration does not hold.
    """
    if workload.batch != 1:
        raise ValueError("only one stream is predicted; set batch to 1")
    model = model or shipped_cpu_model()
    table = machine_table([machine])
    rows = predict_rows(model, workload.phase, table, np.zeros(1, dtype=np.intp), work_table([workload]))
    point, low, high = (float(values[0]) for values in (rows.point, rows.low, rows.high))
    if not point > 0:
        return None
    return Prediction(
        tokens_per_second=point,
        low=low,
        high=high,
        level=model.level,
        rests_on=_rests_on(model, table, machine),
        wide_because=(
            *_unlike(model, table, machine),
            *_unusual(workload),
            *_contradiction(machine, workload, point),
        ),
    )


def _rests_on(model: CpuModel, table: MachineTable, machine: MachineSpec) -> tuple[str, ...]:
    cpu, series, family = table.identity[0], table.series[0], table.family[0]
    lines = [f"{_machines(sum(model.seen.cpus.values()))} of clouds, measured with llama.cpp"]
    if cpu in model.seen.cpus:
        lines.append(f"{_machines(model.seen.cpus[cpu])} with this CPU ({cpu})")
    if cpu in model.seen.cpus and family in model.seen.families:
        lines.append(f"{_machines(model.seen.families[family])} of this family of instances ({family})")
    elif cpu in model.seen.cpus and series in model.seen.series:
        lines.append(f"{_machines(model.seen.series[series])} of this series of instances ({series})")
    if machine.read_bytes_per_s is not None and machine.read_basis == "measured":
        lines.append("the measured read bandwidth of this machine")
    return tuple(lines)


def _unlike(model: CpuModel, table: MachineTable, machine: MachineSpec) -> tuple[str, ...]:
    core = CORES[table.core[0]]
    notes = []
    if not table.identity[0]:
        notes.append("the CPU model is not known")
    elif table.identity[0] not in model.seen.cpus:
        generation = "of unknown kind" if core == UNKNOWN_CORE else f"of the generation {core}"
        notes.append(f"no machine with this CPU was measured; it is taken to be {generation}")
    if np.isnan(table.read_bytes_per_s[0]):
        notes.append("its read bandwidth was not measured; it is taken from the generation of the CPU and the cores")
    if np.isnan(table.threads[0]):
        notes.append("the number of cores is not known")
    if table.numa_nodes[0] > 1:
        notes.append(f"one stream over {int(table.numa_nodes[0])} NUMA nodes without pinning varies up to twentyfold")
    if table.features[0, MACHINE_FEATURES.index("other_cpu")] > 0 and machine.described_cpu_model:
        notes.append(f"bandwidth and instruction sets were read on another CPU ({machine.described_cpu_model})")
    return tuple(notes)


def _unusual(workload: WorkloadSpec) -> tuple[str, ...]:
    parameters = workload.active_parameters or workload.parameters
    notes = []
    if parameters < _SMALLEST_PARAMETERS:
        notes.append("models under 0.3 billion parameters depend on the engine's fixed cost more than on the machine")
    if parameters > _LARGEST_PARAMETERS:
        notes.append("no model of this size was measured")
    if workload.n_tokens + workload.depth > _LONGEST_TOKENS:
        notes.append("no prompt of this length was measured")
    if workload.active_parameters is not None and workload.active_parameters < workload.parameters / 2:
        notes.append("no mixture of experts was measured on rented CPUs")
    if not workload.quant.lower().startswith(MEASURED_QUANT):
        notes.append(
            f"only 4-bit K-quants were measured, not {workload.quant}: bytes are right, operations are not known"
        )
    return tuple(notes)


def _contradiction(machine: MachineSpec, workload: WorkloadSpec, point: float) -> tuple[str, ...]:
    read, cached = machine.read_bytes_per_s, machine.llc_bytes or 0.0
    if workload.phase is not Phase.DECODE or read is None or workload.streamed_bytes <= _CACHE_TIMES * cached:
        return ()
    ceiling = read / workload.streamed_bytes
    if point <= ceiling:
        return ()
    return (
        f"the stated bandwidth allows {ceiling:.3g} tokens/s at most, less than is predicted: doubt the bandwidth or the bytes",
    )


def _machines(count: int) -> str:
    return f"{count} machine" if count == 1 else f"{count} machines"
