"""Machines to rent that would be enough, cheapest first: a table, and the same as JSON-able data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from suffice.catalogue.ages import OLD_AFTER_DAYS, is_old
from suffice.decide.wording import available_text, headroom_text, label
from suffice.report.tables import markdown_table, markdown_text, plain_table

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

    from suffice.decide.prospects import Standing

_COLUMNS = ["machine", "decode", "headroom", "per month", "region", "price of", "basis"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheapestMachines:
    """What was found in the catalogue: by currency the cheapest that are enough, and how many were judged."""

    by_currency: Mapping[str, tuple[Standing, ...]]
    judged: int
    enough: int
    today: date
    memory_unknown: int = 0  # that would be enough by their speed


def prospects_text(found: CheapestMachines) -> str:
    """For a terminal."""
    return "\n".join(
        [_title(found), *([plain_table([_COLUMNS, *_rows(found)])] if found.by_currency else []), *_notes(found)]
    )


def prospects_markdown(found: CheapestMachines) -> str:
    """For the memo."""
    parts = ["## Machines to rent", markdown_text(_title(found))]
    if found.by_currency:
        parts.append(markdown_table([_COLUMNS, *_rows(found)]))
    return "\n\n".join([*parts, *(markdown_text(note) for note in _notes(found))])


def _title(found: CheapestMachines) -> str:
    if not found.by_currency:
        return f"None of the {found.judged:,} machines of the catalogue is predicted to be enough with the margin."
    return (
        f"Cheapest machines that would be enough with the margin, of {found.judged:,} in the catalogue ({found.enough:,} are; predicted, "
        "not measured):"
    )


def _rows(found: CheapestMachines) -> list[list[str]]:
    rows = []
    for standings in found.by_currency.values():
        for one in standings:
            price = one.prospect.price
            decode = next(
                (c.constraint for c in one.verdict.constraints if c.constraint.name == "decode_tokens_per_second"), None
            )
            if price is None:
                continue
            old = " *" if is_old(price.date, found.today) else ""
            rows.append(
                [
                    one.prospect.name,
                    "not asked for" if decode is None else available_text(decode),
                    _headroom(one),
                    f"{price.per_month:,.0f} {price.currency}",
                    price.region,
                    f"{price.date}{old}",
                    "unknown" if one.verdict.basis is None else one.verdict.basis.value,
                ]
            )
    return rows


def _headroom(one: Standing) -> str:
    binding = next((c for c in one.verdict.constraints if c.constraint.name == one.verdict.binding), None)
    if binding is None:
        return "unknown"
    low = binding.constraint.headroom_range[0]
    return f"{headroom_text(binding.constraint.headroom)} of {label(binding.constraint.name)}, {headroom_text(low)} at the low end"


def _notes(found: CheapestMachines) -> list[str]:
    if not found.by_currency:
        return []
    notes = [
        (
            "List prices on demand, 730 hours; currencies are not compared; machines that earn CPU credits are left out. Measure before you buy: "
            "`suffice check` on one of them takes its --budget (its --help says which) and the time to load the model."
        )
    ]
    if found.memory_unknown:
        notes.append(
            f"{found.memory_unknown:,} more would be enough by speed; nobody states their memory, so that they are not named."
        )
    shown = [one.prospect.price for standings in found.by_currency.values() for one in standings]
    if any(price is not None and is_old(price.date, found.today) for price in shown):
        notes.append(
            f"* the price is over {OLD_AFTER_DAYS} days old, or without a date: `suffice catalog refresh`, or ask"
        )
    return notes


def prospects_document(found: CheapestMachines) -> list[dict[str, Any]]:
    """The same rows with their numbers and sources."""
    return [_document(one, found.today) for standings in found.by_currency.values() for one in standings]


def _document(one: Standing, today: date) -> dict[str, Any]:
    price, evidence = one.prospect.price, one.prospect.evidence
    decode = evidence.decode[0].rate if evidence.decode else None
    return {
        "name": one.prospect.name,
        "kind": "gpu" if evidence.is_gpu else "cpu",
        "verdict": one.verdict.verdict,
        "basis": None if one.verdict.basis is None else one.verdict.basis.value,
        "binding": one.verdict.binding,
        "decode_tokens_per_second": None if decode is None else decode.point,
        "low": None if decode is None else decode.low,
        "high": None if decode is None else decode.high,
        "rests_on": list(one.prospect.rests_on),
        "monthly_cost": None if price is None else price.per_month,
        "currency": None if price is None else price.currency,
        "region": None if price is None else price.region,
        "price_date": None if price is None else price.date,
        "price_source": None if price is None else price.source,
        "price_is_old": None if price is None else is_old(price.date, today),
    }
