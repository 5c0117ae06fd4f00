"""An answer as sections of a page, by the functions that make the report: one figure reads alike on both."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from suffice.decide import words as verdicts
from suffice.decide.compare import Decision
from suffice.decide.verdict import Grade, Verdict
from suffice.report.page.build import build_page
from suffice.report.page.costs import cheapest_text, cost_section
from suffice.report.page.flips import flips_section
from suffice.report.page.given import PageInput
from suffice.report.page.latency import load_section
from suffice.report.page.model import Role, Section, Sentence, Text
from suffice.report.page.plan_view import PlanView
from suffice.report.page.view_files import view_of
from suffice.report.page.words import words_for
from suffice.report.plan_document import plan_document
from suffice.web.answer import best_verdict
from suffice.web.early import Rests
from suffice.web.form import SOURCE
from suffice.web.words import texts_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from suffice.report.page.model import Block, Language, Page
    from suffice.web.answer import Answer, Note

_OF_A_RECORD: Final = ("verdict", "numbers", "headroom")
_OF_AN_OFFER: Final = ("headroom",)
_COST: Final = "cost"
# What is said of a machine where there is none.
_NOBODY: Final = Verdict(
    verdict=verdicts.UNDECIDED,
    reason="",
    binding=None,
    basis=None,
    constraints=(),
    grade=Grade.OPEN,
    flips=(),
    settle=None,
    machine="",
)


def answer_page(answer: Answer, language: Language) -> Page:
    """The verdict first, then what it rests on, and the plan; what is still being computed is left out, and what is provisional says so.

    Without a record of the chosen model the best option of the plan stands in for the machine at hand, under its own name.
    """
    # A report points to its plan's file for the options that it leaves out; here there is none, and the command is named.
    given = replace(_given(answer), left_out=texts_of(language)["plan.more"])
    is_early = answer.plan_machines is not None
    # A verdict quotes the cheapest offer: one on the machine at hand does not where the plan is provisional.
    told = replace(given, plan=None) if is_early and answer.decision is not None else given
    page = build_page(replace(told, decision=_unloaded(told.decision)), language)
    found = {section.key: section for section in page.sections}
    sections = _of_verdict(answer, given, found, language)
    if answer.no_decision is not None and answer.plan is not None:
        sections = [_marked(_offer(answer, given, language), language, early=is_early), *sections]
    if answer.plan is not None:
        cost = found[_COST] if told.plan is not None else cost_section(given, words_for(language))
        sections.append(_marked(cost, language, early=is_early))
    if answer.decision is not None and answer.rests is Rests.FINAL:
        sections.append(flips_section(given, words_for(language)))
    missing = _missing(answer, language)
    return replace(page, sections=(*sections, missing) if missing.blocks else tuple(sections))


def _of_verdict(answer: Answer, given: PageInput, found: Mapping[str, Section], language: Language) -> list[Section]:
    """The sections about the machine at hand, or about what stands in for it."""
    verdict = given.decision.verdict
    if answer.decision is None and not verdict.constraints:
        return []
    is_early = answer.rests is not Rests.FINAL or (answer.decision is None and answer.plan_machines is not None)
    wanted = _OF_A_RECORD if answer.decision is not None else _OF_AN_OFFER
    sections = [_marked(found[key], language, early=is_early) for key in wanted if key in found]
    if answer.has_load and verdict.service is not None and not is_early:
        sections.append(load_section(given, words_for(language)))
    return sections


def _unloaded(decision: Decision) -> Decision:
    """Without what was simulated: the table of loads takes long to draw where it is not known yet, and is a section of its own."""
    return replace(decision, verdict=replace(decision.verdict, service=None))


def _marked(section: Section, language: Language, *, early: bool) -> Section:
    """A provisional section says so in its title."""
    if not early:
        return section
    told = texts_of(language)["early"].format(title=section.title.text)
    return replace(section, title=replace(section.title, text=told))


def _given(answer: Answer) -> PageInput:
    plan = answer.plan
    document = None if plan is None else plan_document(plan, answer.demand)
    return PageInput(
        demand=answer.demand,
        demand_file=SOURCE,
        decision=answer.decision or _stand_in(answer),
        runs=answer.runs,
        plan=None if document is None else view_of(document, PlanView, source="plan", made_by="suffice plan"),
    )


def _stand_in(answer: Answer) -> Decision:
    """The best option of which there is a verdict, as the only machine that was judged."""
    verdict = best_verdict(answer.plan) or _NOBODY
    return Decision(verdict=verdict, machines=(verdict,), ratios=(), least_machine=None)


def _offer(answer: Answer, given: PageInput, language: Language) -> Section:
    """What leads where no machine at hand was judged."""
    told = cheapest_text(given, words_for(language)) or texts_of(language)["plan.none"]
    lead = Sentence(text=Text(text=told), role=Role.LEAD)
    return Section(key="verdict", title=Text(text=answer.model, is_code=True), blocks=(lead,))


def _missing(answer: Answer, language: Language) -> Section:
    """What was not judged, and why."""
    texts = texts_of(language)

    def told(key: str, note: Note) -> Block:
        message = texts[note.key].format(**note.values)
        return Sentence(text=Text(text=texts[key].format(message=message)), role=Role.NOTE)

    notes = (("no_decision", answer.no_decision), ("no_plan", answer.no_plan))
    blocks = tuple(told(key, note) for key, note in notes if note is not None)
    return Section(key="missing", title=Text(text=texts["missing"]), blocks=blocks)
