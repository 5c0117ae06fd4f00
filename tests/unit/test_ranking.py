"""Which of several quantizations is enough."""

from __future__ import annotations

import pytest

from suffice.decide.quantity import Quantity
from suffice.decide.ranking import Candidate, answer, bandwidth_change
from suffice.decide.verdict import Grade, Verdict
from suffice.model.basis import Basis


def _candidate(name: str, n_bytes: float, grade: Grade | None) -> Candidate:
    verdict = None
    if grade is not None:
        verdict = Verdict(
            verdict="",
            reason="",
            binding=None,
            basis=Basis.EXTRAPOLATED,
            constraints=(),
            grade=grade,
            flips=(),
            settle=None,
            machine="",
        )
    rate = Quantity(point=9.0, low=8.0, high=10.0, basis=Basis.EXTRAPOLATED)
    return Candidate(name=name, decode=rate, weights_bytes=n_bytes, headroom=1.2, headroom_low=1.1, verdict=verdict)


def test_the_largest_that_is_enough_wins_and_the_thin_one_is_named() -> None:
    """q2 and q4 are enough, q8 is thin: q4 moves from thin to enough."""
    found = answer(
        [_candidate("q8", 8, Grade.THIN), _candidate("q2", 2, Grade.ENOUGH), _candidate("q4", 4, Grade.ENOUGH)], 1.5
    )

    assert found.grade is Grade.ENOUGH
    assert found.sentence.startswith("q4 is the largest that is enough")
    assert "thin margin is q8" in found.sentence


@pytest.mark.parametrize(
    ("grades", "grade", "words"),
    [
        ((Grade.THIN, Grade.NOT_ENOUGH), Grade.THIN, "No candidate is enough with the margin"),
        ((Grade.OPEN, Grade.NOT_ENOUGH), Grade.OPEN, "Undecided"),
        ((Grade.NOT_ENOUGH, Grade.NOT_ENOUGH), Grade.NOT_ENOUGH, "No candidate is enough"),
        ((Grade.NOT_ENOUGH, None), Grade.OPEN, "Not measured: b"),
        ((None, None), Grade.OPEN, "No candidate could be measured"),
    ],
)
def test_no_enough_is_said_as_it_is(grades: tuple[Grade | None, Grade | None], grade: Grade, words: str) -> None:
    """Thin, undecided, not enough and not measured are not confused."""
    found = answer([_candidate("a", 4, grades[0]), _candidate("b", 2, grades[1])], 1.5)

    assert found.grade is grade
    assert words in found.sentence


def test_bandwidth_is_compared_with_the_first_reading() -> None:
    """20 and once 30 is half as much again, wherever it ended; one reading says nothing."""
    assert bandwidth_change([20.0, 30.0, 15.0]) == pytest.approx(0.5)
    assert bandwidth_change([20.0]) is None
