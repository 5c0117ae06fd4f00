"""When requests are to be sent: pure functions."""

from __future__ import annotations

import itertools
import statistics
from typing import TYPE_CHECKING

import pytest

from suffice.errors import UsageError
from suffice.load.schedule import arrivals_s, gaps_s
from suffice.load.settings import Arrivals, LoadPlan, Loop

if TYPE_CHECKING:
    from collections.abc import Sequence


def open_plan(**changes: object) -> LoadPlan:
    """Four requests a second."""
    fields: dict[str, object] = {"loop": Loop.OPEN, "rate_per_s": 4.0, "requests": 10}
    return LoadPlan(**{**fields, **changes})  # type: ignore[arg-type]


def spread(gaps: Sequence[float]) -> float:
    """Coefficient of variation."""
    return statistics.stdev(gaps) / statistics.fmean(gaps)


@pytest.mark.parametrize(
    ("arrivals", "burstiness", "cv"),
    [
        (Arrivals.CONSTANT, 1.0, 0.0),
        (Arrivals.POISSON, 1.0, 1.0),
        (Arrivals.GAMMA, 0.25, 2.0),
        (Arrivals.GAMMA, 1.0, 1.0),
        (Arrivals.GAMMA, 4.0, 0.5),
    ],
)
def test_gaps_have_the_mean_and_the_spread_asked_for(arrivals: Arrivals, burstiness: float, cv: float) -> None:
    """Pitfall 22: a constant load is constant, a Poisson one has CV 1, a gamma one 1/sqrt(burstiness); all have the asked mean."""
    gaps = list(itertools.islice(gaps_s(arrivals, 4.0, burstiness, seed=5), 40_000))

    assert statistics.fmean(gaps) == pytest.approx(0.25, rel=0.03)
    assert spread(gaps) == pytest.approx(cv, rel=0.04, abs=1e-9)


def test_the_number_of_poisson_arrivals_in_a_duration_varies() -> None:
    """Pitfall 22: not a fixed number of points strewn over the time; the count's variance is its mean, 40."""
    counts = [len(list(arrivals_s(open_plan(requests=None, duration_s=10.0, seed=seed)))) for seed in range(300)]

    assert statistics.fmean(counts) == pytest.approx(41, abs=1.5)
    assert 28 < statistics.variance(counts) < 54


def test_a_seed_is_a_schedule() -> None:
    """The same seed gives the same arrivals, another one others."""
    first, again, other = (list(arrivals_s(open_plan(seed=seed))) for seed in (1, 1, 2))

    assert first == again
    assert first != other
    assert first[0] == 0.0


def test_warm_up_comes_first_and_is_not_counted() -> None:
    """Ten measured requests after three to warm up are thirteen, and the duration starts with the first measured one."""
    constant = {"arrivals": Arrivals.CONSTANT, "warm_up": 3}

    assert len(list(arrivals_s(open_plan(**constant)))) == 13
    assert list(arrivals_s(open_plan(**constant, requests=None, duration_s=1.0)))[-1] == pytest.approx(1.5)


@pytest.mark.parametrize(
    "changes",
    [
        {"rate_per_s": None},
        {"rate_per_s": 0.0},
        {"rate_per_s": float("nan")},
        {"concurrency": 2},
        {"requests": None},
        {"requests": 0},
        {"burstiness": 0.0},
        {"timeout_s": float("inf")},
        {"duration_s": -1.0},
        {"warm_up": -1},
    ],
)
def test_loads_that_cannot_be_are_refused(changes: dict[str, object]) -> None:
    """Contradictions and numbers that are none are named before anything is sent."""
    with pytest.raises(UsageError):
        open_plan(**changes)
