"""The ratio of two records' speeds: only from rounds that both were measured in, and never from an edited record's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from suffice.decide.paired_speed import (
    OPENED_FIRST,
    OPENING,
    even_rate,
    lasting_scatter,
    paired_decode,
    paired_even_steps,
    paired_prefill,
    scatter_of_openings,
    steps_per_even_step,
)
from suffice.records.schema import DecodeSeries, MeasurementRecord, PrefillSeries, RunRecord

ROUNDS = {"decode": [[1, 2, 3, 3]], "prefill": [4, 5, 6]}


def _record(
    step_s: float, *, rounds: object = ROUNDS, session: object = "one", depth: int = 64, prompt_tokens: int = 100
) -> RunRecord:
    """Four repetitions of two steps at a depth, and three prompts of 25 steps' time."""
    told = {"session": session, "round_of_row": rounds}
    return RunRecord(
        settings={"interleaved": told},
        measurement=MeasurementRecord(
            decode=(DecodeSeries(depth=depth, threads=1, step_s=((step_s, step_s),) * 4),),
            prefill=PrefillSeries(prompt_tokens=prompt_tokens, threads=1, chunk_s=((25 * step_s,),) * 3),
        ),
    )


def test_rates_are_compared_by_round() -> None:
    """Half the time a step is twice the rate in each of three rounds, of decode and of prefill."""
    slow, fast = _record(0.2), _record(0.1)

    for ratio in (paired_decode(slow, fast), paired_prefill(slow, fast)):
        assert ratio is not None
        assert ratio.point == pytest.approx(2)
        assert ratio.samples == pytest.approx((2, 2, 2))


@pytest.mark.parametrize(
    "changes",
    [
        {"session": "two"},
        {"session": None},
        {"depth": 128, "prompt_tokens": 200},
        {"rounds": None},
        {"rounds": {"decode": [], "prefill": None}},
        {"rounds": {"decode": [[1, 2, 3]], "prefill": [4, 5]}},
        {"rounds": {"decode": [["1", "2", "3", "3"]], "prefill": [4.0, 5.0, True]}},
        {"rounds": {"decode": [[1, 2, 7, 8]], "prefill": [1, 2, 3]}},
    ],
)
def test_what_was_not_measured_together_has_no_ratio(changes: dict[str, Any]) -> None:
    """Another measurement, other lengths, rows whose round is not told, and fewer than three common rounds: unknown."""
    slow, fast = _record(0.2), _record(0.1, **changes)

    for first, second in ((slow, fast), (fast, slow)):
        assert paired_decode(first, second) is None
        assert paired_prefill(first, second) is None


def test_records_of_their_own_have_no_ratio() -> None:
    """A record of `suffice measure`, and one that was never measured."""
    alone = replace(_record(0.2), settings={})

    assert paired_decode(alone, alone) is None
    assert paired_prefill(RunRecord(), RunRecord()) is None
    assert paired_decode(RunRecord(), RunRecord()) is None


def test_even_steps_are_those_that_are_not_slow() -> None:
    """Nine steps of 10 ms and one of 100: a neighbour's. The rate of all is half of it; the slow one is told beside."""
    row = (0.01,) * 9 + (0.1,)

    assert even_rate(row) == pytest.approx(100)
    assert steps_per_even_step(row) == pytest.approx(10 / 9)
    assert even_rate((0.01, 0.014)) == pytest.approx(2 / 0.024)
    assert steps_per_even_step((0.5,)) == 1


def test_openings_scatter_whatever_the_number_of_rounds() -> None:
    """Opened twice in both orders: few rounds show most of it in their own scatter, and with hundreds it is the whole 0.9 %. Once: that and the order. Anew for each round: nothing."""

    def record(rounds: int, **told: object) -> RunRecord:
        marks = {"decode": [list(range(1, rounds + 1))], "prefill": []}
        told = {
            name: {"decode": [value], "prefill": 0} if name == "openings" else value for name, value in told.items()
        }
        return RunRecord(settings={"interleaved": {"session": "one", "round_of_row": marks, **told}})

    lasts = OPENING / 2**0.5
    few, many = (scatter_of_openings(record(count, opened_once=False, openings=2)) for count in (6, 500))
    assert 0 < few < many < lasts
    assert many == pytest.approx(lasts, rel=0.02)
    assert lasting_scatter(record(6, openings=2)) == pytest.approx(lasts)
    once = scatter_of_openings(record(500, opened_once=True, openings=1))
    assert once == pytest.approx((OPENING**2 + OPENED_FIRST**2) ** 0.5)
    assert scatter_of_openings(record(10, opened_once=False, openings=10)) == 0
    three = record(10, opened_once=False, openings=3)
    told = three.settings["interleaved"]
    fewer = replace(three, settings={"interleaved": {**told, "openings": {"decode": [3], "prefill": 2}}})
    assert lasting_scatter(fewer) > lasting_scatter(three)
    assert scatter_of_openings(replace(three, settings={"interleaved": {**told, "openings": 3}})) == 0
    for odd in (None, True, 0, -2, "2", 1.5):
        assert scatter_of_openings(record(10, opened_once=False, openings=odd)) == 0


def test_even_steps_are_compared_by_round() -> None:
    """A head of twice the rate; and one that stalls in every second step has more slow ones."""
    slow, fast = _record(0.2), _record(0.1)
    found = paired_even_steps(slow, fast)
    assert found is not None
    assert [found.ratio.point, found.slow.point] == pytest.approx([2, 1])
    assert paired_even_steps(slow, RunRecord()) is None
    assert paired_even_steps(slow, replace(fast, settings={})) is None

    series = fast.measurement.decode[0]
    stalls = replace(series, step_s=((0.1, 0.1, 0.4),) * 4)
    stalled = replace(fast, measurement=replace(fast.measurement, decode=(stalls,)))
    found = paired_even_steps(fast, stalled)
    assert found is not None
    assert [found.ratio.point, found.slow.point] == pytest.approx([1, 1.5])
