"""Runs that are placed on NUMA nodes, on fakes: what the engine is asked for, what the record says, and what is refused."""

# ruff: noqa: ANN401  # builders take any field of what they build

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from helpers.gguf_writer import ToyLlama
from helpers.nodes import own_nodes
from helpers.records import document_of
from helpers.slice_runs import Bench, toy_model
from suffice.errors import RecordError, UsageError
from suffice.loaders.model_file import open_model_file
from suffice.measure.engine.fake import FakeBehaviour, FakeClock, FakeEngine, FakeSpeed
from suffice.measure.engine.seam import EngineSettings
from suffice.measure.engine.side_by_side import SideBySide
from suffice.measure.fake_machine import FakeMachine
from suffice.measure.machine import MachineFacts
from suffice.measure.request import RunRequest, SliceChoice
from suffice.measure.run import Surroundings, measure_model
from suffice.measure.service_nodes import slowdown_words
from suffice.measure.service_plan import PassKind, PassPoint, ServiceNeeds, ServicePlanner, SpeedEstimate
from suffice.measure.service_series import ServiceRunner, ServiceSeries, ServiceState
from suffice.records.store import record_from
from suffice.units import GIB

if TYPE_CHECKING:
    from suffice.loaders.model_file import ModelFile
    from suffice.measure.engine.fake import FakeSession
    from suffice.measure.engine.seam import EngineIdentity
    from suffice.records.schema import RunRecord

FACTS = MachineFacts(
    cpu_model="Fake CPU",
    isa=None,
    llc_bytes=None,
    usable_cpus=1,
    thread_candidates=(1,),
    memory_usable_bytes=8 * GIB,
)


@dataclass(kw_only=True)
class Nodes:
    """An engine whose speed is that of the node that a session is placed on; ``opened`` has the settings of each session."""

    step_s: dict[int | None, float]
    behaviour: FakeBehaviour = field(default_factory=FakeBehaviour)
    clock: FakeClock = field(default_factory=FakeClock)
    opened: list[EngineSettings] = field(default_factory=list)

    @property
    def identity(self) -> EngineIdentity:
        """Of the fake."""
        return FakeEngine().identity

    def open(self, model: Path, settings: EngineSettings, *, evict_first: bool = False) -> FakeSession:
        """A session of the node's own speed."""
        self.opened.append(settings)
        step_s = self.step_s[settings.numa_node]
        speed = FakeSpeed(decode_step_s=step_s, prefill_token_s=step_s / 10, decode_step_s_per_sequence=step_s / 10)
        engine = FakeEngine(speed=speed, behaviour=self.behaviour, clock=self.clock)
        return engine.open(model, settings, evict_first=evict_first)

    def around(self) -> Surroundings:
        """The outside of a run."""
        return Surroundings(
            engine=self,
            machine=FakeMachine(facts=FACTS),
            clock=self.clock,
            progress=lambda _step: None,
            save=lambda _record: None,
        )


@pytest.fixture
def model(tmp_path: Path) -> ModelFile:
    """A tiny valid GGUF file."""
    return open_model_file(ToyLlama().write(tmp_path / "toy.gguf"))


def _request(model: Any, **changes: Any) -> RunRequest:
    return replace(RunRequest(model=model, budget_s=60.0, prompt_tokens=128, flash_attention="on"), **changes)


def test_a_run_on_one_node_is_told_in_its_settings(model: ModelFile) -> None:
    """Every session is opened on the node's CPUs; the record names node, CPUs and how much memory is local; afterwards all is free again."""
    (node,) = own_nodes(2)[1:]
    engine = Nodes(step_s={1: 0.02}, behaviour=FakeBehaviour(node_bytes={0: 3 * GIB, 1: GIB}))
    before = os.sched_getaffinity(0)
    record = measure_model(_request(model, slots=2, nodes=(node,)), engine.around())

    assert {(one.cpus, one.numa_node) for one in engine.opened} == {(node.cpu_list, 1)}
    assert (record.settings["cpus"], record.settings["numa_node"]) == (node.cpu_list, 1)
    assert record.settings["numa_local_share"] == 0.25
    assert any("only 25%" in text and "--no-mmap" in text for text in record.warnings)
    assert record.measurement.service is not None
    assert record.measurement.service.instances == 1
    assert os.sched_getaffinity(0) == before


