"""Distances, speeds and the front of a comparison."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from helpers.quants import comparison, distance, paired_scores
from helpers.records import bare_record, run_record
from suffice.decide.quants_conclusion import conclude
from suffice.decide.quants_distance import NoiseStanding, compare_distances
from suffice.decide.quants_speed import Front, compare_speeds, fronts
from suffice.decide.quants_types import QualityPolicy
from suffice.errors import RecordError
from suffice.records.schema import ModelRecord, RunRecord

POLICY = QualityPolicy()
NOISE = [1e-5, 2e-5, 1.5e-5, 1e-5, 1.2e-5, 2e-5]


def speed(name: str, decode: float, **changes: Any) -> RunRecord:  # noqa: ANN401  # any field
    """A run of the helper's file of that name."""
    return run_record(decode=decode, **{"model": ModelRecord(sha256=f"hash of {name}"), **changes})


def test_distances_are_summed_over_documents() -> None:
    """The mean is per token, the ratio of perplexities that of the two losses, the interval by document."""
    record = replace(comparison([1.0], [1.0]), distances=(distance("c1", [0.1, 0.2, 0.3, 0.1, 0.2, 0.3]),))

    (one,) = compare_distances(record, POLICY)

    assert one.divergence.value == pytest.approx(0.2)
    assert one.divergence.interval is not None
    assert one.perplexity_ratio is not None
    assert one.perplexity_ratio.value == pytest.approx(math.exp(0.2))
    assert one.same_top == pytest.approx(1 - 12 / 600)
    assert one.documents_above_largest == pytest.approx(1 - 0.05 ** (1 / 6))
    assert one.noise is NoiseStanding.UNKNOWN


@pytest.mark.parametrize(
    ("own", "floor", "standing"),
    [
        ([1e-5] * 5 + [1.1e-5], NOISE, NoiseStanding.WITHIN),
        ([0.01, 0.02, 0.03, 0.02, 0.01, 0.02], NOISE, NoiseStanding.ABOVE),
        ([1.6e-5, 2e-5, 1.5e-5, 1e-5, 1.2e-5, 2e-5], NOISE, NoiseStanding.NOT_TOLD_APART),
        ([0.0] * 6, [0.0] * 6, NoiseStanding.WITHIN),
        ([1e-9] * 6, [0.0] * 6, NoiseStanding.ABOVE),
        ([0.5, 0.5], NOISE, NoiseStanding.NOT_TOLD_APART),
    ],
)
def test_the_noise_floor_is_told_from_what_is_above_it(
    own: list[float], floor: list[float], standing: NoiseStanding
) -> None:
    """Within, where it is not more; above, where the intervals do not meet; a floor of 0 is a fact; too few documents say nothing."""
    record = replace(comparison([1.0], [1.0]), distances=(distance("c1", own), distance("ref", floor, is_self=True)))

    found = compare_distances(record, POLICY)

    assert [one.noise for one in found] == [standing, NoiseStanding.IS_FLOOR]


def test_a_perplexity_beyond_all_numbers_is_unknown() -> None:
    """A model that gives the text no chance has a divergence, and no perplexity."""
    one = distance("c1", [1.0] * 6)
    documents = tuple(replace(document, candidate_loss=1e6 * document.tokens) for document in one.documents)
    record = replace(comparison([1.0], [1.0]), distances=(replace(one, documents=documents),))

    (found,) = compare_distances(record)

    assert found.candidate_perplexity is None
    assert found.divergence.value == 1.0


def test_the_ratio_takes_the_worse_ends() -> None:
    """Each interval reaches from 0.98 to 1.02 of the rate, so the ratio from 0.98/1.02 to 1.02/0.98 of it."""
    record = comparison([1.0], [1.0])

    first, second = compare_speeds(record, {"ref": speed("ref", 10.0), "c1": speed("c1", 20.0)})

    assert first.decode_ratio is not None
    assert first.decode_ratio.point == 1
    assert second.decode_ratio is not None
    assert second.decode_ratio.point == pytest.approx(2)
    assert second.decode_ratio.low == pytest.approx(2 * 0.98 / 1.02)
    assert second.decode_ratio.high == pytest.approx(2 * 1.02 / 0.98)


