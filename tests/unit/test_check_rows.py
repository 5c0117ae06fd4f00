"""Rows of checks: what every report for a CI system is made from."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from suffice.decide.guard import Outcome
from suffice.report.check_rows import CheckRow, distinct_names, known, rows_of, several_lines, worst_first


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A guard's check, as far as a row needs it."""

    outcome: Outcome
    name: str = "decode floor"
    reason: str = "5.00 tokens/s, floor 8"
    metric: str | None = "decode"
    unit: str | None = "tokens/s"
    value: float | None = 5.0
    limit: float | None = 8.0
    smallest_detectable_change: float | None = None


def test_a_row_has_what_the_check_has() -> None:
    """Name with what was checked, figures as properties; what is unknown stays None."""
    (row,) = rows_of([Found(outcome=Outcome.FAIL)], of="run.json", message="engine 1 -> 2")

    assert (row.name, row.outcome, row.reason, row.message) == (
        "decode floor of run.json",
        Outcome.FAIL,
        "5.00 tokens/s, floor 8",
        "engine 1 -> 2",
    )
    assert row.properties["measured"] == 5.0
    assert row.properties["smallest_detectable_change"] is None


def test_causes_are_told_of_what_did_not_pass_only() -> None:
    """A check that passed needs no cause."""
    rows = rows_of([Found(outcome=Outcome.PASS), Found(outcome=Outcome.INCONCLUSIVE)], message="two busy processes")

    assert [row.message for row in rows] == ["", "two busy processes"]


def test_unknown_properties_are_left_out() -> None:
    """None is no text; booleans and figures are written so that programs read them."""
    assert known({"a": None, "b": True, "c": 0.1, "d": 3, "e": "x\ny"}) == {
        "b": "true",
        "c": "0.1",
        "d": "3",
        "e": "x y",
    }


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a", "b"], ["a", "b"]),
        (["a", "a", "a"], ["a", "a (2)", "a (3)"]),
        (["a", "a", "a (2)"], ["a", "a (3)", "a (2)"]),
        (["a\n", "a "], ["a ", "a  (2)"]),
        ([], []),
    ],
)
def test_names_are_told_apart(names: list[str], expected: list[str]) -> None:
    """Repeated names get numbers that nobody else has; what differs in control characters alone is repeated."""
    assert distinct_names(names) == expected


def test_the_worst_comes_first_and_order_stays() -> None:
    """Failed, inconclusive, passed; within each as given."""
    outcomes = (Outcome.PASS, Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.FAIL)
    rows = [CheckRow(name=str(number), outcome=outcome, reason="") for number, outcome in enumerate(outcomes)]

    assert [row.name for row in worst_first(rows)] == ["1", "3", "2", "0"]


def test_line_breaks_stay_and_control_characters_go() -> None:
    """A message keeps its lines, whatever ended them, and no escape sequence."""
    assert several_lines("a\x1b[31m\r\nb\u2028c") == "a[31m\nb\nc"
