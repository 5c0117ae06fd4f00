"""Reads the calibration of CPUs that ships with the package."""

from __future__ import annotations

import io
import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np

from suffice.predict.cpu_calibration import from_parts
from suffice.predict.elsewhere import table_of

if TYPE_CHECKING:
    from suffice.predict.cpu_model import CpuModel
    from suffice.predict.elsewhere import MeasuredElsewhere

_PACKAGE = "suffice.predict"


@cache
def shipped_cpu_model() -> CpuModel:
    """The calibration on cloud machines; ``data/README.md`` has source and licence."""
    folder = files(_PACKAGE).joinpath("data")
    document = json.loads(folder.joinpath("cpu.json").read_text(encoding="utf-8"))
    with np.load(io.BytesIO(folder.joinpath("cpu_forests.npz").read_bytes()), allow_pickle=False) as arrays:
        return from_parts(document, dict(arrays))


@cache
def shipped_measurements() -> MeasuredElsewhere:
    """The machines that were measured, with what came out."""
    folder = files(_PACKAGE).joinpath("data")
    with np.load(io.BytesIO(folder.joinpath("cpu_elsewhere.npz").read_bytes()), allow_pickle=False) as arrays:
        return table_of(dict(arrays))
