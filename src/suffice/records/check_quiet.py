"""Do the marks of repetitions, and the quiet speeds, follow from the raw readings in a record?"""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from suffice.decide.quiet import MARKS_RULE, marked, with_quiet
from suffice.errors import RecordError
from suffice.records.alike import RELATIVE_TOLERANCE, alike

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.records.schema import QuietRecord, ReferenceRecord, RepetitionRecord, RunRecord

# Above these, a forged record could keep a reader busy for hours. A run has hundreds of repetitions, of 64 steps at most.
_MOST_REPETITIONS: Final = 1500
_MOST_IN_ALL: Final = 4 * _MOST_REPETITIONS
_MOST_STEPS: Final = 100_000
_MOST_REFERENCES: Final = 100_000
_MOST_PAIRS: Final = 10_000_000  # of a step and a window


def check_quiet(record: RunRecord, *, source: str) -> None:
    """Compute marks and quiet speeds again and compare.

    Raises:
        RecordError: readings that no machine can have, or results that do not follow from them.
    """
    measurement, references = record.measurement, record.contention.references
    prefill = measurement.prefill
    series = [(f"decode at depth {one.depth}", one.step_s, one.repetitions, one.quiet) for one in measurement.decode]
    if prefill is not None:
        series.append(("prefill", prefill.chunk_s, prefill.repetitions, prefill.quiet))
    if not any(repetitions or quiet for _, _, repetitions, quiet in series):
        return
    _check_references(references, source)
    _check_amount([repetitions for _, _, repetitions, _ in series], source)
    for name, rows, repetitions, _ in series:
        _check_repetitions(name, rows, repetitions, references, source)
    if record.contention.marks_rule not in (None, MARKS_RULE):
        return  # its marks follow another rule, and are made again
    try:
        for name, _, repetitions, _ in series:
            own = [one.disturbed for one in marked(repetitions, references)]
            if own != [one.disturbed for one in repetitions]:
                raise RecordError(
                    f"{source}: the marks of {name} do not follow from its readings; the record was edited"
                )
        again = with_quiet(measurement, references) if any(quiet for *_, quiet in series) else measurement
    except (TypeError, ValueError, ArithmeticError) as error:
        raise RecordError(f"{source}: the readings of its repetitions cannot be used: {error}") from None
    computed = [one.quiet for one in again.decode] + ([] if again.prefill is None else [again.prefill.quiet])
    for (name, _, _, quiet), own_quiet in zip(series, computed, strict=True):
        if quiet is not None and not _same(quiet, own_quiet):
            raise RecordError(
                f"{source}: the undisturbed speed of {name} does not follow from its times and marks; the record was edited"
            )


def _check_amount(series: Sequence[Sequence[RepetitionRecord]], source: str) -> None:
    count = sum(len(repetitions) for repetitions in series)
    if count > _MOST_IN_ALL:
        raise RecordError(f"{source}: holds readings of {count} repetitions in all; no run has that")


def _check_references(references: Sequence[Sequence[ReferenceRecord]], source: str) -> None:
    readings = [one for part in references for one in part]
    if len(readings) > _MOST_REFERENCES:
        raise RecordError(f"{source}: holds {len(readings)} readings of the reference kernel; no run has that")
    numbers = [value for one in readings for value in asdict(one).values() if value is not None]
    if any(not math.isfinite(value) or value < 0 for value in numbers):
        raise RecordError(f"{source}: a reading of the reference kernel holds a value that no machine can have")


def _check_repetitions(
    name: str,
    rows: Sequence[Sequence[float]],
    repetitions: Sequence[RepetitionRecord],
    references: Sequence[Sequence[ReferenceRecord]],
    source: str,
) -> None:
    if len(repetitions) not in (0, len(rows)):
        raise RecordError(
            f"{source}: {name} has {len(rows)} repetitions and readings of {len(repetitions)}; the record was edited"
        )
    if not repetitions:
        return
    pairs = sum(len(row) * len(one.windows) for row, one in zip(rows, repetitions, strict=True))
    if len(rows) > _MOST_REPETITIONS or sum(map(len, rows)) > _MOST_STEPS or pairs > _MOST_PAIRS:
        raise RecordError(f"{source}: {name} has more repetitions, steps or windows than a run can have")
    for one in repetitions:
        known = len(references[one.part]) if 0 <= one.part < len(references) else 0
        places = one.part >= 0 and 0 <= one.references_before <= known
        times = [0.0 if one.start_s is None else one.start_s, *one.reading.values()]
        times += [edge for window in one.windows for edge in (window.begin_s, window.end_s)]
        if not places or not all(math.isfinite(value) for value in times):
            raise RecordError(f"{source}: a reading of {name} holds a value that no machine can have")


def _same(said: QuietRecord, own: QuietRecord | None) -> bool:
    """Whether two agree in everything, numbers up to a rounding by another tool."""
    if own is None:
        return False
    first, second = _values(asdict(said)), _values(asdict(own))
    return len(first) == len(second) and all(_alike(a, b) for a, b in zip(first, second, strict=True))


def _values(value: object) -> list[object]:
    """All plain values in a nested structure, in order."""
    if isinstance(value, dict):
        return [leaf for key in sorted(value) for leaf in (key, *_values(value[key]))]
    if isinstance(value, list | tuple):
        return [leaf for one in value for leaf in _values(one)]
    return [value]


def _alike(first: object, second: object) -> bool:
    if isinstance(first, bool) or isinstance(second, bool):
        return first is second
    if isinstance(first, int | float) and isinstance(second, int | float):
        # A share or a slope near 0 is a difference of nearly equal numbers, of which a rounding leaves few digits.
        return alike([first], [second]) or abs(first - second) <= RELATIVE_TOLERANCE
    return first == second
