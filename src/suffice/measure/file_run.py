"""A run of a model that is here, whole: load it, choose threads and flash attention, repeat."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from suffice.decide.quiet import with_quiet
from suffice.loaders.model_file import file_marks
from suffice.measure.attention import PLAIN_CACHE_TYPES, PROBE_SHARE, compare_attention, probe_depth
from suffice.measure.base_run import Run, Surroundings, context_to_open
from suffice.measure.request import NOT_RUN
from suffice.measure.run_record import device_fields, earlier_state, measured, settings_record
from suffice.measure.series import (
    SeriesPlan,
    SeriesRunner,
    SeriesState,
    ThreadChoice,
    shortened,
    steps_per_repetition,
    sweep_threads,
    warm_up,
)
from suffice.measure.service_run import ServiceJob, estimate_speed
from suffice.records.schema import LoadRecord, RunRecord
from suffice.stats.intervals import median
from suffice.units import MEGA, format_memory

if TYPE_CHECKING:
    from contextlib import ExitStack
    from pathlib import Path

    from suffice.decide.disturbance import ContentionReading
    from suffice.measure.engine.seam import Session
    from suffice.measure.observer import Observer
    from suffice.measure.request import RunRequest
    from suffice.measure.series import WarmUp

# Two open sessions hold the weights twice, and engines that repack them once more.
ATTENTION_MEMORY_FACTOR: Final = 4
SWEEP_SHARE: Final = 0.15
# A cold load reads the whole file from disk; it is tried when that takes a small part of the budget on a slow disk.
COLD_LOAD_SHARE: Final = 0.2
SLOW_DISK_BYTES_PER_S: Final = 200 * MEGA
WANTED_PROMPT_REPETITIONS: Final = 6
# Bandwidth, loading and the search for settings take their part of a budget before the repetitions.
BUDGET_SAFETY: Final = 1.6
LEAST_MORE: Final = 1.25  # times the present budget: what is advised where that was too short


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Prompt and depth that a run repeats, in tokens."""

    prompt_tokens: int
    depth: int


def affordable_lengths(request: RunRequest, prefill_token_s: float, left_s: float, *, fillings: int = 1) -> Lengths:
    """Lengths that ``left_s`` seconds can repeat, at so many seconds a prompt token; ``fillings``: of a cache that is deeper than the prompt."""
    affordable = int(left_s / 2 / WANTED_PROMPT_REPETITIONS / prefill_token_s)
    prompt_tokens = shortened(request.prompt_tokens, affordable, request.n_batch)
    depth = shortened(request.depth, int(left_s / 4 / fillings / prefill_token_s), request.n_batch)
    if request.depth <= request.prompt_tokens:
        depth = min(request.depth, prompt_tokens)  # behind the prompt, which fills the cache for it anyway
    return Lengths(prompt_tokens=prompt_tokens, depth=depth)


def shortening_warnings(request: RunRequest, taken: Lengths, prefill_token_s: float) -> list[str]:
    """What was shortened of lengths that somebody stated, and the budget that would do."""
    if not request.lengths_stated:
        return []
    needed_s = 2 * WANTED_PROMPT_REPETITIONS * max(request.prompt_tokens, request.depth) * prefill_token_s
    # The present budget was too short, whatever the estimate says: what came before the repetitions took more than was planned.
    enough_s = max(needed_s * BUDGET_SAFETY * request.budget_factor, LEAST_MORE * request.budget_s)
    lengths = (("prompt", request.prompt_tokens, taken.prompt_tokens), ("depth", request.depth, taken.depth))
    return [
        f"the {what} was shortened from {asked} to {left} tokens to fit the budget of {request.budget_s:g} s; "
        f"all of it takes about --budget {math.ceil(enough_s)}s"
        for what, asked, left in lengths
        if left < asked
    ]


