"""Fits what ``suffice predict`` knows of CPUs and writes it to ``src/suffice/predict/data``: deterministic, some minutes on one core.

Run: ``python -m benchmarks.fit_cpu_predictions``. Reads the cloud data beside the repository (``benchmarks/README.md``).
"""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import numpy as np
from benchmarks.cpu_prediction_fit import (
    CLOUD,
    LEVEL,
    REPOSITORY,
    Data,
    OutOfFold,
    cpu_folds,
    fit_bandwidth,
    fit_point,
    fit_width,
    machine_folds,
    out_of_fold,
    read_data,
    seen_of,
    width_weight,
    with_gaps,
)
from benchmarks.elsewhere_table import elsewhere_arrays

from suffice.predict.cpu_calibration import to_arrays, to_document
from suffice.predict.cpu_model import CpuModel, PhaseModel
from suffice.predict.machine import Phase

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

TARGET = REPOSITORY / "src" / "suffice" / "predict" / "data"
KNOWN_FOLDS, UNKNOWN_FOLDS = 5, 8


def fit_phase(data: Data, phase: Phase) -> PhaseModel:
    """Point from everything, width from what models said of machines and CPUs that they had not seen."""
    point = fit_point(data, phase, np.ones(len(data.machines), dtype=bool))
    rows = data.phases[phase]
    unseen = [
        out_of_fold(data, phase, machine_folds(data, KNOWN_FOLDS)),
        out_of_fold(data, phase, cpu_folds(data, UNKNOWN_FOLDS)),
    ]
    width = fit_width(
        np.concatenate([part.columns for part in unseen]),
        np.concatenate([_errors(rows.log_rate, part) for part in unseen]),
        np.tile(width_weight(data, phase, rows), len(unseen)),
    )
    return PhaseModel(
        passes=point.passes,
        relatives=point.relatives,
        residual=point.residual,
        spread=width.spread,
        low=width.low,
        high=width.high,
    )


def _errors(truth: npt.NDArray[np.float64], part: OutOfFold) -> npt.NDArray[np.float64]:
    error: npt.NDArray[np.float64] = truth - part.log_point
    return error


def main() -> None:
    """Fit and write."""
    data = with_gaps(read_data(CLOUD))
    everything = np.arange(len(data.machines))
    model = CpuModel(
        bandwidth=fit_bandwidth(data.table, everything),
        phases={phase: fit_phase(data, phase) for phase in Phase},
        seen=seen_of(data, everything),
        level=LEVEL,
    )
    write(model)


def write(model: CpuModel) -> None:
    """The three files of the package."""
    TARGET.mkdir(exist_ok=True)
    (TARGET / "cpu.json").write_text(json.dumps(to_document(model), indent=0) + "\n", encoding="utf-8")
    _save(TARGET / "cpu_forests.npz", to_arrays(model))
    _save(TARGET / "cpu_elsewhere.npz", elsewhere_arrays(CLOUD))
    for path in sorted(TARGET.glob("cpu*")):
        print(f"{path.name}: {path.stat().st_size} bytes")


def _save(path: Path, arrays: dict[str, npt.NDArray[Any]]) -> None:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]  # its keyword allow_pickle confuses mypy
    path.write_bytes(buffer.getvalue())


if __name__ == "__main__":
    main()
