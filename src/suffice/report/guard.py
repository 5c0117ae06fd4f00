"""What a guard found, for a person, for scripts, and a comparison of two fingerprints."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from suffice.decide.guard_types import Outcome
from suffice.report.tables import one_line, plain_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.decide.guard_fingerprint import Comparison
    from suffice.decide.guard_types import GuardCheck, GuardResult


def guard_text(result: GuardResult) -> str:
    """One line with the outcome and why; with several checks a line for each below, then what differs and what would have been seen."""
    lines = [f"{result.outcome.value}: {one_line(result.reason)}"]
    if len(result.checks) > 1:
        lines += [f"  {check.outcome.value:<12}  {one_line(check.reason)}" for check in result.checks]
    if any(check.tolerance is not None for check in result.checks):
        lines += _seen(result)
    lines += [f"  note: {one_line(note)}" for note in result.notes]
    return "\n".join(lines)


def _seen(result: GuardResult) -> list[str]:
    lines = []
    if result.outcome is Outcome.PASS and result.causes:
        lines.append(f"  differs: {one_line(', '.join(result.causes))}")
    known = [
        check for check in result.checks if check.tolerance is not None and check.smallest_detectable_change is not None
    ]
    if known:
        told = ", ".join(f"{check.metric} {check.smallest_detectable_change:.1%}" for check in known)
        lines.append(f"  a loss of so much would have been shown in four of five cases: {told}")
    return lines


def guard_document(result: GuardResult) -> dict[str, Any]:
    """All of it as one JSON document; names of scripts first."""
    return {
        "outcome": result.outcome.value,
        "reason": result.reason,
        "smallest_detectable_change": result.smallest_detectable_change,
        "measured_tokens_per_second": result.measured_tokens_per_second,
        "floor_tokens_per_second": result.floor_tokens_per_second,
        "flipped": result.flipped,
        "reruns": result.reruns,
        "checks": [_check_document(check) for check in result.checks],
        "causes": list(result.causes),
        "comparison": None if result.comparison is None else comparison_document(result.comparison),
        "notes": list(result.notes),
    }


def _check_document(check: GuardCheck) -> dict[str, Any]:
    return asdict(check)


def comparison_document(comparison: Comparison) -> dict[str, Any]:
    """Whether two runs are comparable, and every field in which they differ."""
    return {
        "comparability": comparison.comparability.value,
        "reason": comparison.reason,
        "unknown": list(comparison.unknown),
        "differences": [
            {"field": one.field, "role": one.role.value, "base": one.base, "new": one.new, "text": one.text}
            for one in comparison.differences
        ],
    }


def comparison_text(comparison: Comparison, checks: Sequence[GuardCheck]) -> str:
    """Two runs beside each other: comparable or not, the figures, and the fields that differ."""
    reason = f" ({one_line(comparison.reason)})" if comparison.reason else ""
    lines = [f"{comparison.comparability.value}{reason}"]
    lines += [f"  {one_line(check.reason)}" for check in checks]
    if comparison.differences:
        rows = [["field", "role", "base", "new"]]
        rows += [[one.field, one.role.value, *one.shown] for one in comparison.differences]
        lines += ["", plain_table(rows)]
    else:
        lines.append("  no field of the fingerprint differs")
    return "\n".join(lines)
