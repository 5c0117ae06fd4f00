"""The verdict on one machine: each constraint graded, the grades combined, the reason in words.

The rule, and its only home:

1. A constraint is *enough* when the low end of what is available reaches the requirement times the margin, *thin* when it
   reaches the requirement, *not enough* when even the high end does not, and *open* otherwise.
2. All enough: "cpu". All enough or thin: "cpu, thin margin — recheck after quantization". One not enough: "gpu".
   Otherwise, and whenever the evidence contradicts itself: "undecided", with the measurement that would settle it.
3. What was measured on a busy machine, or with a build that leaves instruction sets of this CPU unused, is a lower bound of
   speed: *enough* stands, *not enough* becomes *open*; on a busy machine *thin* becomes *open* as well.
   Where its record has undisturbed speeds, the machine is judged by them as well, as one that is not busy. Where both speeds give the same
   verdict, the disturbance does not matter and that is the verdict; else it is that of what was found, and the other one is said beside it.
4. Quality is graded by what a comparison on the team's items decided (:mod:`suffice.decide.quants`): shown to reach is *enough*, shown
   to miss *not enough*, neither is *open*. A model that was shown to miss it is "undecided" whatever the machine: a GPU would run the same
   model, and answer as badly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from suffice.decide import words
from suffice.decide.advice import settle_sentence
from suffice.decide.constraint import Constraint, Sense
from suffice.decide.constraints import check_context, constraints_for
from suffice.decide.service import outlook
from suffice.decide.service_load import share_of
from suffice.decide.wording import (
    available_text,
    flip_sentence,
    grade_sentence,
    label,
    machines_sentence,
    required_text,
)
from suffice.model.basis import Basis, weakest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.decide.evidence import MachineEvidence
    from suffice.decide.service import Served, ServiceOutlook
    from suffice.model.demand import Demand


class Grade(StrEnum):
    """How one constraint, or one machine, stands."""

    ENOUGH = "enough"
    THIN = "thin"
    NOT_ENOUGH = "not enough"
    OPEN = "open"


# The order in which constraints bind: the worst first.
WORST_FIRST: Final = (Grade.NOT_ENOUGH, Grade.OPEN, Grade.THIN, Grade.ENOUGH)


@dataclass(frozen=True, slots=True, kw_only=True)
class GradedConstraint:
    """A constraint with its grade."""

    constraint: Constraint
    grade: Grade


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What is said about a demand, and on what it rests.

    Attributes:
        verdict: one of the four words of :mod:`suffice.decide.words`.
        reason: in a sentence or two, why.
        binding: name of the constraint with the least headroom, None when nothing could be judged.
        basis: the weakest basis among the judged constraints, None when there is none.
        constraints: all of them, judged or not.
        grade: of the machine, which for a CPU is the verdict in other words.
        flips: what would change the verdict.
        settle: what to do next when it is undecided or thin, None when nothing is needed.
        machine: which machine it is about.
        service: what was simulated of users, a rate or a queue; None where the demand is of one stream.
        undisturbed: the verdict on the same machine when nobody disturbs, which says what it can do; this one is of what was found and says
            what can be relied on now. None: nobody disturbed, or it cannot be told.
    """

    verdict: str
    reason: str
    binding: str | None
    basis: Basis | None
    constraints: tuple[GradedConstraint, ...]
    grade: Grade
    flips: tuple[str, ...]
    settle: str | None
    machine: str
    service: ServiceOutlook | None = None
    undisturbed: Verdict | None = None


def decide_machine(demand: Demand, evidence: MachineEvidence, service: ServiceOutlook | None = None) -> Verdict:
    """The verdict on one machine. Where it runs several engines side by side, one of them is judged, under its share of the demand.

    Args:
        demand: what is needed.
        evidence: of the machine.
        service: what was simulated of them; None: it is simulated here, where the demand has users, a rate or a queue.

    Raises:
        DemandError: the model cannot hold the context that the demand needs.
    """
    check_context(demand, evidence.context_length, evidence.model_name)
    demand = share_of(demand, evidence.engines)
    service = service or outlook(demand, evidence)
    served = None if service is None else service.served
    graded = _details_graded_alike(
        tuple(
            GradedConstraint(constraint=constraint, grade=grade_constraint(constraint, evidence))
            for constraint in constraints_for(demand, evidence, service)
        )
    )
    judged = [item for item in graded if item.constraint.judged and not _is_detail(item, graded)]
    grade = _machine_grade(judged, evidence)
    binding = binding_of(judged)
    bases = [item.constraint.available.basis for item in judged if item.constraint.available is not None]
    speed_bases: list[Basis] = [basis for basis in bases if basis != Basis.STATED]
    found = Verdict(
        verdict=words.UNDECIDED if _misses_quality(judged) else word_of(grade, is_gpu=evidence.is_gpu),
        reason=_reason(grade, binding, graded, evidence),
        binding=None if binding is None else binding.constraint.name,
        basis=weakest(speed_bases or bases),
        constraints=graded,
        grade=grade,
        flips=_flips(judged, served, lower_bound=evidence.engine_lower_bound or bool(evidence.disturbed)),
        settle=settle_sentence(grade.value, None if binding is None else binding.constraint, evidence, service),
        machine=evidence.name,
        service=service,
    )
    return _beside_undisturbed(found, demand, evidence)


