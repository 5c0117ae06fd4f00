"""Repetitions that are watched one by one: disturbed ones are made again, and what was seen is kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from helpers.gguf_writer import ToyLlama
from helpers.watched import REFERENCE, observer_of, watch_of
from suffice.loaders.model_file import open_model_file
from suffice.measure.engine.fake import FakeBehaviour, FakeClock, FakeEngine
from suffice.measure.engine.seam import EngineSettings
from suffice.measure.fake_machine import FakeMachine
from suffice.measure.observer import MAX_PREPARING_SHARE, Observer, joined
from suffice.measure.reference_kernel import FakeReference
from suffice.measure.request import RunRequest
from suffice.measure.run import Surroundings, measure_model
from suffice.measure.series import DecodeAt, SeriesPlan, SeriesRunner, SeriesState, ThreadChoice
from suffice.records.store import load_record, save_record, to_json
from suffice.stats import StoppingRule, StopReason
from suffice.stats.quiet import NoQuiet, QuietBasis, Window, marks_of_steps

if TYPE_CHECKING:
    from suffice.measure.repetition_watch import FakeRepetitionWatch
    from suffice.records.schema import RunRecord

STEP_S, TOKEN_S, SLOW = 0.02, 0.001, 1.5


def _engine(clock: FakeClock, watch: FakeRepetitionWatch, busy: int) -> FakeEngine:
    """Everything takes half as long again while the first ``busy`` repetitions are watched; a step is 10 us longer for each token before it."""

    def slow() -> float:
        return SLOW if 0 < watch.started <= busy else 1.0

    return FakeEngine(
        clock=clock,
        step_cost=lambda _model, depth, _batch: slow() * (STEP_S + depth * 1e-5),
        prefill_cost=lambda _model, _depth, tokens: slow() * tokens * TOKEN_S,
    )


def _run(busy: int, *, watched: bool = True, depth: int = 256, can_rewind: bool = True) -> SeriesState:
    clock, watch = FakeClock(), watch_of([True] * busy + [False])
    engine = replace(_engine(clock, watch, busy), behaviour=FakeBehaviour(can_rewind=can_rewind))
    settings = EngineSettings(n_ctx=1024, n_threads=1, n_threads_batch=1, n_sequences=3)
    session = engine.open(Path("toy.gguf"), settings)
    session.prefill(8)
    plan = SeriesPlan(prompt_tokens=512, depth=depth, steps=10, budget_s=1e6, rule=StoppingRule(), batch=3)
    state = SeriesState(threads=ThreadChoice(decode=1, prefill=1), prompt_tokens=512)
    SeriesRunner(session, clock, plan, state, observer_of(watch, clock.now_s) if watched else None).run()
    return state


def test_disturbed_repetitions_are_made_again() -> None:
    """Of prefill and all depths the first four are disturbed: eight quiet ones follow where the interval counts, and all are kept."""
    state = _run(16)
    main, second, _ = state.decode_series()
    prefill = state.prefill_series()

    assert [one.disturbed for one in main.repetitions] == [True] * 4 + [False] * 8
    assert [one.disturbed for one in prefill.repetitions] == [True] * 4 + [False] * 8
    assert (main.stopped, prefill.stopped) == (StopReason.NARROW, StopReason.NARROW)
    assert [one.disturbed for one in second.repetitions] == [True] * 4 + [False] * 4
    assert len(main.step_s) == 12


def test_a_machine_that_is_never_quiet_is_given_up() -> None:
    """Sixty repetitions are the end, and the reason says that they were disturbed."""
    state = _run(10_000)

    assert len(state.step_rows[DecodeAt(256)]) == 60
    assert state.stopped[DecodeAt(256)] is StopReason.DISTURBED
    assert state.stopped[None] is StopReason.DISTURBED


def test_a_busy_machine_is_measured_within_the_budget() -> None:
    """Disturbed repetitions are made again until 20 s are over, with a wait of 0.1 s before each reading; at most a cycle is on the way then."""
    clock, watch = FakeClock(), watch_of([True])
    session = _engine(clock, watch, 10_000).open(
        Path("toy.gguf"), EngineSettings(n_ctx=1024, n_threads=1, n_threads_batch=1)
    )
    session.prefill(8)
    plan = SeriesPlan(prompt_tokens=128, depth=64, steps=10, budget_s=20.0, rule=StoppingRule())
    state = SeriesState(threads=ThreadChoice(decode=1, prefill=1), prompt_tokens=128)
    observer = Observer(watch, FakeReference([REFERENCE]), settle=lambda: clock.advance(0.1), clock_s=clock.now_s)
    before_s = clock.now_s()
    SeriesRunner(session, clock, plan, state, observer).run()

    assert 18 < clock.now_s() - before_s < 20.5
    assert state.stopped[None] is StopReason.DISTURBED
    assert len(observer.readings) > 10


@pytest.mark.parametrize("can_rewind", [True, False])
@pytest.mark.parametrize("depth", [0, 256, 700])
def test_watching_changes_no_depth(depth: int, can_rewind: bool) -> None:  # noqa: FBT001  # a parameter of the test
    """The step that wakes threads behind a reading is cut off again: times are those of a series that nobody watches."""
    watched, plain = (_run(0, watched=watched, depth=depth, can_rewind=can_rewind) for watched in (True, False))

    assert watched.step_rows == plain.step_rows
    assert watched.chunk_rows == plain.chunk_rows
    assert plain.repetitions(None) == ()
    assert plain.references == []


def test_every_repetition_has_a_reading_on_either_side() -> None:
    """Of the reference kernel: before the first repetition, behind the last, and in between when they had less than a tenth of the time."""
    state = _run(0)
    (readings,) = state.references
    before = [one.references_before for seen in state.seen.values() for one in seen]

    assert min(before) == 1
    assert max(before) == len(readings) - 1
    assert len(set(before)) > len(before) / 2


def test_readings_have_their_share_of_the_time() -> None:
    """Waiting for the engine's threads counts: after a reading of 0.2 s the next one comes when 2 s have passed."""
    clock = FakeClock()
    observer = Observer(
        watch_of([False]), FakeReference([REFERENCE]), settle=lambda: clock.advance(0.2), clock_s=clock.now_s
    )

    assert observer.prepare()
    clock.advance(0.2 / MAX_PREPARING_SHARE - 0.21)
    assert not observer.prepare()
    clock.advance(0.02)
    assert observer.prepare()
    assert not observer.prepare()
    assert observer.prepare(always=True)
    assert len(observer.readings) == 3


