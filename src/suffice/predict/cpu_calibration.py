"""The calibrated CPU model as the arrays and numbers of a file, and back. Pure: the reader is :mod:`suffice.predict.cpu_data`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from suffice.predict.cpu_features import CORES
from suffice.predict.cpu_model import CpuModel, PhaseModel, Seen
from suffice.predict.cpu_physics import BandwidthModel, PassModel
from suffice.predict.forest import Forest
from suffice.predict.machine import Phase
from suffice.predict.relatives import KINDS, Relatives
from suffice.units import GIGA

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

_DIGITS = 5


def to_document(model: CpuModel) -> dict[str, Any]:
    """Everything but the forests, as JSON: parameters by the name of what they belong to."""
    return {
        "level": model.level,
        "bandwidth": {
            "core_gb_per_s": _by_name(model.bandwidth.core_bytes_per_s / GIGA),
            "socket_share": _short(model.bandwidth.socket_share),
            "sharpness": _short(model.bandwidth.sharpness),
        },
        "phases": {phase.value: _phase_document(part) for phase, part in model.phases.items()},
        "seen": {
            "cpus": dict(sorted(model.seen.cpus.items())),
            "series": dict(sorted(model.seen.series.items())),
            "families": dict(sorted(model.seen.families.items())),
        },
    }


def _phase_document(part: PhaseModel) -> dict[str, Any]:
    return {
        "efficiency": _by_name(part.passes.efficiency),
        "giga_parameters_per_s": _by_name(part.passes.rate / GIGA),
        "scaling": _short(part.passes.scaling),
        "overlap": _short(part.passes.overlap),
        "fixed_s": _short(part.passes.fixed_s),
        "attention": _short(part.passes.attention),
        "trust": _short(part.passes.trust),
        "low": _short(part.low),
        "high": _short(part.high),
    }


def to_arrays(model: CpuModel) -> dict[str, npt.NDArray[Any]]:
    """The forests, by names such as ``decode_residual_values``."""
    arrays: dict[str, npt.NDArray[Any]] = {}
    for phase, part in model.phases.items():
        for role, forest in (("residual", part.residual), ("spread", part.spread)):
            arrays[f"{phase.value}_{role}_features"] = forest.features
            arrays[f"{phase.value}_{role}_thresholds"] = forest.thresholds
            arrays[f"{phase.value}_{role}_values"] = forest.values
            arrays[f"{phase.value}_{role}_base"] = np.array(forest.base)
        for place, kind in enumerate(KINDS):
            arrays[f"{phase.value}_relatives_{kind}"] = np.array([key[place] for key in part.relatives.keys])
        arrays[f"{phase.value}_relatives_log_threads"] = part.relatives.log_threads.astype(np.float32)
        arrays[f"{phase.value}_relatives_residuals"] = part.relatives.residuals.astype(np.float32)
    return arrays


def from_parts(document: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> CpuModel:
    """The model of a document and its arrays, as :func:`to_document` and :func:`to_arrays` wrote them."""
    bandwidth = document["bandwidth"]
    return CpuModel(
        bandwidth=BandwidthModel(
            core_bytes_per_s=_in_order(bandwidth["core_gb_per_s"]) * GIGA,
            socket_share=bandwidth["socket_share"],
            sharpness=bandwidth["sharpness"],
        ),
        phases={phase: _phase_of(phase, document["phases"][phase.value], arrays) for phase in Phase},
        seen=Seen(**document["seen"]),
        level=document["level"],
    )


def _phase_of(phase: Phase, part: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> PhaseModel:
    return PhaseModel(
        passes=PassModel(
            efficiency=_in_order(part["efficiency"]),
            rate=_in_order(part["giga_parameters_per_s"]) * GIGA,
            scaling=part["scaling"],
            overlap=part["overlap"],
            fixed_s=part["fixed_s"],
            attention=part["attention"],
            trust=part["trust"],
        ),
        relatives=Relatives(
            keys=list(zip(*(arrays[f"{phase.value}_relatives_{kind}"].tolist() for kind in KINDS), strict=True)),
            log_threads=arrays[f"{phase.value}_relatives_log_threads"].astype(np.float64),
            residuals=arrays[f"{phase.value}_relatives_residuals"].astype(np.float64),
        ),
        residual=_forest_of(arrays, f"{phase.value}_residual"),
        spread=_forest_of(arrays, f"{phase.value}_spread"),
        low=part["low"],
        high=part["high"],
    )


def _forest_of(arrays: Mapping[str, npt.NDArray[Any]], name: str) -> Forest:
    return Forest(
        features=arrays[f"{name}_features"],
        thresholds=arrays[f"{name}_thresholds"],
        values=arrays[f"{name}_values"],
        base=float(arrays[f"{name}_base"]),
    )


def _by_name(values: npt.NDArray[np.float64]) -> dict[str, float]:
    return {name: _short(value) for name, value in zip(CORES, values, strict=True)}


def _in_order(values: Mapping[str, float]) -> npt.NDArray[np.float64]:
    return np.array([values[name] for name in CORES], dtype=np.float64)


def _short(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
