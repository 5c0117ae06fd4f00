"""Levels of our own --find-capacity as evidence: attempts count as the independent ones that they are worth, and too few decide nothing."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import pytest

from helpers.served import load, rate_demand, server
from suffice.decide import words
from suffice.decide.served import decide_served
from suffice.decide.verdict import Grade
from suffice.loaders.load_results import load_results
from suffice.model.demand import Limit
from suffice.model.served import ServedLengths
from suffice.model.served_range import served_range

if TYPE_CHECKING:
    from pathlib import Path

    from suffice.model.served import ServedLoad
    from suffice.model.served_range import ServedRange


def _level(samples: int, independent: float | None, needed: int = 72) -> dict[str, Any]:
    """A level of 6 requests/s whose TTFT is 0.1, 0.2, 0.3 and 0.4 s at P50, P90, P95 and P99, with close intervals."""
    seen = {"p50": (0.1, 6), "p90": (0.2, 36), "p95": (0.3, needed), "p99": (0.4, 368)}
    ttft = {
        name: {
            "observed_s": at_s, "low_s": at_s - 0.01, "high_s": at_s + 0.01, "samples": samples, "needed": least,
        }
        for name, (at_s, least) in seen.items()
    }  # fmt: skip
    lengths = {"prompt_tokens": {"mean": 100, "p95": 100}, "output_tokens": {"mean": 20, "p95": 20}}
    criterion = {"kept": samples, "counted": samples, "independent": independent}
    return {
        "level": 6.0, "rate_per_s": 6.0, "users": None, "attempted": samples, "succeeded": samples, "cut_off": 0,
        "requests_per_second": 6.0, "length_s": samples / 6, "ttft": ttft, **lengths,
        "criteria": [] if independent is None else [criterion, {**criterion, "independent": samples}],
    }  # fmt: skip


def _read(tmp_path: Path, level: dict[str, Any]) -> ServedLoad:
    path = tmp_path / "cap.json"
    content = {"capacity_schema_version": 1, "levels": [level], "settings": {"url": "http://h:1"}}
    path.write_text(json.dumps(content), encoding="utf-8")
    (found,) = load_results(path)
    return found


def _p95(found: ServedLoad) -> ServedRange:
    assert found.ttft is not None
    seen = served_range(found.ttft, 0.95, found.failed)
    assert seen is not None
    return seen


def test_attempts_that_hang_together_have_wider_ends(tmp_path: Path) -> None:
    """400 attempts worth 150: the 137th and 148th of 150 lie within P90 and P99 of the file, 0.2 and 0.4 s, instead of 0.29 and 0.31."""
    alone, together = (_p95(_read(tmp_path, _level(400, worth))) for worth in (400, 150))

    assert (alone.attempts, together.attempts) == (400, 150)
    assert [alone.low, alone.high] == pytest.approx([0.29, 0.31])
    assert [together.low, together.high] == pytest.approx([0.2, 0.4])


@pytest.mark.parametrize("worth", [400, 300, 200, 150, 100, 73, 72, 40, 1, 0])
def test_fewer_independent_attempts_never_say_more(tmp_path: Path, worth: int) -> None:
    """Neither end comes nearer by attempts that repeat each other, and none is left with fewer than the percentile needs."""
    alone, together = _p95(_read(tmp_path, _level(400, 400))), _p95(_read(tmp_path, _level(400, worth)))

    assert (together.low or 0.0) <= (alone.low or 0.0)
    assert (math.inf if together.high is None else together.high) >= (alone.high or 0.0)
    if worth < 72:
        assert (together.low, together.high, together.supported) == (None, None, False)


def test_a_level_that_does_not_say_counts_as_before(tmp_path: Path) -> None:
    """Files without criteria have the intervals that stand in them."""
    seen = _p95(_read(tmp_path, _level(400, None)))

    assert [seen.low, seen.high] == pytest.approx([0.29, 0.31])


@pytest.mark.parametrize("samples", [60, 71])
@pytest.mark.parametrize("needed", [72, 1, 0])
@pytest.mark.parametrize("limit_s", [0.01, 10.0])
def test_too_few_attempts_decide_nothing_whatever_the_file_says(
    tmp_path: Path, samples: int, needed: int, limit_s: float
) -> None:
    """60 brief attempts are under P95's 72: neither enough nor not enough, also in a file that claims to need one."""
    found = _read(tmp_path, _level(samples, samples, needed=needed))
    demand = rate_demand(ttft=Limit(value_s=limit_s, percentile=95))

    verdict = decide_served(demand, server(found)).verdict

    assert verdict.verdict == words.UNDECIDED
    assert {item.grade for item in verdict.constraints if item.constraint.judged} == {Grade.OPEN}


def test_what_the_attempts_are_worth_is_said_where_it_is_too_little(tmp_path: Path) -> None:
    """400 were made, and count as 40."""
    verdict = decide_served(rate_demand(), server(_read(tmp_path, _level(400, 40)))).verdict

    assert verdict.verdict == words.UNDECIDED
    assert "P95 of TTFT needs 72 attempts, the 400 that were made count as 40 independent ones" in verdict.reason


def test_independent_attempts_decide(tmp_path: Path) -> None:
    """All 400 independent: 0.31 s at most keep 0.5 s at 1.5 times the demanded load."""
    assert decide_served(rate_demand(), server(_read(tmp_path, _level(400, 400)))).verdict.verdict == words.CPU


def test_a_demand_without_lengths_says_whose_lengths_it_is_judged_by() -> None:
    """The load had 94 and 64 tokens; a simulation would have taken others. Stated lengths need no such sentence."""
    short = load(6, prompt=ServedLengths(mean=94, p95=94), output=ServedLengths(mean=64))
    silent = decide_served(rate_demand(prompt_tokens=None, output_tokens=None), server(short)).verdict
    half = decide_served(rate_demand(output_tokens=None), server(load(6))).verdict
    stated = decide_served(rate_demand(), server(load(6))).verdict

    assert silent.verdict == words.CPU
    assert (
        "The demand states no length of prompts and answers, so this holds for lengths as in the loads "
        "(prompts 94, P95 94; answers 64; a simulation takes 512 and 128)." in silent.reason
    )
    assert "no length of answers" in half.reason
    assert "states no length" not in stated.reason
