"""What every run does, whatever it measures: bandwidth before and after, the ceiling, and whether the machine was disturbed.

The record is handed out after every step, so that a run that is killed half-way keeps what it measured.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from suffice.decide.disturbance import Disturbance, judge_disturbance
from suffice.decide.plausibility import check_rate
from suffice.decide.quiet import disturbed_parts
from suffice.errors import EngineCrashError
from suffice.measure.engine.seam import EngineSettings
from suffice.measure.engine.side_by_side import SideBySide
from suffice.measure.numa import facts_on, local_share, pinned_to, placement_warning
from suffice.measure.request import RunRequest, check_request, check_same_run, check_same_slots
from suffice.measure.run_record import blank_record
from suffice.measure.service_plan import ServiceNeeds
from suffice.measure.service_run import measure_service
from suffice.model.ceiling import Workload, ceiling_of_model
from suffice.model.roofline import Roofs
from suffice.records.schema import BandwidthRecord, CeilingRecord, ContentionRecord, RunRecord
from suffice.units import format_bandwidth, format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager, ExitStack
    from pathlib import Path

    from suffice.decide.disturbance import ContentionReading
    from suffice.measure.clock import Clock
    from suffice.measure.engine.seam import Engine, Session
    from suffice.measure.machine import Machine
    from suffice.measure.observer import Observer
    from suffice.measure.series import ThreadChoice
    from suffice.measure.service_run import ServiceJob
    from suffice.records.schema import ServiceRecord
    from suffice.slices.store import SliceStore

CONTEXT_PADDING_TOKENS: Final = 256
# Shares of the budget. What is left when a step is done early goes to the repetitions.
BANDWIDTH_SHARE: Final = 0.15
MAX_BANDWIDTH_BUDGET_S: Final = 6.0
CACHE_BANDWIDTH_BUDGET_S: Final = 1.5
# Twice the last-level cache: below, part of the weights stays in it from step to step.
CACHE_MULTIPLE: Final = 2
# Where nobody says how long requests get: twice the depth of a typical one.
LONGEST_REQUEST_FACTOR: Final = 2
NOT_REPACKED: Final = (
    "the engine aborted with weights repacked for this CPU, as it would for you; measured without repacking (use_extra_buffers off), "
    "which may be slower"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The outside of a run: each a seam with a fake."""

    engine: Engine
    machine: Machine
    clock: Clock
    progress: Callable[[str], None]
    save: Callable[[RunRecord], None]
    slices: SliceStore | None = None  # where stand-ins are written and kept; needed for models without a file


