"""A whole measurement with fakes: what the record holds, what qualifies it, and how an interrupted one goes on."""

# ruff: noqa: ANN401  # builders take any field of what they build

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from helpers.gguf_writer import ToyLlama
from suffice.decide.compare import decide
from suffice.decide.disturbance import ContentionReading
from suffice.decide.evidence import evidence_from
from suffice.errors import EngineCrashError, UsageError
from suffice.loaders.model_file import open_model_file
from suffice.measure.engine.fake import FakeBehaviour, FakeClock, FakeEngine, FakeSpeed
from suffice.measure.fake_machine import FakeMachine
from suffice.measure.machine import MachineFacts
from suffice.measure.request import RunRequest
from suffice.measure.run import Surroundings, measure_model
from suffice.model.demand import single_stream_need
from suffice.records.store import load_record, save_record, to_json

if TYPE_CHECKING:
    from pathlib import Path

    from suffice.loaders.model_file import ModelFile
    from suffice.records.schema import RunRecord

FACTS = MachineFacts(
    cpu_model="Fake CPU",
    isa=("avx2",),  # all that the fake engine uses, so that nothing is a lower bound
    llc_bytes=None,
    usable_cpus=2,
    thread_candidates=(1, 2),
    memory_usable_bytes=8 * 2**30,
)
SPEED = FakeSpeed(decode_step_s=0.04, prefill_token_s=0.002, useful_threads=2, jitter=0.02)


@pytest.fixture
def model(tmp_path: Path) -> ModelFile:
    """A tiny valid GGUF file."""
    return open_model_file(ToyLlama().write(tmp_path / "toy.gguf"))


class Interrupted(Exception):  # noqa: N818  # stands for a kill in the middle of a write
    """Raised in the middle of a run."""


class _Saved:
    """Keeps every record that was handed out, on disk, and dies on demand."""

    def __init__(self, path: Path, *, die_after: int | None = None) -> None:
        self.path, self.records, self._die_after = path, list[Any](), die_after

    def __call__(self, record: RunRecord) -> None:
        save_record(record, self.path)
        self.records.append(record)
        if self._die_after is not None and len(self.records) > self._die_after:
            raise Interrupted


def _around(
    saved: Any = None,
    *,
    machine: FakeMachine | None = None,
    speed: FakeSpeed = SPEED,
    **behaviour: Any,
) -> Surroundings:
    clock = FakeClock()
    return Surroundings(
        engine=FakeEngine(clock=clock, speed=speed, behaviour=FakeBehaviour(**behaviour)),
        machine=machine or FakeMachine(facts=FACTS),
        clock=clock,
        progress=lambda _step: None,
        save=saved or (lambda _record: None),
    )


def test_a_run_finds_the_planted_speed(model: ModelFile) -> None:
    """Two threads halve 40 ms a step and 2 ms a token: about 50 tokens/s and 1000 tokens/s, complete and undisturbed."""
    record = measure_model(RunRequest(model=model), _around())

    assert record.complete
    assert record.disturbed is False
    assert record.decode_tokens_per_second == pytest.approx(50, rel=0.05)
    assert record.prefill_tokens_per_second == pytest.approx(1000, rel=0.05)
    assert record.ttft_s == pytest.approx(512 / 1000 + 1 / 50, rel=0.05)
    assert [series.threads for series in record.measurement.decode] == [2, 2]
    assert record.measurement.load.cold_s is not None
    assert record.measurement.load.warm_s == pytest.approx(0.5, abs=0.01)
    assert record.measurement.peak_rss_bytes == 123_456_789


def test_the_record_survives_and_decides(model: ModelFile, tmp_path: Path) -> None:
    """What is saved is what is returned, and it is enough to decide again."""
    saved = _Saved(tmp_path / "run.json")

    record = measure_model(RunRequest(model=model), _around(saved))

    assert to_json(load_record(saved.path)) == to_json(record)
    assert decide(single_stream_need(8), [evidence_from(record)]).verdict.verdict == "cpu"


