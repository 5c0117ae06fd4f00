"""A plan as text for a terminal and as Markdown: options ranked, every price with currency, region, date and source."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

from suffice.catalogue.ages import OLD_AFTER_DAYS
from suffice.decide.plan_rank import unit_name
from suffice.decide.verdict import Grade
from suffice.decide.wording import headroom_text, label
from suffice.report.alternatives import alternatives_markdown, alternatives_text
from suffice.report.tables import markdown_table, markdown_text, one_line, plain_table
from suffice.units import MEGA

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from suffice.decide.plan_curves import CostCurve
    from suffice.decide.plan_types import CostPart, Crossover, MonthlyCost, Plan, PlanOption, PriceTag
    from suffice.decide.quantity import Quantity

SHOWN: Final = 12
_COLUMNS: Final = ["option", "stands", "a month", "1M tokens", "busy", "headroom", "basis", "price"]
_LEAST_FAILING: Final = 2  # that are shown in any case, so that nobody asks whether the others were looked at
_MOST_NOTES: Final = 4  # of an option


def money(amount: float, currency: str) -> str:
    """An amount to the cent: ``money(1234.5, "EUR") == "1,234.50 EUR"``."""
    return f"{amount:,.2f} {currency}"


def price_text(price: PriceTag) -> str:
    """A price with all that it needs: ``0.357 USD an hour (us-east-1, 2026-07-20, ...)``; * marks an old one."""
    old = " *" if price.is_old else ""
    each = "an hour" if price.unit == "hour" else f"per {price.unit}"
    return f"{price.amount:.10g} {price.currency} {each} ({price.region}, {price.date}{old}, {price.source})"


def conversion_text(rate: PriceTag) -> str:
    """A stated rate of currencies: ``1 EUR = 1.08 USD (stated, 2026-11-30, --rate)``."""
    return f"1 {rate.unit} = {rate.amount:.10g} {rate.currency} ({rate.region}, {rate.date}, {rate.source})"


def part_text(part: CostPart, currency: str) -> str:
    """One line of a bill, as it is worked out."""
    converted = "" if part.conversion is None else f" x {part.conversion.amount:.10g}"
    return f"{part.name}: {part.units:,.6g} x {part.price.amount:.10g}{converted} = {money(part.amount, currency)}"


def cost_text(cost: MonthlyCost | None) -> str:
    """A bill with its range: ``1,358.53 USD (679.27 to 1,358.53)``, ``2,942.11 USD (at least 2,812.00, no upper end known)``."""
    if cost is None:
        return "unknown"
    if cost.low is None and cost.high is None:
        return money(cost.amount, cost.currency)
    if cost.high is None:
        told = f"at least {cost.low:,.2f}, no upper end known"
    elif cost.low is None:
        told = f"at most {cost.high:,.2f}, no lower end known"
    else:
        told = f"{cost.low:,.2f} to {cost.high:,.2f}"
    return f"{money(cost.amount, cost.currency)} ({told})"


def shown_options(plan: Plan, top: int = SHOWN) -> tuple[PlanOption, ...]:
    """So many of a plan's options: the best, one of each kind at least, and the nearest of those that fail."""
    best_of_kind = {option.kind: option for option in reversed(plan.options)}
    failing = [option for option in plan.options if option.grade is Grade.NOT_ENOUGH][:_LEAST_FAILING]
    musts = [*best_of_kind.values(), *failing]
    chosen = list(plan.options[:top])
    for option in musts:
        if option not in chosen:
            chosen.append(option)
    spare = [option for option in reversed(chosen) if option not in musts]
    for option in spare[: max(0, len(chosen) - top)]:
        chosen.remove(option)
    return tuple(sorted(chosen, key=plan.options.index))


def plan_text(plan: Plan, top: int = SHOWN) -> str:
    """For a terminal: who is enough and at what price, what the others lack, where costs cross, and where prices are from."""
    shown = shown_options(plan, top)
    lines = [_title(plan)]
    if shown:
        lines += ["", plain_table([_COLUMNS, *_rows(shown)]), ""]
    lines += [f"{option.name}: {one_line(option.reason)}" for option in shown]
    lines += _section("bills", _bill_lines(shown))
    lines += _section("where costs cross", crossover_lines(plan.crossovers))
    lines += _section("cost against users at the same time", user_lines(plan.user_curves))
    lines += _section("what has to be known", [*_option_notes(shown), *plan.notes])
    lines += _section("prices", _price_lines(_priced(plan, shown)))
    if plan.too_big is not None:
        lines += ["", "when the model is too big:", alternatives_text(plan.too_big)]
    return "\n".join(lines)


def plan_markdown(plan: Plan, top: int = SHOWN) -> str:
    """The same as Markdown."""
    shown = shown_options(plan, top)
    parts = [f"# Plan: {markdown_text(_title(plan))}"]
    if shown:
        parts.append(markdown_table([_COLUMNS, *_rows(shown)]))
    sections = [
        ("Why", [f"{option.name}: {option.reason}" for option in shown]),
        ("Bills", _bill_lines(shown)),
        ("Where costs cross", crossover_lines(plan.crossovers)),
        ("Cost against users at the same time", user_lines(plan.user_curves)),
        ("What has to be known", [*_option_notes(shown), *plan.notes]),
        ("Prices", _price_lines(_priced(plan, shown))),
    ]
    for title, lines in sections:
        if lines:
            parts += [f"## {title}", "\n".join(f"- {markdown_text(line)}" for line in lines)]
    if plan.too_big is not None:
        parts.append(alternatives_markdown(plan.too_big))
    return "\n\n".join(parts) + "\n"


def _section(title: str, lines: Sequence[str]) -> list[str]:
    return ["", f"{title}:", *(f"  {one_line(line)}" for line in lines)] if lines else []


