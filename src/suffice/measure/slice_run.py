"""Slices of a model are written, run in turns, and extrapolated to all layers."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from suffice.decide.quiet import with_quiet
from suffice.errors import UsageError
from suffice.measure.attention import PLAIN_CACHE_TYPES, AttentionProbe, probe_depth, try_both
from suffice.measure.base_run import Run, Surroundings, context_to_open
from suffice.measure.expert_count import count_experts
from suffice.measure.run_record import device_fields, settings_record
from suffice.measure.series import SeriesPlan, ThreadChoice, shortened, sweep_threads, warm_up
from suffice.measure.service_run import ServiceJob, WholeModel, estimate_speed
from suffice.measure.slice_record import blank_extrapolation, earlier_slices, extrapolated
from suffice.measure.slice_series import SliceRunner, SliceState
from suffice.measure.slice_work import SliceWork
from suffice.model.extrapolation import RESIDUAL_TOLERANCE, is_bent
from suffice.model.shape import shape_from_header
from suffice.model.slices import SliceDesign, design_bytes
from suffice.stats.intervals import median
from suffice.units import format_memory

if TYPE_CHECKING:
    from contextlib import ExitStack
    from pathlib import Path

    from suffice.loaders.shape_model import ShapeModel
    from suffice.measure.engine.seam import EngineSettings, Session
    from suffice.measure.request import RunRequest
    from suffice.measure.series import WarmUp
    from suffice.records.schema import RunRecord

SWEEP_SHARE: Final = 0.15
PROMPT_SHARE: Final = 0.4  # of the time for repetitions, for those of the prompt
DEPTH_SHARE: Final = 0.3  # and for filling the caches once
BUDGET_TOLERANCE: Final = (
    1.05  # of the budget: the time of a token is an estimate, and who followed the advice has followed it
)
LEAST_LEFT_SHARE: Final = 0.5  # of the budget for repetitions, whatever was spent before
WANTED_PROMPT_REPETITIONS: Final = 3
# Slices of once to three times the cache still came out 2 to 6 % too fast for all layers: a part of them was read from it.
UNCACHED_MULTIPLE: Final = 4
ENOUGH_TO_EMPTY: Final = 2.5  # caches that the other slices read between two steps of one
EXPERTS_TOLERANCE: Final = 0.15  # random routing that differs more from an even one is said


def shortening_words(what: str, asked: int, taken: int, needed_s: float, budget_s: float) -> str:
    """What was shortened, and how to have all of it; a budget that suffices is not asked for again: the length is an earlier run's then."""
    if needed_s <= BUDGET_TOLERANCE * budget_s:
        return f"the {what} has {taken} tokens instead of {asked}, as in the run that is gone on with; a new run takes all of it"
    return (
        f"the {what} was shortened from {asked} to {taken} tokens to fit the budget of {budget_s:g} s; "
        f"all of it takes about --budget {math.ceil(needed_s)}s"
    )


