"""Which repetitions of a run were disturbed, and what its series say of the machine when nobody disturbs: from the raw readings in its record."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Final

from suffice.decide.disturbance import ContentionReading, Disturbance, judge_repetition
from suffice.decide.reference import ReferenceReading, reference_level, reference_reasons
from suffice.records.schema import ContentionRecord, QuietRecord
from suffice.stats.quiet import LEAST_EFFECT, Repetition, marks_of_steps, two_speeds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.decide.reference import ReferenceLevel
    from suffice.records.schema import MeasurementRecord, ReferenceRecord, RepetitionRecord, RunRecord
    from suffice.stats.estimate import Estimate

# Of the repetitions of a series, or of the readings of the reference kernel, so many (and one) may be marked before the run is. One in five does not move a median out of the others; and where
# marks are wrong for 5 % of quiet repetitions, more than one in five of 8 are by chance in 6 % of runs, of 10 in 1.2 %.
MAX_MARKED_SHARE: Final = 0.20

# What quiet machines never show (the longest wait of 300 quiet repetitions was 4 % of the time): two such repetitions mark a run, however many there are.
GRAVE_WAIT_SHARE: Final = 0.10
LEAST_GRAVE_S: Final = 0.02  # a prompt of 0.06 s waits 13 % of it now and then
MOST_GRAVE: Final = 1

# A neighbour that only the reference kernel sees is always somewhere on a rented machine. It marks a run where it changed the result: by LEAST_EFFECT or
# more, as the quiet speed says that is made from the repetitions without a mark, and its interval.
# And by more than so many slow readings: with nobody of ours beside, 45 of 272 readings of a 2-core VM were slow, two or more in 12 of 37 runs of five to ten, three or more in three.
MOST_SLOW_READINGS: Final = 2

# Goes up with every change of a rule or a limit that makes a mark or a quiet speed: a record of an older rule is judged again when it is read, and no edit is seen in it.
MARKS_RULE: Final = 3

_READING_FIELDS: Final = tuple(field.name for field in fields(ReferenceReading))


def is_watched(repetitions: Sequence[RepetitionRecord]) -> bool:
    """Whether anybody watched any of these repetitions."""
    return any(one.reading for one in repetitions)


def marked(
    repetitions: Sequence[RepetitionRecord], references: Sequence[Sequence[ReferenceRecord]]
) -> tuple[RepetitionRecord, ...]:
    """The repetitions with the marks that follow from their readings.

    Raises:
        TypeError, ValueError, ArithmeticError: readings that no machine can have.
    """
    return tuple(
        replace(one, disturbed=mark.disturbed, reasons=mark.reasons)
        for one, mark in zip(repetitions, _judged(repetitions, references), strict=True)
    )


def _judged(
    repetitions: Sequence[RepetitionRecord], references: Sequence[Sequence[ReferenceRecord]]
) -> list[Disturbance]:
    parts = [[_reading_of(one) for one in part] for part in references]
    levels = [reference_level(part) for part in parts]
    return [_judge(one, parts, levels) for one in repetitions]


def _reading_of(one: ReferenceRecord) -> ReferenceReading:
    return ReferenceReading(**{name: getattr(one, name) for name in _READING_FIELDS})


def _judge(
    one: RepetitionRecord, parts: Sequence[Sequence[ReferenceReading]], levels: Sequence[ReferenceLevel]
) -> Disturbance:
    if not one.reading:
        return Disturbance(disturbed=None, reasons=())
    reading = ContentionReading(**one.reading)  # type: ignore[arg-type]  # whole numbers were kept as such
    if not 0 <= one.part < len(parts):
        return judge_repetition(reading, (), reference_level(()))
    around = parts[one.part][max(0, one.references_before - 1) : one.references_before + 1]
    return judge_repetition(reading, around, levels[one.part])


def quiet_record(
    rows: Sequence[Sequence[float]],
    repetitions: Sequence[RepetitionRecord],
    references: Sequence[Sequence[ReferenceRecord]],
    units_per_step: float = 1.0,
) -> QuietRecord | None:
    """The quiet speed of a series, and how much of its time was disturbed; None where nobody watched.

    Args:
        rows: seconds of the steps of each repetition; a prompt is one step.
        repetitions: what was seen during each.
        references: readings of the reference kernel, by part of the run.
        units_per_step: tokens of a step.
    """
    if not rows or not is_watched(repetitions):
        return None
    marks = _judged(repetitions, references)
    made = [
        Repetition(
            step_s=tuple(row),
            disturbed=mark.disturbed,
            step_disturbed=_of_steps(row, one),
            elsewhere=mark.disturbed is True and not mark.in_windows,
        )
        for row, one, mark in zip(rows, repetitions, marks, strict=True)
    ]
    found = two_speeds(made, units_per_step=units_per_step)
    return QuietRecord(
        tokens_per_second=found.quiet,
        basis=None if found.basis is None else found.basis.value,
        why_not=None if found.no_quiet is None else found.no_quiet.value,
        disturbed_share=found.disturbed_share,
        slowdown=found.slowdown,
        bimodal=found.bimodal,
        drift=found.drift,
        marked=found.marked,
        unmarked=found.unmarked,
    )


def _of_steps(row: Sequence[float], one: RepetitionRecord) -> tuple[bool | None, ...]:
    return () if one.start_s is None or not one.windows else marks_of_steps(row, one.start_s, one.windows)


def with_quiet(measurement: MeasurementRecord, references: Sequence[Sequence[ReferenceRecord]]) -> MeasurementRecord:
    """The measurement with the quiet speed of every series that was watched."""
    prefill = measurement.prefill
    if prefill is not None:
        whole = [(math.fsum(row),) for row in prefill.chunk_s]
        quiet = quiet_record(whole, prefill.repetitions, references, prefill.prompt_tokens)
        prefill = replace(prefill, quiet=quiet)
    decode = tuple(
        replace(series, quiet=quiet_record(series.step_s, series.repetitions, references))
        for series in measurement.decode
    )
    return replace(measurement, decode=decode, prefill=prefill)


def judged_again(record: RunRecord) -> RunRecord:
    """A record whose marks follow another rule, with those of today's and the quiet speeds that follow from them; any other as it is.

    The mark of the whole run stays: it rests on readings that are summed up.

    Raises:
        TypeError, ValueError, ArithmeticError: readings that no machine can have.
    """
    if record.contention.marks_rule in (None, MARKS_RULE):
        return record
    measurement, references = record.measurement, record.contention.references
    decode = tuple(replace(one, repetitions=marked(one.repetitions, references)) for one in measurement.decode)
    prefill = measurement.prefill
    prefill = prefill and replace(prefill, repetitions=marked(prefill.repetitions, references))
    measurement = with_quiet(replace(measurement, decode=decode, prefill=prefill), references)
    return replace(record, measurement=measurement, contention=replace(record.contention, marks_rule=MARKS_RULE))


def disturbed_parts(
    measurement: MeasurementRecord, references: Sequence[Sequence[ReferenceRecord]], *, cause_is_told: bool = False
) -> tuple[str, ...]:
    """Why what was seen repetition by repetition marks a whole run.

    Repetitions count by their own readings here, and the reference kernel by its: one slow reading marks the repetitions on both sides of it,
    which would count it several times. The reference kernel marks nothing where the speed as found is the quiet one, within :data:`LEAST_EFFECT`.
    ``cause_is_told``: by the reading of the whole run, so that it need not be told again.
    """
    series = [(f"decode at depth {one.depth}", one.repetitions) for one in measurement.decode[:1]]
    if measurement.prefill is not None:
        series.append(("prefill", measurement.prefill.repetitions))
    found = []
    for name, repetitions in series:
        reasons = [mark.reasons[0] for mark in _judged(repetitions, ()) if mark.disturbed]
        grave = sum(_is_grave(one) for one in repetitions)
        stopped = any(_was_stopped(one) for one in repetitions)
        if _are_many(len(reasons), len(repetitions)) or grave > MOST_GRAVE or stopped:
            count = f"{len(reasons)} of {len(repetitions)} repetitions of {name} were disturbed"
            found.append(count if cause_is_told else f"{count}, one by this: {reasons[0]}")
    for part in references if _is_slowed(measurement) else ():
        readings = [_reading_of(one) for one in part]
        level = reference_level(readings)
        slow = [one for one in readings if reference_reasons([one], level)]
        are_many = len(slow) > MOST_SLOW_READINGS and _are_many(len(slow), len(readings))
        found += reference_reasons(readings, level) if are_many else ()
    return tuple(dict.fromkeys(found))


def _was_stopped(one: RepetitionRecord) -> bool:
    """Whether a sample saw the engine's process stopped: no machine does that by itself. A hypervisor only takes its CPU away."""
    return bool(one.reading.get("stops_seen"))