def test_rounds_that_both_were_measured_in_give_the_ratio() -> None:
    """Twice as fast in each of eight rounds is 2 exactly, however much the rounds differ."""
    rows = list(range(8))
    told = {"interleaved": {"session": "one", "round_of_row": {"decode": [rows], "prefill": rows}}}
    record = comparison([1.0], [1.0])

    figures = compare_speeds(record, {"ref": speed("ref", 10.0, settings=told), "c1": speed("c1", 20.0, settings=told)})

    ratio = figures[1].decode_ratio
    assert ratio is not None
    assert ratio.by_rounds
    assert [ratio.low, ratio.point, ratio.high] == pytest.approx([2, 2, 2])


def test_a_rate_without_an_interval_has_a_ratio_without_one() -> None:
    """And the sentence says so."""
    record = comparison([1.0] * 10, [1.0] * 10)
    bare = bare_record(20.0, machine="Test CPU")

    found = conclude(record, speeds={"ref": speed("ref", 10.0), "c1": bare})

    ratio = found.speeds[1].decode_ratio
    assert ratio is not None
    assert (ratio.low, ratio.high) == (None, None)
    assert found.sentences[0].startswith("c1: 2x decode (no interval), accuracy")


def test_speeds_that_are_not_told_apart_are_said_so() -> None:
    """1 % faster, with intervals of 2 %."""
    found = conclude(comparison([1.0] * 10, [1.0] * 10), speeds={"ref": speed("ref", 10.0), "c1": speed("c1", 10.1)})

    assert found.sentences[0].startswith("c1: 1.01x decode (not told apart), ")


def test_speeds_of_two_machines_are_not_compared() -> None:
    """There is no ratio, and a mark that says why."""
    record = comparison([1.0], [1.0])

    figures = compare_speeds(record, {"ref": speed("ref", 10.0), "c1": speed("c1", 20.0, machine="Another CPU")})

    assert figures[1].decode_ratio is None
    assert "another machine" in figures[1].marks[0]


def test_the_record_of_another_file_is_refused() -> None:
    """A speed belongs to the model that answered."""
    with pytest.raises(RecordError, match="another file"):
        compare_speeds(comparison([1.0], [1.0]), {"c1": speed("c2", 20.0)})


def standings(lost: int, decode: float, **changes: Any) -> list[Front]:  # noqa: ANN401  # any field of a record
    """How the reference of 10 tokens/s and a candidate stand."""
    reference, candidate = paired_scores(500, right=450, lost=lost)
    record = comparison(reference, candidate)
    figures = compare_speeds(record, {"ref": speed("ref", 10.0), "c1": speed("c1", decode, **changes)})
    return [row.standing for row in fronts(record, figures, POLICY)]


def test_only_what_is_shown_to_be_slower_and_no_better_is_dominated() -> None:
    """Slower and worse: dominated. Faster, as fast, or not told apart in score: not."""
    assert standings(50, 5.0) == [Front.NOT_DOMINATED, Front.DOMINATED]
    assert standings(50, 20.0) == [Front.NOT_DOMINATED, Front.NOT_DOMINATED]
    assert standings(50, 10.1) == [Front.NOT_DOMINATED, Front.NOT_DOMINATED]
    assert standings(2, 5.0) == [Front.NOT_DOMINATED, Front.NOT_DOMINATED]
    assert standings(50, 5.0, disturbed=True) == [Front.NOT_DOMINATED, Front.NOT_DOMINATED]


def test_a_model_without_speed_has_no_standing() -> None:
    """Unknown is not on the front, and dominates nothing."""
    found = conclude(comparison([1.0] * 9, [1.0] * 9), speeds={"ref": speed("ref", 10.0)})

    assert [row.standing for row in found.fronts] == [Front.NOT_DOMINATED, Front.UNKNOWN]
    assert found.sentences[0].startswith("c1: accuracy")
