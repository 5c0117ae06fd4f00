"""Each reason for which a run counts as disturbed has Chinese words, in each place where a page quotes it."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from helpers.pages import one_stream, record
from suffice.decide.disturbance import ContentionReading, judge_disturbance
from suffice.decide.evidence import evidence_from
from suffice.decide.verdict import decide_machine
from suffice.report.page.language import Language
from suffice.report.page.phrases import told_reason, translated
from suffice.report.page.words import words_for

if TYPE_CHECKING:
    from collections.abc import Mapping

ZH = words_for(Language.ZH)
QUIET = ContentionReading(wall_s=10.0, usable_cpus=4, watched_cpus=4, threads=4, busy_cpu_s=39.0, own_cpu_s=38.9)
SLOWER_BYTES_PER_S, FASTER_BYTES_PER_S = 2e10, 3e10
CHANGES: list[Mapping[str, Any]] = [
    {"steal_cpu_s": 20.0},
    {"busy_cpu_s": 40.0, "own_cpu_s": 30.0},
    {"throttled_s": 10.0},
    {"throttled_periods": 3},
    {"thermal_throttles": 2},
    {"major_faults": 100_000},
    {"pages_swapped": 100_000},
    {"run_wait_s": 20.0},
    {"group_cpu_pressure_s": 5.0},
    {"stops_seen": 1},
    {"worked_s": 10.0, "present_s": 5.0},
    {"group_memory_pressure_s": 5.0},
    {"memory_limit_hits": 100_000},
]


def _reasons(changes: Mapping[str, Any], after_bytes_per_s: float = FASTER_BYTES_PER_S) -> tuple[str, ...]:
    found = judge_disturbance([replace(QUIET, **changes)], FASTER_BYTES_PER_S, after_bytes_per_s)
    assert found.disturbed
    return found.reasons


@pytest.mark.parametrize("changes", CHANGES, ids="-".join)
def test_a_reason_is_known_alone_and_in_a_warning_and_of_a_repetition(changes: Mapping[str, Any]) -> None:
    """With the same numbers."""
    for reason in _reasons(changes):
        for line in (
            reason,
            f"measured on a busy machine: {reason}",
            f"13 of 25 repetitions of decode at depth 606 were disturbed, one by this: {reason}",
        ):
            said = translated(line, ZH)
            assert said is not None, line
            assert _numbers(said) == _numbers(line)


def test_a_bandwidth_that_changed_is_known() -> None:
    """The two readings with their units."""
    (reason,) = _reasons({}, SLOWER_BYTES_PER_S)

    said = translated(reason, ZH)

    assert said is not None
    assert _numbers(said) == _numbers(reason)


@pytest.mark.parametrize("decode", [30.0, 3.0])
def test_the_reason_of_an_option_says_that_the_machine_was_busy(decode: float) -> None:
    """Whether it is enough, so that its speeds are lower bounds, or not, so that a quiet machine may give another answer."""
    quiet = evidence_from(record(decode=decode), "box")
    busy = replace(quiet, disturbed=True, disturbance_reasons=_reasons({"stops_seen": 1}))
    verdict = decide_machine(one_stream(), busy)

    said = told_reason(verdict.reason, ZH)

    assert said is not None, verdict.reason
    assert "测量时机器繁忙（测量时引擎的进程被停住" in said


def _numbers(text: str) -> Counter[str]:
    return Counter(re.findall(r"\d+(?:\.\d+)?", text))
