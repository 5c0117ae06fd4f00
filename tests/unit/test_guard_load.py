"""A load tool's result against floors and ceilings: percentiles over all attempts, with an interval or with a doubt."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from helpers.served import load, times
from suffice.decide.guard_limits import check_limit
from suffice.decide.guard_load import facts_of_load
from suffice.decide.guard_types import Limit, Metric, Outcome
from suffice.loaders.load_results import load_results
from suffice.model.served import AttemptsPercentile, Mapping, ServedTimes

DATA = Path(__file__).parents[1] / "data" / "load_results"


def outcome(metric: Metric, value: float, *, ttft_s: float = 0.1, **changes: Any) -> tuple[Outcome, str]:  # noqa: ANN401
    """What a guard says of a load whose times lie evenly between half and one and a half of ``ttft_s``."""
    check = check_limit(facts_of_load(load(2, ttft_s, **changes), "load.json"), Limit(metric=metric, value=value))
    return check.outcome, check.reason


@pytest.mark.parametrize(
    ("ceiling_s", "expected"), [(0.2, Outcome.PASS), (0.142, Outcome.INCONCLUSIVE), (0.13, Outcome.FAIL)]
)
def test_p90_of_200_requests(ceiling_s: float, expected: Outcome) -> None:
    """P90 is 0.14 s: held by 0.2, missed by 0.13, and its interval reaches over 0.142."""
    found, reason = outcome(Metric.TTFT_P90, ceiling_s)

    assert found is expected
    assert "ttft_p90 140.0 ms" in reason


def test_failures_are_endless() -> None:
    """With 30 of 230 failed P90 is no time at all, though every answer was fast."""
    found, reason = outcome(Metric.TTFT_P90, 1.0, failed=30)

    assert found is Outcome.FAIL
    assert "endless (failed requests)" in reason


def test_decode_of_one_user() -> None:
    """A median TPOT of 10 ms is 100 tokens/s."""
    assert outcome(Metric.DECODE, 90)[0] is Outcome.PASS
    assert outcome(Metric.DECODE, 110)[0] is Outcome.FAIL


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"count": 30}, "needs 36 requests, there are 30"),
        ({"problems": ("no request succeeded",)}, "no request succeeded"),
        ({"from_schedule": False, "level_low": 1.0}, "fell behind its schedule"),
        (
            {
                "ttft": ServedTimes(
                    values_s=(0.1,) * 200, count=200, mapping=Mapping.LOWER, why="it counts empty chunks"
                )
            },
            "lower bound of ours: it counts empty chunks",
        ),
        ({"ttft": ServedTimes(percentiles=((0.9, 0.1),), count=200)}, "no times of single requests"),
    ],
)
def test_what_is_no_evidence_is_inconclusive(changes: dict[str, Any], words: str) -> None:
    """Too few, unusable, by another definition, or summarised: the figure is told, and nothing is decided on it."""
    found, reason = outcome(Metric.TTFT_P90, 1.0, **changes)

    assert found is Outcome.INCONCLUSIVE
    assert words in reason


def test_untold_failures_are_no_evidence() -> None:
    """A tool that does not say how many requests failed tells the percentile of those that did not."""
    facts = facts_of_load(replace(load(2, 0.1), failed=None), "load.json")

    check = check_limit(facts, Limit(metric=Metric.TTFT_P90, value=1.0))

    assert check.outcome is Outcome.INCONCLUSIVE
    assert "how many requests failed" in check.reason


def test_a_tools_own_percentile_over_all_attempts_counts() -> None:
    """With its interval it is evidence; one without an interval is not."""
    told = AttemptsPercentile(fraction=0.9, observed_s=0.14, low_s=0.13, high_s=0.15, samples=500, needed=36)
    few = AttemptsPercentile(fraction=0.9, observed_s=0.14, low_s=None, high_s=None, samples=20, needed=36)

    passed, reason = outcome(Metric.TTFT_P90, 0.2, ttft=ServedTimes(of_attempts=(told,)))

    assert passed is Outcome.PASS
    assert "interval 130.0 ms to 150.0 ms" in reason
    assert "0%" not in reason
    assert outcome(Metric.TTFT_P90, 0.2, ttft=ServedTimes(of_attempts=(few,)))[0] is Outcome.INCONCLUSIVE


def test_a_missing_time_is_inconclusive() -> None:
    """A tool that streamed nothing tells no TTFT, and prefill is never told."""
    assert outcome(Metric.TTFT, 1.0, ttft=None)[0] is Outcome.INCONCLUSIVE
    assert outcome(Metric.PREFILL, 1.0)[0] is Outcome.INCONCLUSIVE
    assert times(0.1).usable


def test_every_tool_s_file_can_be_held_against_a_ceiling() -> None:
    """Recorded results of real tools: an outcome for each load, and a pass only with an interval."""
    for path in sorted(DATA.glob("*.json")):
        for one in load_results(path):
            check = check_limit(facts_of_load(one, path.name), Limit(metric=Metric.TTFT_P90, value=60.0))
            assert check.outcome in set(Outcome)
            assert check.outcome is not Outcome.PASS or check.smallest_detectable_change is not None