def _is_grave(one: RepetitionRecord) -> bool:
    """Whether the engine's threads had no CPU for a good part of a repetition, and for longer than some time slices."""
    if not one.reading:
        return False
    reading = ContentionReading(**one.reading)  # type: ignore[arg-type]  # whole numbers were kept as such
    away = max(reading.wait_share or 0.0, reading.absent_share or 0.0)
    return away > max(GRAVE_WAIT_SHARE, LEAST_GRAVE_S / reading.wall_s)


def _is_slowed(measurement: MeasurementRecord) -> bool:
    """Whether a result is known to be changed. Where no quiet speed is told, slow readings alone prove nothing: on a rented machine some always are."""
    prefill = measurement.prefill
    pairs = [(one.tokens_per_second, one.quiet) for one in measurement.decode[:1]]
    pairs += [] if prefill is None else [(prefill.tokens_per_second, prefill.quiet)]
    return any(
        found is not None and quiet is not None and _is_shown_below(found.point, quiet.tokens_per_second)
        for found, quiet in pairs
    )


def _is_shown_below(found_per_second: float, quiet: Estimate | None) -> bool:
    """Whether a speed as found is below the quiet one by what counts, and outside of what the quiet repetitions leave open: two or three of them say little."""
    if quiet is None or quiet.interval is None:
        return False
    return found_per_second < min((1 - LEAST_EFFECT) * quiet.point, quiet.interval.low)


