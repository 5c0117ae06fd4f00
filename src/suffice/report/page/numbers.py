"""The four numbers side by side: demand, ceiling, prediction and measurement of one stream's decode rate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from suffice.decide.evidence import supported_rate
from suffice.decide.quiet import undisturbed_record
from suffice.loaders.beside import beside_of
from suffice.model.basis import Basis
from suffice.report.page.model import Figure, Figures, Role, Section, Sentence, Text
from suffice.report.page.quantities import range_text
from suffice.report.tables import one_line
from suffice.units import format_bandwidth

if TYPE_CHECKING:
    from suffice.loaders.beside import Beside
    from suffice.report.page.given import NamedRun, PageInput
    from suffice.report.page.model import Block
    from suffice.report.page.words import Words

_UNIT = "tokens/s"


def numbers_section(given: PageInput, words: Words) -> Section | None:
    """The four numbers of the run that the verdict rests on; None without a run record."""
    run = given.chosen or (given.runs[0] if given.runs else None)
    if run is None:
        return None
    beside = next(iter(beside_of(run.record)), None)
    figures = Figures(
        caption=words.text("numbers.caption", machine=one_line(run.evidence.name)),
        names=(words.text("numbers.interval"), words.text("numbers.basis"), words.text("numbers.source")),
        items=(
            _demand(given, words),
            _ceiling(run, words),
            _prediction(beside, words),
            _measurement(run, words),
        ),
    )
    notes = [Sentence(text=Text(text=told), role=Role.NOTE) for told in _notes(run, beside, words)]
    blocks: tuple[Block, ...] = (Sentence(text=words.text("numbers.intro")), figures, *notes)
    return Section(key="numbers", title=words.text("section.numbers"), blocks=blocks)


def _demand(given: PageInput, words: Words) -> Figure:
    demand = given.demand
    need = demand.required_decode_tokens_per_second
    if need is None:
        return _missing("numbers.demand", "numbers.demand.none", "not stated", words)
    factor = f"{demand.margin:g}"
    margin = words.text("numbers.demand.margin", value=words.number(need * demand.margin, _UNIT), margin=factor)
    return Figure(
        label=words.text("numbers.demand"),
        value=words.cell(need, _UNIT),
        interval=words.text("numbers.demand.load", margin=factor) if demand.margin_is_of_load else margin,
        basis=Text(text=words.basis(Basis.STATED)),
        source=words.text("numbers.demand.source", file=one_line(given.demand_file)),
    )


def _missing(label: str, why: str, value: str, words: Words) -> Figure:
    nothing = words.text("none")
    return Figure(
        label=words.text(label), value=words.text(value), interval=nothing, basis=nothing, source=words.text(why)
    )


def _ceiling(run: NamedRun, words: Words) -> Figure:
    ceiling = run.record.ceiling
    if ceiling.decode_tokens_per_second is None:
        return _missing("numbers.ceiling", "numbers.ceiling.none", "unknown", words)
    source = words.text("numbers.ceiling.source.plain")
    if ceiling.bandwidth_bytes_per_s is not None:
        source = words.text("numbers.ceiling.source", bandwidth=format_bandwidth(ceiling.bandwidth_bytes_per_s))
    return Figure(
        label=words.text("numbers.ceiling"),
        value=words.cell(ceiling.decode_tokens_per_second, _UNIT),
        interval=words.text("numbers.ceiling.interval"),
        basis=Text(text=words.basis(Basis.CEILING)),
        source=source,
    )


def _prediction(beside: Beside | None, words: Words) -> Figure:
    if beside is None:
        return _missing("numbers.prediction", "numbers.prediction.none", "unknown", words)
    low, high = words.number(beside.low, _UNIT), words.number(beside.high, _UNIT)
    return Figure(
        label=words.text("numbers.prediction"),
        value=words.cell(beside.predicted, _UNIT),
        interval=words.text("range.level", low=low, high=high, level=words.share(beside.level, 0)),
        basis=Text(text=words.basis(Basis.PREDICTED)),
        source=words.text("numbers.prediction.source"),
    )


def _measurement(run: NamedRun, words: Words) -> Figure:
    record = run.record
    plain = record.decode_tokens_per_second
    if plain is None:
        return _missing("numbers.measurement", "numbers.measurement.none", "unknown", words)
    series = next((one for one in record.measurement.decode if one.batch == 1), None)
    rate = None if series is None else supported_rate(record, series.tokens_per_second, "decode", series.depth)
    source = words.text("numbers.measurement.source.plain")
    if series is not None:
        engine = " ".join(part for part in (record.engine.name, record.engine.version) if part) or words("unknown")
        source = words.text(
            "numbers.measurement.source",
            count=f"{len(series.step_s)}",
            threads=f"{series.threads}" if series.threads else words("unknown"),
            depth=f"{series.depth}",
            engine=one_line(engine),
        )
    return Figure(
        label=words.text("numbers.measurement"),
        value=words.cell(plain if rate is None else rate.point, _UNIT),
        interval=Text(text=words("range.none") if rate is None else range_text(rate, _UNIT, words)),
        basis=Text(text=words.basis(record.basis)),
        source=source,
    )


def _undisturbed(run: NamedRun, words: Words) -> list[str]:
    """What the undisturbed part of a run reached, where something disturbed it and that part tells."""
    quiet = None if run.evidence.undisturbed is None else undisturbed_record(run.record)
    series = None if quiet is None else next((one for one in quiet.measurement.decode if one.batch == 1), None)
    if quiet is None or series is None:
        return []
    rate = supported_rate(quiet, series.tokens_per_second, "decode", series.depth)
    if rate is None:
        return []
    value = words("brackets", outside=words.number(rate.point, _UNIT), inside=range_text(rate, _UNIT, words))
    return [words("numbers.undisturbed", value=value)]


def _notes(run: NamedRun, beside: Beside | None, words: Words) -> list[str]:
    measured, ceiling = run.record.decode_tokens_per_second, run.record.ceiling.decode_tokens_per_second
    notes = _undisturbed(run, words)
    if measured is not None and ceiling:
        notes.append(words("numbers.share", share=words.share(measured / ceiling, 0)))
        notes += [words("numbers.above")] if measured > ceiling else []
    if beside is not None and not beside.is_inside:
        notes.append(words("numbers.outside", level=words.share(beside.level, 0)))
    return notes
