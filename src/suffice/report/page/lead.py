"""The sentence that is read by whoever reads only one: enough or not, by which figures, and what follows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from suffice.decide import words as verdicts
from suffice.decide.constraint import Sense
from suffice.decide.quality import KEPT_UNIT
from suffice.decide.verdict import Grade, binding_of
from suffice.model.demand import users_with_margin
from suffice.report.page.quantities import range_text
from suffice.report.tables import one_line
from suffice.units import SECONDS_PER_DAY, SECONDS_PER_HOUR

if TYPE_CHECKING:
    from suffice.decide.constraint import Constraint
    from suffice.decide.verdict import GradedConstraint, Verdict
    from suffice.report.page.given import PageInput
    from suffice.report.page.words import Words

_REACHING: Final = (Grade.ENOUGH, Grade.THIN)


def lead_sentence(given: PageInput, words: Words) -> str:
    """The verdict for somebody who decides about money."""
    decision = given.decision
    verdict = decision.verdict
    alone = given.chosen is not None and len(decision.machines) == 1
    key = _key(given)
    item = _quality_missed(verdict) if key == "lead.quality" else _shown(verdict)
    if item is None and f"{key}.plain" not in words.texts:
        key = "lead.open"
    if f"{key}.of" in words.texts and not alone:
        key = f"{key}.of"
    if item is None:
        key = f"{key}.plain"
    return words(
        key,
        machine=one_line(verdict.machine),
        clause="" if item is None else clause(item, words, by_day=given.demand.rate_is_daily),
        grade=words.grade(verdict.grade),
        doubts="" if item is None else _doubts(item, given, words),
    )


def undisturbed_sentence(given: PageInput, words: Words) -> str:
    """What the machine can do when nobody disturbs it, where that is another verdict; "" where it is the same, or not known."""
    found = given.decision.verdict
    quiet = found.undisturbed
    if quiet is None or quiet.verdict == found.verdict:
        return ""
    item = _shown(quiet)
    return words(
        "lead.undisturbed.plain" if item is None else "lead.undisturbed",
        verdict=quiet.verdict,
        meaning=words.meaning(quiet.verdict),
        clause="" if item is None else clause(item, words, by_day=given.demand.rate_is_daily),
    )


def _doubts(item: GradedConstraint, given: PageInput, words: Words) -> str:
    """Why a figure that may look like enough, or like too little, settles nothing."""
    quantity, run = item.constraint.available, given.chosen
    found = []
    if quantity is not None and not (
        quantity.interval_known and (quantity.low is not None or quantity.high is not None)
    ):
        found.append("interval")
    if run is not None and item.constraint.of_speed:
        evidence = run.evidence
        of_engine = quantity is not None and evidence.engine_lower_bound
        marks = (("busy", bool(evidence.disturbed)), ("engine", of_engine), ("unfinished", not run.record.complete))
        found += [name for name, is_so in marks if is_so]
    return "".join(words("lead.doubt", doubt=words(f"lead.doubt.{name}")) for name in found)


def _key(given: PageInput) -> str:
    verdict = given.decision.verdict
    if verdict.verdict == verdicts.CPU:
        return "lead.enough"
    if verdict.verdict == verdicts.CPU_THIN:
        return "lead.thin"
    if verdict.verdict == verdicts.GPU:
        return _key_of_gpu(verdict)
    return _key_of_undecided(given)


def _key_of_gpu(verdict: Verdict) -> str:
    if verdict.grade in _REACHING:
        return "lead.gpu.measured" if verdict.grade is Grade.ENOUGH else "lead.gpu.thin"
    return "lead.gpu.memory" if verdict.binding == "memory_bytes" else "lead.gpu"


def _key_of_undecided(given: PageInput) -> str:
    verdict, machines = given.decision.verdict, given.decision.machines
    if _quality_missed(verdict) is not None:
        return "lead.quality"
    if given.chosen is not None and given.chosen.evidence.contradictions:
        return "lead.contradiction"
    if all(one.grade is Grade.NOT_ENOUGH for one in machines):
        return "lead.none"
    if verdict.grade is not Grade.OPEN:
        return "lead.no_cpu" if given.chosen is not None else "lead.kind"
    return "lead.open"


def _quality_missed(verdict: Verdict) -> GradedConstraint | None:
    missed = (item for item in verdict.constraints if item.constraint.by_test and item.grade is Grade.NOT_ENOUGH)
    return next(missed, None)


def _shown(verdict: Verdict) -> GradedConstraint | None:
    """What binds; where all is well, the tightest speed: that the model fits is not what anybody asks first."""
    judged = [item for item in verdict.constraints if item.constraint.judged]
    binding = next((item for item in judged if item.constraint.name == verdict.binding), None)
    if verdict.grade is not Grade.ENOUGH or binding is None or binding.constraint.of_speed:
        return binding
    return binding_of([item for item in judged if item.constraint.of_speed]) or binding


def clause(item: GradedConstraint, words: Words, *, by_day: bool = False) -> str:
    """What is there and what is needed, as a part of a sentence. Not enough is so without any margin. ``by_day``: the demand's rate was stated so."""
    constraint = item.constraint
    if constraint.available is None or constraint.required is None:
        key = f"clause.unknown.{constraint.name}"
        return words(key if key in words.texts else "clause.unknown", label=words.constraint(constraint))
    margin = 1.0 if item.grade is Grade.NOT_ENOUGH else constraint.margin
    key = f"clause.{constraint.name}"
    need = _need(constraint, margin)
    return words(
        key if key in words.texts else "clause.other",
        available=_open_range(item, words, by_day=by_day)
        if item.grade is Grade.OPEN
        else _available(item, words, by_day=by_day),
        need=words.loss(1 - need) if constraint.unit == KEPT_UNIT else _number(need, constraint, words, by_day=by_day),
        margin="" if margin == 1 else words("clause.margin", margin=f"{margin:g}"),
        label=words.constraint(constraint),
    )