def test_a_run_that_is_not_placed_says_nothing_of_nodes(model: ModelFile) -> None:
    """No CPUs, no node, no share."""
    engine = Nodes(step_s={None: 0.02})
    record = measure_model(_request(model), engine.around())

    assert {(one.cpus, one.numa_node) for one in engine.opened} == {(None, None)}
    assert "numa_local_share" not in record.settings


def _per_node(model: ModelFile, step_s: dict[int | None, float], **changes: Any) -> tuple[RunRecord, Nodes]:
    engine = Nodes(step_s=step_s)
    request = _request(model, slots=2, nodes=own_nodes(2), use_mmap=False, **changes)
    return measure_model(request, engine.around()), engine


def test_the_curve_of_engines_side_by_side_is_that_of_the_slowest(model: ModelFile) -> None:
    """The single stream is the first node's, every point of the curve the slower second's; each has a session, slots and context."""
    record, engine = _per_node(model, {0: 0.02, 1: 0.03})
    service = record.measurement.service

    assert record.decode_tokens_per_second == pytest.approx(1 / 0.02)
    assert service is not None
    assert (service.instances, service.slots) == (2, 2)
    steps = {one.size: one.seconds for one in service.decode if one.depth == 0}
    assert steps[1] == pytest.approx((0.03,) * len(steps[1]))
    assert steps[2] == pytest.approx((0.033,) * len(steps[2]))
    assert [(one.numa_node, one.n_sequences) for one in engine.opened[-2:]] == [(0, 2), (1, 2)]
    assert not any(one.use_mmap for one in engine.opened)
    assert any("2 engines at work" in text and "1.00 times as long" in text for text in record.warnings)


def test_an_engine_whose_memory_is_elsewhere_is_told(model: ModelFile) -> None:
    """Of both engines, each once; the weights were copied, so that there is nothing to leave out."""
    engine = Nodes(step_s={0: 0.02, 1: 0.02}, behaviour=FakeBehaviour(node_bytes={0: 6 * GIB, 1: 4 * GIB}))
    record = measure_model(_request(model, slots=2, nodes=own_nodes(2), use_mmap=False), engine.around())
    told = [text for text in record.warnings if "of the engine's memory" in text]

    assert [text[:53] for text in told] == [
        "only 60% of the engine's memory lies on NUMA node 0: ",
        "only 40% of the engine's memory lies on NUMA node 1: ",
    ]
    assert not any("--no-mmap" in text for text in told)


def test_each_part_of_a_run_is_on_its_cpus(model: ModelFile) -> None:
    """Bandwidth and single stream on the first node; what else runs during the curve is watched on all of them, for the threads of all."""
    nodes = own_nodes(2)
    seen: list[tuple[object, set[int]]] = []

    class Machine(FakeMachine):
        def bandwidth(self, *, budget_s: float, progress: Any = None) -> Any:
            seen.append(("bandwidth", os.sched_getaffinity(0)))
            return super().bandwidth(budget_s=budget_s, progress=progress)

        def contention(self, threads: int) -> Any:
            seen.append((threads, os.sched_getaffinity(0)))
            return super().contention(threads)

    around = replace(Nodes(step_s={0: 0.02, 1: 0.02}).around(), machine=Machine(facts=FACTS))
    measure_model(_request(model, slots=2, nodes=nodes, use_mmap=False), around)

    both = {*nodes[0].cpus, *nodes[1].cpus}
    assert seen == [("bandwidth", set(nodes[0].cpus)), (1, set(nodes[0].cpus)), (2, both)]


def test_slices_run_side_by_side(tmp_path: Path) -> None:
    """Each slice is one engine on every node, and the curve is extrapolated as that of one engine."""
    bench = Bench(root=tmp_path)
    request = RunRequest(
        model=toy_model(),
        slices=SliceChoice.SLICES,
        prompt_tokens=64,
        threads=1,
        flash_attention="on",
        slots=2,
        n_batch=64,
        n_ubatch=64,
        budget_s=60.0,
        nodes=own_nodes(2),
    )
    record = measure_model(request, bench.around())
    service, extrapolation = record.measurement.service, record.measurement.extrapolation

    assert extrapolation is not None
    assert service is not None
    assert service.instances == 2
    assert all(len(one.slice_s) == len(extrapolation.slices) for one in (*service.decode, *service.prefill))
    whole = {one.size: one.seconds for one in service.decode if one.depth == 0}
    assert whole[2][0] == pytest.approx(0.02 + 12 * 0.008, rel=0.01)
    assert record_from(document_of(record), source="test").measurement.service == service


