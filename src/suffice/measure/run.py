"""One run, from a model file to a record: bandwidth, load, threads, repetitions, and what else the machine did meanwhile.

The record is handed out after every step, so that a run that is killed half-way keeps what it measured.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from suffice.decide.disturbance import Disturbance, judge_disturbance
from suffice.decide.plausibility import check_rate
from suffice.loaders.model_file import file_marks
from suffice.measure.attention import PLAIN_CACHE_TYPES, PROBE_SHARE, compare_attention, probe_depth
from suffice.measure.engine.seam import EngineSettings
from suffice.measure.request import RunRequest, check_request, check_same_run
from suffice.measure.run_record import blank_record, device_fields, earlier_state, measured, settings_record
from suffice.measure.series import (
    SeriesPlan,
    SeriesRunner,
    ThreadChoice,
    steps_per_repetition,
    sweep_threads,
    warm_up,
)
from suffice.model.ceiling import Workload, ceiling_of_model
from suffice.model.roofline import Roofs
from suffice.records.schema import (
    BandwidthRecord,
    CeilingRecord,
    ContentionRecord,
    LoadRecord,
    RunRecord,
)
from suffice.units import MEGA, format_bandwidth, format_bytes, format_memory

if TYPE_CHECKING:
    from collections.abc import Callable

    from suffice.decide.disturbance import ContentionReading
    from suffice.measure.clock import Clock
    from suffice.measure.engine.seam import Engine, Session
    from suffice.measure.machine import Machine
    from suffice.measure.series import WarmUp

CONTEXT_PADDING_TOKENS: Final = 256
# Two open sessions hold the weights twice, and engines that repack them once more.
ATTENTION_MEMORY_FACTOR: Final = 4
# Shares of the budget. What is left when a step is done early goes to the repetitions.
BANDWIDTH_SHARE: Final = 0.15
MAX_BANDWIDTH_BUDGET_S: Final = 6.0
CACHE_BANDWIDTH_BUDGET_S: Final = 1.5
SWEEP_SHARE: Final = 0.15
# A cold load reads the whole file from disk; it is tried when that takes a small part of the budget on a slow disk.
COLD_LOAD_SHARE: Final = 0.2
SLOW_DISK_BYTES_PER_S: Final = 200 * MEGA
# Twice the last-level cache: below, part of the weights stays in it from step to step.
CACHE_MULTIPLE: Final = 2
# A prompt whose repetitions would eat more than half of the budget is shortened, down to this.
LEAST_PROMPT_TOKENS: Final = 32
WANTED_PROMPT_REPETITIONS: Final = 6
# Bandwidth, loading and the search for settings take their part of a budget before the repetitions.
BUDGET_SAFETY: Final = 1.6


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The outside of a run: each a seam with a fake."""

    engine: Engine
    machine: Machine
    clock: Clock
    progress: Callable[[str], None]
    save: Callable[[RunRecord], None]


def measure_model(request: RunRequest, around: Surroundings, *, earlier: RunRecord | None = None) -> RunRecord:
    """Measure a model and return its record; ``earlier`` is the incomplete record of a run to go on with.

    A model that does not fit in the usable memory is not run: the record then holds its facts, the bandwidth and the ceiling.

    Raises:
        UsageError: lengths that the model cannot hold, or an ``earlier`` record of another model or settings.
        EngineError: the engine failed; what was measured before was saved.
    """
    return _Run(request, around, earlier).execute()