def test_equal_seeds_give_equal_records(model: ModelFile) -> None:
    """With fakes a run is repeatable to the last digit."""
    first, second = (measure_model(RunRequest(model=model), _around()) for _ in range(2))

    assert replace(first, created_at=None) == replace(second, created_at=None)


def test_only_the_last_record_is_complete(model: ModelFile, tmp_path: Path) -> None:
    """Every record that is handed out on the way says that it is not finished."""
    saved = _Saved(tmp_path / "run.json")

    measure_model(RunRequest(model=model), _around(saved))

    assert [record.complete for record in saved.records] == [False] * (len(saved.records) - 1) + [True]


def test_a_speed_over_the_ceiling_is_a_contradiction(model: ModelFile) -> None:
    """With a bandwidth of 1 MB/s the toy's ceiling is 5.5 tokens/s; 50 were measured: undecided, and nothing is clamped."""
    machine = FakeMachine(facts=FACTS, read_bytes_per_s=1e6)

    record = measure_model(RunRequest(model=model), _around(machine=machine))

    assert record.contradictions
    assert record.decode_tokens_per_second == pytest.approx(50, rel=0.05)
    verdict = decide(single_stream_need(8), [evidence_from(record)]).verdict
    assert verdict.verdict == "undecided"
    assert "above its ceiling" in verdict.reason


def test_a_busy_machine_is_marked(model: ModelFile) -> None:
    """A neighbour that took a third of the CPU time marks the record, with the reading that says so."""
    reading = ContentionReading(
        wall_s=10.0, usable_cpus=2, watched_cpus=2, threads=2, busy_cpu_s=20.0, own_cpu_s=13.0, steal_cpu_s=0.0
    )

    record = measure_model(RunRequest(model=model), _around(machine=FakeMachine(facts=FACTS, readings=reading)))

    assert record.disturbed is True
    assert "other processes used" in record.contention.reasons[0]
    assert record.contention.readings["busy_cpu_s"] == 20.0


def test_a_bandwidth_that_fell_marks_the_record(model: ModelFile) -> None:
    """Half of the bandwidth after the run: somebody shares the memory bus."""
    machine = FakeMachine(facts=FACTS, read_bytes_per_s=20e9, later_bytes_per_s=10e9)

    record = measure_model(RunRequest(model=model), _around(machine=machine))

    assert record.disturbed is True
    assert "memory bus is shared" in record.contention.reasons[0]


def test_unused_instruction_sets_make_a_lower_bound(model: ModelFile) -> None:
    """An AVX2 engine on a CPU with AVX-512 is marked, with the command that gives a better build."""
    machine = FakeMachine(facts=replace(FACTS, isa=("avx2", "avx512")))

    record = measure_model(RunRequest(model=model), _around(machine=machine))

    assert record.engine.lower_bound
    assert record.engine.isa_unused == ("avx512",)
    assert "pip install" in (record.engine.advice or "")


def test_a_model_that_does_not_fit_is_not_run(model: ModelFile) -> None:
    """With 100 kB of usable memory the engine is not even opened; facts and ceiling are there, speeds are unknown."""
    around = _around(machine=FakeMachine(facts=replace(FACTS, memory_usable_bytes=100_000)))

    record = measure_model(RunRequest(model=model), around)

    assert record.complete
    assert (record.decode_tokens_per_second, record.measurement.decode) == (None, ())
    assert record.ceiling.decode_tokens_per_second is not None
    assert "not run" in record.warnings[0]
    assert decide(single_stream_need(8), [evidence_from(record)]).verdict.verdict == "gpu"


def test_a_small_budget_shortens_the_prompt_and_says_so(model: ModelFile) -> None:
    """At 1 s a prompt token, 40 s do not read 512 tokens six times: shortened, with a warning and the flag that helps."""
    slow = FakeSpeed(decode_step_s=0.5, prefill_token_s=0.5, useful_threads=1)

    record = measure_model(RunRequest(model=model), _around(speed=slow))

    assert record.measurement.prefill is not None
    assert record.measurement.prefill.prompt_tokens < 512
    assert any("the prompt was shortened" in text and "--budget" in text for text in record.warnings)


