"""How often a verdict from predictions is right: wrong "cpu", wrong "gpu" and undecided, on machines that the model never saw.

For each measured decode row (128 tokens) demands are made below, near and above what the machine really does: 0.2, 0.4, 0.6, 0.75, 0.9, 1.1,
1.4, 2 and 4 times its true rate, margin 1.5. The verdict rule itself (suffice.decide) judges the prediction made by the model of the other
folds, from the machine's specifications alone and with its measured bandwidth.

- wrong "cpu": the verdict is "cpu" and the machine does not reach the need;
- bold "cpu": the verdict is "cpu", the need is reached and the margin is not;
- wrong "gpu": the verdict is "gpu" and the machine does reach the need.

Run: ``python -m benchmarks.verdicts``. Some minutes on one core; reads the cloud data beside the repository.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from benchmarks.cpu_prediction_fit import (
    CLOUD,
    Data,
    OutOfFold,
    apply_point,
    cpu_folds,
    fit_point,
    fit_width,
    folds_of,
    is_main,
    machine_folds,
    read_data,
    width_weight,
    with_gaps,
)

from suffice.decide import words
from suffice.decide.prospects import Speeds, predicted_evidence
from suffice.decide.quantity import Quantity
from suffice.decide.verdict import decide_machine
from suffice.model.basis import Basis
from suffice.model.demand import single_stream_need
from suffice.predict.cpu_features import machine_table
from suffice.predict.machine import Phase
from suffice.records.schema import ModelRecord
from suffice.units import GIGA, TERA

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

FACTORS = (0.2, 0.4, 0.6, 0.75, 0.9, 1.1, 1.4, 2.0, 4.0)
MARGIN = 1.5
KNOWN_FOLDS, UNKNOWN_FOLDS, QUARTERS = 5, 8, 4
MODEL = ModelRecord(name="any", file_bytes=round(GIGA), kv_bytes_per_token=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unseen:
    """Rows predicted out of fold, with and without the machine's bandwidth."""

    name: str
    by_evidence: dict[str, OutOfFold]


def without_bandwidth(data: Data) -> Data:
    """The same machines, of which only specifications are known."""
    machines = [replace(m, read_bytes_per_s=None, second_read_bytes_per_s=None) for m in data.machines]
    return replace(data, machines=machines, table=machine_table(machines))


def predicted(data: Data, bare: Data, name: str, folds: npt.NDArray[np.intp]) -> Unseen:
    """Each row by the model of the other folds, once as it is and once from specifications alone."""
    rows = data.phases[Phase.DECODE]
    parts = {
        evidence: [np.full(len(rows.machine), np.nan) for _ in range(2)] for evidence in ("bandwidth", "specs alone")
    }
    columns: dict[str, Floats] = {}
    for fold in range(int(folds.max()) + 1):
        out = np.flatnonzero(folds[rows.machine] == fold)
        fitted = fit_point(data, Phase.DECODE, folds != fold)
        for evidence, table in (("bandwidth", data), ("specs alone", bare)):
            physics, point, seen = apply_point(table, Phase.DECODE, fitted, rows.picked(out))
            parts[evidence][0][out], parts[evidence][1][out] = physics, point
            columns.setdefault(evidence, np.full((len(rows.machine), seen.shape[1]), np.nan))[out] = seen
    return Unseen(
        name=name,
        by_evidence={
            evidence: OutOfFold(log_physics=physics, log_point=point, columns=columns[evidence])
            for evidence, (physics, point) in parts.items()
        },
    )


def ranges(data: Data, cases: list[Unseen]) -> dict[tuple[str, str], tuple[Floats, Floats]]:
    """80 % ranges in logarithms, their width fitted on three quarters of the machines and used on the rest."""
    rows = data.phases[Phase.DECODE]
    keys = [(case.name, evidence) for case in cases for evidence in case.by_evidence]
    parts = [case.by_evidence[evidence] for case in cases for evidence in case.by_evidence]
    columns = np.concatenate([part.columns for part in parts])
    points = np.concatenate([part.log_point for part in parts])
    error = np.tile(rows.log_rate, len(parts)) - points
    weight = np.tile(width_weight(data, Phase.DECODE, rows), len(parts))
    quarter = np.tile(folds_of([str(i) for i in data.origin], QUARTERS, seed=1)[rows.machine], len(parts))
    low, high = np.full(len(points), np.nan), np.full(len(points), np.nan)
    for index in range(QUARTERS):
        judged = quarter == index
        fitted = fit_width(columns[~judged], error[~judged], weight[~judged])
        spread = np.exp(fitted.spread(columns[judged]))
        low[judged] = points[judged] - fitted.low * spread
        high[judged] = points[judged] + fitted.high * spread
    n = len(rows.machine)
    return {key: (low[i * n : (i + 1) * n], high[i * n : (i + 1) * n]) for i, key in enumerate(keys)}


def verdict_on(predicted_rate: tuple[float, ...], need: float) -> str:
    """What the rule says of a predicted rate (point, low, high) against a need."""
    point, low, high = predicted_rate
    rate = Quantity(point=point, low=low, high=high, basis=Basis.PREDICTED)
    speeds = Speeds(depth=0, decode=rate, prefill=None)
    evidence = predicted_evidence("a machine", MODEL, speeds, is_gpu=False, memory_bytes=TERA)
    return decide_machine(single_stream_need(need, MARGIN), evidence).verdict


def outcome(verdict: str, factor: float) -> str:
    """What a verdict is worth when the machine's true rate is 1 and the need is ``factor``."""
    if verdict == words.UNDECIDED:
        return "undecided"
    if verdict == words.GPU:
        return "right" if factor > 1 else "wrong gpu"
    if factor > 1:
        return "wrong cpu"
    return "bold cpu" if verdict == words.CPU and factor * MARGIN > 1 else "right"


def main() -> None:
    """Print the table."""
    data = with_gaps(read_data(CLOUD))
    bare = without_bandwidth(data)
    cases = [
        predicted(data, bare, "known", machine_folds(data, KNOWN_FOLDS)),
        predicted(data, bare, "unknown", cpu_folds(data, UNKNOWN_FOLDS)),
    ]
    width = ranges(data, cases)
    rows = data.phases[Phase.DECODE]
    judged = np.flatnonzero(is_main(data, Phase.DECODE, rows))
    print("| CPU model | evidence | decisions | right | wrong cpu | bold cpu | wrong gpu | undecided |")
    print("|---|---|---|---|---|---|---|---|")
    for case in cases:
        for evidence, part in case.by_evidence.items():
            low, high = width[case.name, evidence]
            counts: Counter[str] = Counter()
            for row in judged:
                if not np.isfinite(low[row]):
                    counts.update(["undecided"] * len(FACTORS))
                    continue
                truth = float(np.exp(rows.log_rate[row]))
                rate = tuple(float(np.exp(values[row])) for values in (part.log_point, low, high))
                counts.update(outcome(verdict_on(rate, factor * truth), factor) for factor in FACTORS)
            total = counts.total()
            shares = " | ".join(
                f"{100 * counts[key] / total:.1f} %"
                for key in ("right", "wrong cpu", "bold cpu", "wrong gpu", "undecided")
            )
            print(f"| {case.name} | {evidence} | {total} | {shares} |", flush=True)


if __name__ == "__main__":
    main()
