"""Many rows at once: GPUs of rented machines, by the columns of machines.csv joined with llama-bench.csv."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from suffice.predict.device_calibration import DeviceCalibration, shipped_calibration
from suffice.predict.device_cloud import CloudRow, read_cloud
from suffice.predict.device_model import decode_seconds, prefill_seconds
from suffice.predict.device_spread import engine_group
from suffice.predict.machine import Phase

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_CACHE_ROWS: Final = 65_536


def predict_device_rows(
    rows: Sequence[Mapping[str, str]], calibration: DeviceCalibration | None = None
) -> list[tuple[float, float, float] | None]:
    """Tokens per second, low and high of each row that ran on a GPU; the basis of all of them is "predicted".

    None: the GPU is not known or a virtual slice, some layers stay on the CPU, or the row lacks the model's size or the lengths.
    Equal rows are computed once: a table of machines has few GPUs and many lengths.
    """
    chosen = calibration or shipped_calibration()
    return [None if (ready := read_cloud(row)) is None else _answer(ready, chosen) for row in rows]


@lru_cache(maxsize=_CACHE_ROWS)
def _answer(row: CloudRow, calibration: DeviceCalibration) -> tuple[float, float, float]:
    phase = Phase.DECODE if row.is_decode else Phase.PREFILL
    resolved = calibration.parameters.resolve(row.case)
    if row.is_decode:
        seconds = decode_seconds(row.case, resolved, row.work)
    else:
        seconds = prefill_seconds(resolved, row.work, calibration.parameters.peak_exponent)
    rate = row.tokens / seconds
    familiarity = calibration.support[phase].familiarity(row.case)
    spread = calibration.spreads[phase].of(familiarity, engine_group(row.case, row.work.count))
    return rate, rate * spread.low_factor, rate * spread.high_factor
