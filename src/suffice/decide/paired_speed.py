"""How many times as fast one model is as another, from the rounds in which both were measured side by side.

The rounds stand in the records (``settings.interleaved``, docs/record.md); nothing but the two records is needed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from suffice.stats.intervals import DEFAULT_LEVEL, median
from suffice.stats.rounds import paired_ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from suffice.records.schema import RunRecord
    from suffice.stats.estimate import Estimate

    Rows = Mapping[int, Sequence[Sequence[float]]]  # seconds of the steps, or chunks, of each repetition, by round

SETTING: Final = "interleaved"  # of a record's settings
# A step is slow beyond so many times the median of its repetition. In ten rounds of the same thing twice on a 2-core VM with neighbours on its host, in turns of four
# steps, the ratio of a round scatters by 6.8 % by all steps, 3.4 % by the lowest tenth, 3.7 % by the median, 2.9 % by the mean of those that are not slow
# (1.25 times: 3.3 %, 2 times: 3.0 %, 3 times: 4.9 %): benchmarks/guard_bars.py.
SLOW_STEP: Final = 1.5
# Where its memory lies makes a process faster or slower for as long as it lives, so that the ratio of two processes with the same model scatters by so much from
# opening to opening, whatever the number of rounds; and the one that is opened first is slower by twice OPENED_FIRST, in the mean. Of 234 pairs of ten rounds of the same
# thing (benchmarks/guard_bars.py), from whose halves, opened in opposite orders, what rounds scatter by themselves (3.5 %) was taken off.
OPENING: Final = 0.0125
OPENED_FIRST: Final = 0.015


@dataclass(frozen=True, slots=True, kw_only=True)
class EvenSteps:
    """Two models by their even steps: those that are not slow (:data:`SLOW_STEP`).

    Attributes:
        ratio: the candidate's rate of even steps over the reference's.
        slow: in each round the candidate's steps per even step over the reference's: above 1 where it has more slow ones.
        total: the rate of all steps of all rounds together over the reference's. One long stall in one round is in it, which no median shows.
    """

    ratio: Estimate
    slow: Estimate
    total: float


def paired_decode(reference: RunRecord, candidate: RunRecord, level: float = DEFAULT_LEVEL) -> Estimate | None:
    """The candidate's decode rate over the reference's, at the run's depth.

    Returns:
        None where they were not measured side by side, at different depths, or in fewer than three rounds.
    """
    rows = _decode_rows(reference, candidate)
    return None if rows is None else _ratio_of(rows, _rate, level)


def _rate(steps_s: Sequence[float]) -> float:
    return len(steps_s) / math.fsum(steps_s)


def paired_even_steps(reference: RunRecord, candidate: RunRecord, level: float = DEFAULT_LEVEL) -> EvenSteps | None:
    """The same of their even steps, and whose steps are slow more often: neighbours that hit some steps of a repetition do not move it.

    Returns:
        None as :func:`paired_decode`.
    """
    rows = _decode_rows(reference, candidate)
    return None if rows is None else even_steps(rows[0], rows[1], level)


def even_steps(reference: Rows, candidate: Rows, level: float = DEFAULT_LEVEL) -> EvenSteps | None:
    """The same of seconds of steps, by round and repetition."""
    ratio = _ratio_of((reference, candidate), even_rate, level)
    slow = _ratio_of((reference, candidate), steps_per_even_step, level)
    if ratio is None or slow is None:
        return None
    shared = reference.keys() & candidate.keys()
    old, new = (
        _rate([step for number in shared for row in side[number] for step in row]) for side in (reference, candidate)
    )
    return EvenSteps(ratio=ratio, slow=slow, total=new / old)


def _ratio_of(rows: tuple[Rows, Rows], rate: Callable[[Sequence[float]], float], level: float) -> Estimate | None:
    rates = [{number: [rate(row) for row in own] for number, own in side.items()} for side in rows]
    return paired_ratio(rates[0], rates[1], level)


def even_rate(steps_s: Sequence[float]) -> float:
    """Steps per second of a repetition's even steps.

    What takes a CPU away for some milliseconds makes a few steps several times as long. What the engine itself does now and then (a stall every tenth
    step) is not in it either: :func:`steps_per_even_step` shows that.
    """
    even = _even(steps_s)
    return len(even) / math.fsum(even)


def steps_per_even_step(steps_s: Sequence[float]) -> float:
    """All steps of a repetition over its even ones: 1 where none is slow."""
    return len(steps_s) / len(_even(steps_s))


def _even(steps_s: Sequence[float]) -> list[float]:
    limit_s = SLOW_STEP * median(steps_s)
    return [step for step in steps_s if step <= limit_s]


def scatter_of_openings(record: RunRecord) -> float:
    """Standard deviation of the logarithm of a ratio that comes from how often the models were opened, beyond what its rounds show of it.

    Opened once, they differ by :data:`OPENING` and by who was first; opened more often, in both orders, see :func:`scatter_beyond_rounds`. Of decode at
    the run's depth and of prefill the greater one. 0: opened anew for each round, or the record does not say.
    """
    if interleaved_of(record).get("opened_once") is True:
        return math.hypot(OPENING, OPENED_FIRST)
    decode, prefill = openings_of(record)
    marks = rounds_of_rows(record)
    pairs = [*zip(decode[:1], [_first(marks.get("decode"))], strict=False), (prefill, marks.get("prefill"))]
    known = [(openings, rounds) for openings, rows in pairs if openings and (rounds := _rounds_in(rows))]
    return max((scatter_beyond_rounds(*one) for one in known), default=0.0)


def scatter_beyond_rounds(openings: int, rounds: int) -> float:
    """The same of models that were opened so often, in both orders.

    The ratio keeps ``OPENING / sqrt(openings)`` however many rounds there are; these show ``(OPENING^2 + OPENED_FIRST^2) / rounds`` of its variance in
    their own scatter.
    """
    return math.sqrt(max(0.0, OPENING**2 / openings - (OPENING**2 + OPENED_FIRST**2) / rounds))


def lasting_scatter(record: RunRecord) -> float:
    """What of a ratio's scatter no number of rounds takes away: that of the openings. 0: the record does not say."""
    if interleaved_of(record).get("opened_once") is True:
        return math.hypot(OPENING, OPENED_FIRST)
    decode, prefill = openings_of(record)
    counts = [count for count in (*decode[:1], prefill) if count]
    return OPENING / math.sqrt(min(counts)) if counts else 0.0


