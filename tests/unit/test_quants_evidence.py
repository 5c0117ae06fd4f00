"""What a comparison decided becomes the quality of a machine's record, unchanged."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from helpers.quants import comparison, paired_scores
from helpers.records import evidence, run_record
from suffice.cli.quality import with_quality
from suffice.decide import words
from suffice.decide.quants import compare_quality
from suffice.decide.quants_evidence import policy_of, quality_evidence
from suffice.decide.quants_types import Finding, QualityPolicy
from suffice.decide.verdict import decide_machine
from suffice.errors import UsageError
from suffice.model.demand import single_stream_need
from suffice.records.quants_store import save_quants

if TYPE_CHECKING:
    from pathlib import Path

    from suffice.decide.quality import QualityEvidence

ITEMS = 2000


def _evidence(*, right: int, lost: int, floor: float | None = None) -> tuple[Finding, QualityEvidence]:
    record = comparison(*paired_scores(ITEMS, right=right, lost=lost))
    found = compare_quality(record, QualityPolicy(floor=floor))
    return found.candidates[0].finding, quality_evidence(found, "c1", source="quants.json")


def test_what_passes_has_kept_enough() -> None:
    """Two of 2,000 items lost: equivalent, so that both the loss and the floor are shown to be reached."""
    finding, quality = _evidence(right=1800, lost=2, floor=0.85)

    assert finding is Finding.EQUIVALENT
    assert quality.kept.reached is True
    assert quality.score is not None
    assert quality.score.reached is True


def test_what_fails_by_its_loss_has_not() -> None:
    """A tenth of the items lost is far beyond a point; the floor, which is still reached, is not what failed."""
    finding, quality = _evidence(right=1800, lost=200, floor=0.5)

    assert finding is Finding.FAILS
    assert quality.kept.reached is False
    assert quality.kept.quantity is not None
    assert quality.kept.quantity.point == pytest.approx(0.9)
    assert quality.score is not None
    assert quality.score.reached is not False


def test_what_fails_by_its_floor_alone_names_the_floor() -> None:
    """No item is lost, and three quarters right are no nine tenths: the loss is not called missed."""
    finding, quality = _evidence(right=1500, lost=0, floor=0.9)

    assert finding is Finding.FAILS
    assert quality.score is not None
    assert quality.score.reached is False
    assert quality.kept.reached is not False


def test_what_is_open_stays_open() -> None:
    """About a point lost on 2,000 items: neither shown."""
    finding, quality = _evidence(right=1800, lost=20)

    assert finding in (Finding.NOT_ENOUGH_ITEMS, Finding.WORSE)
    assert quality.kept.reached is None


def test_the_reference_is_judged_by_the_floor_alone() -> None:
    """It keeps all of its quality; whether that is enough the floor says."""
    record = comparison(*paired_scores(ITEMS, right=1000, lost=0))
    quality = quality_evidence(compare_quality(record, QualityPolicy(floor=0.9)), "ref", source="s")

    assert quality.kept.reached is True
    assert quality.score is not None
    assert quality.score.reached is False


def test_the_policy_is_the_demands() -> None:
    """The demand's floor and loss, else that of the command line, one point where nobody says; two that differ are refused."""
    demand = replace(single_stream_need(8), quality_floor=0.8, quality_max_loss=0.02)

    assert policy_of(demand) == QualityPolicy(floor=0.8, max_loss=0.02)
    assert policy_of(demand, 0.02) == policy_of(demand)
    assert policy_of(single_stream_need(8), 0.03).max_loss == 0.03
    with pytest.raises(UsageError, match="state one"):
        policy_of(demand, 0.03)
    assert policy_of(None) == QualityPolicy()


def test_a_kept_comparison_joins_its_models_records(tmp_path: Path) -> None:
    """Known by the hash of the file: the record of the candidate gets the candidate's quality, and the verdict uses it."""
    path = tmp_path / "quants.json"
    save_quants(comparison(*paired_scores(ITEMS, right=1800, lost=200)), path)
    demand = replace(single_stream_need(8), quality_max_loss=0.01)
    record = run_record(decode=20)
    machine = replace(evidence(decode=20), model_identity="hash of c1")

    judged, (joined,), notes = with_quality(demand, [machine], [path])

    assert (judged, notes) == (demand, [])
    assert decide_machine(demand, joined).verdict == words.UNDECIDED
    assert decide_machine(demand, replace(machine, quality=None)).verdict == words.CPU
    assert record.model.identity != "hash of c1"


