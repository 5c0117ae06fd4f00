"""An answer as sections of a page, by the functions that make the report: one figure reads alike on both."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from suffice.decide import words as verdicts
from suffice.decide.compare import Decision
from suffice.decide.verdict import Grade, Verdict
from suffice.report.page.build import build_page
from suffice.report.page.costs import cheapest_text
from suffice.report.page.given import PageInput
from suffice.report.page.model import Role, Section, Sentence, Text
from suffice.report.page.plan_view import PlanView
from suffice.report.page.view_files import view_of
from suffice.report.page.words import words_for
from suffice.report.plan_document import plan_document
from suffice.web.form import SOURCE
from suffice.web.words import texts_of

if TYPE_CHECKING:
    from suffice.report.page.model import Block, Language, Page
    from suffice.web.answer import Answer, Note

_OF_A_RECORD: Final = ("verdict", "numbers", "headroom", "load", "flips")
_OF_AN_OFFER: Final = ("headroom", "load")
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
    """The verdict first, then what it rests on, and the plan; what is still being computed is left out.

    Without a record of the chosen model the best option of the plan stands in for the machine at hand, under its own name.
    """
    given = _given(answer)
    page = build_page(given, language)
    verdict = given.decision.verdict
    wanted = {_COST} if answer.plan is not None else set()
    if answer.decision is not None:
        wanted |= set(_OF_A_RECORD)
    elif verdict.constraints:
        wanted |= set(_OF_AN_OFFER)
    if verdict.service is None:
        wanted.discard("load")
    sections = [section for section in page.sections if section.key in wanted]
    if answer.no_decision is not None and answer.plan is not None:
        sections = [_offer(answer, given, language), *sections]
    missing = _missing(answer, language)
    return replace(page, sections=(*sections, missing) if missing.blocks else tuple(sections))


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
    options = () if answer.plan is None else answer.plan.options
    verdict = next((one.verdict for one in options if one.verdict is not None), _NOBODY)
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
