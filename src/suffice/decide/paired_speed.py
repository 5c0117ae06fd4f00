"""How many times as fast one model is as another, from the rounds in which both were measured side by side.

The rounds stand in the records (``settings.interleaved``, docs/record.md); nothing but the two records is needed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from suffice.stats.intervals import DEFAULT_LEVEL
from suffice.stats.rounds import paired_ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from suffice.records.schema import RunRecord
    from suffice.stats.estimate import Estimate

SETTING: Final = "interleaved"  # of a record's settings
# Ten rounds of the same thing on a 2-core VM with neighbours on its host: their ratio scatters by 5.2 % by all steps, 2.3 % by the median step, 1.9 % by the
# lower quartile, 1.4 % by the lowest tenth, and more again by the fastest step alone (benchmarks/guard_bars.py).
STEADY_SHARE: Final = 0.10


def paired_decode(reference: RunRecord, candidate: RunRecord, level: float = DEFAULT_LEVEL) -> Estimate | None:
    """The candidate's decode rate over the reference's, at the run's depth.

    Returns:
        None where they were not measured side by side, at different depths, or in fewer than three rounds.
    """
    return _paired_decode(reference, candidate, _rate, level)


def _rate(steps_s: Sequence[float]) -> float:
    return len(steps_s) / math.fsum(steps_s)


def _paired_decode(
    reference: RunRecord, candidate: RunRecord, rate: Callable[[Sequence[float]], float], level: float
) -> Estimate | None:
    series = [record.measurement.decode[0] for record in (reference, candidate) if record.measurement.decode]
    if len(series) != 2 or len({(one.depth, one.batch) for one in series}) > 1:  # noqa: PLR2004  # both
        return None
    rates = [[rate(row) for row in one.step_s] for one in series]
    marks = [_first(rounds_of_rows(record).get("decode")) for record in (reference, candidate)]
    return _paired(reference, candidate, rates, marks, level)


def paired_steady_decode(reference: RunRecord, candidate: RunRecord, level: float = DEFAULT_LEVEL) -> Estimate | None:
    """The same of their steady rates (:func:`steady_rate`): neighbours that hit some steps of a repetition do not move it.

    Returns:
        None as :func:`paired_decode`.
    """
    return _paired_decode(reference, candidate, steady_rate, level)


def steady_rate(steps_s: Sequence[float]) -> float:
    """Steps per second of a repetition's faster steps: steps over their time at the lowest tenth of times.

    A neighbour makes steps longer and none shorter, so that the faster ones tell what the engine itself does as long as a tenth of them was left
    alone. What the engine does now and then only (a stall every tenth step) is not in it; that is in the rate of all steps.
    """
    ordered = sorted(steps_s)
    return 1 / ordered[math.ceil(STEADY_SHARE * len(ordered)) - 1]


def paired_prefill(reference: RunRecord, candidate: RunRecord, level: float = DEFAULT_LEVEL) -> Estimate | None:
    """The candidate's prefill rate over the reference's.

    Returns:
        None where they were not measured side by side, with different prompts, or in fewer than three rounds.
    """
    series = [one for record in (reference, candidate) if (one := record.measurement.prefill) is not None]
    if len(series) != 2 or len({one.prompt_tokens for one in series}) > 1:  # noqa: PLR2004  # both
        return None
    rates = [[one.prompt_tokens / math.fsum(row) for row in one.chunk_s] for one in series]
    marks = [rounds_of_rows(record).get("prefill") for record in (reference, candidate)]
    return _paired(reference, candidate, rates, marks, level)


def _paired(
    reference: RunRecord, candidate: RunRecord, rates: Sequence[Sequence[float]], marks: Sequence[object], level: float
) -> Estimate | None:
    session = interleaved_of(reference).get("session")
    if session is None or session != interleaved_of(candidate).get("session"):
        return None
    by_round = [_by_round(row, mark) for row, mark in zip(rates, marks, strict=True)]
    return paired_ratio(by_round[0], by_round[1], level)


def _by_round(rates: Sequence[float], marks: object) -> dict[int, list[float]]:
    """Rates by the round of each; none where the record does not say it of all."""
    found: dict[int, list[float]] = {}
    if not isinstance(marks, list | tuple) or len(marks) != len(rates):
        return {}
    for mark, rate in zip(marks, rates, strict=True):
        if isinstance(mark, bool) or not isinstance(mark, int):
            return {}
        found.setdefault(mark, []).append(rate)
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