def _open_range(item: GradedConstraint, words: Words, *, by_day: bool) -> str:
    """Where nothing is settled the point says too much."""
    constraint = item.constraint
    quantity = constraint.available
    if quantity is None or not quantity.interval_known or quantity.low == quantity.high:
        return _available(item, words, by_day=by_day)
    if quantity.low is None or quantity.high is None:
        point, ends = (
            _number(quantity.point, constraint, words, by_day=by_day),
            range_text(quantity, constraint.unit, words),
        )
        return words("brackets", outside=point, inside=ends)
    low, high = (_number(end, constraint, words, by_day=by_day) for end in (quantity.low, quantity.high))
    return words("range.both", low=low, high=high)


def _number(value: float, constraint: Constraint, words: Words, *, by_day: bool) -> str:
    """As elsewhere; but nobody thinks in requests a second where less than one comes: by the hour, or by the day where the demand says so."""
    if constraint.unit == "requests/s" and (constraint.required or 0.0) < 1:
        if by_day:
            return words.number(value * SECONDS_PER_DAY, "requests/day")
        return words.number(value * SECONDS_PER_HOUR, "requests/hour")
    return words.number(value, constraint.unit)


def _need(constraint: Constraint, margin: float) -> float:
    required = constraint.required or 0.0
    if constraint.sense is Sense.AT_MOST:
        return required / margin
    return users_with_margin(required, margin) if constraint.unit == "users" else required * margin


def _available(item: GradedConstraint, words: Words, *, by_day: bool) -> str:
    """The point, and the end that decides where it reads otherwise: the better one where even that does not reach."""
    constraint = item.constraint
    quantity = constraint.available
    if quantity is None:
        return words("unknown")
    point = _number(quantity.point, constraint, words, by_day=by_day)
    least = (constraint.sense is Sense.AT_LEAST) is (item.grade is not Grade.NOT_ENOUGH)
    end = quantity.low if least else quantity.high
    if end is None or not quantity.interval_known or _number(end, constraint, words, by_day=by_day) == point:
        return point
    return words(
        "clause.at least" if least else "clause.at most",
        value=point,
        end=_number(end, constraint, words, by_day=by_day),
    )
