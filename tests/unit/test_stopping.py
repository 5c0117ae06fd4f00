"""When a series of repetitions ends, why, and what looking at the interval each time costs in coverage."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from suffice.stats import StoppingRule, StopReason, estimate_from, should_stop

if TYPE_CHECKING:
    from collections.abc import Sequence

RULE = StoppingRule()
STEADY = [10.0] * 8
WILD = [1.0, 20.0] * 10


def _stop(samples: list[float], *, elapsed_s: float = 0.0, next_s: float = 1.0, budget_s: float = 100.0) -> object:
    return should_stop(RULE, samples, elapsed_s=elapsed_s, next_s=next_s, budget_s=budget_s)


def test_the_first_repetition_is_always_made() -> None:
    """Without a sample there is no reason to stop, not even a spent budget."""
    assert _stop([], elapsed_s=1000.0, budget_s=1.0) is None


def test_steady_samples_stop_at_the_minimum() -> None:
    """Eight equal samples are narrow enough; seven are not looked at."""
    assert _stop(STEADY) is StopReason.NARROW
    assert _stop(STEADY[:7]) is None


def test_wild_samples_go_on_until_the_budget() -> None:
    """A wide interval goes on while the next repetition still fits in the budget, and stops when it does not."""
    assert _stop(WILD, elapsed_s=99.0) is None
    assert _stop(WILD, elapsed_s=99.5) is StopReason.BUDGET


def test_the_budget_stops_below_the_minimum() -> None:
    """Three slow repetitions may spend the budget, and are made in any case; the reason says that it was the budget."""
    assert _stop([10.0] * 2, elapsed_s=60.0, next_s=60.0) is None
    assert _stop([10.0] * 3, elapsed_s=60.0, next_s=60.0) is StopReason.BUDGET


def test_the_maximum_ends_any_series() -> None:
    """Sixty repetitions are the end, however wide the interval is; when it is narrow, that is the reason."""
    assert _stop(WILD * 3) is StopReason.MAXIMUM
    assert _stop([10.0] * 60) is StopReason.NARROW


@pytest.mark.parametrize(("minimum", "maximum"), [(5, 60), (8, 7)])
def test_impossible_rules_are_refused(minimum: int, maximum: int) -> None:
    """Fewer than six repetitions have no order-statistic interval, and the maximum is not below the minimum."""
    with pytest.raises(ValueError, match="6 <= minimum <= maximum"):
        StoppingRule(minimum=minimum, maximum=maximum)


@pytest.mark.parametrize("sigma", [0.02, 0.04, 0.08])
def test_coverage_that_is_left_by_optional_stopping(sigma: float) -> None:
    """With log-normal noise of 2 to 8 % the stopped interval still covers the true median in at least 90 % of the series."""
    random = np.random.default_rng(20)
    series, inside = 300, 0
    for row in random.lognormal(0.0, sigma, size=(series, RULE.maximum)).tolist():
        n = next(
            n
            for n in range(RULE.minimum, RULE.maximum + 1)
            if should_stop(RULE, row[:n], elapsed_s=0.0, next_s=0.0, budget_s=1.0) is not None
        )
        interval = estimate_from(row[:n]).interval
        assert interval is not None
        inside += interval.low <= 1.0 <= interval.high

    # The standard error of a share of 0.95 of 300 is 0.013: 0.90 is the claim, less two of them the bar.
    assert inside / series >= 0.90 - 0.026


def test_disturbed_repetitions_are_made_again() -> None:
    """Eight equal samples of which three are disturbed are five; eight quiet ones are narrow, whatever the disturbed ones say."""
    marks = [True] * 3 + [False] * 5

    def stop(samples: list[float], disturbed: Sequence[bool | None], elapsed_s: float = 0.0) -> object:
        return should_stop(RULE, samples, elapsed_s=elapsed_s, next_s=1.0, budget_s=100.0, disturbed=disturbed)

    assert stop(STEADY, marks) is None
    assert stop([5.0] * 3 + STEADY, [True] * 3 + [None] * 8) is StopReason.NARROW
    assert stop(STEADY, marks, elapsed_s=99.5) is StopReason.BUDGET
    assert stop(STEADY, [True] * 5 + [False] * 3, elapsed_s=99.5) is StopReason.DISTURBED
    assert stop([10.0] * 60, [True] * 60) is StopReason.DISTURBED
