"""Which levels are tried, and what the answer is: on servers of known capacity, without any server."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.capacity_runs import judge_of, judged, queue_rows, waits_s
from suffice.model.capacity import Criterion, Judge, LevelVerdict
from suffice.model.capacity_search import CapacityOf, SearchSettings, Tried, Try, capacity_of, next_try
from suffice.model.load_metrics import Limits

if TYPE_CHECKING:
    from collections.abc import Callable


def searched(oracle: Callable[[Try], Tried], search: SearchSettings, before: tuple[Tried, ...] = ()) -> list[Tried]:
    """The levels of a whole search."""
    tried = list(before)
    while (following := next_try(tried, search)) is not None:
        tried.append(oracle(following))
    return tried


def perfect(capacity: float) -> Callable[[Try], Tried]:
    """A server whose levels look like what they are, and are proven when tried at length."""

    def oracle(following: Try) -> Tried:
        good = following.level <= capacity
        proven = LevelVerdict.HOLDS if good else LevelVerdict.FAILS
        verdict = proven if following.thorough else LevelVerdict.UNDECIDED
        return Tried(level=following.level, verdict=verdict, good=good, thorough=following.thorough)

    return oracle


def of_rate(start: float, **changes: float) -> SearchSettings:
    """A search for a rate."""
    return SearchSettings(of=CapacityOf.RATE, start=start, highest=10_000.0, **changes)  # type: ignore[arg-type]


@given(st.floats(0.02, 900.0), st.floats(0.5, 20.0))
@settings(max_examples=80, deadline=None)
def test_a_capacity_within_reach_is_bracketed_to_the_tolerance(capacity: float, factor: float) -> None:
    """Wherever it lies above a sixteenth of the first guess: held below it, failed above, no further apart than asked for."""
    search = of_rate(capacity / factor if factor >= 1 else capacity * 2, most_probes=40)
    found = capacity_of(searched(perfect(capacity), search))

    assert found.held is not None
    assert found.failed is not None
    assert found.held <= capacity < found.failed
    assert found.failed / found.held <= 1.1 * 1.02  # levels have three digits


@given(st.integers(1, 400))
@settings(max_examples=60, deadline=None)
def test_users_are_whole_and_found_exactly_when_few(capacity: int) -> None:
    """The answer is a whole number, within one user or the tolerance of the truth."""
    search = SearchSettings(of=CapacityOf.USERS, start=1.0, highest=4096.0, most_probes=40)
    tried = searched(perfect(capacity), search)
    found = capacity_of(tried)

    assert all(one.level == round(one.level) for one in tried)
    assert found.held is not None
    assert found.failed is not None
    assert found.held <= capacity < found.failed
    assert found.failed - found.held <= max(1, 0.1 * found.held + 1)


def test_few_probes_are_needed() -> None:
    """A capacity eight times the first guess takes at most ten levels at 10 %, two of them at length."""
    tried = searched(perfect(7.9), of_rate(1.0))

    assert len(tried) <= 10
    assert [one.thorough for one in tried].count(True) == 2


def test_nothing_holds() -> None:
    """Halved to a sixteenth of the guess, then proven bad there: the end is failed alone."""
    tried = searched(perfect(0.0), of_rate(1.0))
    found = capacity_of(tried)

    assert (found.held, found.failed) == (None, min(one.level for one in tried))
    assert min(one.level for one in tried) == pytest.approx(1 / 16, rel=0.01)


def test_what_cannot_be_proven_at_the_edge_is_proven_further_off() -> None:
    """Levels within 30 % of the capacity stay undecided at length: the answer's ends lie outside, and it is found all the same."""

    def oracle(following: Try) -> Tried:
        clear = not 7.0 < following.level < 13.0
        seen = perfect(10.0)(following)
        return (
            seen
            if clear
            else Tried(level=seen.level, verdict=LevelVerdict.UNDECIDED, good=seen.good, thorough=seen.thorough)
        )

    found = capacity_of(searched(oracle, of_rate(1.0)))

    assert found.held is not None
    assert found.failed is not None
    assert 4.5 < found.held <= 7.0
    assert 13.0 <= found.failed < 21.0


def test_a_search_goes_on_where_it_was() -> None:
    """Cut after any level and resumed, it tries the same levels: the next one depends on those that were tried and nothing else."""
    whole = searched(perfect(7.9), of_rate(1.0))

    for length in range(len(whole)):
        assert searched(perfect(7.9), of_rate(1.0), tuple(whole[:length])) == whole


@given(st.integers(0, 10_000))
@settings(max_examples=80, deadline=None)
def test_a_search_ends_whatever_it_sees(seed: int) -> None:
    """Verdicts drawn at random, contradictions among them: never more levels than allowed, and none outside the bounds."""
    chance = random.Random(seed)  # noqa: S311  # a simulation that can be repeated

    def oracle(following: Try) -> Tried:
        good = chance.random() < 0.5
        verdict = chance.choice([LevelVerdict.UNDECIDED, LevelVerdict.HOLDS if good else LevelVerdict.FAILS])
        return Tried(level=following.level, verdict=verdict, good=good, thorough=following.thorough)

    tried = searched(oracle, of_rate(1.0))

    assert len(tried) <= 16
    assert all(1 / 17 < one.level <= 10_000 and math.isfinite(one.level) for one in tried)


@pytest.mark.parametrize("seed", [1, 2])
def test_the_capacity_of_a_simulated_queue_is_bracketed(seed: int) -> None:
    """M/D/1, a wait of at most 4.1 services for 95 %: theory and long simulations have 0.70 requests a service; so has the search."""
    calls = 0

    def oracle(following: Try) -> Tried:
        nonlocal calls
        calls += 1
        count = 1200 if following.thorough else 60
        rows = queue_rows(waits_s(following.level, count + 20, 100 * seed + calls), warm_up=20)
        judge = judge_of(5.1, risk=0.01, rate_per_s=following.level)
        found = judged(rows, judge, looks=1.6)
        return Tried(level=following.level, verdict=found.verdict, good=found.good, thorough=following.thorough)

    found = capacity_of(searched(oracle, of_rate(0.5)))

    assert found.held is not None
    assert found.failed is not None
    assert 0.25 < found.held < 0.70 < found.failed < 1.4


@pytest.mark.parametrize(("limits", "start"), [(Limits(tpot_s=0.1), 0.2), (Limits(ttft_s=600.0), 3.0)])
def test_limits_that_cannot_be_missed_end_the_search_at_saturation(limits: Limits, start: float) -> None:
    """M/D/1 with a service of a second, TPOT alone or a TTFT of ten minutes: below one request/s it holds, above it fails."""
    calls = 0

    def oracle(following: Try) -> Tried:
        nonlocal calls
        calls += 1
        rate_per_s = following.level
        rows = [
            replace(row, chunk_ns=(row.end_ns, row.end_ns + 1000), chunk_events=(1, 1), output_tokens=2)
            for row in queue_rows(waits_s(rate_per_s, 1020 if following.thorough else 92, calls), warm_up=20)
        ]
        criterion = Criterion(limits=limits, share=0.95)
        judge = Judge(criteria=(criterion,), risk_holds=0.01, risk_fails=0.003, rate_per_s=rate_per_s)
        found = judged(rows, judge, looks=1.6)
        return Tried(level=rate_per_s, verdict=found.verdict, good=found.good, thorough=following.thorough)

    tried = searched(oracle, of_rate(start))
    found = capacity_of(tried)

    assert found.held is not None
    assert found.failed is not None
    assert 0.3 < found.held < 1.0 < found.failed < 1.7
    assert max(one.level for one in tried) < 4.0
