"""Fits the CPU model to rows of cloud machines: the steps that ``fit_cpu_predictions.py`` and ``predictions_cpu.py`` share."""

from __future__ import annotations

import csv
import gzip
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from benchmarks.oblivious_boosting import Recipe, grow
from scipy.optimize import least_squares

from suffice.predict.cpu_features import CORES, MachineTable, machine_table
from suffice.predict.cpu_model import (
    ROW_FEATURES,
    SPREAD_FEATURES,
    Seen,
    WorkTable,
    join,
    likeness,
    pass_work,
    resolve,
    with_relatives,
    work_table,
)
from suffice.predict.cpu_names import MICROARCHITECTURES
from suffice.predict.cpu_physics import BandwidthModel, PassModel, believed_read, pass_seconds
from suffice.predict.machine import MachineSpec, Phase, WorkloadSpec
from suffice.predict.relatives import RELATIVE_FEATURES, SIZES, Relatives, relative_keys
from suffice.predict.rows import (
    DEVICE_COLUMNS,
    MACHINE_COLUMNS,
    WORKLOAD_COLUMNS,
    Columns,
    machine_of,
    ran_on_a_gpu,
    workload_of,
)
from suffice.units import GIGA

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from suffice.predict.forest import Forest

    Floats = npt.NDArray[np.float64]
    Indices = npt.NDArray[np.intp]

