"""Why the verdict is what it is: in English the verdict's own words, in another language built from its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from suffice.decide.quality import KEPT_UNIT
from suffice.decide.verdict import Grade, plain_grade
from suffice.decide.wording import headroom_text, is_least
from suffice.report.page import phrases
from suffice.report.page.model import Language, Text
from suffice.report.page.quantities import available_text, required_text
from suffice.report.tables import one_line

if TYPE_CHECKING:
    from suffice.decide.constraint import Constraint
    from suffice.decide.verdict import GradedConstraint, Verdict
    from suffice.report.page.given import PageInput
    from suffice.report.page.words import Words

_SHARED: Final = "why.machines"


def reasons(given: PageInput, words: Words) -> tuple[Text, ...]:
    """Sentences, the most important first; those that exist in English only are marked."""
    verdict = given.decision.verdict
    if words.language is Language.EN:
        return (Text(text=one_line(verdict.reason)),)
    evidence = None if given.chosen is None else given.chosen.evidence
    told = [_about_machines(given, words)]
    foreign: list[str] = []
    if evidence is not None and evidence.contradictions:
        told.append(words("why.contradiction"))
        foreign += evidence.contradictions
    binding = next((item for item in verdict.constraints if item.constraint.name == verdict.binding), None)
    told.append(words("why.nothing") if binding is None else grade_sentence(binding, words))
    if evidence is not None:
        told += _marks(given, words)
        foreign += evidence.disturbance_reasons if evidence.disturbed and given.disturbance_counts else ()
    told += _not_judged(verdict, words)
    told.append(_undisturbed(given, words))
    return (Text(text=words.sentences(told)), *(phrases.told(sentence, words) for sentence in foreign))


def grade_sentence(item: GradedConstraint, words: Words) -> str:
    """Why a constraint has its grade; see :func:`suffice.decide.wording.grade_sentence`, whose sentence this is without the note."""
    constraint = item.constraint
    plain = plain_grade(constraint)
    weakened = plain is not item.grade
    return words(
        "why.weakened" if weakened else f"why.{plain}",
        margin="" if constraint.margin == 1 else words("why.margin", factor=f"{constraint.margin:g}"),
        factor=f"{constraint.margin:g}",
        told=_standing(constraint, words),
        required=required_text(constraint, words),
        headroom=_headroom(item, words),
        grade=words.grade(plain),
    )


def _standing(constraint: Constraint, words: Words) -> str:
    what = words.constraint(constraint)
    if constraint.available is None:
        return words("why.unknown", what=what)
    return words("why.known", what=what, available=available_text(constraint, words))


def _headroom(item: GradedConstraint, words: Words) -> str:
    constraint = item.constraint
    if constraint.headroom is None or constraint.unit == KEPT_UNIT:
        return ""
    text, low = words.headroom(constraint.headroom), constraint.headroom_range[0]
    if is_least(constraint):
        text = words("why.headroom.least", headroom=text)
    # The low end decides, so it is named where the point alone would read otherwise.
    if low is None or headroom_text(low) == headroom_text(constraint.headroom):
        return words("why.headroom", headroom=text)
    return words("why.headroom.low", headroom=text, low=words.headroom(low))


def _about_machines(given: PageInput, words: Words) -> str:
    machines = given.decision.machines
    if len(machines) < 2:  # noqa: PLR2004  # one speaks for itself
        return ""
    stands = words.joined(words("colon", what=one_line(one.machine), told=words.grade(one.grade)) for one in machines)
    none = all(one.grade is Grade.NOT_ENOUGH for one in machines)
    machine = one_line(given.decision.verdict.machine)
    return words(f"{_SHARED}.none" if none else _SHARED, machine=machine, stands=stands)


def _marks(given: PageInput, words: Words) -> list[str]:
    run = given.chosen
    if run is None:
        return []
    evidence, told = run.evidence, []
    if evidence.disturbed is not False and given.disturbance_counts:
        told.append(words("why.busy" if evidence.disturbed else "why.busy.unknown"))
    if evidence.engine_lower_bound:
        told.append(words("why.build"))
    available = [item.constraint.available for item in given.decision.verdict.constraints]
    if any(one is not None and not one.interval_known for one in available):
        told.append(words("why.plain"))
    return told


def _undisturbed(given: PageInput, words: Words) -> str:
    """What the verdict says of the machine when nobody disturbs it; "" where there is nothing to say."""
    verdict, run = given.decision.verdict, given.chosen
    quiet = verdict.undisturbed
    if quiet is None or run is None:
        return ""
    if quiet.verdict == verdict.verdict:
        if not given.disturbance_counts:
            return words("why.undisturbed.counts")
        return words("why.undisturbed.same") if run.evidence.disturbed else ""
    binding = next((item for item in quiet.constraints if item.constraint.name == quiet.binding), None)
    told = words("why.nothing") if binding is None else grade_sentence(binding, words)
    return words("why.undisturbed.other", verdict=quiet.verdict, told=told)


def _not_judged(verdict: Verdict, words: Words) -> list[str]:
    names = [words.label(item.constraint.name) for item in verdict.constraints if not item.constraint.judged]
    return [words("why.not_judged", names=words.joined(names))] if names else []