def _are_many(marked: int, of: int) -> bool:
    return marked > max(1.0, MAX_MARKED_SHARE * of)


def undisturbed_record(record: RunRecord) -> RunRecord | None:
    """The record as it would be of the undisturbed machine: quiet speeds in place of those that were found, what has none left out.

    None where it has no quiet decode rate, or where nothing disturbed it.
    """
    measurement = record.measurement
    first = measurement.decode[0] if measurement.decode else None
    if first is None or first.quiet is None or first.quiet.tokens_per_second is None:
        return None
    if record.disturbed is False and not first.quiet.marked:
        return None
    decode = tuple(
        replace(one, tokens_per_second=one.quiet.tokens_per_second, quiet=None)
        for one in measurement.decode
        if one.quiet is not None and one.quiet.tokens_per_second is not None
    )
    prefill = measurement.prefill
    found = None if prefill is None else prefill.tokens_per_second
    quiet = None if prefill is None or prefill.quiet is None else prefill.quiet.tokens_per_second
    if prefill is not None and found is not None and quiet is not None:
        # Each chunk as much faster as the whole: which chunk was hit is not known.
        factor = found.point / quiet.point
        rows = tuple(tuple(factor * seconds for seconds in row) for row in prefill.chunk_s)
        prefill = replace(prefill, tokens_per_second=quiet, chunk_s=rows, quiet=None)
    else:
        prefill = None
    return replace(
        record,
        decode_tokens_per_second=first.quiet.tokens_per_second.point,
        prefill_tokens_per_second=None if prefill is None or quiet is None else quiet.point,
        ttft_s=None,  # follows from the two
        disturbed=False,
        contention=ContentionRecord(disturbed=False),
        measurement=replace(measurement, decode=decode, prefill=prefill, ttft_s=None),
    )
