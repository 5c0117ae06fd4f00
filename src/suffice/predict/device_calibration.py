"""Loads the calibration of devices that ships with the package: parameters, what they rest on, and how far they were off."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from suffice.predict.device_model import DeviceParameters
from suffice.predict.device_spread import EngineGroup, Familiarity, Spread, Spreads, Support
from suffice.predict.device_terms import Parameter
from suffice.predict.machine import Phase

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, eq=False, kw_only=True)
class DeviceCalibration:
    """Everything that predictions for devices rest on."""

    parameters: DeviceParameters
    support: Mapping[Phase, Support]
    spreads: Mapping[Phase, Spreads]


@cache
def shipped_calibration() -> DeviceCalibration:
    """The calibration that ships, as ``benchmarks/fit_device_predictions.py`` wrote it."""
    text = files("suffice.predict").joinpath("data/device_calibration.json").read_text(encoding="utf-8")
    return from_document(json.loads(text))


def from_document(document: Mapping[str, Any]) -> DeviceCalibration:
    """A calibration from its JSON document."""
    return DeviceCalibration(
        parameters=DeviceParameters(
            logs=MappingProxyType({Parameter(name): dict(values) for name, values in document["log_factors"].items()}),
            peak_exponent=document["peak_exponent"],
        ),
        support=MappingProxyType(
            {
                Phase(name): Support(rows=seen["rows"], products=seen["products"])
                for name, seen in document["support"].items()
            }
        ),
        spreads=MappingProxyType({Phase(name): _spreads(cells) for name, cells in document["spreads"].items()}),
    )


def to_document(calibration: DeviceCalibration) -> dict[str, Any]:
    """The JSON document of a calibration."""
    return {
        "peak_exponent": calibration.parameters.peak_exponent,
        "log_factors": {
            parameter.value: {name: round(value, 4) for name, value in sorted(values.items())}
            for parameter, values in calibration.parameters.logs.items()
        },
        "support": {
            phase.value: {"rows": dict(sorted(seen.rows.items())), "products": dict(sorted(seen.products.items()))}
            for phase, seen in calibration.support.items()
        },
        "spreads": {
            phase.value: [
                {
                    "familiarity": familiarity.value,
                    "group": group.value,
                    "low_factor": round(spread.low_factor, 4),
                    "high_factor": round(spread.high_factor, 4),
                    "rows": spread.rows,
                }
                for (familiarity, group), spread in sorted(spreads.cells.items())
            ]
            for phase, spreads in calibration.spreads.items()
        },
    }


def _spreads(cells: list[dict[str, Any]]) -> Spreads:
    return Spreads(
        cells=MappingProxyType(
            {
                (Familiarity(cell["familiarity"]), EngineGroup(cell["group"])): Spread(
                    low_factor=cell["low_factor"], high_factor=cell["high_factor"], rows=cell["rows"]
                )
                for cell in cells
            }
        )
    )
