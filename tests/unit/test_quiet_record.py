"""What a record says of the undisturbed machine: recomputed when it is read, shown to readers, and judged beside what was found."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from helpers.records import document_of, run_record
from helpers.watched import watched_record
from suffice.decide.compare import decide
from suffice.decide.evidence import evidence_from
from suffice.decide.quiet import MARKS_RULE, disturbed_parts, marked, undisturbed_record
from suffice.errors import RecordError
from suffice.model.demand import Demand, DemandKind, Lengths, Limit, single_stream_need
from suffice.records.store import record_from
from suffice.report.decision import decision_document, decision_text
from suffice.report.run import run_text
from suffice.stats import estimate_from

if TYPE_CHECKING:
    from collections.abc import Callable

    from suffice.records.schema import QuietRecord, RunRecord

HALF = [True, False] * 4
MOST = [True] * 5 + [False] * 3


def _mostly_busy() -> RunRecord:
    """98 tokens/s undisturbed, 98 / 1.3 = 75 in five of eight repetitions."""
    return watched_record(MOST, slowdown=1.3)


def _quiet(record: RunRecord) -> QuietRecord:
    quiet = record.measurement.decode[0].quiet
    assert quiet is not None
    return quiet


def test_both_speeds_stand_in_the_record() -> None:
    """Five of eight repetitions of 98 tokens/s took 1.3 times as long: found 75, quiet 98, 68 % of the time (6.5 of 9.5) disturbed."""
    record = _mostly_busy()
    quiet = _quiet(record)

    assert record.decode_tokens_per_second == pytest.approx(98 / 1.3, rel=0.02)
    assert quiet.tokens_per_second is not None
    assert quiet.tokens_per_second.point == pytest.approx(98, rel=0.02)
    assert quiet.disturbed_share == pytest.approx(0.684, abs=0.005)
    assert (quiet.marked, quiet.unmarked) == (5, 3)
    assert quiet.slowdown == pytest.approx((5 * 1.3 + 3) / 8, rel=0.02)


def _unmark(document: dict[str, Any]) -> None:
    document["measurement"]["decode"][0]["repetitions"][0]["disturbed"] = False


def _soothe(document: dict[str, Any]) -> None:
    document["measurement"]["prefill"]["repetitions"][0]["reading"] |= {"run_wait_s": 0.0, "own_cpu_s": 2.0}


def _faster(document: dict[str, Any]) -> None:
    estimate = document["measurement"]["decode"][0]["quiet"]["tokens_per_second"]
    estimate["point"] *= 1.2
    estimate["samples"] = [1.2 * value for value in estimate["samples"]]


def _less_disturbed(document: dict[str, Any]) -> None:
    document["measurement"]["decode"][0]["quiet"]["disturbed_share"] = 0.1


def _slower_memory(document: dict[str, Any]) -> None:
    for reading in document["contention"]["references"][0][5:]:
        reading["memory_s"] *= 3


def _without_readings(document: dict[str, Any]) -> None:
    document["measurement"]["decode"][0]["repetitions"] = []


def _fewer_readings(document: dict[str, Any]) -> None:
    del document["measurement"]["decode"][0]["repetitions"][0]


@pytest.mark.parametrize(
    "edit", [_unmark, _soothe, _faster, _less_disturbed, _slower_memory, _without_readings, _fewer_readings]
)
def test_what_does_not_follow_from_the_readings_is_refused(edit: Callable[[dict[str, Any]], None]) -> None:
    """Marks follow from readings, quiet speeds from marks and raw times."""
    document = document_of(watched_record(HALF))
    assert record_from(document, source="whole") == watched_record(HALF)
    edit(document)

    with pytest.raises(RecordError, match="edited"):
        record_from(document, source="edited")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("reading", "usable_cpus"), 0),
        (("reading", "made_up"), 1),
        (("reading", "wall_s"), 1e308),
        (("references_before",), 99),
        (("references_before",), -1),
        (("part",), -1),
    ],
)
def test_impossible_readings_are_refused(path: tuple[str, ...], value: float) -> None:
    """A reading that no machine can have is an error of one sentence, not a crash."""
    document = document_of(watched_record(HALF))
    place = document["measurement"]["decode"][0]["repetitions"][0]
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value

    with pytest.raises(RecordError):
        record_from(document, source="odd")


def test_a_reference_reading_below_zero_is_refused() -> None:
    """No work takes less than no time."""
    document = document_of(watched_record(HALF))
    document["contention"]["references"][0][0]["memory_s"] = -0.003

    with pytest.raises(RecordError, match="no machine can have"):
        record_from(document, source="odd")


def test_one_mark_of_eight_leaves_a_run_quiet() -> None:
    """It may be a false one, and no median moves by it; two mark the run."""
    assert watched_record([True] + [False] * 7).disturbed is False
    assert watched_record([True] * 2 + [False] * 6).disturbed is True


def _with_quiet_rate(record: RunRecord, factor: float) -> RunRecord:
    """The record with a quiet decode rate that is so many times what was found."""
    (series,) = record.measurement.decode
    assert series.quiet is not None
    assert series.tokens_per_second is not None
    rate = estimate_from([factor * value for value in series.tokens_per_second.samples])
    quiet = replace(series.quiet, tokens_per_second=rate)
    return replace(record, measurement=replace(record.measurement, decode=(replace(series, quiet=quiet),)))


@pytest.mark.parametrize(("slow", "factor", "is_marked"), [(2, 1.2, False), (3, 1.2, True), (3, 1.04, False)])
def test_slow_readings_of_the_kernel_mark_a_run_that_they_slowed(slow: int, factor: float, *, is_marked: bool) -> None:
    """Two of nine that took twice as long mark their neighbours and not the run; three mark it where the quiet speed is over 5 % faster."""
    record = _with_quiet_rate(watched_record([False] * 8), factor)
    (readings,) = record.contention.references
    changed = [
        replace(one, memory_s=0.006) if place in range(4, 4 + slow) else one for place, one in enumerate(readings)
    ]

    marks = [one.disturbed for one in marked(record.measurement.decode[0].repetitions, [changed])]
    reasons = disturbed_parts(record.measurement, [changed])

    assert sum(mark is True for mark in marks) == slow + 1
    assert ["the memory bus is shared" in reason for reason in reasons] == [True] * is_marked


def test_slow_readings_mark_no_run_whose_quiet_repetitions_scatter_as_far() -> None:
    """A quiet speed 20 % above what was found, of values from 0.7 to 1.6 times that: what was found lies within what they leave open."""
    record = watched_record([False] * 8)
    (series,), (readings,) = record.measurement.decode, record.contention.references
    assert series.quiet is not None
    assert series.tokens_per_second is not None
    found = series.tokens_per_second.point
    rate = estimate_from([factor * found for factor in (0.7, 0.8, 1.0, 1.2, 1.2, 1.4, 1.5, 1.6)])
    wide = replace(series, quiet=replace(series.quiet, tokens_per_second=rate))
    changed = [replace(one, memory_s=0.006) if place in (4, 5, 6) else one for place, one in enumerate(readings)]

    assert rate.point == pytest.approx(1.2 * found)
    assert disturbed_parts(replace(record.measurement, decode=(wide,)), [changed]) == ()


@pytest.mark.parametrize(("wait_s", "is_marked"), [(0.3, True), (0.05, False)])
def test_two_repetitions_without_a_cpu_mark_a_long_run(wait_s: float, *, is_marked: bool) -> None:
    """Two of twenty that waited 15 % of the time mark it, though no median moves; two that waited 2.5 % do not."""
    record = watched_record([False] * 8)
    (series,) = record.measurement.decode
    rows = series.repetitions + series.repetitions + series.repetitions[:4]
    waited = [replace(one, reading={**one.reading, "run_wait_s": wait_s}) for one in rows[:2]]
    longer = replace(series, repetitions=(*waited, *rows[2:]))

    found = disturbed_parts(replace(record.measurement, decode=(longer,), prefill=None), ())

    assert bool(found) is is_marked


def test_quiet_and_found_differ_in_their_verdict() -> None:
    """Found 98 / 1.3 = 75, needed 60 x 1.5 = 90: not settled now; undisturbed 98 is enough. Both are said, the found one decides."""
    decision = decide(single_stream_need(60), [evidence_from(_mostly_busy())])
    verdict = decision.verdict

    assert verdict.verdict == "undecided"
    assert verdict.undisturbed is not None
    assert verdict.undisturbed.verdict == "cpu"
    assert "can be relied on now" in verdict.reason
    assert "what it can do" in verdict.reason
    assert "\nundisturbed: cpu\n" in decision_text(decision)
    document = json.loads(json.dumps(decision_document(decision)))
    assert document["verdict"] == "undecided"
    assert document["undisturbed"]["verdict"] == "cpu"
    assert document["undisturbed"]["constraints"][0]["available"] == pytest.approx(98, rel=0.02)


def test_one_stop_marks_a_run() -> None:
    """One of eight that somebody stopped: a median does not move, but no machine does that by itself."""
    record = watched_record([False] * 8)
    (series,) = record.measurement.decode
    stopped = replace(series.repetitions[0], reading={**series.repetitions[0].reading, "stops_seen": 1})
    changed = replace(series, repetitions=(stopped, *series.repetitions[1:]))

    (reason,) = disturbed_parts(replace(record.measurement, decode=(changed,), prefill=None), ())

    assert "was stopped" in reason


def test_an_undisturbed_machine_that_is_too_slow_is_said_to_be() -> None:
    """200 are needed: as found a busy machine alone would prove nothing, but undisturbed the 98 are not enough either: quiet would not help."""
    verdict = decide(single_stream_need(200), [evidence_from(_mostly_busy())]).verdict

    assert verdict.verdict == "gpu"
    assert verdict.undisturbed is not None
    assert verdict.undisturbed.verdict == "gpu"
    assert "undisturbed speed gives the same verdict" in verdict.reason


def test_the_same_verdict_is_said_to_be_the_same() -> None:
    """8 are needed: enough as found and undisturbed."""
    verdict = decide(single_stream_need(8), [evidence_from(_mostly_busy())]).verdict

    assert verdict.verdict == "cpu"
    assert "Undisturbed the verdict is the same." in verdict.reason


def test_prompts_are_judged_undisturbed_as_well() -> None:
    """512 tokens at 100 tokens/s take 5.1 s undisturbed and 6.7 s as found: a limit of 6 s holds without the margin, undisturbed."""
    demand = Demand(
        kind=DemandKind.INTERACTIVE,
        prompt_tokens=Lengths(p50=512, p95=512),
        output_tokens=Lengths(p50=16, p95=16),
        ttft=Limit(value_s=6.0, percentile=95),
    )
    verdict = decide(demand, [evidence_from(_mostly_busy())]).verdict

    assert verdict.undisturbed is not None
    (ttft,) = [item for item in verdict.undisturbed.constraints if item.constraint.name == "ttft_s"]
    assert ttft.constraint.available is not None
    assert ttft.constraint.available.point == pytest.approx(512 / 100 + 1 / 98, rel=0.02)


def test_nobody_disturbed_nothing_is_said() -> None:
    """Of a quiet run, and of one that nobody watched, there is no second verdict and no second row."""
    for record in (watched_record([False] * 8), run_record()):
        assert undisturbed_record(record) is None
        verdict = decide(single_stream_need(60), [evidence_from(record)]).verdict
        assert verdict.undisturbed is None
        assert "ndisturbed" not in verdict.reason
        assert "undisturbed" not in run_text(record)


def test_no_second_verdict_without_a_quiet_speed() -> None:
    """All repetitions disturbed alike: unknown stays unknown, with the reason in the row."""
    record = watched_record([True] * 8)

    assert undisturbed_record(record) is None
    assert evidence_from(record).undisturbed is None
    assert "unknown" in run_text(record)
    assert "most of the time was disturbed and all steps are alike" in run_text(record)


def test_the_text_shows_both() -> None:
    """A row of what was found, a row of the undisturbed machine with how much of the time was disturbed."""
    text = run_text(_mostly_busy())

    assert "decode at depth 512, undisturbed" in text
    assert "69% of the time was disturbed" in text
    assert "prefill, undisturbed" in text


def test_what_has_no_quiet_speed_is_left_out_of_the_second_verdict() -> None:
    """A prompt without a quiet speed is not judged by what was found: it is unknown."""
    record = _mostly_busy()
    prefill = record.measurement.prefill
    assert prefill is not None
    assert prefill.quiet is not None
    prefill = replace(prefill, quiet=replace(prefill.quiet, tokens_per_second=None))
    quiet = undisturbed_record(replace(record, measurement=replace(record.measurement, prefill=prefill)))

    assert quiet is not None
    assert quiet.measurement.prefill is None
    assert quiet.prefill_tokens_per_second is None
    assert quiet.ttft_s is None


def test_a_record_of_an_older_rule_is_judged_again() -> None:
    """Marks that a limit of yesterday made are no edit: they are made anew on reading, and so is the quiet speed. Those of today's rule must follow."""
    document = document_of(watched_record(HALF))
    for one in document["measurement"]["decode"][0]["repetitions"]:
        one["disturbed"] = False
    document["contention"]["marks_rule"] = MARKS_RULE - 1

    again = record_from(document, source="old")

    assert [one.disturbed for one in again.measurement.decode[0].repetitions] == HALF
    assert again.measurement == watched_record(HALF).measurement
    assert again.contention.marks_rule == MARKS_RULE
    document["contention"]["marks_rule"] = MARKS_RULE
    with pytest.raises(RecordError, match="edited"):
        record_from(document, source="edited")
