"""The service curve of whole runs on fakes: what the record holds, how it goes on, and what a reader is told."""

# ruff: noqa: ANN401  # builders take any field of what they build

from __future__ import annotations

import copy
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest

from helpers.gguf_writer import ToyLlama
from helpers.records import document_of
from helpers.slice_runs import FACTS as SLICE_FACTS
from helpers.slice_runs import N_LAYER, Bench, Truth, short_design, toy_header, toy_model
from suffice.decide.disturbance import ContentionReading
from suffice.errors import EngineError, RecordError, UsageError
from suffice.loaders.model_file import open_model_file
from suffice.measure.engine.fake import FakeClock, FakeEngine, FakeSpeed
from suffice.measure.fake_machine import FakeMachine
from suffice.measure.request import (
    DEFAULT_BUDGET_S,
    DEFAULT_SLICES_BUDGET_S,
    LEAST_SERVED_BUDGET_S,
    RunRequest,
    SliceChoice,
    default_budget_s,
)
from suffice.measure.run import Surroundings, measure_model
from suffice.measure.series import DecodeAt
from suffice.measure.service_plan import LEAST_REPETITIONS
from suffice.measure.service_run import estimate_speed
from suffice.model.basis import Basis
from suffice.records.store import record_from, to_json
from suffice.report.run import run_text
from suffice.serving.recorded import curve_of_record
from suffice.stats.intervals import median
from suffice.units import MIB

if TYPE_CHECKING:
    from collections.abc import Callable

    from suffice.loaders.model_file import ModelFile
    from suffice.measure.engine.seam import EngineSettings, Session
    from suffice.records.schema import RunRecord, ServiceRecord

SPEED = FakeSpeed(
    decode_step_s=0.04,
    decode_step_s_per_depth=1e-5,
    decode_step_s_per_sequence=0.004,
    prefill_token_s=0.002,
    useful_threads=1,
)
THREADS = 2
LAYERS = {"q8_0": N_LAYER}


@pytest.fixture
def model(tmp_path: Path) -> ModelFile:
    """A tiny valid GGUF file."""
    return open_model_file(ToyLlama().write(tmp_path / "toy.gguf"))


def _around(save: Callable[[RunRecord], None] = lambda _record: None, **changes: Any) -> Surroundings:
    clock = FakeClock()
    around = Surroundings(
        engine=FakeEngine(clock=clock, speed=SPEED),
        machine=FakeMachine(),
        clock=clock,
        progress=lambda _step: None,
        save=save,
    )
    return replace(around, **changes)


def _request(model: Any, **changes: Any) -> RunRequest:
    return replace(RunRequest(model=model, slots=4, budget_s=120.0, prompt_tokens=256, threads=THREADS), **changes)


def _service(record: RunRecord) -> ServiceRecord:
    assert record.measurement.service is not None
    return record.measurement.service


def _sliced(root: Path, save: Callable[[RunRecord], None] = lambda _record: None, **changes: Any) -> RunRecord:
    """A run of the toy's slices with a service curve."""
    asked = RunRequest(
        model=toy_model(),
        slices=SliceChoice.SLICES,
        prompt_tokens=64,
        threads=THREADS,
        flash_attention="on",
        slots=4,
        n_batch=64,
        n_ubatch=64,
        budget_s=changes.pop("budget_s", 60.0),
    )
    earlier = changes.pop("earlier", None)
    return Bench(root=root, save=save, **changes).run(asked, short_design(toy_header()), earlier)


@cache
def _sliced_document() -> dict[str, Any]:
    with TemporaryDirectory() as folder:
        return document_of(_sliced(Path(folder)))