def test_a_step_that_only_wakes_is_a_part_of_the_cost() -> None:
    """A step of 3 s behind a reading (two threads and a neighbour on two CPUs): the next reading comes after 30 s."""
    clock = FakeClock()
    observer = Observer(watch_of([False]), FakeReference([REFERENCE]), clock_s=clock.now_s)
    assert observer.prepare()
    clock.advance(3.0)
    observer.woke([3.0])
    clock.advance(26.5)

    assert not observer.prepare()
    clock.advance(1.0)
    assert observer.prepare()


@pytest.mark.parametrize(("slow", "kept_s"), [(1, 0.003), (2, 0.003), (3, 0.006), (9, 0.006)])
def test_a_slow_reading_is_made_again(slow: int, kept_s: float) -> None:
    """After two fast ones, one or two slow readings of memory in a row are a moment that is over; three are a neighbour."""
    readings = [REFERENCE] * 2 + [replace(REFERENCE, memory_s=0.006)] * slow + [REFERENCE]
    clock = FakeClock()
    observer = Observer(watch_of([False]), FakeReference(readings), clock_s=clock.now_s)
    for _ in range(3):
        assert observer.prepare()

    assert [one.memory_s for one in observer.readings] == [0.003, 0.003, kept_s]
    assert observer.readings[2].cost_s == pytest.approx(0.01 * min(slow + 1, 3))


def test_what_is_kept_of_a_reading() -> None:
    """What the system does not tell is left out, and the threads are those of the phase."""
    observer = observer_of(watch_of([False]), FakeClock().now_s)
    observer.start()
    seen = observer.stop(worked_s=0.5, threads=1)

    assert seen.reading["worked_s"] == 0.5
    assert seen.reading["threads"] == 1
    assert "temperature_c" not in seen.reading
    assert seen.disturbed is None


def test_joined_windows_say_the_same() -> None:
    """Neighbours with one mark become one window, across a gap they do not; the steps under them have the same marks."""
    edges = [(0.0, 0.1, False), (0.1, 0.2, False), (0.2, 0.3, True), (0.35, 0.4, True), (0.4, 0.5, None)]
    windows = [Window(begin_s=begin, end_s=end, disturbed=mark) for begin, end, mark in edges]
    steps = [0.06] * 8

    assert [(one.begin_s, one.end_s) for one in joined(windows)] == [(0.0, 0.2), (0.2, 0.3), (0.35, 0.4), (0.4, 0.5)]
    assert marks_of_steps(steps, 0.0, joined(windows)) == marks_of_steps(steps, 0.0, windows)