class FileRun(Run):
    """Runs a whole model, from its file or from a stand-in of random weights at ``path``."""

    def __init__(self, request: RunRequest, around: Surroundings, earlier: RunRecord | None, path: Path) -> None:
        self._path = path
        self._session: Session
        self._marks = file_marks(request.model.parts)
        super().__init__(request, around, earlier)

    def _measure(self) -> None:
        if self._fits():
            self._measure_engine()
        self._check_file()

    def _check_file(self) -> None:
        if file_marks(self._request.model.parts) != self._marks:
            changed = "the model file was changed or replaced while it was measured: the hash may be another model's"
            self._update(contradictions=(*self._record.contradictions, changed))

    def _fits(self) -> bool:
        """Whether weights and cache fit in the usable memory; running a model that does not would only measure the disk."""
        needed = self._needed_bytes()
        if self._request.n_gpu_layers or needed <= self._facts.memory_usable_bytes:
            return True
        where = " by an engine on its NUMA node" if self._request.nodes else ""
        usable = format_memory(self._facts.memory_usable_bytes)
        self._warnings.append(f"{NOT_RUN}the model needs {format_memory(needed)} and {usable} can be used{where}")
        return False

    def _needed_bytes(self) -> float:
        """Of weights and the cache of one sequence."""
        shape, request = self._request.model.shape, self._request
        kv = shape.kv_cache_bytes(context_to_open(request), request.type_k, request.type_v)
        return (shape.file_bytes or 0) + (kv or 0.0)

    def _measure_engine(self) -> None:
        load, self._session = self._load()
        try:
            self._tell_session(load)
            self._repeat(load)
        finally:
            self._session.close()

    def _tell_session(self, load: LoadRecord) -> None:
        self._update(
            settings=settings_record(self._settings(), self._session.facts),
            measurement=replace(self._record.measurement, load=load),
            **device_fields(self._session.facts, self._request, self._facts),
        )

    def _load(self) -> tuple[LoadRecord, Session]:
        """Load once cold when that is quick, and once warm; the time runs until the first token is evaluated."""
        cold_s = None
        file_bytes = self._request.model.shape.file_bytes or 0
        if (
            file_bytes / SLOW_DISK_BYTES_PER_S <= COLD_LOAD_SHARE * self._request.stream_budget_s
            and self._earlier is None
        ):
            self._around.progress("loading the model cold")
            with self._open(self._path, evict_first=True) as session:
                first_s = sum(session.prefill(1).seconds)
                if session.facts.weights_evicted_before_load:
                    cold_s = session.facts.load_s + first_s
        self._around.progress("loading the model")
        session = self._open(self._path)
        try:
            first_s = sum(session.prefill(1).seconds)
        except BaseException:
            session.close()
            raise
        return LoadRecord(cold_s=cold_s, warm_s=session.facts.load_s + first_s), session

    def _settle(self, load: LoadRecord) -> tuple[ThreadChoice, WarmUp]:
        """Choose threads and flash attention; the session is warm then, and its first impression plans the repetitions."""
        warm_up(self._session)
        threads = self._choose_threads(self._session)
        self._session.set_threads(threads.decode, threads.prefill)
        impression = warm_up(self._session)
        chosen = {"n_threads": threads.decode, "n_threads_batch": threads.prefill}
        self._update(settings={**self._record.settings, **chosen})
        self._choose_attention(threads, impression, load)
        return threads, impression

    def _repeat(self, load: LoadRecord) -> None:
        threads, impression = self._settle(load)
        with self._observer([self._session], threads) as observer:
            plan = self._plan(impression)  # with what is left of the budget when the observer is there
            state = earlier_state(self._earlier, threads, plan.prompt_tokens)
            reading = self._repeat_plan(plan, state, load, observer)
        self._tell_placement([self._session])
        readings = [] if self._request.slots == 1 else self._serve(self._service_job(threads, plan, state))
        self._judge(reading, *readings)

    def _repeat_plan(
        self, plan: SeriesPlan, state: SeriesState, load: LoadRecord, observer: Observer | None
    ) -> ContentionReading:
        """All repetitions into the record; the reading of the machine meanwhile."""
        session = self._session
        contention = self._around.machine.contention(max(state.threads.decode, state.threads.prefill))
        contention.start()

        def found() -> dict[str, Any]:
            kept = {"contention": state.kept_in(self._record.contention)}
            return measured(state, self._record.measurement, load, session.peak_rss_bytes()) | kept

        def between() -> None:
            rows = sum(len(rows) for rows in state.step_rows.values()) + len(state.chunk_rows)
            self._around.progress(f"repetition {rows}")
            self._update(**found())

        SeriesRunner(session, self._around.clock, replace(plan, between=between), state, observer).run()
        reading = contention.stop()
        last = found()
        measurement = replace(last["measurement"], budget_s=self._request.budget_s)
        self._update(**(last | {"measurement": with_quiet(measurement, state.references)}))
        return reading

    def _service_job(self, threads: ThreadChoice, plan: SeriesPlan, state: SeriesState) -> ServiceJob:
        """The service curve, in a session of its own: the single stream's has room for one."""
        self._session.close()
        request, service = self._request, None if self._earlier is None else self._earlier.measurement.service
        attention = "off" if self._record.settings.get("flash_attention") is False else request.flash_attention
        step_s = {at: median([s for row in rows for s in row]) for at, rows in state.step_rows.items()}
        read_s = math.fsum(seconds for row in state.chunk_rows for seconds in row)

        def open_sessions(stack: ExitStack, sequences: int, context: int) -> list[Session]:
            changes = {"n_sequences": sequences, "n_ctx": context, "flash_attention": attention}
            return self._open_served(stack, [self._path], changes)

        return ServiceJob(
            needs=self._service_needs(plan.depth, plan.prompt_tokens),
            speed=estimate_speed(
                step_s,
                read_s / len(state.chunk_rows) / plan.prompt_tokens,
                can_cut=not request.model.shape.kv.state_bytes_per_sequence,
            ),
            budget_s=self._service_budget_s(),
            threads=threads,
            open_sessions=open_sessions,
            fits=self._holds,
            instances=request.instances,
            earlier=service,
        )

    def _holds(self, sequences: int, context: int) -> bool:
        """Whether weights and so many caches fit in the usable memory."""
        shape, request = self._request.model.shape, self._request
        kv = shape.kv_cache_bytes(context, request.type_k, request.type_v, sequences=sequences)
        return (shape.file_bytes or 0) + (kv or 0.0) <= self._facts.memory_usable_bytes

    def _choose_attention(self, threads: ThreadChoice, impression: WarmUp, load: LoadRecord) -> None:
        """With "auto", compare flash attention on and off where that is affordable, and go on with the faster."""
        request, facts = self._request, self._session.facts
        if request.flash_attention != "auto" or request.n_gpu_layers or not facts.resolved.flash_attention:
            return

        def open_off() -> Session:
            session = self._open(self._path, flash_attention="off")
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
        depth = probe_depth(wanted, budget_s=request.stream_budget_s, prefill_token_s=impression.prefill_token_s)
        twice = ATTENTION_MEMORY_FACTOR * (request.model.shape.file_bytes or 0)
        affordable = (
            load.warm_s or 0.0
        ) <= PROBE_SHARE * request.stream_budget_s and twice <= self._facts.memory_usable_bytes
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
        return sweep_threads(session, candidates, self._around.clock, SWEEP_SHARE * self._request.stream_budget_s)

    def _plan(self, impression: WarmUp) -> SeriesPlan:
        """Lengths that the rest of the budget can repeat; what was shortened is said."""
        request = self._request
        budget_s = request.stream_budget_s
        left_s = max(budget_s - (self._around.clock.now_s() - self._started_s), budget_s / 4)
        lengths = self._earlier_lengths() or affordable_lengths(request, impression.prefill_token_s, left_s)
        self._warnings += shortening_warnings(request, lengths, impression.prefill_token_s)
        return SeriesPlan(
            prompt_tokens=lengths.prompt_tokens,
            depth=lengths.depth,
            steps=steps_per_repetition(impression.step_s),
            budget_s=left_s,
            rule=request.rule,
            prompt=request.prompt,
            batch=request.batch,
        )

    def _earlier_lengths(self) -> Lengths | None:
        """Of the repetitions that are gone on with: all must be alike."""
        measurement = None if self._earlier is None else self._earlier.measurement
        if measurement is None or measurement.prefill is None or not measurement.decode:
            return None
        return Lengths(prompt_tokens=measurement.prefill.prompt_tokens, depth=measurement.decode[0].depth)
