"""Options with what they cost, where two of them cost the same, and where each price comes from."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from suffice.decide.verdict import Grade
from suffice.report.page import phrases
from suffice.report.page.bills import bills_table
from suffice.report.page.crossings import crossing_blocks
from suffice.report.page.model import Listing, Picture, Role, Section, Sentence, Table, Text, english
from suffice.report.page.money import money
from suffice.report.page.plan_fit import is_of_this_page, plan_doubts
from suffice.report.svg.types import LARGEST, Axis, CostBar, CostChart, Limit
from suffice.report.tables import one_line, shortened

if TYPE_CHECKING:
    from suffice.model.demand import Demand
    from suffice.report.page.given import PageInput
    from suffice.report.page.model import Block
    from suffice.report.page.plan_view import OptionView, PlanView
    from suffice.report.page.words import Words

_SHOWN: Final = 12  # options of the ranking; the plan's file has all
_LABEL_CHARACTERS: Final = 32
_TOLD: Final = 4  # bars that the alt text names; the table has all
_GRADES: Final = (Grade.ENOUGH, Grade.THIN, Grade.NOT_ENOUGH, Grade.OPEN)
_COLUMNS: Final = (
    "option",
    "kind",
    "stands",
    "monthly",
    "per_million",
    "used",
    "binding",
    "headroom",
    "basis",
    "price_date",
)


def _left_out(given: PageInput, count: int, words: Words) -> Text:
    """Where the options are that the table leaves out."""
    text = words.text("cost.more", count=f"{count}")
    return text if given.left_out is None else replace(text, text=given.left_out.format(count=count))


def cost_section(given: PageInput, words: Words) -> Section:
    """The plan, or how one is made."""
    title, plan = words.text("section.cost"), given.plan
    if plan is None:
        return Section(key="cost", title=title, blocks=(Sentence(text=words.text("cost.none"), role=Role.NOTE),))
    shown = _shown(plan)
    table, bars = _table(shown, words), _bars(shown, plan.currency, words)
    blocks: list[Block] = [*plan_doubts(given, words), Sentence(text=_intro(plan, words))]
    blocks.append(Picture(chart=_chart(bars, given.demand, plan, words), table=table) if bars else table)
    blocks.append(Listing(items=tuple(told for one in shown for told in _remarks(one, words))))
    if len(plan.options) > len(shown):
        blocks.append(Sentence(text=_left_out(given, len(plan.options) - len(shown), words), role=Role.NOTE))
    blocks += crossing_blocks(plan, words)
    bills = bills_table(shown, words)
    blocks += [] if bills is None else [bills]
    blocks += [Sentence(text=phrases.told(note, words), role=Role.NOTE) for note in (*plan.alternatives, *plan.notes)]
    return Section(key="cost", title=title, blocks=tuple(blocks))


def _shown(plan: PlanView) -> tuple[OptionView, ...]:
    """The first by rank, and those further down that the curves and crossings name: a name must be found in the table."""
    named = {curve.name for curve in plan.curves}
    named |= {name for one in plan.crossovers for name in (one.cheaper_below, one.cheaper_above)}
    # A curve is of one machine, an option of several.
    rest = [one for one in plan.options[_SHOWN:] if one.name in named or one.name.partition(" x ")[2] in named]
    return (*plan.options[:_SHOWN], *rest)


def cheapest_text(given: PageInput, words: Words) -> str:
    """The cheapest option to rent that would be enough, in a sentence; "" where the plan has none, or is of another demand or model."""
    plan = given.plan
    if plan is None or not is_of_this_page(given):
        return ""
    enough = [one for one in plan.options if _is_offer(one, plan.currency)]
    if not enough:
        return ""
    least = min(enough, key=lambda one: one.monthly_cost or 0.0)
    cost = money(least.monthly_cost, least.currency, words)
    return words(
        "lead.plan",
        name=one_line(least.name),
        model=one_line(plan.model) if plan.model else words("unknown"),
        basis=words.basis(least.basis),
        cost=cost,
        date=one_line(least.price_date or words("unknown")),
    )


def open_text(given: PageInput, words: Words) -> str:
    """The cheapest option to rent of which nobody knows whether it is enough, where it costs less than any that is; "" where there is none."""
    plan = given.plan
    if plan is None or not is_of_this_page(given):
        return ""
    enough, opened = (
        [one for one in plan.options if _is_offer(one, plan.currency, grade)] for grade in (Grade.ENOUGH, Grade.OPEN)
    )
    least = min(opened, key=lambda one: one.monthly_cost or 0.0, default=None)
    if least is None or any((one.monthly_cost or 0.0) <= (least.monthly_cost or 0.0) for one in enough):
        return ""
    return words(
        "lead.plan.open" if enough else "lead.plan.open.alone",
        name=one_line(least.name),
        cost=money(least.monthly_cost, least.currency, words),
        date=one_line(least.price_date or words("unknown")),
    )


def _is_offer(option: OptionView, currency: str, grade: Grade = Grade.ENOUGH) -> bool:
    priced = option.monthly_cost is not None and option.currency == currency
    return priced and option.grade is grade and option.kind != "this machine"


def _intro(plan: PlanView, words: Words) -> Text:
    return words.text(
        "cost.intro",
        count=f"{len(plan.options)}",
        model=one_line(plan.model) or words("unknown"),
        judged=f"{plan.judged}",
        currency=one_line(plan.currency),
    )


def _table(options: tuple[OptionView, ...], words: Words) -> Table:
    return Table(
        caption=words.text("cost.table"),
        header=tuple(words.text(f"column.{name}") for name in _COLUMNS),
        rows=tuple(_row(one, words) for one in options),
    )


def _row(option: OptionView, words: Words) -> tuple[Text, ...]:
    kind = f"kind.{option.kind}"
    per_million = option.cost_per_million_tokens
    here = f"kind.{option.name}"
    return (
        words.text(here) if here in words.texts else Text(text=one_line(option.name), is_code=True),
        words.text(kind) if kind in words.texts else Text(text=one_line(option.kind)),
        Text(text=words.grade(option.grade)),
        Text(text=_monthly(option, words), value=option.monthly_cost, unit=option.currency),
        words.text("cost.undefined")
        if per_million is None
        else Text(text=money(per_million.point, option.currency, words), value=per_million.point, unit=option.currency),
        Text(text=words.share(option.utilisation, 0), value=option.utilisation),
        words.text("unknown") if option.binding is None else Text(text=one_line(words.label(option.binding))),
        Text(text=words.headroom(option.headroom), value=option.headroom),
        Text(text=words.basis(option.basis)),
        Text(text=one_line(option.price_date or words("unknown"))),
    )


def _remarks(option: OptionView, words: Words) -> list[Text]:
    """Why it stands as it does, and what has to be known of it; in the plan's words where the page has none for all of it."""
    plain = [option.reason, *(text for text in (option.cost_unknown or "", "; ".join(option.notes)) if text)]
    said = [
        phrases.told_reason(option.reason, words),
        *(phrases.translated(one_line(text), words) for text in plain[1:]),
    ]
    name = one_line(option.name)
    ours = words.sentences(one for one in said if one)
    theirs = one_line(" ".join(text for text, one in zip(plain, said, strict=True) if text and one is None))
    found = [Text(text=words("colon", what=name, told=ours))] if ours else []
    return [*found, english(f"{name}: {theirs}")] if theirs else found