class Interrupted(Exception):  # noqa: N818  # stands for a kill in the middle of a run
    """Raised in the middle of a run."""


def _measure(tmp_path: Path, busy: int, *, die_after: int | None = None, earlier: RunRecord | None = None) -> RunRecord:
    """A whole run on fakes; its record is at ``run.json`` at any time."""
    clock, watch = FakeClock(), watch_of([True] * busy + [False])
    saved: list[Any] = []

    def save(record: RunRecord) -> None:
        save_record(record, tmp_path / "run.json")
        saved.append(record)
        if die_after is not None and sum(map(len, _rows(record))) > die_after:
            raise Interrupted

    around = Surroundings(
        engine=_engine(clock, watch, busy),
        machine=FakeMachine(observer=lambda: observer_of(watch, clock.now_s)),
        clock=clock,
        progress=lambda _step: None,
        save=save,
    )
    path = tmp_path / "toy.gguf"
    model = open_model_file(path if path.exists() else ToyLlama().write(path))
    return measure_model(RunRequest(model=model, prompt_tokens=64, threads=1), around, earlier=earlier)


def _rows(record: RunRecord) -> list[Any]:
    return [series.step_s for series in record.measurement.decode]


def test_a_run_has_both_speeds(tmp_path: Path) -> None:
    """A third of the repetitions took half as long again: the quiet rate is the planted one, and the record comes back as it was."""
    record = _measure(tmp_path, 12)
    main = record.measurement.decode[0]

    assert main.quiet is not None
    assert main.quiet.basis == QuietBasis.REPETITIONS.value
    assert main.quiet.tokens_per_second is not None
    assert main.quiet.tokens_per_second.point == pytest.approx(max(len(row) / sum(row) for row in main.step_s))
    assert main.quiet.disturbed_share == pytest.approx(4 * SLOW / (4 * SLOW + 8), abs=0.01)
    assert record.disturbed is True
    assert any("repetitions of decode" in reason for reason in record.contention.reasons)
    assert to_json(load_record(tmp_path / "run.json")) == to_json(record)


def test_a_run_on_a_busy_machine_has_no_quiet_speed(tmp_path: Path) -> None:
    """All marked and all alike: nothing shows what the machine does alone, and the reason is kept."""
    main = _measure(tmp_path, 10_000).measurement.decode[0]

    assert main.quiet is not None
    assert main.quiet.tokens_per_second is None
    assert main.quiet.why_not == NoQuiet.ALIKE.value
    assert main.stopped == StopReason.DISTURBED


def test_a_resumed_run_keeps_what_was_seen(tmp_path: Path) -> None:
    """Readings of the reference kernel are in a row for each part, and marks of the first part stand in the record as they did."""
    with pytest.raises(Interrupted):
        _measure(tmp_path, 6, die_after=3)
    earlier = load_record(tmp_path / "run.json")
    first = earlier.measurement.decode[0].repetitions
    record = _measure(tmp_path, 0, earlier=earlier)
    both = record.measurement.decode[0].repetitions

    assert any(one.disturbed for one in first)
    # A reading that came later may clear the last repetition of a part, never mark it.
    assert [one.reading for one in both[: len(first)]] == [one.reading for one in first]
    assert len(record.contention.references) == 2
    assert {one.part for one in both} == {0, 1}
    assert to_json(load_record(tmp_path / "run.json")) == to_json(record)


def test_a_gpu_is_not_watched(tmp_path: Path) -> None:
    """Counters and memory of the host tell nothing of a GPU's repetitions."""
    clock, watch = FakeClock(), watch_of([True])
    around = Surroundings(
        engine=_engine(clock, watch, 0),
        machine=FakeMachine(observer=lambda: observer_of(watch, clock.now_s)),
        clock=clock,
        progress=lambda _step: None,
        save=lambda _record: None,
    )
    model = open_model_file(ToyLlama().write(tmp_path / "toy.gguf"))
    record = measure_model(RunRequest(model=model, prompt_tokens=64, threads=1, n_gpu_layers=99), around)

    assert watch.started == 0
    assert record.measurement.decode[0].repetitions == ()
    assert record.measurement.decode[0].quiet is None
