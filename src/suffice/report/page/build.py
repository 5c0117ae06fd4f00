"""A page from what was judged and handed in: sections in the order in which a meeting asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from suffice.decide import words as verdicts
from suffice.report.page.costs import cheapest_text, cost_section, open_text
from suffice.report.page.flips import flips_section
from suffice.report.page.headroom import headroom_section
from suffice.report.page.identity import commands_section, fingerprint_section, words_section
from suffice.report.page.latency import load_section
from suffice.report.page.lead import lead_sentence, undisturbed_sentence
from suffice.report.page.model import Language, Page, PageMarks, Role, Section, Sentence, Table, Text
from suffice.report.page.numbers import numbers_section
from suffice.report.page.phrases import told
from suffice.report.page.quality import quality_section
from suffice.report.page.roofline import roofline_section
from suffice.report.page.sources import assumptions_section
from suffice.report.page.texts import texts_of
from suffice.report.page.why import reasons
from suffice.report.page.words import words_for
from suffice.report.tables import one_line

if TYPE_CHECKING:
    from suffice.report.page.given import PageInput
    from suffice.report.page.model import Block
    from suffice.report.page.words import Words


def build_page(given: PageInput, language: Language = Language.EN) -> Page:
    """The verdict first; then numbers, charts, load, quality, cost, assumptions, flips, commands, fingerprint, and the words explained."""
    words = words_for(language)
    found = (
        _verdict_section(given, words),
        numbers_section(given, words),
        headroom_section(given, words),
        roofline_section(given, words),
        load_section(given, words),
        quality_section(given, words),
        cost_section(given, words),
        assumptions_section(given, words),
        flips_section(given, words),
        commands_section(given, words),
        fingerprint_section(given, words),
    )
    sections = [section for section in found if section is not None]
    explained = words_section((text.text for section in sections for text in texts_of(section)), words)
    return Page(
        language=language,
        title=words.text("title", machine=one_line(given.decision.verdict.machine)),
        sections=(*sections, explained) if explained is not None else tuple(sections),
        marks=PageMarks(
            as_table=words("as_table"),
            contents=words("contents"),
            made_by=words("made_by", version=given.version),
            stop=words("stop"),
        ),
    )


def _verdict_section(given: PageInput, words: Words) -> Section:
    verdict = given.decision.verdict
    offers = [] if verdict.verdict == verdicts.CPU else [cheapest_text(given, words), open_text(given, words)]
    blocks: list[Block] = [Sentence(text=Text(text=lead_sentence(given, words)), role=Role.LEAD)]
    quiet = undisturbed_sentence(given, words)
    blocks += [Sentence(text=Text(text=quiet), role=Role.MARK)] if quiet else []
    blocks += [Sentence(text=Text(text=offer))] if (offer := words.sentences(offers)) else []
    blocks += [Sentence(text=reason) for reason in reasons(given, words)]
    if verdict.settle:
        blocks.append(
            Sentence(text=told(verdict.settle, words), role=Role.NEXT, label=words("label", text=words("verdict.next")))
        )
    blocks.append(Sentence(text=_meaning(given, words), role=Role.NOTE))
    if len(given.decision.machines) > 1:
        blocks.append(_machines(given, words))
    return Section(key="verdict", title=words.text("section.verdict", verdict=verdict.verdict), blocks=tuple(blocks))


def _meaning(given: PageInput, words: Words) -> Text:
    verdict = given.decision.verdict
    meaning = words.meaning(verdict.verdict)
    if verdict.basis is None:
        return words.text("verdict.meaning.none", verdict=verdict.verdict, meaning=meaning)
    return words.text("verdict.meaning", verdict=verdict.verdict, meaning=meaning, basis=words.basis(verdict.basis))


def _machines(given: PageInput, words: Words) -> Table:
    least = given.decision.least_machine
    return Table(
        caption=words.text("verdict.machines"),
        header=tuple(words.text(f"column.{name}") for name in ("machine", "stands", "binding", "least")),
        rows=tuple(
            (
                Text(text=one_line(one.machine), is_code=True),
                Text(text=words.grade(one.grade)),
                words.text("none") if one.binding is None else Text(text=words.label(one.binding)),
                words.text("yes" if one.machine == least else "no"),
            )
            for one in given.decision.machines
        ),
    )