def test_the_planted_curve_comes_out(model: ModelFile) -> None:
    """Every point is what the fake takes for it, within the drift of a repetition; slots, room and threads are told."""
    record = measure_model(_request(model), _around())
    service = _service(record)

    assert (service.slots, service.decode_threads, service.prefill_threads) == (4, THREADS, THREADS)
    assert service.context_tokens is not None
    assert service.context_tokens >= 512 + 512
    assert {(one.size, one.depth) for one in service.decode} == {(b, d) for b in (1, 2, 3, 4) for d in (0, 256, 512)}
    assert {one.depth for one in service.prefill} == {0, 512}
    assert max(one.size for one in service.prefill) == 512
    for one in service.decode:
        assert len(one.seconds) >= LEAST_REPETITIONS
        low, high = (SPEED.decode_s(one.depth + drift, THREADS, one.size) for drift in (0, 8))
        assert all(low <= seconds <= high for seconds in one.seconds)
    for one in service.prefill:
        assert one.seconds == pytest.approx([SPEED.prefill_s(one.size, THREADS)] * len(one.seconds))
    assert record.warnings == ()


def test_the_single_stream_is_measured_as_without_a_curve(model: ModelFile) -> None:
    """With twice the budget and slots, the series are the same to the last digit as without: the curve takes nothing from them."""
    plain = measure_model(_request(model, slots=1, budget_s=20.0), _around())
    served = measure_model(_request(model, budget_s=40.0), _around())

    assert plain.measurement.service is None
    assert served.measurement.decode == plain.measurement.decode
    assert served.measurement.prefill == plain.measurement.prefill
    assert served.settings == plain.settings


@pytest.mark.parametrize("budget_s", [20.0, 40.0, 120.0])
def test_a_run_with_a_curve_keeps_its_budget(model: ModelFile, budget_s: float) -> None:
    """Loading and one last repetition of the single stream may come on top, nothing else."""
    around = _around()
    record = measure_model(_request(model, budget_s=budget_s), around)

    assert around.clock.now_s() <= budget_s + 3.0
    assert min(len(one.seconds) for one in _service(record).decode) >= 1


def test_a_curve_with_gaps_says_so(model: ModelFile) -> None:
    """A small budget: the warning names what is not there, and how to get it."""
    record = measure_model(_request(model, budget_s=12.0), _around())

    assert any("the service curve lacks" in text and "--budget" in text for text in record.warnings)


def test_the_record_survives_and_is_a_curve(model: ModelFile) -> None:
    """Written and read back it is the same, and gives the seconds of the steps that were planted."""
    record = measure_model(_request(model), _around())
    again = record_from(document_of(record), source="run.json")
    curve = curve_of_record(again)

    assert to_json(again) == to_json(record)
    assert curve is not None
    assert curve.basis is Basis.MEASURED
    assert curve.decode_s(4, 256) == pytest.approx(SPEED.decode_s(256, THREADS, 4), rel=0.01)
    assert curve.prefill_s(512, 0) == pytest.approx(SPEED.prefill_s(512, THREADS), rel=0.01)


def test_an_interrupted_curve_goes_on(model: ModelFile) -> None:
    """Killed in the middle of the curve: the saved part is valid, and a resumed run keeps it at the front of each row."""
    parts: list[RunRecord] = []

    class Killed(Exception):  # noqa: N818  # stands for a kill
        pass

    def save(record: RunRecord) -> None:
        parts.append(record)
        if record.measurement.service is not None and len(record.measurement.service.decode) > 5:
            raise Killed

    with pytest.raises(Killed):
        measure_model(_request(model), _around(save))
    earlier = record_from(document_of(parts[-1]), source="part.json")
    resumed = measure_model(_request(model), _around(), earlier=earlier)

    assert not earlier.complete
    assert resumed.complete
    after = {(one.size, one.depth): one.seconds for one in _service(resumed).decode}
    for one in _service(earlier).decode:
        assert after[one.size, one.depth][: len(one.seconds)] == one.seconds
    with pytest.raises(UsageError, match="--slots 4"):
        measure_model(_request(model, slots=2), _around(), earlier=earlier)


def test_slots_have_bounds(model: ModelFile) -> None:
    """From 1 to a micro-batch, and on CPUs only."""
    for slots in (0, 513):
        with pytest.raises(UsageError, match=f"--slots {slots}"):
            measure_model(_request(model, slots=slots), _around())
    with pytest.raises(UsageError, match="--slots is measured on CPUs"):
        measure_model(_request(model, n_gpu_layers=1), _around())


