"""Speed and memory of the models of a comparison, and which of them another one makes needless."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from suffice.decide.evidence import evidence_from
from suffice.decide.paired_speed import paired_decode, paired_prefill
from suffice.decide.quants_pairs import clusters_of, figures_of, pairs_of
from suffice.errors import RecordError
from suffice.model.quants import SubjectKind
from suffice.stats.multiplicity import bonferroni_level

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from suffice.decide.quantity import Quantity
    from suffice.decide.quants_types import PairedFigures, QualityPolicy
    from suffice.model.quants import AskedModel, QuantsRecord, Subject
    from suffice.records.schema import RunRecord
    from suffice.stats.estimate import Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Tokens per second with the interval, None where there is none."""

    point: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """A rate over the reference's.

    Where both were measured side by side, in three rounds or more, it is the ratio within rounds with its own interval
    (:mod:`suffice.decide.paired_speed`), and ``by_rounds``. Else the ends are those of the two intervals, least over greatest and greatest
    over least: wider than an interval of the ratio for two that are independent, and of at least 90 % for any two of 95 %. None where one
    of the two has no interval.
    """

    point: float
    low: float | None
    high: float | None
    by_rounds: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedFigures:
    """Speed and memory of one model; None: not measured.

    ``decode_depth`` is the number of tokens in the cache at which ``decode`` was measured: a verdict takes the rate at the demand's depth,
    with more range. ``marks`` are what a reader has to know of the run.
    """

    name: str
    decode: Rate | None = None
    decode_depth: float | None = None
    prefill: Rate | None = None
    decode_ratio: Ratio | None = None
    prefill_ratio: Ratio | None = None
    file_bytes: int | None = None
    peak_rss_bytes: int | None = None
    disturbed: bool | None = None
    marks: tuple[str, ...] = ()


class Front(StrEnum):
    """Whether another model is at least as good in both, speed and score."""

    NOT_DOMINATED = "not dominated"
    DOMINATED = "dominated"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontRow:
    """One model beside the others. ``dominated_by`` names those that are shown to be faster, and shown not to score less."""

    name: str
    standing: Front
    dominated_by: tuple[str, ...] = ()


def compare_speeds(record: QuantsRecord, speeds: Mapping[str, RunRecord]) -> tuple[SpeedFigures, ...]:
    """The figures of each model, in the record's order; ``speeds`` are the run records by the model's name.

    Raises:
        RecordError: a run record of another file than the model's.
    """
    reference = speeds.get(record.reference.subject.name)
    return tuple(_figures(model.subject, speeds.get(model.subject.name), reference) for model in record.models)


def _figures(subject: Subject, run: RunRecord | None, reference: RunRecord | None) -> SpeedFigures:
    if run is None:
        return SpeedFigures(name=subject.name, file_bytes=subject.file_bytes)
    _check_identity(subject, run)
    decode, prefill = _rates(run)
    first_decode, first_prefill = (decode, prefill) if run is reference else _reference_rates(reference)
    same = reference is not None and _same_machine(run, reference)
    return SpeedFigures(
        name=subject.name,
        decode=decode,
        decode_depth=_depth(run),
        prefill=prefill,
        decode_ratio=_ratio(decode, first_decode, _by_rounds(paired_decode, run, reference)) if same else None,
        prefill_ratio=_ratio(prefill, first_prefill, _by_rounds(paired_prefill, run, reference)) if same else None,
        file_bytes=run.model.file_bytes if subject.file_bytes is None else subject.file_bytes,
        peak_rss_bytes=run.measurement.peak_rss_bytes,
        disturbed=run.disturbed,
        marks=tuple(_marks(run, same_machine=same or reference is None)),
    )


def _check_identity(subject: Subject, run: RunRecord) -> None:
    is_file = subject.kind in (SubjectKind.FILE, SubjectKind.MADE)
    if is_file and run.model.identity is not None and run.model.identity != subject.identity:
        raise RecordError(
            f"the run record for {subject.name!r} is of another file ({run.model.file_name or run.model.identity[:12]}); measure it again"
        )


def _same_machine(run: RunRecord, reference: RunRecord) -> bool:
    return (run.machine, run.device_kind) == (reference.machine, reference.device_kind)


def _rates(run: RunRecord) -> tuple[Rate | None, Rate | None]:
    evidence = evidence_from(run)
    return _rate(evidence.decode_rate(None)), _rate(evidence.prefill_rate)


