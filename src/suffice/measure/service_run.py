"""The service curve of one run: sessions for several sequences are opened, the curve is measured, and it becomes part of the record."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.errors import EngineError
from suffice.measure.series import warm_up
from suffice.measure.service_nodes import COMPARISON_SHARE, slowdown_words
from suffice.measure.service_plan import (
    PassKind,
    PassPoint,
    ServicePlanner,
    SpeedEstimate,
    context_of,
    kept_points,
    shortfall,
)
from suffice.measure.service_series import ServiceRunner, ServiceSeries, ServiceState
from suffice.model.extrapolation import RESIDUAL_TOLERANCE, SliceTime, extrapolate, fit_layers, is_bent
from suffice.records.schema import ServicePass, ServiceRecord
from suffice.stats.intervals import median

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from suffice.decide.disturbance import ContentionReading
    from suffice.measure.clock import Clock
    from suffice.measure.contention import Contention
    from suffice.measure.engine.seam import Session
    from suffice.measure.series import DecodeAt, ThreadChoice
    from suffice.measure.service_plan import ServiceNeeds

# A step that slows down with depth by less than this share a token is noise of two short series.
_LEAST_STEP_SHARE: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeModel:
    """How the times of slices become those of the whole model (:mod:`suffice.model.extrapolation`).

    Attributes:
        counts: layers of each kind in every slice.
        full_counts: layers of each kind in the model.
        work: what one layer of each kind has to do in a pass.
    """

    counts: tuple[tuple[float, ...], ...]
    full_counts: tuple[float, ...]
    work: Callable[[PassPoint], tuple[float, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceJob:
    """One curve to measure.

    Attributes:
        needs: what it should cover.
        speed: first estimate of what passes take, in all sessions together.
        budget_s: of all its repetitions.
        threads: of decode steps of one sequence, and of everything else.
        open_sessions: sessions for so many sequences with room for so many tokens each, entered on a stack that closes them.
        fits: whether the memory holds these.
        n_sessions: that will be opened.
        instances: engines that each of these sessions stands for (:mod:`suffice.measure.engine.side_by_side`).
        whole: None where the model itself is run.
        earlier: the part that an interrupted run has measured.
        single: see :class:`~suffice.measure.service_series.ServiceSeries`.
        evict: the same.
    """

    needs: ServiceNeeds
    speed: SpeedEstimate
    budget_s: float
    threads: ThreadChoice
    open_sessions: Callable[[ExitStack, int, int], Sequence[Session]]
    fits: Callable[[int, int], bool]
    n_sessions: int = 1
    instances: int = 1
    whole: WholeModel | None = None
    earlier: ServiceRecord | None = None
    single: bool = False
    evict: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredService:
    """The curve, and what qualifies it, in words."""

    record: ServiceRecord | None  # None: nothing was measured
    reading: ContentionReading | None = None  # of the machine meanwhile
    warnings: tuple[str, ...] = ()


def measure_service(
    job: ServiceJob,
    clock: Clock,
    contention: Contention,
    progress: Callable[[str], None],
    save: Callable[[ServiceRecord], None],
) -> MeasuredService:
    """Measure a service curve and hand it to ``save`` as it grows.

    A session that cannot be opened (most likely because memory is short) is no error: the run then has no curve, and says so.

    Raises:
        EngineError: the engine failed later; what was measured before was saved.
    """
    budget_s = job.budget_s if job.instances == 1 else job.budget_s * (1 - COMPARISON_SHARE)
    planner = ServicePlanner(needs=job.needs, budget_s=budget_s, fits=job.fits)
    context_tokens, sequences = context_of(planner.whole.points()), planner.whole.batches[-1]
    state = ServiceState(n_sessions=job.n_sessions, rows=_earlier_rows(job))

    def record() -> ServiceRecord:
        return service_record(state, job, context_tokens)

    def between() -> None:
        progress(f"service curve, {sum(state.repetitions(point) for point in state.rows)} passes")
        save(record())

    progress(f"opening {sequences} sequences of {context_tokens} tokens for the service curve")
    with ExitStack() as stack:
        try:
            sessions = job.open_sessions(stack, sequences, context_tokens)
        except EngineError as error:
            words = f"the service curve was not measured: {error}; ask for fewer --slots"
            return MeasuredService(record=job.earlier, warnings=(words,))
        for session in sessions:
            session.set_threads(job.threads.decode, job.threads.prefill)
            warm_up(session)
        series = ServiceSeries(
            planner=planner,
            speed=job.speed,
            single=job.single,
            evict=job.evict,
            between=between,
        )
        contention.start()  # not before: it counts the processes that are there by then as ours
        runner = ServiceRunner(sessions, clock, state, series)
        runner.run()
        reading = contention.stop()
        compared = slowdown_words(runner, sessions, job.budget_s * COMPARISON_SHARE, progress)
    repetitions = {point: state.repetitions(point) for point in state.rows}
    kept = kept_points(job.needs, repetitions)
    state.rows = {point: rows for point, rows in state.rows.items() if point in kept}
    warnings = (*compared, *_warnings(job, record(), repetitions))
    return MeasuredService(record=record(), reading=reading, warnings=warnings)


def estimate_speed(step_s: Mapping[DecodeAt, float], token_s: float, *, can_cut: bool = True) -> SpeedEstimate:
    """Costs of passes from the series of a single stream: seconds of its steps by their depth, and of a token of its prompt.

    Raises:
        ValueError: no step of one sequence was measured.
    """
    alone = sorted((at.depth, seconds) for at, seconds in step_s.items() if at.batch == 1)
    (shallow, first_s), (deep, last_s) = alone[0], alone[-1]
    slope = max(0.0, (last_s - first_s) / (deep - shallow)) if deep > shallow else 0.0
    base_s = max(first_s - slope * shallow, _LEAST_STEP_SHARE * first_s)
    return SpeedEstimate(step_s=base_s, step_s_per_token=slope, token_s=token_s, can_cut=can_cut)


def service_record(state: ServiceState, job: ServiceJob, context_tokens: int | None) -> ServiceRecord:
    """The curve as a record keeps it."""
    passes = {kind: tuple(_pass(state, point, job.whole) for point in _of_kind(state, kind)) for kind in PassKind}
    return ServiceRecord(
        slots=job.needs.slots,
        instances=job.instances,
        context_tokens=context_tokens,
        decode_threads=job.threads.decode,
        prefill_threads=job.threads.prefill,
        decode=passes[PassKind.DECODE],
        prefill=passes[PassKind.PREFILL],
    )


def _of_kind(state: ServiceState, kind: PassKind) -> list[PassPoint]:
    return sorted(point for point in state.rows if point.kind is kind)


def _pass(state: ServiceState, point: PassPoint, whole: WholeModel | None) -> ServicePass:
    rows = state.rows[point]
    if whole is None:
        return ServicePass(size=point.size, depth=point.depth, seconds=tuple(rows[0]))
    work = whole.work(point)
    slices = [SliceTime(counts=counts, seconds=median(own)) for counts, own in zip(whole.counts, rows, strict=True)]
    return ServicePass(
        size=point.size,
        depth=point.depth,
        seconds=extrapolate(whole.counts, rows, work, whole.full_counts),
        slice_s=tuple(tuple(own) for own in rows),
        work=work,
        largest_residual=fit_layers(slices, work).largest_residual,
    )


def _earlier_rows(job: ServiceJob) -> dict[PassPoint, list[list[float]]]:
    """What an interrupted run has measured, in sessions of the same number."""
    if job.earlier is None:
        return {}
    found = [(PassKind.DECODE, one) for one in job.earlier.decode]
    found += [(PassKind.PREFILL, one) for one in job.earlier.prefill]
    rows: dict[PassPoint, list[list[float]]] = {}
    for kind, one in found:
        own = [list(one.seconds)] if job.whole is None else [list(row) for row in one.slice_s]
        if len(own) == job.n_sessions and own[0]:
            rows[PassPoint(kind, one.size, one.depth)] = own
    return rows


def _warnings(job: ServiceJob, record: ServiceRecord, repetitions: Mapping[PassPoint, int]) -> tuple[str, ...]:
    warnings = []
    lacking = shortfall(job.needs, repetitions)
    if lacking:
        warnings.append(
            f"the service curve lacks {'; '.join(lacking)}: its {job.budget_s:.3g} s or the memory were too little; give more --budget"
        )
    bent = [one for one in (*record.decode, *record.prefill) if is_bent(one.largest_residual)]
    if bent:
        worst = max(one.largest_residual or 0.0 for one in bent)
        warnings.append(
            f"the slices' times of {len(bent)} points of the service curve do not lie on a line (one is {worst:.1%} off, "
            f"{RESIDUAL_TOLERANCE:.0%} are allowed): they are left out of the curve; measure again on a quiet machine"
        )
    return tuple(warnings)
