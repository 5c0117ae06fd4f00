"""Latency under load: simulated for the verdict, and of a document of ``suffice simulate``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from suffice.decide.service_load import LoadKind
from suffice.decide.service_table import load_table, percent_of
from suffice.report.page.latency_charts import Curve, latency_picture
from suffice.report.page.loads import loads_blocks
from suffice.report.page.model import Role, Section, Sentence, Table, Text, english
from suffice.report.page.quantities import range_text
from suffice.report.tables import one_line

if TYPE_CHECKING:
    from suffice.decide.quantity import Quantity
    from suffice.decide.service import Served, ServiceOutlook
    from suffice.decide.service_table import LoadRow
    from suffice.report.page.given import PageInput
    from suffice.report.page.model import Block
    from suffice.report.page.simulation_view import Simulated, SimulationView
    from suffice.report.page.words import Words

_METRICS: Final = ("ttft_s", "tpot_s")


def load_section(given: PageInput, words: Words) -> Section:
    """What is known of times under load, and where nothing is, how it is found out."""
    verdict = given.decision.verdict
    blocks: list[Block] = []
    if verdict.service is not None:
        blocks += _outlook(verdict.service, one_line(verdict.machine), words)
    blocks += loads_blocks(given, words)
    if given.simulation is not None:
        blocks += _simulation(given.simulation, words)
    if not blocks:
        blocks = [Sentence(text=words.text("load.none"), role=Role.NOTE)]
    return Section(key="load", title=words.text("section.load"), blocks=tuple(blocks))


def _outlook(service: ServiceOutlook, machine: str, words: Words) -> list[Block]:
    served, drained = service.served, service.drained
    blocks: list[Block] = []
    if served is not None:
        load = words.number(served.case.demanded, served.case.kind.value)
        capacity = _quantity(served.capacity, served.case.kind.value, words)
        slots = f"{served.slots}"
        told = (
            words("load.simulated", machine=machine, load=load, slots=slots),
            words("load.capacity", capacity=capacity, load=load),
        )
        blocks += [Sentence(text=Text(text=one)) for one in told]
        blocks += _curves(served, machine, words)
    if drained is not None:
        rate = _quantity(drained.requests_per_second, LoadKind.RATE.value, words)
        blocks.append(Sentence(text=words.text("load.queue", slots=f"{drained.slots}", rate=rate)))
    return blocks


def _quantity(quantity: Quantity | None, unit: str, words: Words) -> str:
    if quantity is None:
        return words("unknown")
    point = words.number(quantity.point, unit)
    if quantity.more_untried:
        point = words("quantity.least", point=point)
    return words(
        "quantity.range", point=point, range=range_text(quantity, unit, words), basis=words.basis(quantity.basis)
    )


def _curves(served: Served, machine: str, words: Words) -> list[Block]:
    rows = load_table(served)
    if not rows:
        return []
    unit = served.case.kind.value
    table = _table(served, rows, machine, words)
    ttft, tpot = (f"{percent_of(served, metric):g}" for metric in _METRICS)
    curves = {
        "ttft_s": (
            _curve("50", rows, [row.ttft_p50_s for row in rows]),
            _curve(ttft, rows, [row.ttft_s for row in rows]),
        ),
        "tpot_s": (
            _curve("50", rows, [row.tpot_p50_s for row in rows]),
            _curve(tpot, rows, [row.tpot_s for row in rows]),
        ),
    }
    limits = {limit.metric: limit.seconds for limit in served.case.limits}
    found: list[Block] = [table]
    for metric in _METRICS:
        picture = latency_picture(
            metric, unit, curves[metric], words, limit_s=limits.get(metric), demanded=served.case.demanded
        )
        found += [] if picture is None else [picture]
    return found


def _curve(percent: str, rows: tuple[LoadRow, ...], times_s: list[float]) -> Curve:
    return Curve(percent=percent, points=tuple((row.load, time) for row, time in zip(rows, times_s, strict=True)))


def _table(served: Served, rows: tuple[LoadRow, ...], machine: str, words: Words) -> Table:
    unit = served.case.kind.value
    ttft, tpot = (f"P{percent_of(served, metric):g}" for metric in _METRICS)
    header = ("TTFT P50", f"TTFT {ttft}", "TPOT P50", f"TPOT {tpot}")
    return Table(
        caption=words.text("load.table", machine=machine),
        header=(
            words.text("column.load"),
            *(Text(text=name) for name in header),
            words.text("column.output"),
            words.text("column.limits"),
        ),
        rows=tuple(_row(row, unit, words) for row in rows),
    )


def _row(row: LoadRow, unit: str, words: Words) -> tuple[Text, ...]:
    load = words.number(row.load, unit)
    if row.is_demanded:
        load = words("brackets", outside=load, inside=words("load.demanded"))
    missed = words.joined(words(f"metric.{metric}") for metric in row.missed)
    rate = row.output_tokens_per_second
    return (
        Text(text=load, value=row.load, unit=unit),
        *(seconds_cell(value, words) for value in (row.ttft_p50_s, row.ttft_s, row.tpot_p50_s, row.tpot_s)),
        words.text("none") if math.isnan(rate) else Text(text=f"{rate:.4g}", value=rate, unit="tokens/s"),
        words.text("limits.missed", metrics=missed) if row.missed else words.text("limits.hold"),
    )


def seconds_cell(value_s: float, words: Words) -> Text:
    """A time; infinite where a queue grows for ever, NaN where nothing was answered."""
    if math.isnan(value_s):
        return words.text("none")
    return Text(text=words.number(value_s, "s"), value=value_s if math.isfinite(value_s) else None, unit="s")


def _simulation(view: SimulationView, words: Words) -> list[Block]:
    load = _simulated_load(view, words)
    told = [words("load.simulation.of", basis=words.basis(view.basis), load=load)]
    if view.searched is not None:
        told.append(_found(view, words))
    if view.outcome is not None:
        key = f"outcome.{view.outcome}"
        outcome = words(key) if key in words.texts else one_line(view.outcome)
        told.append(words("load.simulation.outcome", outcome=outcome))
    blocks: list[Block] = [Sentence(text=Text(text=words.sentences(told)))]
    if view.times:
        blocks.append(_simulation_table(view, words))
        if any(not one.supported for _, times in view.times for one in times.intervals.values()):
            blocks.append(Sentence(text=words.text("load.simulation.star"), role=Role.NOTE))
    return [*blocks, *(Sentence(text=english(one_line(note)), role=Role.MARK) for note in view.notes)]


def _simulated_load(view: SimulationView, words: Words) -> str:
    load = view.load
    arrivals = one_line(load.arrivals)
    if load.requests_per_second is not None:
        rate = words.number(load.requests_per_second, LoadKind.RATE.value)
        return words("load.arrivals.open", rate=rate, arrivals=arrivals)
    if load.users is not None:
        return words("load.arrivals.users", users=words.number(float(load.users), LoadKind.USERS.value))
    return words("load.arrivals.other", arrivals=arrivals)


def _found(view: SimulationView, words: Words) -> str:
    name = view.searched or ""
    searched = words(f"searched.{name}") if f"searched.{name}" in words.texts else one_line(name)
    if view.value is None:
        return words("load.simulation.found.none", searched=searched)
    value = words.number(view.value, LoadKind.RATE.value) if name == "rate" else f"{view.value:g}"
    return words("load.simulation.found", searched=searched, value=value)


def _simulation_table(view: SimulationView, words: Words) -> Table:
    names = list(dict.fromkeys(name for _, times in view.times for name in times.intervals))
    rows = tuple(
        (
            Text(text=words(f"metric.{metric}")),
            *(_simulated_cell(times.intervals.get(name), words) for name in names),
        )
        for metric, times in view.times
    )
    return Table(
        caption=words.text("load.simulation.table", curve=one_line(view.curve or words("unknown"))),
        header=(words.text("column.time"), *(Text(text=one_line(name.upper())) for name in names)),
        rows=rows,
    )


def _simulated_cell(found: Simulated | None, words: Words) -> Text:
    if found is None:
        return words.text("unknown")
    text = words("endless") if found.point is None else words.number(found.point, "s")
    if found.low is not None and found.high is not None:
        low, high = words.number(found.low, "s"), words.number(found.high, "s")
        text = words("percentile.range", value=text, low=low, high=high)
    return Text(text=text if found.supported else f"{text} *", value=found.point, unit="s")
