"""What `measure`, `check` and `compare` share: opening model and engine, running, and keeping the record on disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from suffice.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from types import TracebackType

    from suffice.cli.output import Progress
    from suffice.loaders.model_file import ModelFile
    from suffice.loaders.shape_model import ShapeModel
    from suffice.measure.base_run import Surroundings
    from suffice.measure.clock import Clock
    from suffice.measure.engine.text_client import LlamaCppTextEngine
    from suffice.measure.request import RunRequest
    from suffice.model.demand import Demand
    from suffice.records.schema import RunRecord

_ENGINE_NAMES = ("llama-cpp-python", "xllamacpp")
# Saving waits for the disk; a repetition may be shorter than that, and a second of lost work is none.
_SAVE_EVERY_S = 1.0
# One request is a part of the budget; an engine that takes so much longer hangs (stopped, or starved by others) and is ended.
REQUEST_PATIENCE_S = 60.0
REQUEST_PATIENCE_FACTOR = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineChoice:
    """Which engine the user asked for."""

    name: str | None
    library: Path | None


def engine_of(name: str | None, library: Path | None, *, longest_budget_s: float) -> LlamaCppTextEngine:
    """The engine that was asked for, or the first that is installed; nothing is loaded yet.

    Raises:
        UsageError: an unknown engine name.
        EngineMissingError: none is installed.
    """
    from suffice.measure.engine.client import Timeouts
    from suffice.measure.engine.text_client import find_text_engine

    if name is not None and name not in _ENGINE_NAMES:
        raise UsageError(f"--engine {name}: no such engine; use {' or '.join(_ENGINE_NAMES)}")
    timeouts = Timeouts(request_s=REQUEST_PATIENCE_S + REQUEST_PATIENCE_FACTOR * longest_budget_s)
    return find_text_engine(library, name, timeouts=timeouts)


def run_and_save(
    request: RunRequest, engine: EngineChoice, out: Path | None, progress: Progress, *, resume: bool
) -> RunRecord:
    """Measure, writing the record to ``out`` as it grows.

    Raises:
        UsageError: an unknown engine name, or a record that cannot be resumed.
        SufficeError: whatever the run raises; the record at ``out`` holds what was measured before.
    """
    with Workbench(engine, longest_budget_s=request.budget_s) as bench:
        return bench.run(request, out, progress, earlier=_earlier(out, resume=resume))


class Workbench:
    """One engine, one cache of slices, one machine: for one run, or for many in turn. Use it in ``with``."""

    def __init__(self, engine: EngineChoice, *, longest_budget_s: float, shared: bool = False) -> None:
        """Find the engine; nothing is loaded yet. ``shared``: many runs in turn, which search the bandwidth once.

        Raises:
            UsageError: an unknown engine name.
            EngineMissingError: none is installed.
        """
        from suffice.measure.clock import RealClock
        from suffice.measure.engine.blocks import EngineBlocks
        from suffice.measure.machine import Machine, RealMachine
        from suffice.measure.shared_machine import SharedMachine

        self._clock = RealClock()
        self._engine = engine_of(engine.name, engine.library, longest_budget_s=longest_budget_s)
        self._machine: Machine = SharedMachine(RealMachine()) if shared else RealMachine()
        self._blocks = EngineBlocks(self._engine.choice)

    def run(
        self, request: RunRequest, out: Path | None, progress: Callable[[str], None], *, earlier: RunRecord | None
    ) -> RunRecord:
        """Measure one model, writing the record to ``out`` as it grows; errors as of :func:`run_and_save`."""
        from suffice.measure.run import measure_model

        return measure_model(request, self._around(progress, _Saver(out, self._clock)), earlier=earlier)

    def _around(self, progress: Callable[[str], None], save: Callable[[RunRecord], None]) -> Surroundings:
        from suffice.measure.base_run import Surroundings
        from suffice.slices.cache import SliceCache
        from suffice.slices.store import CachedSlices

        return Surroundings(
            engine=self._engine,
            machine=self._machine,
            clock=self._clock,
            progress=progress,
            save=save,
            # A new cache object for each run: it keeps what it gave out, and the slices of an earlier run may go.
            slices=CachedSlices(SliceCache(), self._blocks),
        )

    def side_by_side(
        self,
        requests: Mapping[str, RunRequest],
        save: Callable[[str, RunRecord], None],
        progress: Callable[[str], None],
        *,
        budget_s: float,
        earlier: Mapping[str, RunRecord],
        most_rounds: int | None = None,
        needs_all: bool = False,
    ) -> dict[str, RunRecord]:
        """Measure several files in turns; see :func:`suffice.measure.interleaved.measure_interleaved`. ``most_rounds`` None: as many as are usual."""
        from suffice.measure.interleaved import DEFAULT_ROUNDS, measure_interleaved

        around = self._around(progress, lambda _: None)
        rounds = DEFAULT_ROUNDS if most_rounds is None else most_rounds
        return measure_interleaved(
            requests, around, budget_s=budget_s, save=save, earlier=earlier, rounds=rounds, needs_all=needs_all
        )

    def check(self, name: str, request: RunRequest, demand: Demand | None) -> None:
        """Refuse what this machine or model cannot have, before anything is measured. ``name``: of the model, for the message.

        Raises:
            UsageError: see :func:`suffice.measure.request.check_request`.
            DemandError: the model cannot hold the context that the demand needs.
        """
        from suffice.decide.constraints import check_context
        from suffice.measure.request import check_request

        try:
            check_request(request, self._machine.facts())
        except UsageError as error:
            raise UsageError(f"{name}: {error}") from error
        if demand is not None:
            check_context(demand, request.model.shape.context_length, name)

    def check_finished(self, record: RunRecord, request: RunRequest) -> None:
        """Refuse a complete record that is not of this run: its figures would stand in another's row.

        Raises:
            UsageError: see :func:`suffice.measure.request.check_same_figures`.
        """
        from suffice.measure.base_run import context_to_open
        from suffice.measure.request import check_same_figures
        from suffice.measure.run_record import blank_record

        now = blank_record(request, self._machine.facts(), self._engine.identity)
        check_same_figures(record, now, request, n_ctx=context_to_open(request))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._blocks.close()


def model_stem(model: ModelFile | ShapeModel) -> str:
    """What a record of this model is called by default."""
    from suffice.loaders.model_file import ModelFile

    return model.path.stem if isinstance(model, ModelFile) else model.reference.rpartition("/")[2]


def _earlier(out: Path | None, *, resume: bool) -> RunRecord | None:
    from suffice.cli.output import warn
    from suffice.records.store import load_record

    if not resume:
        return None
    if out is None:
        raise UsageError("--resume needs --out FILE, the incomplete record to go on with")
    if not out.exists():
        warn([f"{out} is not there: nothing to resume, measuring anew"])
        return None
    return load_record(out)


class _Saver:
    """Writes the record, not more often than once in a while, and always when it is complete."""

    def __init__(self, out: Path | None, clock: Clock) -> None:
        self._out, self._clock = out, clock
        self._last_s: float | None = None

    def __call__(self, record: RunRecord) -> None:
        from suffice.records.store import save_record

        if self._out is None:
            return
        now_s = self._clock.now_s()
        if record.complete or self._last_s is None or now_s - self._last_s >= _SAVE_EVERY_S:
            save_record(record, self._out)
            self._last_s = now_s