def _beside_undisturbed(found: Verdict, demand: Demand, evidence: MachineEvidence) -> Verdict:
    """The verdict, with the one of the undisturbed machine and what it says.

    Of one stream only: what is simulated rests on passes of which nobody knows one by one who disturbed them.
    """
    if evidence.undisturbed is None or found.service is not None or evidence.contradictions:
        return found
    quiet = decide_machine(demand, replace(evidence.undisturbed, quality=evidence.quality))
    if quiet.verdict == found.verdict:
        sentence = "Undisturbed the verdict is the same." if evidence.disturbed else ""
        return replace(found, reason=f"{found.reason} {sentence}".strip(), undisturbed=quiet)
    plain = decide_machine(demand, replace(evidence, disturbed=False, undisturbed=None))
    if plain.verdict == quiet.verdict:
        sentence = "The machine was disturbed while it was measured; its undisturbed speed gives the same verdict."
        return replace(plain, reason=f"{plain.reason} {sentence}", undisturbed=quiet)
    sentence = (
        f"This is what can be relied on now, as the machine was found; what it can do when nobody disturbs it is another verdict, "
        f"{quiet.verdict}: {quiet.reason}"
    )
    return replace(found, reason=f"{found.reason} {sentence}", undisturbed=quiet)


def _misses_quality(judged: Sequence[GradedConstraint]) -> bool:
    """Whether the model was shown to answer too badly, which neither a GPU nor another machine changes."""
    return any(item.constraint.by_test and item.grade is Grade.NOT_ENOUGH for item in judged)


_CAPACITIES: Final = ("capacity_users", "capacity_requests_per_second")


def _is_detail(item: GradedConstraint, graded: tuple[GradedConstraint, ...]) -> bool:
    """Whether a latency is one under load, which the capacity answers for."""
    has_capacity = any(other.constraint.name in _CAPACITIES for other in graded)
    return has_capacity and item.constraint.name in ("ttft_s", "decode_tokens_per_second") and item.constraint.several


def _details_graded_alike(graded: tuple[GradedConstraint, ...]) -> tuple[GradedConstraint, ...]:
    """Latencies at the demanded load are shown at the slots of one answer; whether any slots hold them is what the capacity says.

    Judged on their own they could call a machine not enough that holds the load with other slots.
    """
    capacity = next((item.grade for item in graded if item.constraint.name in _CAPACITIES), None)
    if capacity is None:
        return graded
    return tuple(replace(item, grade=capacity) if _is_detail(item, graded) else item for item in graded)


def _flips(judged: list[GradedConstraint], served: Served | None, *, lower_bound: bool) -> tuple[str, ...]:
    # Where fewer users miss what more of them keep, no number of users divides those that hold from those that fail.
    uneven = served is not None and bool(served.uneven)
    plain = [item.constraint for item in judged if not (uneven and item.constraint.name == "capacity_users")]
    sentences = [flip_sentence(constraint, lower_bound=lower_bound) for constraint in plain]
    machines = machines_sentence(served)
    if machines:
        sentences.append(f"with more machines: {machines}")
    return tuple(sentence for sentence in sentences if sentence)


def grade_constraint(constraint: Constraint, evidence: MachineEvidence) -> Grade:
    """The grade of one constraint, with what a busy machine or a slow build takes from it."""
    grade = plain_grade(constraint)
    if not constraint.of_speed:
        return grade
    if grade is Grade.NOT_ENOUGH and (evidence.engine_lower_bound or evidence.disturbed or evidence.unfinished):
        return Grade.OPEN
    if grade is Grade.THIN and evidence.disturbed:
        return Grade.OPEN
    return grade


def plain_grade(constraint: Constraint) -> Grade:
    """The grade that the range alone gives, with nothing taken from it for a busy machine or a slow build."""
    if constraint.by_test:
        return {True: Grade.ENOUGH, False: Grade.NOT_ENOUGH, None: Grade.OPEN}[constraint.reached]
    low, high = constraint.headroom_range
    # Headroom is compared as available >= required * margin, so that 13.5 against 9 x 1.5 is enough to the last bit.
    if low is not None and _reaches(constraint, constraint.margin):
        return Grade.ENOUGH
    if high is not None and high < 1:
        return Grade.NOT_ENOUGH
    if low is not None and low >= 1:
        return Grade.THIN
    return Grade.OPEN


