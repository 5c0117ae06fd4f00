"""Assumptions with their sources and dates: the demand as stated, what the page rests on, and what the records warn of."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from suffice.report.page.model import Listing, Role, Section, Sentence, Table, Text
from suffice.report.page.money import money
from suffice.report.page.phrases import told
from suffice.report.tables import one_line

if TYPE_CHECKING:
    from suffice.model.demand import Demand, Lengths, Limit
    from suffice.report.page.given import PageInput
    from suffice.report.page.model import Block
    from suffice.report.page.words import Words


_SHOWN: Final = 50  # warnings; the record has all


def assumptions_section(given: PageInput, words: Words) -> Section:
    """What has to be believed, and who says so."""
    demand = given.demand
    blocks: list[Block] = [
        Table(
            caption=words.text("assumptions.demand"),
            header=(words.text("column.field"), words.text("column.value")),
            rows=tuple((words.text(f"demand.{name}"), cell) for name, cell in demand_rows(demand, words)),
        )
    ]
    if demand.margin != 1:
        asked = words.text("assumptions.margin", margin=f"{demand.margin:g}")
        blocks.append(Sentence(text=asked, role=Role.NOTE))
    blocks.append(_rests(given, words))
    warnings = [_warning(run.file, one, words) for run in given.runs for one in run.record.warnings]
    if warnings:
        blocks.append(Sentence(text=words.text("assumptions.warnings")))
        blocks.append(Listing(items=tuple(warnings[:_SHOWN])))
        if len(warnings) > _SHOWN:
            more = words.text("assumptions.warnings.more", count=f"{len(warnings) - _SHOWN}")
            blocks.append(Sentence(text=more, role=Role.NOTE))
    return Section(key="assumptions", title=words.text("section.assumptions"), blocks=tuple(blocks))


def _warning(file: str, warning: str, words: Words) -> Text:
    text = told(warning, words)
    return replace(text, text=words("colon", what=one_line(file), told=text.text))


def demand_rows(demand: Demand, words: Words) -> list[tuple[str, Text]]:
    """Pairs of a field's name and what was stated; what was not stated is left out."""
    kind = f"demand.kind.{demand.kind}"
    rows = [("kind", words.text(kind) if kind in words.texts else Text(text=demand.kind.value))]
    if demand.model is not None:
        rows.append(("model", Text(text=one_line(demand.model), is_code=True)))
    rows.append(("margin", Text(text=f"{demand.margin:g}", value=demand.margin)))
    rows += [
        (name, _lengths(lengths, words))
        for name, lengths in (("prompt", demand.prompt_tokens), ("output", demand.output_tokens))
        if lengths is not None
    ]
    rows += [(name, words.cell(value, unit)) for name, value, unit in _numbers(demand) if value is not None]
    rows += [
        (name, _limit(limit, words))
        for name, limit in (("ttft", demand.ttft), ("tpot", demand.tpot))
        if limit is not None
    ]
    if demand.quality_max_loss is not None:
        text = words.loss(demand.quality_max_loss)
        rows.append(("loss", Text(text=text, value=demand.quality_max_loss, unit="share")))
    if demand.images is not None:
        each = words.number(demand.images.tokens_each, "tokens")
        text = words("demand.images.value", count=f"{demand.images.per_request}", tokens=each)
        rows.append(("images", Text(text=text, value=float(demand.images.per_request))))
    if demand.budget_per_month is not None:
        text = money(demand.budget_per_month, demand.currency, words)
        rows.append(("budget", Text(text=text, value=demand.budget_per_month, unit=demand.currency)))
    return rows


def _numbers(demand: Demand) -> tuple[tuple[str, float | None, str], ...]:
    return (
        ("rate", demand.requests_per_second, "requests/s"),
        ("volume", demand.volume_per_day, "requests"),
        ("users", demand.concurrent_users, "users"),
        ("interactive_share", demand.interactive_share, "share"),
        ("decode", demand.tokens_per_second_per_user, "tokens/s"),
        ("window", demand.window_s, "s"),
        ("context", demand.context_tokens, "tokens"),
        ("memory", demand.memory_bytes, "bytes"),
        ("floor", demand.quality_floor, "share"),
    )


def _lengths(lengths: Lengths, words: Words) -> Text:
    if lengths.p50 == lengths.p95:
        return words.cell(lengths.p50, "tokens")
    p50, p95 = (words.number(length, "tokens") for length in (lengths.p50, lengths.p95))
    return Text(text=words("demand.lengths", p50=p50, p95=p95), value=lengths.p50, unit="tokens")


def _limit(limit: Limit, words: Words) -> Text:
    text = words("demand.limit", value=words.number(limit.value_s, "s"), percent=f"{limit.percentile:g}")
    return Text(text=text, value=limit.value_s, unit="s")


def _rests(given: PageInput, words: Words) -> Table:
    unknown = words.text("unknown")
    rows = [(words.text("assumptions.demand.row"), Text(text=one_line(given.demand_file), is_code=True), unknown)]
    for run in given.runs:
        date = run.record.created_at
        what = words.text("assumptions.run.row", machine=one_line(run.evidence.name))
        when = unknown if date is None else Text(text=one_line(date))
        rows.append((what, Text(text=one_line(run.file), is_code=True), when))
    for server in given.decision.served:
        for load in server.evidence.loads:
            what = words.text("assumptions.server.row", server=one_line(server.evidence.name))
            rows.append((what, Text(text=one_line(load.source), is_code=True), unknown))
    rows += [
        (words.text("assumptions.load.row"), Text(text=one_line(load.source), is_code=True), unknown)
        for load in given.loads
    ]
    rows += _of_quality(given, words)
    if given.simulation is not None:
        curve = one_line(given.simulation.curve or words("unknown"))
        rows.append((words.text("assumptions.simulation.row"), Text(text=curve), unknown))
    if given.plan is not None:
        dates = [price.date for option in given.plan.options for price in option.prices]
        when = Text(text=one_line(min(dates))) if dates else unknown
        rows.append((words.text("assumptions.plan.row"), Text(text=one_line(given.plan.model)), when))
    names = ("what", "from", "date")
    return Table(
        caption=words.text("assumptions.rests"),
        header=tuple(words.text(f"column.{name}") for name in names),
        rows=tuple(rows),
    )


def _of_quality(given: PageInput, words: Words) -> list[tuple[Text, Text, Text]]:
    if given.quality is None:
        return []
    date = given.quality.record.created_at
    when = words.text("unknown") if date is None else Text(text=one_line(date))
    name = Text(text=one_line(given.quality_file or given.quality.record.items_source), is_code=True)
    return [(words.text("assumptions.quality.row"), name, when)]
