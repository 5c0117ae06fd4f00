"""What else the machine did during several stretches of time, as one reading: loading between them is no measurement."""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from suffice.decide.disturbance import ContentionReading
    from suffice.measure.contention import Contention

# What a reading has at a moment, what is the same in all, and what is a largest value; everything else adds up.
_AT_THE_END: Final = ("load_average", "frequency_hz", "temperature_c")
_THE_SAME: Final = ("usable_cpus", "watched_cpus", "threads")
_LARGEST: Final = ("peak_other_cpus",)
# Each stretch is read at its own ends: what one reading has too much another has too little.
_INDEPENDENT: Final = ("clock_error_s",)


def summed(readings: Sequence[ContentionReading]) -> ContentionReading:
    """One reading of all stretches together; what one of them could not tell is unknown.

    Raises:
        ValueError: no readings.
    """
    if not readings:
        raise ValueError("no readings to add up")
    total: dict[str, Any] = {}
    for field in fields(readings[0]):
        values = [getattr(reading, field.name) for reading in readings]
        if field.name in (*_AT_THE_END, *_THE_SAME):
            total[field.name] = values[-1]
        elif any(value is None for value in values):
            total[field.name] = None
        elif field.name in _INDEPENDENT:
            total[field.name] = math.hypot(*values)
        else:
            total[field.name] = max(values) if field.name in _LARGEST else sum(values)
    return replace(readings[0], **total)


class Watch:
    """A monitor that is started and stopped several times."""

    def __init__(self, contention: Contention) -> None:
        self._contention = contention
        self._readings: list[ContentionReading] = []

    @contextmanager
    def watched(self) -> Iterator[None]:
        """A stretch of time that counts."""
        self._contention.start()
        try:
            yield
        finally:
            self._readings.append(self._contention.stop())

    def reading(self) -> ContentionReading:
        """Of all that was watched; where nothing was, of this moment."""
        if not self._readings:
            with self.watched():
                pass
        return summed(self._readings)