def test_memory_for_few_sequences_measures_few(model: ModelFile) -> None:
    """Caches that do not fit beside the weights are left out and named; the run goes on."""
    kv = model.shape.kv_cache_bytes(1024)
    assert kv is not None
    usable = int((model.shape.file_bytes or 0) + 2 * kv)
    machine = FakeMachine(facts=replace(SLICE_FACTS, memory_usable_bytes=usable))
    record = measure_model(_request(model), _around(machine=machine))

    assert max(one.size for one in _service(record).decode) < 4
    assert any("steps of" in text and "memory" in text for text in record.warnings)


def test_sessions_that_cannot_be_opened_leave_the_single_stream(model: ModelFile) -> None:
    """The engine refuses so many sequences: the run is complete, without a curve, and says why."""

    class Refusing(FakeEngine):
        def open(self, model: Path, settings: EngineSettings, *, evict_first: bool = False) -> Any:
            if settings.n_sequences > 1:
                raise EngineError("no memory for 4 caches")
            return super().open(model, settings, evict_first=evict_first)

    clock = FakeClock()
    record = measure_model(_request(model), _around(engine=Refusing(clock=clock, speed=SPEED), clock=clock))

    assert record.complete
    assert record.measurement.service is None
    assert record.decode_tokens_per_second is not None
    assert any("no memory for 4 caches" in text and "--slots" in text for text in record.warnings)


def test_every_session_is_closed(model: ModelFile) -> None:
    """That of the single stream before those of the curve are opened, and all at the end."""
    opened: list[Session] = []
    open_before: list[int] = []

    class Watching(FakeEngine):
        def open(self, model: Path, settings: EngineSettings, *, evict_first: bool = False) -> Any:
            open_before.append(sum(_is_open(session) for session in opened))
            session = super().open(model, settings, evict_first=evict_first)
            opened.append(session)
            return session

    clock = FakeClock()
    measure_model(_request(model), _around(engine=Watching(clock=clock, speed=SPEED), clock=clock))

    assert open_before[-1] == 0
    assert not any(_is_open(session) for session in opened)


def _is_open(session: Session) -> bool:
    try:
        session.cpu_time_s()
    except EngineError:
        return False
    return True


def test_a_machine_that_was_busy_during_the_curve_is_marked(model: ModelFile) -> None:
    """Quiet while the single stream ran, busy while the curve did: disturbed, with both readings kept."""
    quiet = ContentionReading(
        wall_s=1.0, usable_cpus=2, watched_cpus=2, threads=2, busy_cpu_s=2.0, own_cpu_s=2.0, steal_cpu_s=0.0
    )
    readings = [quiet, replace(quiet, own_cpu_s=1.0)]

    class Machine(FakeMachine):
        def contention(self, threads: int) -> Any:
            return FakeMachine(readings=readings.pop(0)).contention(threads)

    record = measure_model(_request(model), _around(machine=Machine()))

    assert record.disturbed is True
    assert record.contention.readings["own_cpu_s"] == 2.0
    assert record.contention.readings["service"]["own_cpu_s"] == 1.0


def test_the_default_budget_grows_with_a_curve(model: ModelFile) -> None:
    """The single stream has what it has without one, or more: the many points of a curve need time whatever the model."""
    assert default_budget_s(model) == DEFAULT_BUDGET_S
    assert default_budget_s(model, slots=4) == 2 * DEFAULT_BUDGET_S
    shape = toy_model()
    assert default_budget_s(shape) == DEFAULT_SLICES_BUDGET_S
    assert default_budget_s(shape, slots=2) == LEAST_SERVED_BUDGET_S
    assert _request(model, budget_s=80.0).stream_budget_s == _request(model, slots=1, budget_s=40.0).stream_budget_s


