"""How good the CPU predictions are on machines that the model never saw: three methods side by side, and what the ranges hold.

Run: ``python -m benchmarks.predictions_cpu [REPORT.md]``. Some minutes on one core; reads the cloud data beside the repository. "Known CPU": folds by
machine, so that other machines with the CPU are in the training data. "Unknown CPU": folds by CPU model. The generic learner needs
scikit-learn and is left out without it.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from benchmarks.cpu_prediction_fit import (
    CLOUD,
    Data,
    OutOfFold,
    PhaseRows,
    cpu_folds,
    fit_width,
    folds_of,
    is_main,
    machine_folds,
    out_of_fold,
    read_data,
    width_weight,
    with_gaps,
)

from suffice.predict.cpu_features import MACHINE_FEATURES
from suffice.predict.machine import Phase
from suffice.units import GIGA

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Mask = npt.NDArray[np.bool_]

KNOWN_FOLDS, UNKNOWN_FOLDS, HALVES = 5, 8, 4
FEWEST_ROWS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One phase under one way of leaving machines out."""

    phase: Phase
    name: str
    folds: npt.NDArray[np.intp]
    data: Data
    unseen: OutOfFold

    @property
    def rows(self) -> PhaseRows:
        """The measured rows."""
        return self.data.phases[self.phase]

    @property
    def log_error(self) -> Floats:
        """Logarithm of truth over prediction."""
        error: Floats = self.rows.log_rate - self.unseen.log_point
        return error


def main() -> None:
    """Print the tables, and write them to a file where one is named."""
    data = with_gaps(read_data(CLOUD))
    cases = [
        Case(phase=phase, name=name, folds=folds, data=data, unseen=out_of_fold(data, phase, folds))
        for phase in Phase
        for name, folds in (("known", machine_folds(data, KNOWN_FOLDS)), ("unknown", cpu_folds(data, UNKNOWN_FOLDS)))
    ]
    report = "\n".join([*accuracy_table(cases), "", *coverage_tables(cases)])
    print(report)
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(report + "\n", encoding="utf-8")


def accuracy_table(cases: list[Case]) -> Iterator[str]:
    """Median absolute error of the methods on the rows that the promise is about."""
    yield "| phase | CPU | rows | constant per ISA class | generic boosted learner | physics alone | suffice |"
    yield "|---|---|---|---|---|---|---|"
    for case in cases:
        main_rows = is_main(case.data, case.phase, case.rows)
        truth = case.rows.log_rate
        errors = [
            _median_error(truth, prediction, main_rows)
            for prediction in (constants(case), generic(case), case.unseen.log_physics, case.unseen.log_point)
        ]
        yield f"| {case.phase} | {case.name} | {main_rows.sum()} | {' | '.join(errors)} |"


def _median_error(truth: Floats, prediction: Floats | None, rows: Mask) -> str:
    if prediction is None:
        return "not run"
    return f"{100 * float(np.nanmedian(np.abs(np.exp(prediction - truth)[rows] - 1))):.1f} %"


def constants(case: Case) -> Floats:
    """One figure per ISA class: share of the bandwidth in decode, parameters per vCPU and second in prefill."""
    data, rows = case.data, case.rows
    table = data.table
    vcpus = np.exp(table.features[rows.machine, MACHINE_FEATURES.index("log_vcpus")])
    if case.phase is Phase.DECODE:
        unit = np.log(table.read_bytes_per_s[rows.machine] / rows.work.streamed_bytes)
    else:
        unit = np.log(vcpus / rows.work.parameters)
    isa = np.array(table.isa_class)[rows.machine]
    share, predicted = rows.log_rate - unit, np.full(len(unit), np.nan)
    main_rows, fold = is_main(data, case.phase, rows), case.folds[rows.machine]
    for f in range(int(fold.max()) + 1):
        for name in set(isa):
            trained = (fold != f) & (isa == name) & main_rows
            if not trained.any():
                trained = (fold != f) & main_rows
            predicted[(fold == f) & (isa == name)] = np.nanmedian(share[trained])
    rate: Floats = unit + predicted
    return rate