def _monthly(option: OptionView, words: Words) -> str:
    """The bill with its range; an end that nobody knows is said to be so."""
    text = money(option.monthly_cost, option.currency, words)
    ends = option.monthly_cost_low, option.monthly_cost_high
    if ends == (None, None):
        return text
    low, high = (money(end, None, words) for end in ends)
    if None not in ends:
        return words("percentile.range", value=text, low=low, high=high)
    inside = words("range.no_low", high=high) if ends[0] is None else words("range.no_high", low=low)
    return words("brackets", outside=text, inside=inside)


def _bars(options: tuple[OptionView, ...], currency: str, words: Words) -> tuple[CostBar, ...]:
    """Those in the currency of the ranking: nothing is converted."""
    return tuple(
        CostBar(
            label=shortened(one_line(one.name), _LABEL_CHARACTERS),
            text=money(one.monthly_cost, one.currency, words),
            amount=one.monthly_cost,
            grade=one.grade,
            low=one.monthly_cost_low,
            high=one.monthly_cost_high,
        )
        for one in options
        if one.currency == currency and one.monthly_cost is not None and 0 <= one.monthly_cost <= LARGEST
    )


def _chart(bars: tuple[CostBar, ...], demand: Demand, plan: PlanView, words: Words) -> CostChart:
    told = [
        words("cost.chart.row", name=bar.label, cost=bar.text, grade=words.grade(bar.grade)) for bar in bars[:_TOLD]
    ]
    budget = demand.budget_per_month if demand.currency == plan.currency else None
    limits = (
        ()
        if budget is None
        else (Limit(label=words("cost.budget", amount=money(budget, plan.currency, words)), value=budget),)
    )
    return CostChart(
        title=words("cost.chart.title"),
        description=words("cost.chart.description", rows=words.rows(told)),
        axis=Axis(label=words("cost.axis"), unit=one_line(plan.currency)),
        bars=bars,
        limits=limits,
        grade_words=tuple((grade, words.grade(grade)) for grade in _GRADES),
    )