def test_a_first_estimate_from_two_depths() -> None:
    """20 ms at 0 and 30 ms at 1000 are 10 us a token; noise that makes the deeper one faster is no slope."""
    speed = estimate_speed({DecodeAt(1000): 0.03, DecodeAt(0): 0.02, DecodeAt(0, 8): 1.0}, 0.001)
    flat = estimate_speed({DecodeAt(1000): 0.02, DecodeAt(0): 0.03}, 0.001)

    assert (speed.step_s, speed.token_s) == (0.02, 0.001)
    assert speed.step_s_per_token == pytest.approx(1e-5)
    assert (flat.step_s, flat.step_s_per_token) == (0.03, 0.0)


# -- slices -------------------------------------------------------------------------------------------------------------------


def test_slices_give_the_curve_of_the_whole_model(tmp_path: Path) -> None:
    """Each point is extrapolated to all 12 layers; the slices' own times and the work behind them are kept."""
    truth = Truth()
    record = _sliced(tmp_path)
    service, extrapolation = _service(record), record.measurement.extrapolation

    assert extrapolation is not None
    assert record.basis == "extrapolated"
    assert {one.size for one in service.decode} == {1, 2, 3, 4}
    for one in service.decode:
        assert len(one.slice_s) == len(extrapolation.slices)
        assert one.seconds == pytest.approx([truth.step_s(LAYERS, one.depth, one.size)] * len(one.seconds), rel=0.01)
        assert one.largest_residual == pytest.approx(0.0, abs=0.01)
    for one in service.prefill:
        assert one.seconds == pytest.approx([truth.chunk_s(LAYERS, one.size)] * len(one.seconds), rel=0.01)
    curve = curve_of_record(record)
    assert curve is not None
    assert curve.basis is Basis.EXTRAPOLATED


def test_a_curve_of_slices_survives(tmp_path: Path) -> None:
    """It is read back as it was, after its lines were fitted again."""
    record = _sliced(tmp_path)

    assert to_json(record_from(document_of(record), source="run.json")) == to_json(record)


def test_an_interrupted_curve_of_slices_goes_on(tmp_path: Path) -> None:
    """All slices of a repetition or none: the part that was saved is valid, and is kept."""
    parts: list[RunRecord] = []

    def save(record: RunRecord) -> None:
        parts.append(record)
        if record.measurement.service is not None and len(record.measurement.service.decode) > 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _sliced(tmp_path, save)
    earlier = record_from(document_of(parts[-1]), source="part.json")
    resumed = _sliced(tmp_path, earlier=earlier)

    after = {(one.size, one.depth): one for one in _service(resumed).decode}
    for one in _service(earlier).decode:
        later = after[one.size, one.depth]
        assert all(row[: len(own)] == own for row, own in zip(later.slice_s, one.slice_s, strict=True))


def test_slices_off_the_line_are_told(tmp_path: Path) -> None:
    """A cost that grows with the square of the layers bends the curve's points as well."""
    record = _sliced(tmp_path, truth=Truth(bend=0.002))

    assert any("points of the service curve do not lie on a line" in text for text in record.warnings)


def test_slices_that_a_cache_may_hold_are_measured_pass_by_pass(tmp_path: Path) -> None:
    """Slices smaller than the last-level cache: it is emptied before each pass of the curve too."""
    emptied: list[int] = []
    plain: list[int] = []
    facts = replace(SLICE_FACTS, llc_bytes=64 * MIB)
    _sliced(tmp_path, facts=facts, evictor=lambda: emptied.append(1))
    Bench(root=tmp_path, facts=facts, evictor=lambda: plain.append(1)).run(
        RunRequest(
            model=toy_model(), slices=SliceChoice.SLICES, prompt_tokens=64, threads=2, flash_attention="on",
            n_batch=64, n_ubatch=64, budget_s=30.0,
        ),
        short_design(toy_header()),
    )  # fmt: skip

    assert len(emptied) > 2 * len(plain) > 0


# -- what is refused, what is shown ---------------------------------------------------------------------------------------------


