"""Many rows at once: which machine and which work each names, and the prediction of all of them together.

Pure: reading and writing the table is the command's business (:mod:`suffice.cli.predict`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from suffice.predict.cpu_features import machine_table
from suffice.predict.cpu_model import CpuModel, predict_rows, work_table
from suffice.predict.elsewhere import MeasuredElsewhere, machine_key, task_key
from suffice.predict.machine import Phase
from suffice.predict.rows import (
    DEVICE_COLUMNS,
    MACHINE_COLUMNS,
    WORKLOAD_COLUMNS,
    Columns,
    machine_of,
    ran_on_a_gpu,
    workload_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from suffice.predict.machine import MachineSpec, WorkloadSpec

OUTPUT_COLUMNS: Final = ("predicted_tokens_per_second", "low", "high", "basis")
PREDICTED: Final = "predicted"
MEASURED_ELSEWHERE: Final = "measured elsewhere"
UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True)
class RowAnswer:
    """One row's answer; the numbers are None where the basis is ``unknown``."""

    point: float | None
    low: float | None
    high: float | None
    basis: str


_NOTHING: Final = RowAnswer(None, None, None, UNKNOWN)


class DevicePredictor(Protocol):
    """Predicts rows that ran on a GPU: a mapping of the input's cells a row, an answer a row (None: not known)."""

    def __call__(self, rows: Sequence[Mapping[str, str]]) -> Sequence[tuple[float, float, float] | None]:
        """Tokens per second, low and high of each row."""


@dataclass(slots=True)
class _Batch:
    """Rows of one phase that the CPU model is to answer."""

    machines: dict[tuple[str, ...], int] = field(default_factory=dict)
    specs: list[MachineSpec] = field(default_factory=list)
    machine: list[int] = field(default_factory=list)
    works: list[WorkloadSpec] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)

    def add(self, row: int, cells: tuple[str, ...], work: WorkloadSpec) -> None:
        index = self.machines.get(cells)
        if index is None:
            index = self.machines[cells] = len(self.specs)
            self.specs.append(machine_of(cells))
        self.machine.append(index)
        self.works.append(work)
        self.rows.append(row)


def predict_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    model: CpuModel,
    measured: MeasuredElsewhere | None,
    devices: DevicePredictor | None = None,
) -> list[RowAnswer]:
    """An answer for each row.

    Args:
        header: names of the columns; those that are not known are of no interest.
        rows: cells as texts.
        model: of CPUs.
        measured: where a row's very machine may have been measured; None: predictions only.
        devices: predicts rows that ran on a GPU; None: they are unknown.
    """
    columns = Columns.of(header)
    answers = [_NOTHING] * len(rows)
    batches = {phase: _Batch() for phase in Phase}
    gpu_rows: list[int] = []
    for index, row in enumerate(rows):
        parsed = workload_of(columns.picked(row, WORKLOAD_COLUMNS))
        machine = columns.picked(row, MACHINE_COLUMNS)
        on_gpu = ran_on_a_gpu(machine[_GPU], columns.picked(row, DEVICE_COLUMNS))
        if parsed is None:
            continue
        found = _look_up(measured, columns, row, parsed[0], gpu=on_gpu) if measured else None
        if found:
            answers[index] = found
        elif on_gpu:
            gpu_rows.append(index)
        else:
            batches[parsed[0].phase].add(index, machine, parsed[0])
    for phase, batch in batches.items():
        for index, answer in zip(batch.rows, _answers(model, phase, batch), strict=True):
            answers[index] = answer
    if devices and gpu_rows:
        cells = [dict(zip(header, rows[index], strict=False)) for index in gpu_rows]
        for index, triple in zip(gpu_rows, devices(cells), strict=True):
            answers[index] = _NOTHING if triple is None else RowAnswer(*triple, PREDICTED)
    return answers


_GPU: Final = MACHINE_COLUMNS.index("gpu")


def _answers(model: CpuModel, phase: Phase, batch: _Batch) -> Iterable[RowAnswer]:
    if not batch.rows:
        return ()
    predicted = predict_rows(
        model,
        phase,
        machine_table(batch.specs),
        np.array(batch.machine, dtype=np.intp),
        work_table(batch.works),
    )
    return (
        RowAnswer(point, low, high, PREDICTED) if point > 0 else _NOTHING
        for point, low, high in zip(
            predicted.point.tolist(), predicted.low.tolist(), predicted.high.tolist(), strict=True
        )
    )


def _look_up(
    measured: MeasuredElsewhere, columns: Columns, row: Sequence[str], work: WorkloadSpec, *, gpu: bool
) -> RowAnswer | None:
    vendor, instance, ran_on, model = columns.picked(row, ("vendor", "instance", "llm_cpu", "model"))
    found = measured.find(
        machine_key(vendor, instance, gpu=gpu),
        task_key(model, work.phase, work.n_tokens),
        ran_on=ran_on or None,
        threads=None if gpu else work.threads,
    )
    return RowAnswer(found.tokens_per_second, found.low, found.high, MEASURED_ELSEWHERE) if found else None


def with_answers(
    header: Sequence[str], rows: Sequence[Sequence[str]], answers: Sequence[RowAnswer]
) -> tuple[list[str], Iterable[list[str]]]:
    """The table with the answers: columns of an earlier prediction are overwritten, else the new ones stand at the end."""
    kept = [index for index, name in enumerate(header) if name not in OUTPUT_COLUMNS]
    names = [*(header[index] for index in kept), *OUTPUT_COLUMNS]
    width = len(header)

    def cells(row: Sequence[str], answer: RowAnswer) -> list[str]:
        padded = [*row, *[""] * (width - len(row))]
        numbers = ("" if value is None else f"{value:.6g}" for value in (answer.point, answer.low, answer.high))
        return [*(padded[index] for index in kept), *numbers, answer.basis]

    return names, (cells(row, answer) for row, answer in zip(rows, answers, strict=True))


def counted(answers: Sequence[RowAnswer]) -> dict[str, int]:
    """Rows by basis."""
    counts = Counter(answer.basis for answer in answers)
    return {basis: counts[basis] for basis in (PREDICTED, MEASURED_ELSEWHERE, UNKNOWN)}