def test_several_engines_need_slots(model: ModelFile) -> None:
    """A single stream is one engine's business."""
    with pytest.raises(UsageError, match="--per-node measures the service curve"):
        measure_model(_request(model, nodes=own_nodes(2)), Nodes(step_s={0: 0.02, 1: 0.02}).around())


def test_threads_beyond_a_node_are_refused(model: ModelFile) -> None:
    """The node has one CPU."""
    with pytest.raises(UsageError, match="may use 1 CPUs of that node"):
        measure_model(_request(model, threads=2, nodes=own_nodes(1)), Nodes(step_s={0: 0.02}).around())


def test_a_run_goes_on_only_with_the_same_engines(model: ModelFile) -> None:
    """Neither on another node, nor with another number of engines."""
    record, _ = _per_node(model, {0: 0.02, 1: 0.02})
    begun = replace(record, complete=False)
    engine = Nodes(step_s={0: 0.02, 1: 0.02})

    again = measure_model(_request(model, slots=2, nodes=own_nodes(2), use_mmap=False), engine.around(), earlier=begun)
    assert again.measurement.service is not None
    assert again.measurement.service.instances == 2
    with pytest.raises(UsageError, match="2 engines side by side"):
        measure_model(_request(model, slots=2, nodes=own_nodes(2)[:1], use_mmap=False), engine.around(), earlier=begun)
    with pytest.raises(UsageError, match="another cpus, numa_node"):
        measure_model(
            _request(model, slots=2, nodes=own_nodes(2)[::-1], use_mmap=False), engine.around(), earlier=begun
        )


def test_a_record_of_no_engine_is_refused(model: ModelFile) -> None:
    """Instances are counted from one; a record from before they were counted has one."""
    record, _ = _per_node(model, {0: 0.02, 1: 0.02})
    document = document_of(record)
    service = document["measurement"]["service"]

    service["instances"] = 0
    with pytest.raises(RecordError, match="engines"):
        record_from(document, source="test")
    del service["instances"]
    found = record_from(document, source="test").measurement.service
    assert found is not None
    assert found.instances == 1


class Shared(SideBySide):
    """Engines that take half as long again for their steps while all are at work."""

    def decode(self, n_steps: int, *, batch: int = 1) -> tuple[float, ...]:
        """Slower together."""
        seconds = super().decode(n_steps, batch=batch)
        return seconds if self._one_at_a_time else tuple(1.5 * one for one in seconds)


def test_what_engines_cost_each_other_is_told() -> None:
    """Steps take 1.5 times as long together, chunks as long as alone; with a small budget only one point is compared."""
    engine = FakeEngine(speed=FakeSpeed(decode_step_s=0.02, prefill_token_s=0.002))
    settings = EngineSettings(n_ctx=2048, n_threads=1, n_threads_batch=1, n_sequences=2)
    sessions = [Shared([engine.open(Path("m.gguf"), settings) for _ in range(2)])]
    speed = SpeedEstimate(step_s=0.02, token_s=0.002)
    needs = ServiceNeeds(slots=2, working_depth=64, deepest=64, largest_chunk=64)
    series = ServiceSeries(planner=ServicePlanner(needs=needs, budget_s=60.0), speed=speed)
    runner = ServiceRunner(sessions, engine.clock, ServiceState(n_sessions=1), series)
    runner.run()
    rows = {point: [list(row) for row in own] for point, own in runner.state.rows.items()}
    said: list[str] = []

    (words,) = slowdown_words(runner, sessions, 60.0, said.append)
    assert "1.00 to 1.50 times as long as with one at work (3 points compared)" in words
    (words,) = slowdown_words(runner, sessions, 0.0, said.append)
    assert "took 1.50 times as long as with one at work (1 points compared)" in words
    assert said
    assert runner.state.rows == rows  # the curve is left as it was
    assert slowdown_words(runner, sessions[0].sessions, 60.0, said.append) == ()
    assert PassPoint(PassKind.DECODE, 1, 0) in rows
