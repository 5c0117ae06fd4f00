"""What can be done when a model is too big: as text, as Markdown, and as JSON-able data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from suffice.catalogue.ages import OLD_AFTER_DAYS
from suffice.decide.verdict import Grade
from suffice.decide.wording import format_value, label
from suffice.report.tables import markdown_table, markdown_text, one_line, plain_table
from suffice.units import format_memory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.decide.alternatives import Alternative, AlternativeKind, Alternatives, CheckKind
    from suffice.decide.plan_types import CostPart, MonthlyCost, PriceTag
    from suffice.decide.quantity import Quantity
    from suffice.model.rpc import RpcChain

_COLUMNS: Final = ["way", "model", "on", "needs", "of", "decode", "stands", "per month", "price of"]
_CHECKS: Final = "To be checked before one of them is chosen:"


def alternatives_text(found: Alternatives) -> str:
    """For a terminal: what is lacking, the ways as a table, what is to be checked, and where prices are from."""
    lines = [one_line(line) for line in _needs(found)]
    if found.items:
        lines += ["", plain_table([_COLUMNS, *_rows(found)]), "", _CHECKS]
        lines += [f"  {one_line(line)}" for line in _check_lines(found)]
    lines += ["", *(f"- {one_line(line)}" for line in _remarks(found))]
    return "\n".join([*lines, *(one_line(line) for line in _sources(found))])


def alternatives_sentences(found: Alternatives) -> tuple[str, ...]:
    """One sentence for each way, and one for each that is not there: for a plan that nothing carries."""
    return (*(one_line(_sentence(item)) for item in found.items), *(one_line(why) for why in found.missing))


def _sentence(item: Alternative) -> str:
    memory = "" if item.needed_bytes is None else f", {format_memory(item.needed_bytes)}{_each(item)}"
    rate = "" if item.decode is None else f", {_rate(item.decode)}"
    cost = item.cost_unknown or "no bill"
    if item.cost is not None:
        tags = [part.price for part in item.cost.parts]
        places = "; ".join(dict.fromkeys(f"{tag.region}, {tag.date}, {tag.source}" for tag in tags))
        cost = f"{money(item.cost)} a month ({places})"
    return f"{item.kind.value}: {item.name}{memory}{rate}: {_stands(item)}; {cost}"


def alternatives_markdown(found: Alternatives) -> str:
    """For a memo."""
    parts = ["## When the model is too big", *(markdown_text(line) for line in _needs(found))]
    if found.items:
        parts.append(markdown_table([_COLUMNS, *_rows(found)]))
        parts.append("\n".join([_CHECKS, "", *(f"- {markdown_text(line)}" for line in _check_lines(found))]))
    parts.append("\n".join(f"- {markdown_text(line)}" for line in _remarks(found)))
    sources = _sources(found)
    return "\n\n".join([*parts, *(["\n".join(f"- {markdown_text(line)}" for line in sources)] if sources else [])])


def _needs(found: Alternatives) -> list[str]:
    weights = format_memory(found.weights_bytes)
    streams = "1 stream" if found.streams == 1 else f"{found.streams} streams"
    context = f"{streams} of {found.context_tokens:,} tokens"
    if found.cache_bytes is None:
        lines = [f"{found.model} has {weights} of weights; what {context} take in its cache is not known."]
    else:
        total = format_memory(found.weights_bytes + found.cache_bytes)
        cache = format_memory(found.cache_bytes)
        lines = [f"{found.model} needs {total}: {weights} of weights and {cache} of cache for {context}."]
    words = {True: "it holds it", False: "it does not hold it", None: "whether it holds it is not known"}
    for room in found.rooms:
        usable = "an unknown memory" if room.usable_bytes is None else format_memory(room.usable_bytes)
        lines.append(f"{room.name} has {usable} for it: {words[room.fits]}.")
    return lines


def _rows(found: Alternatives) -> list[list[str]]:
    numbers = _numbers(found)
    return [
        [
            item.kind.value,
            item.model,
            item.where,
            "unknown" if item.needed_bytes is None else format_memory(item.needed_bytes) + _each(item),
            "unknown" if item.usable_bytes is None else format_memory(item.usable_bytes) + _each(item),
            _rate(item.decode),
            _stands(item),
            "unknown" if item.cost is None else money(item.cost),
            "" if item.cost is None else _price(item.cost, numbers),
        ]
        for item in found.items
    ]


def _stands(item: Alternative) -> str:
    """The grade, and unless it is enough by what."""
    if item.grade is Grade.ENOUGH or item.binding is None:
        return item.grade.value
    return f"{item.grade.value}: {label(item.binding)}"


def _each(item: Alternative) -> str:
    return "" if item.chain is None else " each"


def money(cost: MonthlyCost) -> str:
    """Whole units of the currency, and two decimals below ten."""
    digits = 0 if cost.amount >= 10 else 2  # noqa: PLR2004 - below it cents matter
    return f"{cost.amount:,.{digits}f} {cost.currency}"


def _price(cost: MonthlyCost, numbers: dict[str, int]) -> str:
    tags = [part.price for part in cost.parts]
    places = dict.fromkeys(
        f"{tag.region}, {tag.date}{'*' if tag.is_old else ''} [{numbers[tag.source]}]" for tag in tags
    )
    return "; ".join(places)


def _numbers(found: Alternatives) -> dict[str, int]:
    tags = [part.price for item in found.items if item.cost is not None for part in item.cost.parts]
    return {source: number for number, source in enumerate(dict.fromkeys(tag.source for tag in tags), start=1)}


def _sources(found: Alternatives) -> list[str]:
    return [f"[{number}] {source}" for source, number in _numbers(found).items()]


def _rate(rate: Quantity | None) -> str:
    if rate is None:
        return "unknown"
    text = format_value(rate.point, "tokens/s")
    if rate.low is None or rate.high is None:
        return f"{text} by its bytes, no range ({rate.basis.value})"
    return f"{text} ({rate.low:.3g} to {rate.high:.3g}, {rate.basis.value})"


def _check_lines(found: Alternatives) -> list[str]:
    """Of each way the first check of a kind: those of its other alternatives differ in the names."""
    first: dict[tuple[AlternativeKind, CheckKind], str] = {}
    for item in found.items:
        for check in item.checks:
            first.setdefault((item.kind, check.kind), f"{item.kind.value}: {check.what}: `{check.command}`")
    return list(first.values())


def _remarks(found: Alternatives) -> list[str]:
    own = [f"{item.name}: {note}" for item in found.items for note in item.notes]
    old = any(part.price.is_old for item in found.items if item.cost is not None for part in item.cost.parts)
    marks = [f"* the price is over {OLD_AFTER_DAYS} days old, or without a date: `suffice catalog refresh`, or ask"]
    return [*own, *found.missing, *found.notes, *(marks if old else [])]


def alternatives_document(found: Alternatives) -> dict[str, Any]:
    """Everything with its numbers and sources."""
    cache = found.cache_bytes
    return {
        "model": found.model,
        "weights_bytes": found.weights_bytes,
        "cache_bytes": cache,
        "needed_bytes": None if cache is None else found.weights_bytes + cache,
        "context_tokens": found.context_tokens,
        "streams": found.streams,
        "rooms": [{"name": r.name, "usable_bytes": r.usable_bytes, "fits": r.fits} for r in found.rooms],
        "alternatives": [_document(item) for item in found.items],
        "missing": list(found.missing),
        "notes": list(found.notes),
    }


def _document(item: Alternative) -> dict[str, Any]:
    rate, cost = item.decode, item.cost
    parts: Sequence[CostPart] = () if cost is None else cost.parts
    return {
        "kind": item.kind.value,
        "name": item.name,
        "model": item.model,
        "where": item.where,
        "verdict": item.grade.value,
        "reason": item.reason,
        "binding": item.binding,
        "weights_bytes": item.weights_bytes,
        "needed_bytes": item.needed_bytes,
        "usable_bytes": item.usable_bytes,
        "fits": item.fits,
        "decode_tokens_per_second": None if rate is None else rate.point,
        "low": None if rate is None else rate.low,
        "high": None if rate is None else rate.high,
        "basis": None if rate is None else rate.basis.value,
        "monthly_cost": None if cost is None else cost.amount,
        "currency": None if cost is None else cost.currency,
        "price_date": None if cost is None else cost.price_date,
        "prices": [_tag(part.price) for part in parts],
        "cost_parts": [{"name": part.name, "amount": part.amount, "units": part.units} for part in parts],
        "cost_unknown": item.cost_unknown,
        "chain": None if item.chain is None else _chain(item.chain, item.network_s),
        "checks": [{"kind": check.kind.value, "what": check.what, "command": check.command} for check in item.checks],
        "notes": list(item.notes),
    }


def _tag(tag: PriceTag) -> dict[str, Any]:
    return {
        "amount": tag.amount,
        "unit": tag.unit,
        "currency": tag.currency,
        "region": tag.region,
        "date": tag.date,
        "source": tag.source,
        "is_old": tag.is_old,
    }


def _chain(chain: RpcChain, network_s: tuple[float, float] | None) -> dict[str, Any]:
    fast_s, slow_s = (None, None) if network_s is None else network_s
    return {
        "machines": chain.machines,
        "hidden_state_bytes": chain.hop_bytes(),
        "crossings": chain.crossings,
        "logits_bytes": chain.logits_bytes,
        "bytes_per_token": chain.pass_bytes(),
        "round_trips": chain.servers,
        "network_s_at_best": fast_s,
        "network_s_at_worst": slow_s,
    }
