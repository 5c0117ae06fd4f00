"""A decision as text and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from suffice.decide import words
from suffice.decide.verdict import Grade
from suffice.decide.wording import available_text, constraint_label, headroom_text, is_least, label, required_text
from suffice.report.json_values import json_text
from suffice.report.outlook import outlook_document, outlook_text
from suffice.report.prospects import prospects_document
from suffice.report.tables import one_line, plain_table

if TYPE_CHECKING:
    from suffice.decide.compare import Decision
    from suffice.decide.verdict import GradedConstraint, Verdict
    from suffice.records.schema import RunRecord
    from suffice.report.prospects import CheapestMachines

# What the words mean for whoever reads them for the first time; JSON and memo hold the words alone.
_IN_OTHER_WORDS: Final = {
    words.CPU: "This CPU is enough, with the margin.",
    words.CPU_THIN: "The requirement is met, the margin is not.",
    words.GPU: "The CPU is not enough.",
    words.UNDECIDED: "The evidence does not settle it.",
}


def decision_text(decision: Decision) -> str:
    """Verdict first, then why, the constraints, what would flip it and what to do next."""
    verdict = decision.verdict
    lines = [f"verdict: {verdict.verdict}", f"{_IN_OTHER_WORDS[verdict.verdict]} {one_line(verdict.reason)}"]
    if verdict.undisturbed is not None and verdict.undisturbed.verdict != verdict.verdict:
        lines.insert(1, f"undisturbed: {verdict.undisturbed.verdict}")
    if verdict.settle:
        lines.append(f"next: {one_line(verdict.settle)}")
    lines += [
        "",
        plain_table([["constraint", "required", "available", "headroom", "stands"], *constraint_rows(verdict)]),
    ]
    lines += [f"  {note}" for note in constraint_notes(verdict)]
    if verdict.service is not None:
        lines += ["", *outlook_text(verdict.service)]
    if verdict.flips:
        lines += ["", "the verdict changes when the demand does:"]
        lines += [f"  {flip}" for flip in verdict.flips]
    if len(decision.machines) > 1:
        lines += ["", plain_table([["machine", "stands", "binding"], *machine_rows(decision)])]
        lines += ratio_lines(decision)
        lines += least_lines(decision)
    return "\n".join(lines)


def constraint_rows(verdict: Verdict) -> list[list[str]]:
    """Rows of (constraint, required, available, headroom, stands)."""
    rows = []
    for item in verdict.constraints:
        constraint = item.constraint
        headroom = constraint.headroom
        margin = "" if constraint.margin == 1 else f" (margin {constraint.margin:g})"
        rows.append(
            [
                constraint_label(constraint),
                required_text(constraint),
                available_text(constraint),
                ("at least " if is_least(constraint) else "") + headroom_text(headroom) + margin,
                item.grade.value if constraint.judged else "not judged",
            ]
        )
    return rows


def machine_rows(decision: Decision) -> list[list[str]]:
    """Rows of (machine, how it stands, binding constraint)."""
    return [[v.machine, v.grade.value, label(v.binding) if v.binding else "none"] for v in decision.machines]


def least_lines(decision: Decision) -> list[str]:
    """The least machine that is enough with the margin, and without it."""
    least = one_line(decision.least_machine or "none")
    thin = [v.machine for v in decision.machines if v.grade is Grade.THIN]
    if decision.least_machine in thin:
        return ["least machine with the margin: none", f"least machine without the margin: {least}"]
    lines = [f"least machine with the margin: {least}"]
    return [*lines, f"enough without the margin: {one_line(', '.join(thin))}"] if thin else lines


def constraint_notes(verdict: Verdict) -> list[str]:
    """What qualifies the numbers of the table, a line for each constraint that has something to say."""
    return [
        one_line(f"{constraint_label(item.constraint)}: {item.constraint.note}")
        for item in verdict.constraints
        if item.constraint.note
    ]


def ratio_lines(decision: Decision) -> list[str]:
    """How many times faster each further machine is than the first."""
    lines = []
    for ratio in decision.ratios:
        decode = "unknown" if ratio.decode is None else f"{ratio.decode:.2f}x"
        prefill = "unknown" if ratio.prefill is None else f"{ratio.prefill:.2f}x"
        caveat = "" if ratio.comparable else " (not shown to be the same model file: no ratio of machines)"
        lines.append(
            one_line(
                f"{ratio.machine} against {decision.machines[0].machine}: decode {decode}, prefill {prefill}{caveat}"
            )
        )
    return lines


def decision_document(decision: Decision) -> dict[str, Any]:
    """The decision as JSON-able data, with the names that docs/verdict.md lists."""
    verdict = decision.verdict
    return {
        "verdict": verdict.verdict,
        "reason": verdict.reason,
        "binding": verdict.binding,
        "basis": None if verdict.basis is None else verdict.basis.value,
        "constraints": [_constraint_document(item) for item in verdict.constraints],
        "flips": list(verdict.flips),
        "settle": verdict.settle,
        "machine": verdict.machine,
        "undisturbed": _undisturbed_document(verdict.undisturbed),
        "serving": outlook_document(verdict.service),
        "least_machine": decision.least_machine,
        "machines": [
            {
                "machine": v.machine,
                "verdict": v.verdict,
                "grade": v.grade.value,
                "binding": v.binding,
                "reason": v.reason,
            }
            for v in decision.machines
        ],
        "ratios": [asdict(ratio) for ratio in decision.ratios],
    }


def _undisturbed_document(verdict: Verdict | None) -> dict[str, Any] | None:
    """What is said of the same machine when nobody disturbs; null where nobody did, or it cannot be told."""
    if verdict is None:
        return None
    return {
        "verdict": verdict.verdict,
        "grade": verdict.grade.value,
        "binding": verdict.binding,
        "reason": verdict.reason,
        "constraints": [_constraint_document(item) for item in verdict.constraints],
    }


def _constraint_document(item: GradedConstraint) -> dict[str, Any]:
    constraint = item.constraint
    available = constraint.available
    low, high = constraint.headroom_range
    return {
        "name": constraint.name,
        "unit": constraint.unit,
        "sense": constraint.sense.value,
        "required": constraint.required,
        "available": None if available is None else available.point,
        "available_low": None if available is None else available.low,
        "available_high": None if available is None else available.high,
        "available_is_least": is_least(constraint),
        "basis": None if available is None else available.basis.value,
        "headroom": constraint.headroom,
        "headroom_low": low,
        "headroom_high": high,
        "margin": constraint.margin,
        "grade": item.grade.value if constraint.judged else None,
        "judged": constraint.judged,
        "note": constraint.note,
    }


def check_document_json(record: RunRecord, decision: Decision, machines: CheapestMachines) -> str:
    """The run record with the verdict's fields and the cheapest machines beside it, as one JSON document."""
    document = {
        **asdict(record),
        **decision_document(decision),
        "machine": record.machine,
        "cheapest": prospects_document(machines),
        "machines_judged": machines.judged,
    }
    return json_text(document)