class SliceRun(Run):
    """Runs slices of a model and extrapolates."""

    def __init__(
        self,
        request: RunRequest,
        around: Surroundings,
        earlier: RunRecord | None,
        model: ShapeModel,
        design: SliceDesign,
    ) -> None:
        self._model, self._design = model, design
        self._work = SliceWork(design=design, shape=model.shape, request=request)
        self._sessions: list[Session] = []
        self._flash_attention = request.flash_attention
        super().__init__(request, around, earlier)

    def _blank(self) -> RunRecord:
        record = super()._blank()
        extrapolation = blank_extrapolation(self._design)
        return replace(
            record, basis="extrapolated", measurement=replace(record.measurement, extrapolation=extrapolation)
        )

    def _settings(self) -> EngineSettings:
        # Weights are copied, as engines that repack them do anyway: a mapped file would count twice.
        return replace(super()._settings(), use_mmap=False, flash_attention=self._flash_attention)

    def _measure(self) -> None:
        paths = self._write()
        self._tell_whether_it_fits()
        try:
            threads = self._prepare(paths[0])
            self._open_others(paths)
            for session in self._sessions:
                session.set_threads(threads.decode, threads.prefill)
            settings = settings_record(self._settings(), self._largest().facts)
            settings |= {"n_threads": threads.decode, "n_threads_batch": threads.prefill}
            # Those of the slices say nothing of the whole model's weights.
            settings |= {"weight_buffer_bytes": None, "kv_cache_bytes": self._kv_bytes()}
            settings |= {"compute_buffer_bytes": self._compute_bytes()}
            # As asked, not as chosen here: a resumed run is compared with it.
            settings["asked"] |= {"flash_attention": self._request.flash_attention}
            settings |= {k: v for k, v in self._record.settings.items() if k == "attention_probe"}
            self._update(settings=settings, **device_fields(self._largest().facts, self._request, self._facts))
            self._repeat(threads, paths)
        finally:
            self._close()
        self._count_experts(paths[0])

    def _close(self) -> None:
        """Twice is harmless."""
        for session in self._sessions:
            session.close()

    # -- writing and opening ---------------------------------------------------------------------------------------------

    def _write(self) -> list[Path]:
        """All slices; writing them is not a part of the budget."""
        store, before_s = self._around.slices, self._around.clock.now_s()
        if store is None:
            raise UsageError("nothing is here to write slices with")
        paths, whole = [], format_memory(design_bytes(self._design))
        for index, plan in enumerate(self._design.plans):
            header = self._design.slice_header(plan)
            what = "1 layer" if len(plan.layers) == 1 else f"{len(plan.layers)} layers"
            self._around.progress(
                f"slice {index + 1} of {len(self._design.plans)}: {what}, {format_memory(header.tensor_bytes)} of {whole} in all"
            )
            paths.append(store.obtain(header, progress=self._around.progress))
        self._started_s += self._around.clock.now_s() - before_s
        return paths

    def _kv_bytes(self) -> float | None:
        shape, request = self._model.shape, self._request
        return shape.kv_cache_bytes(
            context_to_open(self._request), request.type_k, request.type_v, sequences=request.batch
        )

    def _tell_whether_it_fits(self) -> None:
        if self._request.n_gpu_layers:
            return  # the host's memory says nothing about a GPU's
        needed = self._model.header.file_bytes + (self._kv_bytes() or 0.0)
        usable = self._facts.memory_usable_bytes
        if needed > usable:
            self._warnings.append(
                f"the whole model needs {format_memory(needed)} of memory and {format_memory(usable)} can be used: it does not fit "
                "here; the speeds are those that it would have if it did"
            )

    def _prepare(self, path: Path) -> ThreadChoice:
        """Open the first slice and choose threads and flash attention on it."""
        self._around.progress("opening the slices")
        self._sessions = [self._open(path)]
        warm_up(self._sessions[0])
        threads = self._choose_threads(self._sessions[0])
        self._sessions[0].set_threads(threads.decode, threads.prefill)
        self._choose_attention(path, threads, warm_up(self._sessions[0]))
        return threads

    def _open_others(self, paths: list[Path]) -> None:
        for path in paths[1:]:
            self._sessions.append(self._open(path))

    def _choose_threads(self, session: Session) -> ThreadChoice:
        earlier = self._earlier.measurement if self._earlier is not None else None
        if earlier is not None and earlier.decode and earlier.prefill:
            return ThreadChoice(
                decode=earlier.decode[0].threads, prefill=earlier.prefill.threads, sweep=earlier.thread_sweep
            )
        if self._request.threads is not None:
            return ThreadChoice(decode=self._request.threads, prefill=self._request.threads)
        self._around.progress("trying thread counts")
        candidates = self._facts.thread_candidates
        return sweep_threads(session, candidates, self._around.clock, SWEEP_SHARE * self._request.stream_budget_s)

    def _choose_attention(self, path: Path, threads: ThreadChoice, impression: WarmUp) -> None:
        """With "auto", compare flash attention on and off on the first slice, scaled to all layers, and take the faster."""
        request, session = self._request, self._sessions[0]
        if request.flash_attention != "auto" or not session.facts.resolved.flash_attention:
            return
        if self._earlier is not None and "flash_attention" in self._earlier.settings:
            self._use_attention(path, on=bool(self._earlier.settings["flash_attention"]))
            return
        wanted = max(request.depth, request.prompt_tokens)
        depth = probe_depth(wanted, budget_s=request.stream_budget_s, prefill_token_s=impression.prefill_token_s)
        if depth is None or request.type_v not in PLAIN_CACHE_TYPES:
            return
        self._around.progress("trying flash attention on and off")
        with self._open(path, flash_attention="off") as off:
            off.set_threads(threads.decode, threads.prefill)
            warm_up(off)
            on_s, off_s = try_both(session, off, depth)
        probe = self._scaled_probe(depth, on_s, off_s)
        self._use_attention(path, on=not probe.off_is_faster)
        self._update(settings={**self._record.settings, "attention_probe": probe_fields(probe)})

    def _scaled_probe(self, depth: int, on_s: float, off_s: float) -> AttentionProbe:
        """What the difference in the slice's layers makes of a step of the whole model, by the bytes that both read."""
        plan = self._design.plans[0]
        header = self._design.slice_header(plan)
        whole_s = on_s * self._model.shape.streamed_bytes() / shape_from_header(header).streamed_bytes()
        gain_s = (on_s - off_s) * self._model.shape.n_layer / len(plan.layers)
        off_whole_s = max(whole_s - gain_s, whole_s / 2) if gain_s > 0 else whole_s - gain_s
        return AttentionProbe(depth=depth, on_tokens_per_second=1 / whole_s, off_tokens_per_second=1 / off_whole_s)

    def _use_attention(self, path: Path, *, on: bool) -> None:
        self._flash_attention = "on" if on else "off"
        if not on:
            self._sessions.pop().close()
            self._sessions.append(self._open(path))

    def _compute_bytes(self) -> int | None:
        """The largest of all slices: most of it are the logits of a micro-batch, and one slice has the largest vocabulary."""
        told = [session.facts.resolved.compute_buffer_bytes for session in self._sessions]
        return max((n_bytes for n_bytes in told if n_bytes is not None), default=None)

    def _largest(self) -> Session:
        lengths = [len(plan.layers) for plan in self._design.plans]
        return self._sessions[lengths.index(max(lengths))]

    # -- repetitions ------------------------------------------------------------------------------------------------------

    def _repeat(self, threads: ThreadChoice, paths: list[Path]) -> None:
        token_s = sum(warm_up(session).prefill_token_s for session in self._sessions)
        plan = self._plan(token_s)
        model = self._work.series_model(plan)
        state = earlier_slices(self._earlier, threads, plan.prompt_tokens, len(self._sessions))
        contention = self._around.machine.contention(max(threads.decode, threads.prefill))
        contention.start()

        def between() -> None:
            rows = len(state.chunk_rows[0]) + sum(len(own[0]) for own in state.step_rows.values())
            self._around.progress(f"repetition {rows}")
            self._update(**extrapolated(state, model, self._record.measurement, plan), **self._seen(state))

        plan, emptying = replace(plan, between=between), self._emptying()
        with self._observer(self._sessions, threads) as observer:
            SliceRunner(self._sessions, self._around.clock, plan, state, model, observer=observer, **emptying).run()
        reading = contention.stop()
        fields = extrapolated(state, model, self._record.measurement, plan)
        peaks = [session.peak_rss_bytes() for session in self._sessions]
        fields["measurement"] = replace(
            fields["measurement"],
            budget_s=self._request.budget_s,
            peak_rss_bytes=None if None in peaks else sum(peak or 0 for peak in peaks),
        )
        fields["measurement"] = with_quiet(fields["measurement"], state.references)
        self._update(**fields, **self._seen(state))
        self._tell_placement(self._sessions)
        self._close()  # sessions of the service curve, and the buffer that reads the bandwidth again, need the room
        self._tell_residuals()
        readings = []
        if self._request.slots > 1:
            readings = self._serve(self._service_job(threads, paths, plan, state, emptying))
        self._judge(reading, *readings)

    def _seen(self, state: SliceState) -> dict[str, Any]:
        return {"contention": state.kept_in(self._record.contention)}

    # -- service curve -----------------------------------------------------------------------------------------------------

    def _service_job(
        self, threads: ThreadChoice, paths: list[Path], plan: SeriesPlan, state: SliceState, emptying: dict[str, Any]
    ) -> ServiceJob:
        """The service curve, measured point by point in all slices."""
        steps = {
            at: math.fsum(median([s for row in own for s in row]) for own in rows)
            for at, rows in state.step_rows.items()
        }
        read_s = math.fsum(seconds for own in state.chunk_rows for row in own for seconds in row)

        def open_sessions(stack: ExitStack, sequences: int, context: int) -> list[Session]:
            return self._open_served(stack, paths, {"n_sequences": sequences, "n_ctx": context})

        return ServiceJob(
            needs=self._service_needs(plan.depth, plan.prompt_tokens),
            speed=estimate_speed(
                steps,
                read_s / len(state.chunk_rows[0]) / plan.prompt_tokens,
                can_cut=not self._model.shape.kv.state_bytes_per_sequence,
            ),
            budget_s=self._service_budget_s(),
            threads=threads,
            open_sessions=open_sessions,
            fits=partial(self._work.fits, usable_bytes=self._facts.memory_usable_bytes),
            n_sessions=len(paths),
            instances=self._request.instances,
            whole=WholeModel(
                counts=tuple(self._design.counts(one) for one in self._design.plans),
                full_counts=self._design.full_counts,
                work=self._work.of_pass,
            ),
            earlier=None if self._earlier is None else self._earlier.measurement.service,
            **emptying,
        )

    def _emptying(self) -> dict[str, Any]:
        """How the last-level cache is kept from holding a part of a slice from step to step: arguments of the runner."""
        llc_bytes = self._facts.llc_bytes
        if llc_bytes is None:
            self._warnings.append(
                "the size of the last-level cache is not known here: should it hold a slice, the figures for all layers are too high"
            )
            return {}
        read = [shape_from_header(self._design.slice_header(plan)).streamed_bytes() for plan in self._design.plans]
        if not may_be_cached(min(read), llc_bytes):
            return {}
        by_others = sum(read) - max(read) >= ENOUGH_TO_EMPTY * llc_bytes
        return {"single": True, "evict": None if by_others else self._around.machine.cache_evictor()}

    def _plan(self, token_s: float) -> SeriesPlan:
        """Lengths that the rest of the budget can repeat; what was shortened is said. ``token_s``: of a prompt, in all slices."""
        request = self._request
        spent_s = self._around.clock.now_s() - self._started_s
        left_s = max(request.stream_budget_s - spent_s, LEAST_LEFT_SHARE * request.stream_budget_s)
        lengths_s = left_s * BUDGET_TOLERANCE
        affordable = int(lengths_s * PROMPT_SHARE / WANTED_PROMPT_REPETITIONS / token_s)
        prompt_tokens = shortened(request.prompt_tokens, affordable, request.n_batch)
        depth = shortened(request.depth, int(lengths_s * DEPTH_SHARE / token_s), request.n_batch)
        if self._earlier is not None and self._earlier.measurement.prefill and self._earlier.measurement.decode:
            prompt_tokens = self._earlier.measurement.prefill.prompt_tokens
            depth = self._earlier.measurement.decode[0].depth
        for what, asked, taken, times, missed in (
            (
                "prompt",
                request.prompt_tokens,
                prompt_tokens,
                WANTED_PROMPT_REPETITIONS / PROMPT_SHARE,
                request.lengths_stated,
            ),
            ("depth", request.depth, depth, 1 / DEPTH_SHARE, True),  # decoding at less depth flatters the machine
        ):
            if taken < asked and missed:
                needed_s = times * asked * token_s / LEAST_LEFT_SHARE * request.budget_factor
                self._warnings.append(shortening_words(what, asked, taken, needed_s, request.budget_s))
        return SeriesPlan(
            prompt_tokens=prompt_tokens,
            depth=depth,
            steps=1,
            budget_s=left_s,
            rule=request.rule,
            batch=request.batch,
        )

    def _tell_residuals(self) -> None:
        extrapolation = self._record.measurement.extrapolation
        for series in () if extrapolation is None else extrapolation.series:
            if is_bent(series.largest_residual):
                self._warnings.append(
                    f"the slices' {series.phase} times at depth {series.depth} do not lie on a line (one is {series.largest_residual:.1%} off, "
                    f"{RESIDUAL_TOLERANCE:.0%} are allowed): the figure for all layers is no evidence; measure again on a quiet machine"
                )

    def _count_experts(self, path: Path) -> None:
        """Whether random weights choose experts as real ones do: counted in a session of its own, which is not timed."""
        if not self._model.shape.is_moe or self._record.measurement.extrapolation is None:
            return
        self._around.progress("counting the experts that a step touches")
        counted = count_experts(partial(self._open, path, watch_experts=True), self._request.batch)
        for use in counted:
            if abs(use.distinct_mean / use.expected - 1) > EXPERTS_TOLERANCE:
                self._warnings.append(
                    f"a step of {use.batch} touched {use.distinct_mean:.3g} experts of a layer, even routing touches {use.expected:.3g}: decode "
                    "of the real model reads another share of its weights than these slices did"
                )
        extrapolation = replace(self._record.measurement.extrapolation, experts=counted)
        self._update(measurement=replace(self._record.measurement, extrapolation=extrapolation))


def may_be_cached(read_bytes: float, llc_bytes: int) -> bool:
    """Whether a slice that reads so much per step would find a part of it in the cache again, which the whole model does not."""
    return read_bytes < UNCACHED_MULTIPLE * llc_bytes


def probe_fields(probe: AttentionProbe) -> dict[str, float]:
    """The probe as a record keeps it."""
    return {
        "depth": probe.depth,
        "on_tokens_per_second": probe.on_tokens_per_second,
        "off_tokens_per_second": probe.off_tokens_per_second,
    }
