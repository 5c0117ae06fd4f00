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
    from collections.abc import Iterable, Mapping

    import numpy.typing as npt

from suffice.predict.machine import Phase
from suffice.predict.model_files import KNOWN_FILES

# Half the width of the range, in logarithms, that holds 80 % of other machines of the same type: siblings of 511 to 636 pairs lie within 0.13
# (prefill) and 0.16 to 0.23 (decode) of each other (benchmarks/between_machines.py).
BETWEEN_MACHINES: Final = 0.16


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

    def of_work(self, machine: str, file: str, phase: Phase, tokens: float) -> Measurement | None:
        """The measurement that stands for a prompt of so many tokens, or for decoding at such a depth; ``file``: of :func:`same_work`."""
        own = [task.split("|") for task in self.tasks if task.startswith(file) and f"|{phase.value}|" in task]
        lengths = [int(n) for _, _, n in own]
        wanted = decode_lengths(tokens, lengths) if phase is Phase.DECODE else [n for n in lengths if n == tokens]
        name = own[0][0] if own else ""
        found = (self.find(machine, task_key(name, phase, n)) for n in wanted)
        return next((measurement for measurement in found if measurement is not None), None)

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


_SAME_PARAMETERS: Final = 0.002
_SAME_BYTES: Final = 0.03
# Tokens generated in a row from an empty cache stand for the depth in their middle, when that is so near.
_DEPTH_TOLERANCE: Final = 1.3
_SHALLOW_TOKENS: Final = 96  # below, depth is no part of a step that matters


def same_work(parameters: float, file_bytes: float) -> str | None:
    """The measured file that has these parameters and this size: the same shape under the same recipe; None: there is none."""
    for name, known in KNOWN_FILES.items():
        same_shape = math.isclose(parameters, known.parameters, rel_tol=_SAME_PARAMETERS)
        if same_shape and math.isclose(file_bytes, known.file_bytes, rel_tol=_SAME_BYTES):
            return name
    return None


def decode_lengths(depth: float, measured: Iterable[int]) -> tuple[int, ...]:
    """Those of the measured lengths of decoding whose middle stands for a depth, the nearest first."""
    middles = {n: n / 2 for n in measured}
    if depth <= _SHALLOW_TOKENS:
        return tuple(sorted((n for n, middle in middles.items() if middle <= _SHALLOW_TOKENS), reverse=True))
    near = [n for n, middle in middles.items() if 1 / _DEPTH_TOLERANCE <= middle / depth <= _DEPTH_TOLERANCE]
    return tuple(sorted(near, key=lambda n: abs(math.log(middles[n] / depth))))


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
