"""The guard: pass, fail, or inconclusive, and never a pass for lack of evidence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from helpers.records import bare_record, run_record
from suffice.decide.guard import Limit, Metric, Outcome, guard_floor, result_of
from suffice.decide.guard_facts import facts_of
from suffice.decide.guard_limits import check_limit
from suffice.model.basis import Basis
from suffice.records.schema import ContentionRecord, MeasurementRecord


@pytest.mark.parametrize(
    ("floor", "outcome"),
    [(19.5, Outcome.PASS), (19.7, Outcome.INCONCLUSIVE), (20.1, Outcome.FAIL), (25, Outcome.FAIL)],
)
def test_a_measured_interval_against_a_floor(floor: float, outcome: Outcome) -> None:
    """20 tokens/s in 19.6 to 20.4: holds 19.5, cannot tell 19.7, fails 20.1."""
    result = guard_floor(run_record(decode=20), floor)

    assert result.outcome is outcome
    assert "\n" not in result.reason
    assert f"floor {floor:g}" in result.reason


def test_the_floor_itself_holds() -> None:
    """Exactly at the floor is a pass."""
    assert guard_floor(bare_record(8.0), 8.0).outcome is Outcome.PASS


def test_a_missing_number_is_inconclusive() -> None:
    """No measurement neither passes nor fails, and nothing is detectable."""
    result = guard_floor(bare_record(None), 8)

    assert result.outcome is Outcome.INCONCLUSIVE
    assert (result.measured_tokens_per_second, result.smallest_detectable_change) == (None, None)


def test_a_busy_record_shows_what_the_machine_does_at_least() -> None:
    """Marked disturbed: a pass above the floor, as the verdict has it, and no failure below it, with the reason of the mark."""
    contention = ContentionRecord(disturbed=True, reasons=("steal of 9 %",))

    slow, fast = (guard_floor(run_record(decode=one, disturbed=True, contention=contention), 8) for one in (5.0, 50.0))

    assert slow.outcome is Outcome.INCONCLUSIVE
    assert "steal of 9 %" in slow.reason
    assert fast.outcome is Outcome.PASS
    assert "on a busy machine" in fast.reason


def test_a_busy_record_of_slices_bounds_nothing() -> None:
    """A neighbour that slows the smaller slice makes the whole model look faster."""
    contention = ContentionRecord(disturbed=True, reasons=("steal of 9 %",))
    facts = facts_of(run_record(decode=50.0, disturbed=True, contention=contention), "run")
    figure = facts.figures[Metric.DECODE]
    assert figure.quantity is not None
    from_slices = replace(figure, quantity=replace(figure.quantity, basis=Basis.EXTRAPOLATED))

    checks = [
        check_limit(replace(facts, figures={Metric.DECODE: one}), Limit(metric=Metric.DECODE, value=8))
        for one in (figure, from_slices)
    ]

    assert [check.outcome for check in checks] == [Outcome.PASS, Outcome.INCONCLUSIVE]


def test_a_busy_record_that_is_wrong_as_well_passes_nothing() -> None:
    """Above its ceiling, or not finished."""
    contention = ContentionRecord(disturbed=True, reasons=("steal of 9 %",))
    for wrong in ({"contradictions": ("over its ceiling",)}, {"complete": False}):
        record = run_record(decode=50.0, disturbed=True, contention=contention, **wrong)
        assert guard_floor(record, 8).outcome is Outcome.INCONCLUSIVE


def test_a_contradiction_is_inconclusive() -> None:
    """A rate over its ceiling cannot pass a guard."""
    assert guard_floor(run_record(contradictions=("over its ceiling",)), 8).outcome is Outcome.INCONCLUSIVE


def test_one_repetition_is_inconclusive_above_the_floor() -> None:
    """A single sample above the floor may be luck."""
    record = run_record()
    series = record.measurement.decode[0]
    assert series.tokens_per_second is not None
    single = replace(series, tokens_per_second=replace(series.tokens_per_second, interval=None))

    result = guard_floor(replace(record, measurement=MeasurementRecord(decode=(single,))), 8)

    assert result.outcome is Outcome.INCONCLUSIVE
    assert result.smallest_detectable_change is None


def test_the_smallest_detectable_change_is_the_lower_half_width() -> None:
    """An interval that begins 2 % under its point tells drops of 2 % from noise."""
    change = guard_floor(run_record(), 8).smallest_detectable_change

    assert change == pytest.approx(0.02, abs=0.002)


def test_an_obstacle_is_told_once() -> None:
    """Three figures of one busy run: their figures, and one reason behind them."""
    facts = facts_of(run_record(disturbed=True, contention=ContentionRecord(disturbed=True, reasons=("steal",))), "run")
    limits = [Limit(metric=metric, value=200.0) for metric in (Metric.DECODE, Metric.PREFILL)]

    result = result_of([check_limit(facts, limit) for limit in limits])

    assert result.outcome is Outcome.INCONCLUSIVE
    assert result.reason == (
        "decode 20.00 tokens/s, floor 200; prefill 100.00 tokens/s, floor 200: measured on a busy machine (steal)"
    )


def test_the_worst_check_decides_and_is_told() -> None:
    """A failure beside a pass and an open one: FAIL with its own reason and the likely cause, not the others'."""
    facts = facts_of(run_record(decode=20, prefill=100), "run")
    limits = [
        Limit(metric=Metric.DECODE, value=8),
        Limit(metric=Metric.PREFILL, value=200),
        Limit(metric=Metric.MEMORY, value=1),
    ]

    result = result_of([check_limit(facts, limit) for limit in limits], 20.0, ["engine 1 -> 2"])

    assert result.outcome is Outcome.FAIL
    assert result.reason == "prefill 100.00 tokens/s, floor 200: below the floor; likely cause: engine 1 -> 2"
    assert (result.measured_tokens_per_second, result.floor_tokens_per_second) == (20.0, 8)


def test_nothing_checked_is_no_pass() -> None:
    """An empty guard is inconclusive."""
    assert result_of([]).outcome is Outcome.INCONCLUSIVE