def generic(case: Case) -> Floats | None:
    """scikit-learn's histogram gradient boosting on the plain columns, or None where it is not installed."""
    if find_spec("sklearn") is None:
        return None
    learner = import_module("sklearn.ensemble").HistGradientBoostingRegressor
    rows, features = case.rows, case.data.table.features
    names = (
        "log_vcpus",
        "threads_per_core",
        "log_cores_per_socket",
        "log_sockets",
        "numa_nodes",
        "log_llc_bytes",
        "isa_class",
        "log_read",
        "log_second_read",
        "clock",
        "cloud",
    )
    columns = np.column_stack(
        (
            features[rows.machine][:, [MACHINE_FEATURES.index(name) for name in names]],
            rows.work.threads,
            rows.work.parameters,
            rows.work.streamed_bytes,
            rows.work.tokens,
        )
    )
    main_rows, fold = is_main(case.data, case.phase, rows), case.folds[rows.machine]
    predicted = np.full(len(fold), np.nan)
    for f in range(int(fold.max()) + 1):
        trained = main_rows & (fold != f)
        fitted = learner(max_iter=400, learning_rate=0.07, random_state=0).fit(columns[trained], rows.log_rate[trained])
        predicted[fold == f] = fitted.predict(columns[fold == f])
    return predicted


def held(cases: list[Case]) -> tuple[npt.NDArray[np.bool_], Floats]:
    """For the rows of both cases of a phase, one after the other: whether the range holds the truth, and its width.

    The width is fitted on three quarters of the machines and judged on the rest, four times.
    """
    columns = np.concatenate([case.unseen.columns for case in cases])
    error = np.concatenate([case.log_error for case in cases])
    data, phase = cases[0].data, cases[0].phase
    weight = np.tile(width_weight(data, phase, cases[0].rows), len(cases))
    quarter = np.tile(folds_of([str(i) for i in data.origin], HALVES, seed=1)[cases[0].rows.machine], len(cases))
    inside, width = np.zeros(len(error), dtype=bool), np.zeros(len(error))
    for index in range(HALVES):
        judged = quarter == index
        fitted = fit_width(columns[~judged], error[~judged], weight[~judged])
        spread = np.exp(fitted.spread(columns[judged]))
        inside[judged] = (error[judged] >= -fitted.low * spread) & (error[judged] <= fitted.high * spread)
        width[judged] = np.exp((fitted.low + fitted.high) * spread)
    return inside, width


def coverage_tables(cases: list[Case]) -> Iterator[str]:
    """What 80 % ranges hold: over all, in every group with enough rows, and on the rows that are reported apart."""
    yield "| phase | CPU | rows | group | held | median high / low |"
    yield "|---|---|---|---|---|---|"
    for phase in Phase:
        own = [case for case in cases if case.phase is phase]
        inside, width = held(own)
        n = len(own[0].rows.machine)
        for place, case in enumerate(own):
            part = slice(place * n, (place + 1) * n)
            for name, mask in groups(case):
                if mask.sum() >= FEWEST_ROWS:
                    share, ratio = inside[part][mask].mean(), np.median(width[part][mask])
                    yield f"| {phase} | {case.name} | {mask.sum()} | {name} | {100 * share:.0f} % | {ratio:.2f} |"


def groups(case: Case) -> Iterator[tuple[str, Mask]]:
    """Names and rows of the groups whose ranges are judged."""
    data, rows = case.data, case.rows
    origin = data.origin[rows.machine]
    whole = origin == rows.machine
    single = data.table.numa_nodes[origin] == 1
    small = rows.work.parameters < 0.3 * GIGA
    promise = is_main(data, case.phase, rows)
    yield "all of the promise", promise
    machines = [data.machines[index] for index in rows.machine]
    yield from _by("cloud", np.array([machine.vendor or "" for machine in machines]), promise)
    yield from _by("ISA class", np.array(data.table.isa_class)[rows.machine], promise)
    yield from _by("size", np.array([size_class(machine.vcpus or 0) for machine in machines]), promise)
    yield from _by("model", rows.model, promise)
    yield "other lengths", whole & single & ~small & ~promise
    yield "several NUMA nodes", whole & ~single & ~small
    yield "models under 0.3 B", whole & single & small
    yield "cells left out", ~whole & single & ~small
    yield "no bandwidth", ~whole & single & ~small & np.isnan(data.table.read_bytes_per_s[rows.machine])


def _by(kind: str, names: npt.NDArray[np.str_], rows: Mask) -> Iterator[tuple[str, Mask]]:
    for name in sorted(set(names[rows])):
        yield f"{kind} {name}", rows & (names == name)


def size_class(vcpus: int) -> str:
    """Sizes of machines in vCPUs."""
    return next(
        (f"{low}-{high} vCPU" for low, high in ((1, 2), (3, 8), (9, 32), (33, 96)) if low <= vcpus <= high),
        "over 96 vCPU",
    )


if __name__ == "__main__":
    main()