def _depth(run: RunRecord) -> float | None:
    points = evidence_from(run).decode
    return points[0].depth if points else None


def _reference_rates(reference: RunRecord | None) -> tuple[Rate | None, Rate | None]:
    return (None, None) if reference is None else _rates(reference)


def _rate(quantity: Quantity | None) -> Rate | None:
    if quantity is None:
        return None
    known = quantity.interval_known
    return Rate(point=quantity.point, low=quantity.low if known else None, high=quantity.high if known else None)


def _by_rounds(
    paired: Callable[[RunRecord, RunRecord], Estimate | None], run: RunRecord, reference: RunRecord | None
) -> Ratio | None:
    """The ratio within rounds; None where the two do not share enough of them, or are one."""
    if reference is None or run is reference:
        return None
    found = paired(reference, run)
    if found is None or found.interval is None:
        return None
    return Ratio(point=found.point, low=found.interval.low, high=found.interval.high, by_rounds=True)


def _ratio(own: Rate | None, reference: Rate | None, by_rounds: Ratio | None) -> Ratio | None:
    if own is None or reference is None or reference.point <= 0:
        return None
    if own is reference:
        return Ratio(point=1.0, low=1.0, high=1.0)
    if by_rounds is not None:
        return by_rounds
    bounded = None not in (own.low, own.high, reference.low, reference.high) and (reference.low or 0) > 0
    return Ratio(
        point=own.point / reference.point,
        low=(own.low or 0) / (reference.high or 1) if bounded else None,
        high=(own.high or 0) / (reference.low or 1) if bounded else None,
    )


def _marks(run: RunRecord, *, same_machine: bool) -> list[str]:
    marks = []
    if run.disturbed:
        marks.append("measured on a busy machine: its speed is a lower bound")
    if run.engine.lower_bound:
        marks.append("the engine leaves instruction sets of this CPU unused: its speed is a lower bound")
    if not run.complete:
        marks.append("its measurement was not finished")
    if not same_machine:
        marks.append("measured on another machine than the reference: the two speeds are not compared")
    return marks


def fronts(record: QuantsRecord, figures: Sequence[SpeedFigures], policy: QualityPolicy) -> tuple[FrontRow, ...]:
    """Which models are on the front of decode speed and mean score.

    A model is dominated only by one that is shown to be faster (their intervals do not meet, and the slower's machine was not
    busy), and whose score is shown to be no less: the paired interval of the difference, corrected for the number of pairs, does
    not reach above 0. What is not told apart in one of the two dominates nothing.
    """
    models = {model.subject.name: model for model in record.models}
    rates = {one.name: one for one in figures if one.decode is not None and one.name in models}
    known = [name for name in rates if any(_is_scored(record, models[name]))]
    level = bonferroni_level(policy.confidence, max(1, len(known) * (len(known) - 1) // 2))
    clusters = clusters_of(record.tasks)
    rows = []
    for name, model in models.items():
        if name not in known:
            rows.append(FrontRow(name=name, standing=Front.UNKNOWN))
            continue
        better = tuple(
            other
            for other in known
            if _is_slower(rates[name], rates[other])
            and _scores_no_more(_paired(record, clusters, models[other], model, level))
        )
        rows.append(
            FrontRow(name=name, standing=Front.DOMINATED if better else Front.NOT_DOMINATED, dominated_by=better)
        )
    return tuple(rows)


def _is_scored(record: QuantsRecord, model: AskedModel) -> list[bool]:
    return [
        task.is_labelled and outcome.score is not None
        for task, outcome in zip(record.tasks, model.outcomes, strict=True)
    ]


def _is_slower(one: SpeedFigures, other: SpeedFigures) -> bool:
    """Whether ``one`` is shown to be slower. A busy machine, or another one, shows nothing."""
    if one.decode is None or other.decode is None or one.decode.high is None or other.decode.low is None:
        return False
    if one.disturbed is not False or one.decode_ratio is None or other.decode_ratio is None:
        return False
    return one.decode.high < other.decode.low


def _paired(
    record: QuantsRecord, clusters: Sequence[str], reference: AskedModel, candidate: AskedModel, level: float
) -> PairedFigures | None:
    return figures_of(pairs_of(record.tasks, clusters, reference, candidate).scored, level)


def _scores_no_more(figures: PairedFigures | None) -> bool:
    """Whether the one that is compared is shown to score no more."""
    return figures is not None and figures.interval is not None and figures.interval.high <= 0