def context_to_open(request: RunRequest) -> int:
    """Tokens that the cache must hold: prompt or depth, and room for the steps behind them."""
    needed = max(request.prompt_tokens, request.depth) + CONTEXT_PADDING_TOKENS
    return -(-needed // CONTEXT_PADDING_TOKENS) * CONTEXT_PADDING_TOKENS


class Run:
    """The steps of a run, in order, on one growing record. What is measured between them is the business of a subclass."""

    def __init__(self, request: RunRequest, around: Surroundings, earlier: RunRecord | None) -> None:
        self._request, self._around = request, around
        self._facts = facts_on(around.machine.facts(), request.nodes)
        self._started_s = around.clock.now_s()
        self._warnings: list[str] = []
        self._earlier = earlier
        # A part that was measured without repacked weights goes on without them.
        asked = {} if earlier is None else earlier.settings.get("asked", {})
        self._extra_buffers = asked.get("use_extra_buffers") is not False
        if not self._extra_buffers:
            self._warnings.append(NOT_REPACKED)
        check_request(request, self._facts)
        around.progress("reading and hashing the model" if request.model.parts else "the model's shape")
        self._record = self._blank()
        if earlier is not None:
            check_same_run(earlier, self._record, asdict(self._settings()))
            check_same_slots(earlier, request)
            # Written at once with what it had: a second interruption must not lose the first part.
            self._record = replace(
                self._record,
                settings=earlier.settings,
                measurement=earlier.measurement,
                decode_tokens_per_second=earlier.decode_tokens_per_second,
                prefill_tokens_per_second=earlier.prefill_tokens_per_second,
                ttft_s=earlier.ttft_s,
                contention=ContentionRecord(references=earlier.contention.references),
            )

    def execute(self) -> RunRecord:
        """Do all of it and return the complete record."""
        self._update()  # there is something to resume from now on
        self._measure_bandwidth()
        self._update(ceiling=self._ceiling())
        self._measure()
        self._update(complete=True, warnings=tuple(self._warnings))
        return self._record

    def _blank(self) -> RunRecord:
        return blank_record(self._request, self._facts, self._around.engine.identity)

    def _measure(self) -> None:
        raise NotImplementedError

    def _open(self, path: Path, **changes: Any) -> Session:  # noqa: ANN401  # fields of the settings
        """Open a model. llama.cpp aborts where its repacked weights do not fit an architecture (MLA on AMX): then without them."""
        evict_first = bool(changes.pop("evict_first", False))
        try:
            return self._around.engine.open(path, replace(self._settings(), **changes), evict_first=evict_first)
        except EngineCrashError as error:
            if not self._extra_buffers or "SIGABRT" not in str(error):
                raise
            self._extra_buffers = False
            session = self._around.engine.open(path, replace(self._settings(), **changes), evict_first=evict_first)
            self._warnings.append(f"{NOT_REPACKED}. Its own words: {error}")
            return session

    def _update(self, **changes: Any) -> None:  # noqa: ANN401  # fields of the record
        self._record = replace(self._record, **changes)
        self._around.save(self._record)

    # -- bandwidth and ceiling --------------------------------------------------------------------------------------

    def _measure_bandwidth(self) -> None:
        if self._earlier is not None and self._earlier.bandwidth_before is not None:
            self._update(bandwidth_before=self._earlier.bandwidth_before, cache_bandwidth=self._earlier.cache_bandwidth)
            return
        budget_s = min(MAX_BANDWIDTH_BUDGET_S, BANDWIDTH_SHARE * self._request.stream_budget_s)
        self._around.progress("memory bandwidth")
        before = self._around.machine.bandwidth(budget_s=budget_s, progress=self._around.progress)
        self._update(bandwidth_before=before)
        streamed = self._request.model.shape.streamed_bytes()
        if self._facts.llc_bytes is not None and streamed < CACHE_MULTIPLE * self._facts.llc_bytes:
            self._around.progress("bandwidth at the model's size, which the cache may hold")
            cache = self._around.machine.cache_bandwidth(round(streamed), budget_s=CACHE_BANDWIDTH_BUDGET_S)
            self._update(cache_bandwidth=cache)

    def _ceiling(self) -> CeilingRecord:
        bandwidth = self._best_bandwidth()
        if bandwidth is None:
            return CeilingRecord()
        request, done = self._request, self._record.measurement
        workload = Workload(
            # Where it was measured in the end: a depth that was shortened has a higher ceiling.
            depth=done.decode[0].depth if done.decode else request.depth,
            prompt_tokens=done.prefill.prompt_tokens if done.prefill else request.prompt_tokens,
            n_ubatch=request.n_ubatch,
            type_k=request.type_k,
            type_v=request.type_v,
        )
        roofs = Roofs(bandwidth_bytes_per_s=bandwidth.read_bytes_per_s)
        ceiling = ceiling_of_model(request.model.shape, roofs, workload)
        step_bytes = bandwidth.read_bytes_per_s / ceiling.decode_tokens_per_second
        note = (
            f"{format_bandwidth(bandwidth.read_bytes_per_s)}, the fastest reading, over {format_bytes(step_bytes)} per step "
            "(weights and KV cache); readings are lower bounds, so the true ceiling is this or higher"
        )
        if bandwidth is self._record.cache_bandwidth:
            note = "the last-level cache may hold part of the model: " + note
        return CeilingRecord(
            decode_tokens_per_second=ceiling.decode_tokens_per_second,
            prefill_tokens_per_second=ceiling.prefill_tokens_per_second,
            bandwidth_bytes_per_s=bandwidth.read_bytes_per_s,
            bound=ceiling.bound.value,
            note=note,
        )

    def _best_bandwidth(self) -> BandwidthRecord | None:
        """The fastest reading: weights that the cache holds are read at the cache's speed."""
        if self._request.n_gpu_layers:
            return None  # the host's memory says nothing about a GPU's
        readings = [
            self._record.bandwidth_before,
            self._record.cache_bandwidth,
            self._record.bandwidth_after,
        ]
        return max(
            (reading for reading in readings if reading is not None),
            key=lambda reading: reading.read_bytes_per_s,
            default=None,
        )

    # -- settings --------------------------------------------------------------------------------------------------

    def _settings(self) -> EngineSettings:
        request = self._request
        threads = request.threads or self._facts.usable_cpus
        return EngineSettings(
            n_ctx=context_to_open(self._request),
            n_threads=threads,
            n_threads_batch=threads,
            n_batch=request.n_batch,
            n_ubatch=request.n_ubatch,
            type_k=request.type_k,
            type_v=request.type_v,
            flash_attention=request.flash_attention,
            use_mmap=request.use_mmap,
            n_gpu_layers=request.n_gpu_layers,
            n_sequences=request.batch,
            use_extra_buffers=self._extra_buffers,
            cpus=request.nodes[0].cpu_list if request.nodes else None,
            numa_node=request.nodes[0].number if request.nodes else None,
        )

    def _tell_placement(self, sessions: Sequence[Session]) -> None:
        """How much of the engine's memory lies on the node that it was placed on: known once it has evaluated something."""
        if not self._request.nodes:
            return
        node, held = self._request.nodes[0], [session.node_bytes() for session in sessions]
        shares = [share for one in held if (share := local_share(one, node)) is not None]
        self._update(settings={**self._record.settings, "numa_local_share": min(shares, default=None)})
        use_mmap = self._settings().use_mmap
        told = [text for one in held if (text := placement_warning(one, node, use_mmap=use_mmap)) is not None]
        self._warnings += told[:1]

    # -- service curve --------------------------------------------------------------------------------------------------

    def _serve(self, job: ServiceJob) -> list[ContentionReading]:
        """Measure the service curve into the record; the reading of the machine meanwhile, or none where nothing was measured."""

        def save(service: ServiceRecord) -> None:
            self._update(measurement=replace(self._record.measurement, service=service))

        threads = job.instances * max(job.threads.decode, job.threads.prefill)
        with pinned_to(self._request.nodes):  # what else runs is watched on the CPUs of all of them
            contention = self._around.machine.contention(threads)
            found = measure_service(job, self._around.clock, contention, self._around.progress, save)
        self._warnings += found.warnings
        if found.record is not None:
            save(found.record)
        return [] if found.reading is None else [found.reading]

    def _service_needs(self, depth: int, prompt_tokens: int) -> ServiceNeeds:
        """What the curve should cover, around the depth that the single stream was measured at."""
        request = self._request
        working = max(depth or prompt_tokens, 1)
        deepest = request.served_tokens or LONGEST_REQUEST_FACTOR * working
        context = request.model.shape.context_length
        return ServiceNeeds(
            slots=request.slots,
            working_depth=working,
            deepest=deepest if context is None else min(deepest, context),
            largest_chunk=request.n_ubatch,
        )

    def _service_budget_s(self) -> float:
        """Its share of the budget, and what the single stream has left of its own."""
        left_s = self._request.budget_s - (self._around.clock.now_s() - self._started_s)
        return max(left_s, self._request.budget_s - self._request.stream_budget_s)

    def _open_served(self, stack: ExitStack, paths: Sequence[Path], changes: Mapping[str, Any]) -> list[Session]:
        """Sessions for several sequences, which the stack closes; on several nodes each is one on every node."""
        if self._request.instances == 1:
            return [stack.enter_context(self._open(path, **changes)) for path in paths]
        return [stack.enter_context(SideBySide(self._open_on_nodes(stack, path, changes))) for path in paths]

    def _open_on_nodes(self, stack: ExitStack, path: Path, changes: Mapping[str, Any]) -> list[Session]:
        """A session on every node, its weights copied there: where they are not, it is said."""
        sessions: list[Session] = []
        for node in self._request.nodes:
            placed = {**changes, "cpus": node.cpu_list, "numa_node": node.number}
            session = stack.enter_context(self._open(path, **placed))
            warning = placement_warning(session.node_bytes(), node, use_mmap=False)
            self._warnings += [] if warning is None or warning in self._warnings else [warning]
            sessions.append(session)
        return sessions

    def _observer(self, sessions: Sequence[Session], threads: ThreadChoice) -> AbstractContextManager[Observer | None]:
        """Whoever watches each repetition: not on a GPU, of which counters and memory of the host tell nothing."""
        if self._request.n_gpu_layers:
            return nullcontext()
        with pinned_to(self._request.nodes[:1]):  # the reference kernel runs where the engine does
            pids = [session.pid for session in sessions]
            observer = self._around.machine.observer(pids, max(threads.decode, threads.prefill))
        return nullcontext() if observer is None else observer

    # -- judging the run ----------------------------------------------------------------------------------------------

    def _judge(self, *readings: ContentionReading) -> None:
        """Of the single stream, and of the service curve where it was measured."""
        self._around.progress("memory bandwidth again")
        before = self._record.bandwidth_before
        after = None if before is None else self._around.machine.bandwidth_again(before)
        self._update(bandwidth_after=after)
        disturbance = judge_disturbance(
            readings,
            None if before is None else before.read_bytes_per_s,
            None if after is None else after.read_bytes_per_s,
        )
        if self._earlier is not None and not disturbance.disturbed:
            # Nobody watched the machine between the last save of the earlier part and now.
            unseen = "the run was resumed: whether the machine was busy during its earlier part is not known"
            disturbance = Disturbance(disturbed=None, reasons=(unseen,))
        busy = disturbance.disturbed is True
        parts, references = self._record.measurement, self._record.contention.references
        found = disturbed_parts(parts, references, cause_is_told=busy)
        if found:
            disturbance = Disturbance(disturbed=True, reasons=(*(disturbance.reasons if busy else ()), *found))
        kept = asdict(readings[0])
        if len(readings) > 1:
            kept["service"] = asdict(readings[1])
        contention = replace(
            self._record.contention, disturbed=disturbance.disturbed, reasons=disturbance.reasons, readings=kept
        )
        self._update(disturbed=disturbance.disturbed, contention=contention, ceiling=self._ceiling())
        self._check_plausibility()

    def _check_plausibility(self) -> None:
        bandwidth = self._best_bandwidth()
        if bandwidth is None:
            return
        spread = 0.0
        if bandwidth.interval_high_bytes_per_s is not None:
            spread = bandwidth.interval_high_bytes_per_s / bandwidth.read_bytes_per_s - 1
        measurement, ceiling = self._record.measurement, self._record.ceiling
        found = [
            check_rate(
                f"decode at depth {series.depth}",
                series.tokens_per_second,
                ceiling_tokens_per_second=ceiling.decode_tokens_per_second,
                bandwidth_spread=spread,
                streamed_bytes=self._record.model.streamed_bytes,
            )
            for series in measurement.decode[:1]
        ]
        if measurement.prefill is not None:
            found.append(
                check_rate(
                    "prefill",
                    measurement.prefill.tokens_per_second,
                    ceiling_tokens_per_second=ceiling.prefill_tokens_per_second,
                    bandwidth_spread=spread,
                    streamed_bytes=None,
                )
            )
        self._warnings += [warning for item in found for warning in item.warnings]
        self._update(contradictions=tuple(text for item in found for text in item.contradictions))