REPOSITORY = Path(__file__).resolve().parent.parent
CLOUD = REPOSITORY.parent / "shared" / "data" / "cloud"


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseRows:
    """Measured rows of one phase; ``machine`` indexes the machines of the data set."""

    machine: Indices
    work: WorkTable
    log_rate: Floats
    model: npt.NDArray[np.str_]
    tokens: Indices
    spread: Floats

    def picked(self, rows: npt.NDArray[np.bool_] | Indices) -> PhaseRows:
        """Some of the rows."""
        work = WorkTable(**{name: getattr(self.work, name)[rows] for name in WorkTable.__dataclass_fields__})
        return PhaseRows(
            machine=self.machine[rows],
            work=work,
            log_rate=self.log_rate[rows],
            model=self.model[rows],
            tokens=self.tokens[rows],
            spread=self.spread[rows],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """CPU rows of the cloud data."""

    machines: list[MachineSpec]
    origin: Indices  # of a machine with cells left out: which machine it was; of the others: themselves
    table: MachineTable
    phases: dict[Phase, PhaseRows]


def read_data(folder: Path = CLOUD) -> Data:
    """All rows that ran on the CPU, by phase."""
    keys: dict[tuple[str, ...], int] = {}
    specs: list[MachineSpec] = []
    found: dict[Phase, list[tuple[int, WorkloadSpec, float, str, int, float]]] = {phase: [] for phase in Phase}
    for columns, cells, answer in _joined(folder):
        key = columns.picked(cells, (*MACHINE_COLUMNS, "threads"))
        workload = workload_of(columns.picked(cells, WORKLOAD_COLUMNS))
        gpu = columns.picked(cells, ("gpu",))[0]
        if workload is None or ran_on_a_gpu(gpu, columns.picked(cells, DEVICE_COLUMNS)):
            continue
        if key not in keys:
            keys[key] = len(specs)
            specs.append(machine_of(key[:-1]))
        work = workload[0]
        rate, least, most = answer
        model = columns.picked(cells, ("model",))[0]
        found[work.phase].append((keys[key], work, rate, model, work.n_tokens, (most - least) / rate))
    phases = {
        phase: PhaseRows(
            machine=np.array([row[0] for row in rows]),
            work=work_table([row[1] for row in rows]),
            log_rate=np.log([row[2] for row in rows]),
            model=np.array([row[3] for row in rows]),
            tokens=np.array([row[4] for row in rows]),
            spread=np.array([row[5] for row in rows]),
        )
        for phase, rows in found.items()
    }
    return Data(machines=specs, origin=np.arange(len(specs)), table=machine_table(specs), phases=phases)


# What a user may not know, with the share of the copies that lack it.
_LEFT_OUT: tuple[tuple[tuple[str, ...], float], ...] = (
    (("read_bytes_per_s", "second_read_bytes_per_s"), 0.35),
    (("second_read_bytes_per_s",), 0.3),
    (("isa",), 0.2),
    (("cpu_model", "described_cpu_model"), 0.1),
    (("threads_per_core", "cores_per_socket", "sockets", "numa_nodes"), 0.25),
    (("llc_bytes", "llc_instances"), 0.25),
    (("vendor", "instance"), 0.25),
    (("vcpus",), 0.1),
)
_COPIED_ROWS = 0.15
_KEPT_ROWS = 0.3  # of lengths beside the main ones: their curve is smooth


def with_gaps(data: Data, seed: int = 0) -> Data:
    """The data with a copy of each machine that lacks some cells, and some of its rows: what is missing must cost width, not truth."""
    rng = np.random.default_rng(seed)
    copies = [
        _without(machine, [name for names, share in _LEFT_OUT if rng.random() < share for name in names])
        for machine in data.machines
    ]
    n = len(data.machines)
    phases = {}
    for phase, every in data.phases.items():
        rows = every.picked(_is_main_length(phase, every) | (rng.random(len(every.machine)) < _KEPT_ROWS))
        copied = rows.picked(rng.random(len(rows.machine)) < _COPIED_ROWS)
        threads = np.where(rng.random(len(copied.machine)) < 0.3, np.nan, copied.work.threads)
        copied = replace(copied, machine=copied.machine + n, work=replace(copied.work, threads=threads))
        phases[phase] = _stacked(rows, copied)
    machines = [*data.machines, *copies]
    return Data(machines=machines, origin=np.tile(data.origin, 2), table=machine_table(machines), phases=phases)


def _without(machine: MachineSpec, names: list[str]) -> MachineSpec:
    nothing: dict[str, Any] = dict.fromkeys(names)
    return replace(machine, **nothing)


def _stacked(first: PhaseRows, second: PhaseRows) -> PhaseRows:
    work = WorkTable(
        **{
            name: np.concatenate((getattr(first.work, name), getattr(second.work, name)))
            for name in WorkTable.__dataclass_fields__
        }
    )
    rest = {
        name: np.concatenate((getattr(first, name), getattr(second, name)))
        for name in PhaseRows.__dataclass_fields__
        if name != "work"
    }
    return PhaseRows(work=work, **rest)


def _joined(folder: Path) -> Iterator[tuple[Columns, list[str], tuple[float, float, float]]]:
    with gzip.open(folder / "machines.csv.gz", "rt", newline="") as file:
        reader = csv.reader(file)
        machine_header = next(reader)
        by_name = {(row[0], row[1]): row for row in reader}
    with gzip.open(folder / "llama-bench.csv.gz", "rt", newline="") as file:
        reader = csv.reader(file)
        header = next(reader)
        answers = [header.index(name) for name in ("tok_s_median", "tok_s_min", "tok_s_max")]
        columns = Columns.of(header + machine_header[2:])
        for row in reader:
            yield (
                columns,
                row + by_name[row[0], row[1]][2:],
                (float(row[answers[0]]), float(row[answers[1]]), float(row[answers[2]])),
            )


def fit_bandwidth(table: MachineTable, rows: Indices) -> BandwidthModel:
    """Least squares of the logarithm of the measured bandwidths of some machines."""
    rows = rows[np.isfinite(table.read_bytes_per_s[rows]) & np.isfinite(table.threads[rows])]
    core, cores, measured = table.core[rows], table.threads[rows], np.log(table.read_bytes_per_s[rows])

    def model(theta: Floats) -> BandwidthModel:
        return BandwidthModel(
            core_bytes_per_s=np.exp(_by_core(theta[2:])) * GIGA,
            socket_share=float(np.exp(theta[0])),
            sharpness=float(np.exp(theta[1])),
        )

    start = np.concatenate(([np.log(0.8), np.log(2.0), np.log(10.0)], np.zeros(_N_OFFSETS)))

    def errors(theta: Floats) -> Floats:
        return np.concatenate((np.log(model(theta).read_bytes_per_s(core, cores)) - measured, _ridge(theta[3:])))

    return model(least_squares(errors, start, loss="soft_l1", f_scale=0.2, max_nfev=40).x)


_PHYSICS_ROWS = 4000  # more rows do not move some dozens of parameters
_GROUPS = sorted({(core.vendor, core.dot_product) for core in MICROARCHITECTURES.values()})
_GROUP_OF = np.array([-1, *(_GROUPS.index((core.vendor, core.dot_product)) for core in MICROARCHITECTURES.values())])
_N_OFFSETS = len(_GROUPS) + len(CORES)


def _by_core(theta: Floats) -> Floats:
    """Base, offsets of the groups (vendor and dot-product instructions) and offsets of the generations, added up."""
    groups = np.concatenate((theta[1 : 1 + len(_GROUPS)], [0.0]))
    by_core: Floats = theta[0] + groups[_GROUP_OF] + theta[1 + len(_GROUPS) :]
    return by_core


def _ridge(offsets: Floats) -> Floats:
    """Offsets are drawn to zero: a generation that nobody measured has its group's value, a new group the common one."""
    return np.concatenate((0.7 * offsets[: len(_GROUPS)], 2.0 * offsets[len(_GROUPS) :]))


def fit_passes(data: Data, phase: Phase, bandwidth: BandwidthModel, rows: PhaseRows) -> PassModel:
    """The physics by robust least squares of the logarithm, on machines with one NUMA node."""
    single = np.flatnonzero(data.table.numa_nodes[rows.machine] == 1)
    rows = rows.picked(np.random.default_rng(0).permutation(single)[:_PHYSICS_ROWS])
    threads, read, modelled = resolve(bandwidth, data.table, rows.machine, rows.work)
    work, core = pass_work(phase, rows.work), data.table.core[rows.machine]

    def model(theta: Floats) -> PassModel:
        k = 5
        return PassModel(
            efficiency=1 / (1 + np.exp(-_by_core(theta[k : k + 1 + _N_OFFSETS]))),
            rate=np.exp(_by_core(theta[k + 1 + _N_OFFSETS :])) * GIGA,
            scaling=float(theta[0]),
            overlap=float(1 + np.exp(theta[1])),
            fixed_s=float(np.exp(theta[2])),
            attention=float(np.exp(theta[3])),
            trust=float(1 / (1 + np.exp(-theta[4]))),
        )

    def errors(theta: Floats) -> Floats:
        fitted = model(theta)
        seconds = pass_seconds(fitted, work, core, threads, believed_read(fitted, read, modelled))
        first, second = theta[6 : 6 + _N_OFFSETS], theta[7 + _N_OFFSETS :]
        return np.concatenate(
            (np.log(work.tokens / seconds) - rows.log_rate, 3 * _ridge(first), 3 * _ridge(second), [theta[2] + 7])
        )

    zeros = np.zeros(_N_OFFSETS)
    start = np.concatenate(([0.85, 0.5, np.log(1e-3), 0.0, 1.0, 1.0], zeros, [np.log(15.0)], zeros))
    return model(least_squares(errors, start, loss="soft_l1", f_scale=0.1, max_nfev=30).x)


RISING = frozenset(ROW_FEATURES.index(name) for name in ("log_read", "log_read_used", "log_read_per_thread"))
FALLING = frozenset({ROW_FEATURES.index("log_streamed_bytes")})
RESIDUAL = Recipe(
    trees=1000, depth=5, rate=0.12, bins=40, columns=0.35, rows=0.5, fewest=10.0, rising=RISING, falling=FALLING
)
SPREAD = Recipe(trees=150, depth=4, rate=0.08, columns=0.4, fewest=30.0, quantile=0.7)
LEVEL = 0.8
_LEAST_ERROR = 0.01  # logarithms of smaller errors say nothing of the machine


def is_main(data: Data, phase: Phase, rows: PhaseRows) -> npt.NDArray[np.bool_]:
    """The rows that the promise is about: usual lengths, models from 0.3 billion parameters up, one NUMA node, all cells there."""
    promised: npt.NDArray[np.bool_] = (
        _is_main_length(phase, rows)
        & (rows.work.parameters > 0.3 * GIGA)
        & (data.table.numa_nodes[data.origin[rows.machine]] == 1)
        & (data.origin[rows.machine] == rows.machine)
    )
    return promised


def _is_main_length(phase: Phase, rows: PhaseRows) -> npt.NDArray[np.bool_]:
    return np.isin(rows.tokens, (128,) if phase is Phase.DECODE else (128, 512))


def seen_of(data: Data, machines: Indices) -> Seen:
    """How many of some machines there are of each kind."""
    own = machines[data.origin[machines] == machines]
    table = data.table
    return Seen(
        cpus=Counter(table.identity[index] for index in own if table.identity[index]),
        series=Counter(table.series[index] for index in own if table.series[index]),
        families=Counter(table.family[index] for index in own if table.family[index]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PointModel:
    """The first half of a phase's model: everything but the width."""

    bandwidth: BandwidthModel
    passes: PassModel
    relatives: Relatives
    residual: Forest
    seen: Seen


def fit_point(data: Data, phase: Phase, trained: npt.NDArray[np.bool_], recipe: Recipe = RESIDUAL) -> PointModel:
    """Physics and residual of the machines that are marked in ``trained``."""
    machines, rows = np.flatnonzero(trained), data.phases[phase]
    rows = rows.picked(trained[rows.machine])
    bandwidth = fit_bandwidth(data.table, machines)
    passes = fit_passes(data, phase, bandwidth, rows.picked(data.origin[rows.machine] == rows.machine))
    joined = join(phase, bandwidth, passes, data.table, rows.machine, rows.work)
    relatives, own = measured_relatives(data, phase, rows, rows.log_rate - joined.log_physics)
    joined = with_relatives(joined, relatives, data.table, own)
    columns = joined.columns
    columns[np.isin(rows.machine, _strangers(data))[:, None] & np.isin(np.arange(columns.shape[1]), _RELATIVE)] = np.nan
    known = np.isfinite(joined.log_physics)
    weight = np.where(is_main(data, phase, rows), 1.0, 0.4)
    error = rows.log_rate - joined.log_physics
    residual = grow(columns[known], error[known], weight[known], recipe)
    return PointModel(
        bandwidth=bandwidth, passes=passes, relatives=relatives, residual=residual, seen=seen_of(data, machines)
    )


_RELATIVE = [ROW_FEATURES.index(name) for name in RELATIVE_FEATURES]
_STRANGERS = 0.35


def _strangers(data: Data) -> Indices:
    """Machines whose relatives are hidden while the residual is learned, so that it knows what to say without any."""
    return np.flatnonzero(np.random.default_rng(1).random(len(data.machines)) < _STRANGERS)


def measured_relatives(data: Data, phase: Phase, rows: PhaseRows, error: Floats) -> tuple[Relatives, Indices]:
    """The whole machines among some rows as relatives of others, and the place of each machine, or of its copy's origin, among them."""
    chosen = _is_main_length(phase, rows) & (data.origin[rows.machine] == rows.machine) & np.isfinite(error)
    machines = np.unique(rows.machine[chosen])
    place = np.full(len(data.machines), -1)
    place[machines] = np.arange(len(machines))
    column = np.searchsorted(SIZES, np.log(rows.work.parameters[chosen]) - _ROUNDING)
    total, count = np.zeros((len(machines), len(SIZES))), np.zeros((len(machines), len(SIZES)))
    np.add.at(total, (place[rows.machine[chosen]], column), error[chosen])
    np.add.at(count, (place[rows.machine[chosen]], column), 1)
    keys = relative_keys(data.table)
    relatives = Relatives(
        keys=[keys[index] for index in machines],
        log_threads=np.log(data.table.threads[machines]),
        residuals=np.where(count > 0, total / np.maximum(count, 1), np.nan),
    )
    return relatives, place[data.origin]


_ROUNDING = 1e-6


def apply_point(data: Data, phase: Phase, point: PointModel, rows: PhaseRows) -> tuple[Floats, Floats, Floats]:
    """Logarithms of physics and prediction, and the columns that the width looks at."""
    joined = join(phase, point.bandwidth, point.passes, data.table, rows.machine, rows.work)
    joined = with_relatives(joined, point.relatives, data.table)
    like = likeness(point.seen, data.table)[rows.machine]
    return (
        joined.log_physics,
        joined.log_physics + point.residual(joined.columns),
        np.column_stack((joined.columns, like)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfFold:
    """Rows of a phase as predicted by models that never saw their fold."""

    log_physics: Floats
    log_point: Floats
    columns: Floats


def folds_of(keys: list[str], count: int, seed: int = 0) -> Indices:
    """A fold for each key, the same for the same key."""
    names = sorted(set(keys))
    fold = dict(zip(names, np.random.default_rng(seed).permutation(len(names)) % count, strict=True))
    return np.array([fold[key] for key in keys])


def machine_folds(data: Data, count: int, seed: int = 0) -> Indices:
    """Folds by machine: those that are left out have relatives of the same CPU in the training data."""
    keys = [f"{data.machines[index].vendor} {data.machines[index].instance}" for index in data.origin]
    return folds_of(keys, count, seed)


def cpu_folds(data: Data, count: int, seed: int = 0) -> Indices:
    """Folds by CPU model: no machine with the CPU of one that is left out is in the training data."""
    return folds_of([data.table.identity[index] for index in data.origin], count, seed)


def out_of_fold(data: Data, phase: Phase, folds: Indices, recipe: Recipe = RESIDUAL) -> OutOfFold:
    """Every row predicted by the model of the other folds."""
    rows = data.phases[phase]
    n = len(rows.machine)
    physics, point, columns = np.full(n, np.nan), np.full(n, np.nan), np.full((n, len(SPREAD_FEATURES)), np.nan)
    for fold in range(int(folds.max()) + 1):
        out = np.flatnonzero(folds[rows.machine] == fold)
        fitted = fit_point(data, phase, folds != fold, recipe)
        physics[out], point[out], columns[out] = apply_point(data, phase, fitted, rows.picked(out))
    return OutOfFold(log_physics=physics, log_point=point, columns=columns)


def width_weight(data: Data, phase: Phase, rows: PhaseRows) -> Floats:
    """What a row counts when the width is set: most where the promise is, least where cells were left out on purpose."""
    copied = data.origin[rows.machine] != rows.machine
    return np.where(is_main(data, phase, rows), 1.0, np.where(copied, 0.2, 0.4))


@dataclass(frozen=True, slots=True, kw_only=True)
class Width:
    """The second half of a phase's model."""

    spread: Forest
    low: float
    high: float


def fit_width(columns: Floats, error: Floats, weight: Floats, recipe: Recipe = SPREAD) -> Width:
    """How wide the range must be, from errors out of fold (logarithm of truth over prediction)."""
    known = np.isfinite(error) & np.isfinite(columns[:, ROW_FEATURES.index("log_threads")])
    columns, error, weight = columns[known], error[known], weight[known]
    spread = grow(columns, np.log(np.maximum(np.abs(error), _LEAST_ERROR)), weight, recipe)
    scaled = error / np.exp(spread(columns))
    tail = (1 - LEVEL) / 2
    return Width(spread=spread, low=-_quantile(scaled, weight, tail), high=_quantile(scaled, weight, 1 - tail))


def _quantile(values: Floats, weight: Floats, share: float) -> float:
    order = np.argsort(values)
    cumulated = np.cumsum(weight[order])
    return float(values[order][min(int(np.searchsorted(cumulated, share * cumulated[-1])), len(values) - 1)])