def _title(plan: Plan) -> str:
    best = next((option for option in plan.options if option.grade in (Grade.ENOUGH, Grade.THIN)), None)
    looked = f"{plan.judged:,} options looked at"
    if best is None:
        opened = any(option.grade is Grade.OPEN for option in plan.options)
        what = "nothing is shown to be enough" if opened else "nothing is enough"
        return f"{what} for {plan.model}; {looked}"
    cost = "whose bill is not known" if best.cost is None else f"{cost_text(best.cost)} a month"
    stands = "enough" if best.is_enough else "enough without the margin"
    return f"{best.name} is {stands} for {plan.model}: {cost}; {looked}"


def _rows(options: Iterable[PlanOption]) -> list[list[str]]:
    return [
        [
            option.name,
            option.grade.value,
            cost_text(option.cost),
            per_million_text(option),
            "" if option.utilisation is None else f"{option.utilisation:.0%}",
            _headroom(option),
            "" if option.basis is None else option.basis.value,
            _price_cell(option),
        ]
        for option in options
    ]


def per_million_text(option: PlanOption) -> str:
    """What a million tokens that kept their limits costs; "undefined" where limits are missed or nobody knows."""
    quantity: Quantity | None = option.cost_per_million
    if quantity is None or option.cost is None:
        return "undefined"
    return money(quantity.point, option.cost.currency)


def _headroom(option: PlanOption) -> str:
    if option.binding is None:
        return "unknown"
    return f"{headroom_text(option.headroom)} of {label(option.binding)}"


def _price_cell(option: PlanOption) -> str:
    prices = _prices_of(option)
    cells = [f"{p.amount:.6g} {p.currency}/{p.unit}, {p.region}, {p.date}{' *' if p.is_old else ''}" for p in prices]
    return "; ".join(dict.fromkeys(cells)) or "not known"


def _prices_of(option: PlanOption) -> list[PriceTag]:
    """Of its bill, else those that are published; of a hybrid those of its parts."""
    parts = () if option.cost is None else option.cost.parts
    found = [part.price for part in parts] or list(option.prices)
    return list(dict.fromkeys(found))


def _bill_lines(options: Iterable[PlanOption]) -> list[str]:
    return [
        f"{option.name}: {'; '.join(part_text(part, option.cost.currency) for part in option.cost.parts)}"
        for option in options
        if option.cost is not None and option.grade is not Grade.NOT_ENOUGH
    ]


def crossover_lines(found: Iterable[Crossover]) -> list[str]:
    """From which volume on a machine costs less than an API."""
    return [
        f"above {_millions(one.tokens_per_month)} million generated tokens a month"
        + ("" if one.times_the_demand is None else f" ({one.times_the_demand:.3g} times the demand's)")
        + f" {one.cheaper_above} costs less than {one.cheaper_below}"
        + _carried_text(one)
        for one in found
    ]


def user_lines(curves: Iterable[CostCurve]) -> list[str]:
    """What as many of a machine as hold so many users with the margin cost a month; the last number is the most that was looked at, or that is held."""
    return [
        f"{curve.name}: "
        + ", ".join(f"{users}: {money(amount, curve.currency)}" for users, amount in _user_steps(curve))
        for curve in curves
    ]


def _user_steps(curve: CostCurve) -> Iterator[tuple[str, float]]:
    """Numbers of users with the same bill as one: ``1 to 4``."""
    for amount, points in groupby(curve.points, key=lambda point: point[1]):
        users = [f"{x:.0f}" for x, _ in points]
        yield (users[0] if len(users) == 1 else f"{users[0]} to {users[-1]}"), amount


def _carried_text(one: Crossover) -> str:
    if one.up_to_tokens_per_month is None:
        return ""
    return f", up to {_millions(one.up_to_tokens_per_month)} million, which is all that it is shown to carry"


def _millions(tokens: float) -> str:
    """With a decimal, or with three digits where that would be none: ``61,382.0``, ``0.0042``."""
    return f"{tokens / MEGA:,.1f}" if tokens >= MEGA else f"{tokens / MEGA:.3g}"


def _option_notes(options: Iterable[PlanOption]) -> list[str]:
    """Each note once, with the names of the options that it is about."""
    about: dict[str, list[str]] = {}
    for option in options:
        if option.grade is not Grade.NOT_ENOUGH:
            for note in option.notes[:_MOST_NOTES]:
                about.setdefault(note, []).append(option.name)
    return [f"{', '.join(names)}: {note}" for note, names in about.items()]


def _priced(plan: Plan, shown: Sequence[PlanOption]) -> list[PlanOption]:
    """Options whose prices are told: those of the table, and those whose machines have a curve."""
    names = {curve.name for curve in plan.user_curves} - {unit_name(option) for option in shown}
    return [*shown, *(option for option in plan.options if unit_name(option) in names)]


def _price_lines(options: Iterable[PlanOption]) -> list[str]:
    shown = list(options)
    about: dict[PriceTag, list[str]] = {}
    for option in shown:
        for price in _prices_of(option):
            about.setdefault(price, []).append(option.name)
    lines = [f"{', '.join(names)}: {price_text(price)}" for price, names in about.items()]
    parts = [part for option in shown if option.cost is not None for part in option.cost.parts]
    lines += [conversion_text(part.conversion) for part in parts if part.conversion is not None]
    if any(price.is_old for price in about):
        lines.append(f"* over {OLD_AFTER_DAYS} days old, or without a date: `suffice catalog refresh`, or ask")
    if lines:
        lines.append(
            "list prices on demand; a month is 730 hours; currencies are not converted unless you state a --rate"
        )
    return list(dict.fromkeys(lines))
