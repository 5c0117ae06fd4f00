"""Where decode and prefill of the run lie under the roof of the measured bandwidth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.model.ceiling import DEFAULT_UBATCH
from suffice.model.roofline import PhaseWork, decode_work, prefill_work
from suffice.report.page.model import Picture, Role, Section, Sentence, Table, Text
from suffice.report.svg.types import Axis, Course, Point, RooflineChart, Series
from suffice.units import GIGA, format_bandwidth

if TYPE_CHECKING:
    from suffice.records.schema import RunRecord
    from suffice.report.page.given import PageInput
    from suffice.report.page.words import Words

_FLOP_PER_PARAMETER: Final = 2  # a multiplication and an addition for each weight of a token
_UNIT: Final = "GFLOP/s"
_PERCENT: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class _Phase:
    """A measured phase of work: what it does in how many seconds."""

    name: str
    work: PhaseWork
    seconds: float

    @property
    def intensity(self) -> float:
        return self.work.flop / self.work.read_bytes

    @property
    def flop_per_s(self) -> float:
        return self.work.flop / self.seconds


def roofline_section(given: PageInput, words: Words) -> Section | None:
    """The roofline of the run that the verdict rests on; None without a run record."""
    run = given.chosen or (given.runs[0] if given.runs else None)
    if run is None:
        return None
    title = words.text("section.roofline")
    roof = _roof(run.record)
    phases = _phases(run.record)
    if roof is None or not phases:
        return Section(
            key="roofline", title=title, blocks=(Sentence(text=words.text("roofline.none"), role=Role.NOTE),)
        )
    picture = Picture(chart=_chart(phases, roof, words), table=_table(phases, roof, words))
    note = Sentence(text=words.text("roofline.note"), role=Role.NOTE)
    return Section(key="roofline", title=title, blocks=(picture, note))


def _roof(record: RunRecord) -> float | None:
    """The bandwidth that the ceiling was computed with, so that the two agree; else the reading before the run."""
    if record.ceiling.bandwidth_bytes_per_s is not None:
        return record.ceiling.bandwidth_bytes_per_s
    return None if record.bandwidth_before is None else record.bandwidth_before.read_bytes_per_s


def _phases(record: RunRecord) -> list[_Phase]:
    """Decode of one stream, and the prompt; what the record does not say of them is not guessed."""
    model, measured = record.model, record.measurement
    active = model.active_parameters or model.parameters
    if not active or not model.streamed_bytes:
        return []
    flop, found = float(_FLOP_PER_PARAMETER * active), []
    series = next((one for one in measured.decode if one.batch == 1), None)
    rate = None if series is None or series.tokens_per_second is None else series.tokens_per_second.point
    if series is not None and rate:
        cache = _cache_bytes(record, series.depth)
        work = decode_work(weight_bytes=model.streamed_bytes, kv_bytes=cache, flop_per_token=flop)
        found.append(_Phase(name="decode", work=work, seconds=1 / rate))
    prefill = measured.prefill
    if prefill is not None and prefill.tokens_per_second is not None and prefill.tokens_per_second.point > 0:
        tokens = prefill.prompt_tokens
        ubatch = max(prefill.chunk_tokens, default=DEFAULT_UBATCH)
        work = prefill_work(
            weight_bytes=model.streamed_bytes, flop=flop * tokens, n_tokens=tokens, n_ubatch=min(ubatch, DEFAULT_UBATCH)
        )
        found.append(_Phase(name="prefill", work=work, seconds=tokens / prefill.tokens_per_second.point))
    return found


def _cache_bytes(record: RunRecord, depth: int) -> float:
    """Of the tokens that are there; layers with a window hold no more than it."""
    model = record.model
    if not model.kv_layers:
        return depth * (model.kv_bytes_per_token or 0.0)
    return sum(
        one.count * one.bytes_per_token * (depth if one.window is None else min(depth, one.window))
        for one in model.kv_layers
    )


def _chart(phases: list[_Phase], roof: float, words: Words) -> RooflineChart:
    told = [
        words(
            "roofline.row",
            phase=words(f"roofline.{phase.name}"),
            rate=words.flop_rate(phase.flop_per_s),
            roof=words.flop_rate(phase.intensity * roof),
        )
        for phase in phases
    ]
    bandwidth = format_bandwidth(roof)
    series = [
        Series(
            name=words(f"roofline.{phase.name}"),
            points=(Point(x=phase.intensity, y=phase.flop_per_s / GIGA, label=words(f"roofline.{phase.name}")),),
            course=Course.POINTS,
        )
        for phase in phases
    ]
    return RooflineChart(
        title=words("roofline.title"),
        description=words("roofline.description", bandwidth=bandwidth, rows=words.rows(told)),
        x=Axis(label=words("roofline.x"), unit="FLOP/B", log=True),
        y=Axis(label=words("roofline.y"), unit=_UNIT, log=True),
        slope=roof / GIGA,
        peak=None,
        roof_label=words("roofline.roof", bandwidth=bandwidth),
        points=tuple(series),
    )


def _share(value: float) -> str:
    """With two digits that count: a prompt may reach a small part of the memory roof."""
    return f"{float(f'{value * _PERCENT:.2g}'):g} %"


def _table(phases: list[_Phase], roof: float, words: Words) -> Table:
    rows = []
    for phase in phases:
        reached, allowed = phase.flop_per_s, phase.intensity * roof
        rows.append(
            (
                Text(text=words(f"roofline.{phase.name}")),
                Text(text=f"{phase.intensity:.4g}", value=phase.intensity, unit="FLOP/B"),
                Text(text=words.flop_rate(reached), value=reached, unit="FLOP/s"),
                Text(text=words.flop_rate(allowed), value=allowed, unit="FLOP/s"),
                Text(text=_share(reached / allowed), value=reached / allowed),
            )
        )
    names = ("phase", "intensity", "reached", "roof", "share")
    return Table(
        caption=words.text("roofline.caption"),
        header=tuple(words.text(f"column.{name}") for name in names),
        rows=tuple(rows),
    )