def test_chosen_threads_are_used(model: ModelFile) -> None:
    """--threads 1: no sweep, and both phases run with one."""
    record = measure_model(RunRequest(model=model, threads=1), _around())

    assert record.measurement.thread_sweep == ()
    assert {series.threads for series in record.measurement.decode} == {1}


@pytest.mark.parametrize("flag", ["prompt_tokens", "depth"])
def test_lengths_beyond_the_context_are_refused(model: ModelFile, flag: str) -> None:
    """A prompt of 5000 tokens does not fit a model of 4096: refused before anything is measured."""
    changes: dict[str, Any] = {flag: 5000}
    with pytest.raises(UsageError, match=f"--{flag.replace('_', '-')} 5000"):
        measure_model(replace(RunRequest(model=model), **changes), _around())


@pytest.mark.parametrize("calls", [12, 25, 40])
def test_a_crash_leaves_what_was_measured(model: ModelFile, tmp_path: Path, calls: int) -> None:
    """The engine dies in the middle: the error goes on, and the record on disk is whole, loadable and not complete."""
    saved = _Saved(tmp_path / "run.json")

    with pytest.raises(EngineCrashError):
        measure_model(RunRequest(model=model), _around(saved, crash_after_calls=calls))

    assert to_json(load_record(saved.path)) == to_json(saved.records[-1])
    assert not saved.records[-1].complete


@pytest.mark.parametrize("die_after", [2, 6, 9, 14])
def test_an_interrupted_run_goes_on(model: ModelFile, tmp_path: Path, die_after: int) -> None:
    """Killed after any save, the resumed run keeps every earlier repetition in front of its own and becomes complete."""
    saved = _Saved(tmp_path / "run.json", die_after=die_after)
    with pytest.raises(Interrupted):
        measure_model(RunRequest(model=model, depth=512), _around(saved))
    earlier = load_record(saved.path)
    assert not earlier.complete

    record = measure_model(RunRequest(model=model, depth=512), _around(), earlier=earlier)

    assert record.complete
    assert len(record.measurement.decode) == 2
    for before, after in zip(earlier.measurement.decode, record.measurement.decode, strict=False):
        assert before.depth == after.depth
        assert after.step_s[: len(before.step_s)] == before.step_s
    if earlier.measurement.prefill is not None:
        assert record.measurement.prefill is not None
        rows = earlier.measurement.prefill.chunk_s
        assert record.measurement.prefill.chunk_s[: len(rows)] == rows
    if die_after == 14:
        assert sum(len(series.step_s) for series in earlier.measurement.decode) > 2, (
            "the test must interrupt late enough"
        )


def test_only_the_same_run_is_resumed(model: ModelFile) -> None:
    """A complete record, another model, engine or machine cannot be gone on with; the message says what to do."""
    complete = measure_model(RunRequest(model=model), _around())
    part = replace(complete, complete=False)
    other_model = replace(part, model=replace(part.model, sha256="00"))
    other_engine = replace(part, engine=replace(part.engine, version="2"))

    for earlier, words in (
        (complete, "complete already"),
        (other_model, "another model file"),
        (other_engine, "another engine"),
        (replace(part, machine="Other CPU"), "another machine"),
    ):
        with pytest.raises(UsageError, match=words):
            measure_model(RunRequest(model=model), _around(), earlier=earlier)


def test_a_model_file_that_changes_meanwhile_is_a_contradiction(model: ModelFile) -> None:
    """The hash was taken before; what ran after the change may be another model, so no verdict rests on it."""

    def change(_: RunRecord) -> None:
        model.path.touch()

    record = measure_model(RunRequest(model=model), _around(change))

    assert any("changed or replaced" in text for text in record.contradictions)