def openings_of(record: RunRecord) -> tuple[list[int], int]:
    """How often the model was loaded for the rounds of each decode series, and for those of prefill; 0: none, or the record does not say."""
    told = interleaved_of(record).get("openings")
    if not isinstance(told, dict):
        return [], 0
    decode, prefill = told.get("decode"), told.get("prefill")
    counts = [one if _is_count(one) else 0 for one in decode] if isinstance(decode, list | tuple) else []
    return counts, prefill if _is_count(prefill) else 0


def _rounds_in(rows: object) -> int:
    return len({one for one in rows if _is_count(one)}) if isinstance(rows, list | tuple) else 0


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def paired_prefill(reference: RunRecord, candidate: RunRecord, level: float = DEFAULT_LEVEL) -> Estimate | None:
    """The candidate's prefill rate over the reference's.

    Returns:
        None where they were not measured side by side, with different prompts, or in fewer than three rounds.
    """
    series = [one for record in (reference, candidate) if (one := record.measurement.prefill) is not None]
    if len(series) != 2 or len({one.prompt_tokens for one in series}) > 1:  # noqa: PLR2004  # both
        return None
    marks = [rounds_of_rows(record).get("prefill") for record in (reference, candidate)]
    rows = _by_round(reference, candidate, [one.chunk_s for one in series], marks)
    return None if rows is None else _ratio_of(rows, lambda row: series[0].prompt_tokens / math.fsum(row), level)


def _decode_rows(reference: RunRecord, candidate: RunRecord) -> tuple[Rows, Rows] | None:
    """Steps at the depth of both runs, by round."""
    series = [record.measurement.decode[0] for record in (reference, candidate) if record.measurement.decode]
    if len(series) != 2 or len({(one.depth, one.batch) for one in series}) > 1:  # noqa: PLR2004  # both
        return None
    marks = [_first(rounds_of_rows(record).get("decode")) for record in (reference, candidate)]
    return _by_round(reference, candidate, [one.step_s for one in series], marks)


def _by_round(
    reference: RunRecord, candidate: RunRecord, rows: Sequence[Sequence[Sequence[float]]], marks: Sequence[object]
) -> tuple[Rows, Rows] | None:
    session = interleaved_of(reference).get("session")
    if session is None or session != interleaved_of(candidate).get("session"):
        return None
    return _rows_by_round(rows[0], marks[0]), _rows_by_round(rows[1], marks[1])


def _rows_by_round(rows: Sequence[Sequence[float]], marks: object) -> Rows:
    """Rows by the round of each; none where the record does not say it of all."""
    found: dict[int, list[Sequence[float]]] = {}
    if not isinstance(marks, list | tuple) or len(marks) != len(rows):
        return {}
    for mark, row in zip(marks, rows, strict=True):
        if isinstance(mark, bool) or not isinstance(mark, int):
            return {}
        found.setdefault(mark, []).append(row)
    return found


def interleaved_of(record: RunRecord) -> dict[str, Any]:
    """What a record tells of the measurement that it was made in with others side by side; empty: none."""
    told = record.settings.get(SETTING)
    return told if isinstance(told, dict) else {}


def rounds_of_rows(record: RunRecord) -> dict[str, Any]:
    """In which round each row of its series was measured: ``decode``, a list a series, and ``prefill``."""
    told = interleaved_of(record).get("round_of_row")
    return told if isinstance(told, dict) else {}


def _first(told: object) -> object:
    return told[0] if isinstance(told, list | tuple) and told else None