def _curve(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document["measurement"]["service"]
    return found


def _refused(document: dict[str, Any], words: str) -> None:
    with pytest.raises(RecordError, match=words) as failure:
        record_from(document, source="edited")
    assert str(failure.value).startswith("edited: the service curve")
    assert "\n" not in str(failure.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seconds": [0.0]}, "not positive"),
        ({"seconds": [-1.0]}, "not positive"),
        ({"seconds": [1e308]}, "no pass takes"),
        ({"seconds": [5e-324]}, "no pass takes"),
        ({"size": 10**15}, "more tokens than anything holds"),
        ({"size": 0}, "size under 1"),
        ({"size": -3}, "size under 1"),
        ({"depth": -1}, "negative depth"),
        ({"size": 5}, "more sequences than its 4 slots"),
        ({"slice_s": [[1.0]]}, "times of slices"),
        ({"work": [1.0]}, "times of slices"),
    ],
)
def test_impossible_points_are_refused(model: ModelFile, changes: dict[str, Any], words: str) -> None:
    """Times, sizes and depths that nothing can have, and slices where none were run."""
    document = document_of(measure_model(_request(model, budget_s=30.0), _around()))
    _curve(document)["decode"][0] |= changes

    _refused(document, words)


@pytest.mark.parametrize("phase", ["decode", "prefill"])
def test_a_point_that_stands_there_twice_is_refused(model: ModelFile, phase: str) -> None:
    """Which of the two would count?"""
    document = document_of(measure_model(_request(model, budget_s=30.0), _around()))
    _curve(document)[phase].append(_curve(document)[phase][0])

    _refused(document, "twice")


@pytest.mark.parametrize("field", ["slots", "context_tokens", "decode_threads", "prefill_threads"])
def test_heads_without_meaning_are_refused(model: ModelFile, field: str) -> None:
    """Slots, room and threads are counts."""
    document = document_of(measure_model(_request(model, budget_s=30.0), _around()))
    _curve(document)[field] = 0

    _refused(document, "not positive")


def _faster_whole(point: dict[str, Any]) -> None:
    point["seconds"] = [value / 2 for value in point["seconds"]]


def _faster_slices(point: dict[str, Any]) -> None:
    point["slice_s"] = [[value / 2 for value in row] for row in point["slice_s"]]


def _slice_gone(point: dict[str, Any]) -> None:
    point["slice_s"].pop()


def _repetition_gone(point: dict[str, Any]) -> None:
    point["seconds"].pop()


def _no_slices(point: dict[str, Any]) -> None:
    point["slice_s"] = []


def _negative_work(point: dict[str, Any]) -> None:
    point["work"] = [-1.0]


def _no_work(point: dict[str, Any]) -> None:
    point["work"] = []


def _straight(point: dict[str, Any]) -> None:
    point["largest_residual"] = 0.3


def _no_residual(point: dict[str, Any]) -> None:
    point["largest_residual"] = None


@pytest.mark.parametrize(
    "edit",
    [
        _faster_whole,
        _faster_slices,
        _slice_gone,
        _repetition_gone,
        _no_slices,
        _negative_work,
        _no_work,
        _straight,
        _no_residual,
    ],
)
def test_a_curve_that_its_slices_do_not_give_is_refused(edit: Callable[[dict[str, Any]], None]) -> None:
    """Each number that an extrapolated point rests on, changed alone."""
    document = copy.deepcopy(_sliced_document())
    record_from(document, source="whole")
    edit(_curve(document)["decode"][-1])

    _refused(document, "the service curve's decode pass")


def test_the_curve_is_shown(model: ModelFile) -> None:
    """A table of steps by sequences and depth with the rate of all, and one of chunks; none without a curve."""
    record = measure_model(_request(model), _around())
    served = run_text(record)
    plain = run_text(measure_model(_request(model, slots=1), _around()))

    assert "ms of a decode step (tokens/s of all sequences)" in served
    assert "at depth 0" in served
    assert "at depth 512" in served
    row = next(line for line in served.splitlines() if line.startswith("4 "))
    step_s = median(next(one for one in _service(record).decode if (one.size, one.depth) == (4, 0)).seconds)
    assert f"{1000 * step_s:.4g} ({4 / step_s:.3g})" in row
    assert "service curve" not in plain
