"""Real measurements of machines that somebody else rented: by cloud, instance, model, phase and length.

Pure: :mod:`suffice.predict.cpu_data` reads the table. A measurement is of one machine on one day; another machine of the same type
differs from it by more than its own repetitions do, so that the range is never narrower than ``BETWEEN_MACHINES``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from suffice.predict.machine import Phase

# Half the width of the range that holds 80 % of other machines of the same type; about the median error of the prediction for a CPU
# that is known, which cannot tell two machines of a type apart either.
BETWEEN_MACHINES: Final = 0.06


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """What somebody measured, with the range for another machine of that type.

    Attributes:
        tokens_per_second: median of the repetitions.
        low: lower end of the range.
        high: upper end.
        date: of the measurement, as in ``2026-04-05``.
        build: of llama.cpp.
    """

    tokens_per_second: float
    low: float
    high: float
    date: str
    build: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredElsewhere:
    """The table: machines x tasks, NaN where nothing was measured."""

    machines: Mapping[str, int]
    tasks: Mapping[str, int]
    rates: npt.NDArray[np.float32]
    spreads: npt.NDArray[np.float32]
    threads: npt.NDArray[np.int16]
    ran_on: tuple[str, ...]
    dates: tuple[str, ...]
    build: int

    def find(
        self, machine: str, task: str, *, ran_on: str | None = None, threads: int | None = None
    ) -> Measurement | None:
        """The measurement of a machine (:func:`machine_key`) and a task (:func:`task_key`), or None.

        Another CPU (``ran_on``, in llama.cpp's words) or another number of threads is another machine; None: not said.
        """
        row, column = self.machines.get(machine), self.tasks.get(task)
        if row is None or column is None or threads not in {None, int(self.threads[row])}:
            return None
        rate = float(self.rates[row, column])
        if math.isnan(rate) or ran_on not in {None, self.ran_on[row]}:
            return None
        half = max(BETWEEN_MACHINES, float(self.spreads[row, column]) / 2)
        return Measurement(
            tokens_per_second=rate,
            low=rate * math.exp(-half),
            high=rate * math.exp(half),
            date=self.dates[row],
            build=self.build,
        )


def machine_key(vendor: str, instance: str, *, gpu: bool = False) -> str:
    """The name of a machine in the table: a type of instance, run on its CPU or on its GPU."""
    return "|".join((vendor.strip().lower(), instance.strip().lower(), "gpu" if gpu else "cpu"))


def task_key(model: str, phase: Phase, n_tokens: int) -> str:
    """The name of a task in the table; ``model`` is the file's name."""
    return f"{model.strip().lower()}|{phase.value}|{n_tokens}"


def table_of(arrays: Mapping[str, npt.NDArray[Any]]) -> MeasuredElsewhere:
    """The table of the arrays of its file."""
    return MeasuredElsewhere(
        machines={str(name): index for index, name in enumerate(arrays["machines"])},
        tasks={str(name): index for index, name in enumerate(arrays["tasks"])},
        rates=arrays["rates"],
        spreads=arrays["spreads"].astype(np.float32),
        threads=arrays["threads"],
        ran_on=tuple(str(name) for name in arrays["ran_on"]),
        dates=tuple(str(date) for date in arrays["dates"]),
        build=int(arrays["build"]),
    )
