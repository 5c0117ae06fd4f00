"""What checks found, as plain rows: what each report for a CI system is made from."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from suffice.decide.guard import Outcome
from suffice.report.tables import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from suffice.decide.guard import GuardResult

PropertyValue = str | float | bool | None

_WORST_FIRST = (Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.PASS)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRow:
    """One check and what came of it. Names and texts may come from outside and hold anything.

    ``reason`` is one sentence; ``message`` is more for who reads on, of several lines, or "". ``properties`` are figures and facts by
    name; None is unknown, and left out of every report.
    """

    name: str
    outcome: Outcome
    reason: str
    message: str = ""
    properties: Mapping[str, PropertyValue] = field(default_factory=dict)


class Finding(Protocol):
    """What one check of a guard has to tell; :class:`suffice.decide.guard_types.GuardCheck` is one."""

    @property
    def name(self) -> str:
        """Such as "decode floor"."""

    @property
    def outcome(self) -> Outcome:
        """Pass, fail or inconclusive."""

    @property
    def reason(self) -> str:
        """One sentence, with the figures."""

    @property
    def metric(self) -> str | None:
        """What was looked at, such as "decode"; None: a verdict."""

    @property
    def unit(self) -> str | None:
        """Of ``value`` and ``limit``."""

    @property
    def value(self) -> float | None:
        """None: not measured."""

    @property
    def limit(self) -> float | None:
        """The floor, the ceiling, or the baseline's figure."""

    @property
    def smallest_detectable_change(self) -> float | None:
        """The relative change that would have been told from noise; None: unknown."""


def rows_of(findings: Iterable[Finding], *, of: str = "", message: str = "") -> tuple[CheckRow, ...]:
    """A row for each check of a guard.

    Args:
        findings: what was found.
        of: what was checked, such as the record's file, for the rows' names.
        message: what all of those that did not pass have to say beside their reasons, such as the likely causes.
    """
    return tuple(
        CheckRow(
            name=f"{finding.name} of {of}" if of else finding.name,
            outcome=finding.outcome,
            reason=finding.reason,
            message="" if finding.outcome is Outcome.PASS else message,
            properties={
                "metric": None if finding.metric is None else str(finding.metric),
                "measured": finding.value,
                "limit": finding.limit,
                "unit": finding.unit,
                "smallest_detectable_change": finding.smallest_detectable_change,
            },
        )
        for finding in findings
    )


def rows_of_result(result: GuardResult, *, of: str = "") -> tuple[CheckRow, ...]:
    """A row for each check of a guard, with the likely causes; and one for the guard where no check ended as it did, as where nothing was checked."""
    causes = "\n".join(["likely causes:", *(f"- {cause}" for cause in result.causes)]) if result.causes else ""
    rows = rows_of(result.checks, of=of, message=causes)
    if any(row.outcome is result.outcome for row in rows):
        return rows
    name = f"guard of {of}" if of else "guard"
    return (*rows, CheckRow(name=name, outcome=result.outcome, reason=result.reason, message=causes))


def known(properties: Mapping[str, PropertyValue]) -> dict[str, str]:
    """Properties as text on one line, without those that are unknown."""
    return {one_line(name): one_line(_text(value)) for name, value in properties.items() if value is not None}


def count(rows: Iterable[CheckRow], outcome: Outcome) -> int:
    """How many rows ended so."""
    return sum(row.outcome is outcome for row in rows)


def worst_first(rows: Iterable[CheckRow]) -> list[CheckRow]:
    """Failed checks, then inconclusive ones, then those that passed; each in the order given."""
    return sorted(rows, key=lambda row: _WORST_FIRST.index(row.outcome))


def distinct_names(names: Sequence[str]) -> list[str]:
    """The names on one line, a repeated one with its number: dashboards show one of two that are called alike.

    >>> distinct_names(["decode", "decode", "prefill"])
    ['decode', 'decode (2)', 'prefill']
    """
    taken = Counter(one_line(name) for name in names)
    used: set[str] = set()
    found = []
    for name in map(one_line, names):
        number, candidate = 1, name
        while candidate in used or (number > 1 and taken[candidate]):
            number += 1
            candidate = f"{name} ({number})"
        used.add(candidate)
        found.append(candidate)
    return found


def distinct(rows: Sequence[CheckRow]) -> list[CheckRow]:
    """The rows under names that differ; see :func:`distinct_names`."""
    names = distinct_names([row.name for row in rows])
    return [replace(row, name=name) for row, name in zip(rows, names, strict=True)]


def several_lines(text: str) -> str:
    """A text from outside without control characters; its line breaks stay."""
    return "\n".join(one_line(line) for line in text.splitlines())


def _text(value: PropertyValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)