def _reaches(constraint: Constraint, margin: float) -> bool:
    quantity = constraint.available
    if quantity is None or constraint.required is None:
        return False
    if constraint.sense is Sense.AT_LEAST:
        return quantity.low is not None and quantity.low >= constraint.required * margin
    return quantity.high is not None and quantity.high * margin <= constraint.required


def _machine_grade(judged: list[GradedConstraint], evidence: MachineEvidence) -> Grade:
    if not judged or evidence.contradictions:
        return Grade.OPEN
    return min((item.grade for item in judged), key=WORST_FIRST.index)


def binding_of(judged: list[GradedConstraint]) -> GradedConstraint | None:
    """The worst grade, and among equals the least headroom over its own margin (an unknown one first).

    Scores are no speeds: a quality of 0.99 over 0.98 is not tighter than a rate of twice what is needed, and binds last.
    """

    def tightness(item: GradedConstraint) -> tuple[int, float]:
        headroom = math.inf if item.constraint.by_test else item.constraint.headroom
        return WORST_FIRST.index(item.grade), -1.0 if headroom is None else headroom / item.constraint.margin

    return min(judged, key=tightness, default=None)


def word_of(grade: Grade, *, is_gpu: bool) -> str:
    """One of the four words for the grade of a machine."""
    if is_gpu:
        # A GPU's record says whether that GPU is enough; whether a CPU would do, it does not say.
        return words.GPU if grade in (Grade.ENOUGH, Grade.THIN) else words.UNDECIDED
    return {
        Grade.ENOUGH: words.CPU,
        Grade.THIN: words.CPU_THIN,
        Grade.NOT_ENOUGH: words.GPU,
        Grade.OPEN: words.UNDECIDED,
    }[grade]


def _reason(
    grade: Grade, binding: GradedConstraint | None, graded: tuple[GradedConstraint, ...], evidence: MachineEvidence
) -> str:
    sentences = []
    if evidence.contradictions:
        sentences.append("The evidence contradicts itself: " + "; ".join(evidence.contradictions) + ".")
    if binding is None:
        sentences.append("Nothing in the demand could be judged.")
    else:
        plain = plain_grade(binding.constraint)
        sentences.append(grade_sentence(binding.constraint, plain.value, weakened=plain is not binding.grade))
        sentences += _about_memory(binding, graded)
        sentences += _about_quality(binding, graded)
    if evidence.disturbed:
        why = "; ".join(evidence.disturbance_reasons) or "the record is marked so"
        consequence = (
            "the speeds are lower bounds" if grade is Grade.ENOUGH else "a quiet machine may give another answer"
        )
        sentences.append(f"Measured on a busy machine ({why}): {consequence}.")
    elif evidence.disturbed is None:
        sentences.append("Whether the machine was busy is not known.")
    if evidence.engine_lower_bound:
        sentences.append(
            "The engine's build leaves instruction sets of this CPU unused, so its speeds are lower bounds."
        )
    if any(item.constraint.available is not None and not item.constraint.available.interval_known for item in graded):
        sentences.append("The record holds plain numbers without intervals or lengths, taken at face value.")
    not_judged = [label(item.constraint.name) for item in graded if not item.constraint.judged]
    if not_judged:
        sentences.append(f"Not judged here: {', '.join(not_judged)}.")
    return " ".join(sentences)


def _about_memory(binding: GradedConstraint, graded: tuple[GradedConstraint, ...]) -> list[str]:
    """A model that does not fit is said to, whatever else binds."""
    lacking = [c for c in graded if c.constraint.name == "memory_bytes" and c.grade is Grade.NOT_ENOUGH]
    if not lacking:
        return []
    if binding is lacking[0]:
        return [_if_it_fitted(graded)]
    memory = lacking[0].constraint
    return [f"Nor does it fit: memory {available_text(memory)} against {required_text(memory)}."]


def _about_quality(binding: GradedConstraint, graded: tuple[GradedConstraint, ...]) -> list[str]:
    """A model that answers too badly is said to, whatever else binds."""
    if not _misses_quality(graded):
        return []
    lacking = [item for item in graded if item.constraint.by_test and item.grade is Grade.NOT_ENOUGH]
    told = [] if binding in lacking else [grade_sentence(lacking[0].constraint, lacking[0].grade.value)]
    return [*told, "No machine changes what this model answers."]


def _if_it_fitted(graded: tuple[GradedConstraint, ...]) -> str:
    """What lacks is memory: whether more of it would do, or the speed lacks as well."""
    decode = [item for item in graded if item.constraint.name == "decode_tokens_per_second"]
    if not decode or decode[0].constraint.available is None:
        return "A GPU, or a machine with more memory: how fast it would be there is not known."
    item = decode[0]
    would = {Grade.ENOUGH: "would be enough", Grade.THIN: "would reach the need, but not the margin"}
    speed = would.get(item.grade, "would not be enough" if item.grade is Grade.NOT_ENOUGH else "might be enough")
    return f"A GPU, or more memory: if it fitted here, decode of {available_text(item.constraint)} {speed}."