class _Run:
    """The steps of a run, in order, on one growing record."""

    def __init__(self, request: RunRequest, around: Surroundings, earlier: RunRecord | None) -> None:
        self._request, self._around = request, around
        self._facts = around.machine.facts()
        self._started_s = around.clock.now_s()
        self._warnings: list[str] = []
        self._earlier = earlier
        self._session: Session
        check_request(request, self._facts)
        around.progress("reading and hashing the model")
        self._marks = file_marks(request.model.parts)
        self._record = blank_record(request, self._facts, around.engine.identity)
        if earlier is not None:
            check_same_run(earlier, self._record, asdict(self._settings()))
            # Written at once with what it had: a second interruption must not lose the first part.
            self._record = replace(
                self._record,
                measurement=earlier.measurement,
                decode_tokens_per_second=earlier.decode_tokens_per_second,
                prefill_tokens_per_second=earlier.prefill_tokens_per_second,
                ttft_s=earlier.ttft_s,
            )

    def execute(self) -> RunRecord:
        self._update()  # there is something to resume from now on
        self._measure_bandwidth()
        self._update(ceiling=self._ceiling())
        if self._fits():
            self._measure_engine()
        if file_marks(self._request.model.parts) != self._marks:
            changed = "the model file was changed or replaced while it was measured: the hash may be another model's"
            self._update(contradictions=(*self._record.contradictions, changed))
        self._update(complete=True, warnings=tuple(self._warnings))
        return self._record

    def _update(self, **changes: Any) -> None:  # noqa: ANN401  # fields of the record
        self._record = replace(self._record, **changes)
        self._around.save(self._record)

    # -- bandwidth and ceiling --------------------------------------------------------------------------------------

    def _measure_bandwidth(self) -> None:
        if self._earlier is not None and self._earlier.bandwidth_before is not None:
            self._update(bandwidth_before=self._earlier.bandwidth_before, cache_bandwidth=self._earlier.cache_bandwidth)
            return
        budget_s = min(MAX_BANDWIDTH_BUDGET_S, BANDWIDTH_SHARE * self._request.budget_s)
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

    # -- the engine --------------------------------------------------------------------------------------------------

    def _fits(self) -> bool:
        """Whether weights and cache fit in the usable memory; running a model that does not would only measure the disk."""
        request = self._request
        if request.n_gpu_layers:
            return True
        kv = request.model.shape.kv_cache_bytes(self._n_ctx(), request.type_k, request.type_v) or 0.0
        needed = (request.model.shape.file_bytes or 0) + kv
        if needed <= self._facts.memory_usable_bytes:
            return True
        self._warnings.append(
            f"not run: the model needs {format_memory(needed)} and {format_memory(self._facts.memory_usable_bytes)} can be used"
        )
        return False

    def _n_ctx(self) -> int:
        needed = max(self._request.prompt_tokens, self._request.depth) + CONTEXT_PADDING_TOKENS
        return -(-needed // CONTEXT_PADDING_TOKENS) * CONTEXT_PADDING_TOKENS

    def _settings(self) -> EngineSettings:
        request = self._request
        threads = request.threads or self._facts.usable_cpus
        return EngineSettings(
            n_ctx=self._n_ctx(),
            n_threads=threads,
            n_threads_batch=threads,
            n_batch=request.n_batch,
            n_ubatch=request.n_ubatch,
            type_k=request.type_k,
            type_v=request.type_v,
            flash_attention=request.flash_attention,
            use_mmap=request.use_mmap,
            n_gpu_layers=request.n_gpu_layers,
        )

    def _measure_engine(self) -> None:
        load, self._session = self._load()
        try:
            self._update(
                settings=settings_record(self._settings(), self._session.facts),
                measurement=replace(self._record.measurement, load=load),
                **device_fields(self._session.facts, self._request, self._facts),
            )
            self._repeat(load)
        finally:
            self._session.close()

    def _load(self) -> tuple[LoadRecord, Session]:
        """Load once cold when that is quick, and once warm; the time runs until the first token is evaluated."""
        engine, model = self._around.engine, self._request.model
        settings = self._settings()
        cold_s = None
        file_bytes = model.shape.file_bytes or 0
        if file_bytes / SLOW_DISK_BYTES_PER_S <= COLD_LOAD_SHARE * self._request.budget_s and self._earlier is None:
            self._around.progress("loading the model cold")
            with engine.open(model.path, settings, evict_first=True) as session:
                first_s = sum(session.prefill(1).seconds)
                if session.facts.weights_evicted_before_load:
                    cold_s = session.facts.load_s + first_s
        self._around.progress("loading the model")
        session = engine.open(model.path, settings)
        try:
            first_s = sum(session.prefill(1).seconds)
        except BaseException:
            session.close()
            raise
        return LoadRecord(cold_s=cold_s, warm_s=session.facts.load_s + first_s), session

    def _repeat(self, load: LoadRecord) -> None:
        warm_up(self._session)
        threads = self._choose_threads(self._session)
        self._session.set_threads(threads.decode, threads.prefill)
        impression = warm_up(self._session)
        chosen = {"n_threads": threads.decode, "n_threads_batch": threads.prefill}
        self._update(settings={**self._record.settings, **chosen})
        self._choose_attention(threads, impression, load)
        session = self._session
        plan = self._plan(impression)
        state = earlier_state(self._earlier, threads, plan.prompt_tokens)
        contention = self._around.machine.contention(max(threads.decode, threads.prefill))
        contention.start()

        def between() -> None:
            rows = sum(len(rows) for rows in state.step_rows.values()) + len(state.chunk_rows)
            self._around.progress(f"repetition {rows}")
            self._update(**measured(state, self._record.measurement, load, session))

        SeriesRunner(session, self._around.clock, replace(plan, between=between), state).run()
        reading = contention.stop()
        fields = measured(state, self._record.measurement, load, session)
        fields["measurement"] = replace(fields["measurement"], budget_s=self._request.budget_s)
        self._update(**fields)
        self._judge(reading)

    def _choose_attention(self, threads: ThreadChoice, impression: WarmUp, load: LoadRecord) -> None:
        """With "auto", compare flash attention on and off where that is affordable, and go on with the faster."""
        request, facts = self._request, self._session.facts
        if request.flash_attention != "auto" or request.n_gpu_layers or not facts.resolved.flash_attention:
            return

        def open_off() -> Session:
            session = self._around.engine.open(request.model.path, replace(self._settings(), flash_attention="off"))
            session.set_threads(threads.decode, threads.prefill)
            warm_up(session)
            return session

        if self._earlier is not None:
            if self._earlier.settings.get("flash_attention") is False:
                self._session.close()
                self._session = open_off()
                self._update(settings=self._earlier.settings)
            return
        wanted = max(request.depth, request.prompt_tokens)
        depth = probe_depth(wanted, budget_s=request.budget_s, prefill_token_s=impression.prefill_token_s)
        twice = ATTENTION_MEMORY_FACTOR * (request.model.shape.file_bytes or 0)
        affordable = (load.warm_s or 0.0) <= PROBE_SHARE * request.budget_s and twice <= self._facts.memory_usable_bytes
        if depth is None or not affordable or request.type_v not in PLAIN_CACHE_TYPES:
            return
        self._around.progress("trying flash attention on and off")
        self._session, probe = compare_attention(self._session, open_off, depth)
        # Of the session that goes on: its buffers have other sizes than those of the one that was left.
        settings = settings_record(self._settings(), self._session.facts)
        settings |= {"n_threads": threads.decode, "n_threads_batch": threads.prefill}
        settings |= {"flash_attention": not probe.off_is_faster, "attention_probe": asdict(probe)}
        self._update(settings=settings)

    def _choose_threads(self, session: Session) -> ThreadChoice:
        candidates = self._facts.thread_candidates
        if self._request.threads is not None:
            candidates = (self._request.threads,)
        earlier = self._earlier.measurement if self._earlier is not None else None
        if earlier is not None and earlier.decode and earlier.prefill:
            return ThreadChoice(
                decode=earlier.decode[0].threads, prefill=earlier.prefill.threads, sweep=earlier.thread_sweep
            )
        self._around.progress("trying thread counts")
        return sweep_threads(session, candidates, self._around.clock, SWEEP_SHARE * self._request.budget_s)

    def _plan(self, impression: WarmUp) -> SeriesPlan:
        """Lengths that the rest of the budget can repeat; what was shortened is said."""
        request = self._request
        left_s = max(request.budget_s - (self._around.clock.now_s() - self._started_s), request.budget_s / 4)
        affordable = int(left_s / 2 / WANTED_PROMPT_REPETITIONS / impression.prefill_token_s)
        prompt_tokens = _shortened(request.prompt_tokens, affordable, request.n_batch)
        depth = _shortened(request.depth, int(left_s / 4 / impression.prefill_token_s), request.n_batch)
        if request.depth <= request.prompt_tokens:
            depth = min(request.depth, prompt_tokens)  # behind the prompt, which fills the cache for it anyway
        if self._earlier is not None and self._earlier.measurement.prefill and self._earlier.measurement.decode:
            prompt_tokens = self._earlier.measurement.prefill.prompt_tokens
            depth = self._earlier.measurement.decode[0].depth
        needed_s = (
            2 * WANTED_PROMPT_REPETITIONS * max(request.prompt_tokens, request.depth) * impression.prefill_token_s
        )
        for what, asked, taken in (("prompt", request.prompt_tokens, prompt_tokens), ("depth", request.depth, depth)):
            if taken < asked and request.lengths_stated:
                self._warnings.append(
                    f"the {what} was shortened from {asked} to {taken} tokens to fit the budget of {request.budget_s:g} s; "
                    f"all of it takes about --budget {math.ceil(needed_s * BUDGET_SAFETY)}s"
                )
        return SeriesPlan(
            prompt_tokens=prompt_tokens,
            depth=depth,
            steps=steps_per_repetition(impression.step_s),
            budget_s=left_s,
            rule=request.rule,
            prompt=request.prompt,
        )

    # -- judging the run ----------------------------------------------------------------------------------------------

    def _judge(self, reading: ContentionReading) -> None:
        self._around.progress("memory bandwidth again")
        before = self._record.bandwidth_before
        after = None if before is None else self._around.machine.bandwidth_again(before)
        self._update(bandwidth_after=after)
        disturbance = judge_disturbance(
            [reading],
            None if before is None else before.read_bytes_per_s,
            None if after is None else after.read_bytes_per_s,
        )
        if self._earlier is not None and not disturbance.disturbed:
            # Nobody watched the machine between the last save of the earlier part and now.
            unseen = "the run was resumed: whether the machine was busy during its earlier part is not known"
            disturbance = Disturbance(disturbed=None, reasons=(unseen,))
        contention = ContentionRecord(
            disturbed=disturbance.disturbed, reasons=disturbance.reasons, readings=asdict(reading)
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


def _shortened(asked: int, affordable: int, chunk: int) -> int:
    """At most what is affordable, in whole chunks when there are several, and never below a useful least."""
    if asked <= affordable:
        return asked
    whole = affordable // chunk * chunk if affordable >= chunk else affordable
    return min(asked, max(whole, LEAST_PROMPT_TOKENS))