def test_a_comparison_of_other_models_is_refused(tmp_path: Path) -> None:
    """A quality that belongs to none of the records would be a slip that nobody sees."""
    path = tmp_path / "quants.json"
    save_quants(comparison(*paired_scores(30, right=20, lost=1)), path)

    with pytest.raises(UsageError, match="none of the run records"):
        with_quality(single_stream_need(8), [evidence()], [path])


def test_what_is_left_unjudged_is_said(tmp_path: Path) -> None:
    """A machine whose model was not compared, and a demand that asks for no quality, each have a warning."""
    path = tmp_path / "quants.json"
    save_quants(comparison(*paired_scores(30, right=20, lost=1)), path)
    known, unknown = replace(evidence(), model_identity="hash of ref"), evidence()

    judged, _, notes = with_quality(single_stream_need(8), [known, unknown], [path])

    assert len(notes) == 2
    assert judged.quality_max_loss == 0.01
    assert "states no quality_max_loss_points: a loss of at most 1 point is allowed" in notes[1]


def test_a_folder_is_taken_for_its_comparison_and_the_loss_is_the_command_lines(tmp_path: Path) -> None:
    """A comparison that is not finished says so; 11 points of 100 are lost, which 20 allow and 1 does not."""
    save_quants(
        replace(comparison(*paired_scores(ITEMS, right=1800, lost=220)), complete=False), tmp_path / "quants.json"
    )
    machine = replace(evidence(decode=20), model_identity="hash of c1")

    strict = with_quality(single_stream_need(8), [machine], [tmp_path])
    lenient = with_quality(single_stream_need(8), [machine], [tmp_path], 20)

    assert decide_machine(strict[0], strict[1][0]).verdict == words.UNDECIDED
    assert decide_machine(lenient[0], lenient[1][0]).verdict == words.CPU
    assert any("not finished" in note for note in strict[2])
    for points in (0.0, 100.0, float("nan")):
        with pytest.raises(UsageError, match="--max-loss"):
            with_quality(single_stream_need(8), [machine], [tmp_path], points)
    with pytest.raises(UsageError, match="no comparison is given"):
        with_quality(single_stream_need(8), [machine], [], 2)


def test_each_criterion_says_what_was_shown_of_it_alone() -> None:
    """40 of 100 right against a floor of 30 %: shown, though the loss is open; no range contradicts what stands beside it."""
    record = comparison(*paired_scores(100, right=45, lost=0))
    found = compare_quality(record, QualityPolicy(floor=0.3))
    quality = quality_evidence(found, "c1", source="s")

    assert found.candidates[0].finding is Finding.NOT_ENOUGH_ITEMS
    assert quality.score is not None
    assert quality.score.reached is True
    assert quality.score.quantity is not None
    assert quality.score.quantity.low is not None
    assert quality.score.quantity.low >= 0.3
    assert quality.kept.reached is None
    assert (
        "reaches your floor of 30 %; not enough items to say whether it loses more than 1 point"
        in found.candidates[0].reason
    )


def test_bounds_agree_with_grades_beside_many_candidates() -> None:
    """Whatever was found, and by Holm too: shown to reach is never a range that reaches below, missed never one that reaches above."""
    losses = (0, 2, 5, 9, 14, 20, 30, 60)
    reference, _ = paired_scores(ITEMS, right=1700, lost=0)
    record = comparison(reference, *(paired_scores(ITEMS, right=1700, lost=lost)[1] for lost in losses))
    found = compare_quality(record, QualityPolicy(floor=0.835))
    seen = set()
    for look in found.candidates:
        quality = quality_evidence(found, look.name, source="s")
        for judged, limit in ((quality.score, 0.835), (quality.kept, 0.99)):
            assert judged is not None
            assert judged.quantity is not None
            low, high = judged.quantity.low, judged.quantity.high
            assert low is not None
            assert high is not None
            assert {True: low >= limit - 1e-12, False: high <= limit + 1e-12, None: low < limit < high}[judged.reached]
            seen.add(judged.reached)
        both = (quality.score is not None and quality.score.reached, quality.kept.reached)
        assert (look.decision == "passes") is (both == (True, True))
        assert (look.decision == "fails") is (False in both)
    assert seen == {True, False, None}
