"""Several models side by side, with fakes: what each record holds, who has a turn when, and how an interrupted measurement goes on."""

# ruff: noqa: ANN401  # builders take any field of what they build

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from helpers.gguf_writer import ToyLlama
from helpers.watched import observer_of, watch_of
from suffice.decide.compare import decide
from suffice.decide.evidence import evidence_from
from suffice.decide.paired_speed import (
    interleaved_of,
    openings_of,
    paired_decode,
    paired_prefill,
    rounds_of_rows,
    scatter_of_openings,
)
from suffice.errors import EngineCrashError, UsageError
from suffice.loaders.model_file import open_model_file
from suffice.measure.engine.fake import FakeBehaviour, FakeClock, FakeEngine, FakeSession, FakeSpeed
from suffice.measure.fake_machine import FakeMachine
from suffice.measure.interleaved import REOPENED_REPETITIONS, measure_interleaved
from suffice.measure.machine import MachineFacts
from suffice.measure.observer import Observer
from suffice.measure.request import RunRequest
from suffice.measure.run import Surroundings, measure_model
from suffice.model.demand import single_stream_need
from suffice.records.store import load_record, to_json
from suffice.units import GIB

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from suffice.measure.engine.seam import EngineSettings
    from suffice.records.schema import BandwidthRecord, RunRecord

FACTS = MachineFacts(
    cpu_model="Fake CPU",
    isa=("avx2",),
    llc_bytes=None,
    usable_cpus=2,
    thread_candidates=(1, 2),
    memory_usable_bytes=8 * GIB,
)
# Seconds of a step by file; the larger one is half as fast, and reads a prompt at four fifths of the speed.
STEP_S = {"small": 0.02, "large": 0.04, "third": 0.03}
TOKEN_S = {"small": 0.0004, "large": 0.0005, "third": 0.0005}


class CountingMachine(FakeMachine):
    """Counts the readings of its bandwidth."""

    def __init__(self, facts: MachineFacts = FACTS) -> None:
        super().__init__(facts=facts)
        self.readings: list[str] = []

    def bandwidth(self, *, budget_s: float, progress: Callable[[str], None] | None = None) -> BandwidthRecord:
        """As of the fake."""
        self.readings.append(f"before, {budget_s:g} s")
        return super().bandwidth(budget_s=budget_s, progress=progress)

    def bandwidth_again(self, first: BandwidthRecord) -> BandwidthRecord | None:
        """As of the fake."""
        self.readings.append("after")
        return super().bandwidth_again(first)


class Interrupted(Exception):  # noqa: N818  # stands for a kill in the middle of a write
    """Raised in the middle of a measurement."""


@dataclass(slots=True)
class Desk:
    """Everything around a measurement, and what was seen of it."""

    folder: Path
    machine: FakeMachine = field(default_factory=CountingMachine)
    engine: Any = None
    drift_per_s: float = 0.0
    jitter: float = 0.0
    die_after: int | None = None
    said: list[str] = field(default_factory=list)
    saved: list[str] = field(default_factory=list)
    clock: FakeClock = field(default_factory=FakeClock)

    def around(self) -> Surroundings:
        """With a machine that gets slower all the time, if so wanted."""

        def slowed(seconds: float) -> float:
            return seconds * (1 + self.drift_per_s * self.clock.now_s())

        engine = self.engine or FakeEngine(
            clock=self.clock,
            speed=FakeSpeed(jitter=self.jitter),
            step_cost=lambda model, _depth, _batch: slowed(STEP_S[model.stem]),
            prefill_cost=lambda model, _depth, tokens: slowed(TOKEN_S[model.stem] * tokens),
        )
        return Surroundings(
            engine=engine,
            machine=self.machine,
            clock=self.clock,
            progress=self.said.append,
            save=lambda _record: None,
        )

    def save(self, name: str, record: RunRecord) -> None:
        """To a file, until it is to die."""
        (self.folder / f"{name}.json").write_text(to_json(record), encoding="utf-8")
        self.saved.append(name)
        if self.die_after is not None and len(self.saved) > self.die_after:
            raise Interrupted

    def load(self) -> dict[str, RunRecord]:
        """What lies there."""
        return {path.stem: load_record(path) for path in self.folder.glob("*.json")}

    def measure(self, requests: dict[str, RunRequest], **given: Any) -> dict[str, RunRecord]:
        """Measure with all this around it."""
        return measure_interleaved(requests, self.around(), save=self.save, **{"budget_s": 400.0, **given})


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """With an empty folder."""
    (tmp_path / "speed").mkdir()
    return Desk(tmp_path / "speed")


@pytest.fixture
def requests(tmp_path: Path) -> dict[str, RunRequest]:
    """Two files, decoding behind a cache that is deeper than the prompt."""
    return {name: _request(tmp_path, name) for name in ("small", "large")}


def _request(folder: Path, name: str, **changes: Any) -> RunRequest:
    toy = ToyLlama(n_layer=4 if name == "large" else 2)
    return RunRequest(
        model=open_model_file(toy.write(folder / f"{name}.gguf")),
        **{"prompt_tokens": 256, "depth": 512, **changes},
    )


def _shallow(requests: dict[str, RunRequest]) -> dict[str, RunRequest]:
    return {name: replace(request, depth=128) for name, request in requests.items()}


def test_planted_ratios_are_found(desk: Desk, requests: dict[str, RunRequest]) -> None:
    """Half the decode speed and four fifths of the prefill speed, each from ten rounds in which both had a turn."""
    records = desk.measure(requests)

    decode = paired_decode(records["small"], records["large"])
    prefill = paired_prefill(records["small"], records["large"])
    assert decode is not None
    assert prefill is not None
    assert decode.point == pytest.approx(0.5, rel=0.01)
    assert prefill.point == pytest.approx(0.8)
    assert len(decode.samples) == len(prefill.samples) == 10


def test_each_record_is_an_ordinary_one(desk: Desk, requests: dict[str, RunRequest]) -> None:
    """What is saved is what is returned, complete and undisturbed, at the lengths that were asked for; a verdict can rest on it."""
    records = desk.measure(requests)

    for name, record in desk.load().items():
        assert to_json(record) == to_json(records[name])
        assert (record.complete, record.disturbed, record.contradictions) == (True, False, ())
        assert [(one.depth, len(one.step_s)) for one in record.measurement.decode] == [(512, 10), (0, 10)]
        assert record.measurement.prefill is not None
        assert record.measurement.prefill.prompt_tokens == 256
        assert {one.stopped for one in record.measurement.decode} == {"maximum of repetitions reached"}
        assert record.measurement.peak_rss_bytes == 123_456_789
        assert record.ceiling.decode_tokens_per_second is not None
        assert record.contention.readings["busy_cpu_s"] == 6.0  # 2 in each of three sittings
        assert interleaved_of(record)["with"] == [other for other in requests if other != name]
    steps = {len(row) for record in records.values() for one in record.measurement.decode for row in one.step_s}
    assert len(steps) == 1
    assert decide(single_stream_need(8), [evidence_from(records["small"])]).verdict.verdict == "cpu"


def test_bandwidth_is_read_once_for_all(desk: Desk, requests: dict[str, RunRequest]) -> None:
    """One search with the budget of all, one reading after, and both records show the same."""
    machine = desk.machine = CountingMachine()
    records = desk.measure(requests, budget_s=30.0)

    assert machine.readings == ["before, 4.5 s", "after"]
    assert records["small"].bandwidth_before == records["large"].bandwidth_before
    assert records["small"].bandwidth_after == records["large"].bandwidth_after


def test_turns_are_balanced(desk: Desk, requests: dict[str, RunRequest]) -> None:
    """Who begins changes from round to round, and the progress says whose turn it is and at what."""
    desk.measure(_shallow(requests), rounds=3)

    turns = [text for text in desk.said if "round" in text]
    assert [text.split(":")[0] for text in turns] == ["small", "large", "large", "small", "small", "large"]
    assert turns[0] == "small: round 1 of 3, a prompt of 256 tokens"


def test_a_drift_hits_all_alike(desk: Desk, requests: dict[str, RunRequest]) -> None:
    """On a machine that becomes several times slower meanwhile the ratio stays within 3 %; one after the other it is far off."""
    desk.drift_per_s = 0.02
    records = desk.measure(requests, budget_s=100.0)

    decode = paired_decode(records["small"], records["large"])
    assert decode is not None
    assert decode.point == pytest.approx(0.5, rel=0.03)
    apart = Desk(desk.folder, drift_per_s=0.02)
    rates = []
    for request in requests.values():
        record = measure_model(replace(request, budget_s=50.0), apart.around())
        assert record.decode_tokens_per_second is not None
        rates.append(record.decode_tokens_per_second)
    assert rates[1] / rates[0] < 0.4


def test_threads_are_chosen_once(desk: Desk, requests: dict[str, RunRequest], tmp_path: Path) -> None:
    """The reference's sweep decides for all who did not choose; the sweep stands in its record only."""
    requests["third"] = _request(tmp_path, "third", threads=1)
    speed = FakeSpeed(decode_step_s=0.04, prefill_token_s=0.001, useful_threads=2)
    desk.engine = FakeEngine(clock=desk.clock, speed=speed)
    records = desk.measure(requests)

    threads = {name: record.measurement.decode[0].threads for name, record in records.items()}
    assert threads == {"small": 2, "large": 2, "third": 1}
    assert [len(record.measurement.thread_sweep) for record in records.values()] == [2, 0, 0]
    told = {name: interleaved_of(record)["settings_of"]["threads"] for name, record in records.items()}
    assert told == {"small": "small", "large": "small", "third": None}


def test_what_is_stated_for_one_is_not_for_others(desk: Desk, requests: dict[str, RunRequest]) -> None:
    """The reference runs with one thread and without flash attention because it was told so: the other one chooses for itself."""
    requests["small"] = replace(requests["small"], threads=1, flash_attention="off")
    records = desk.measure(requests)

    assert [record.settings["flash_attention"] for record in records.values()] == [False, True]
    assert [len(record.measurement.thread_sweep) for record in records.values()] == [0, 2]
    assert interleaved_of(records["small"])["settings_of"] == {"threads": None, "flash_attention": None}
    assert interleaved_of(records["large"])["settings_of"] == {"threads": "large", "flash_attention": "large"}


@dataclass(slots=True)
class SlowWithFlash:
    """An engine whose flash attention is the slow choice."""

    clock: FakeClock
    opened: list[str] = field(default_factory=list)

    @property
    def identity(self) -> Any:
        """Of a fake."""
        return FakeEngine().identity

    def open(self, model: Path, settings: EngineSettings, *, evict_first: bool = False) -> FakeSession:
        """Twice as fast with it off."""
        self.opened.append(settings.flash_attention)
        step_s = 0.01 if settings.flash_attention == "off" else 0.02
        speed = FakeSpeed(decode_step_s=step_s, prefill_token_s=0.0005, useful_threads=1)
        return FakeEngine(clock=self.clock, speed=speed).open(model, settings, evict_first=evict_first)


def test_flash_attention_is_chosen_once(desk: Desk, requests: dict[str, RunRequest], tmp_path: Path) -> None:
    """Compared with the reference and turned off for all but the one that was told; the records say whose comparison it is."""
    requests["large"] = replace(_request(tmp_path, "third"))
    requests["third"] = replace(requests["small"], flash_attention="on")
    desk.engine = SlowWithFlash(desk.clock)
    records = desk.measure(requests)

    assert {name: record.settings["flash_attention"] for name, record in records.items()} == {
        "small": False,
        "large": False,
        "third": True,
    }
    assert "of" not in records["small"].settings["attention_probe"]
    assert records["large"].settings["attention_probe"]["of"] == "small"
    assert "attention_probe" not in records["third"].settings
    first, second, third = ["auto", "auto", "off", "off"], ["off"], ["on"]
    again = [*third, *second, "off", "off", *second, *third]  # in the opposite order, and once more
    assert desk.engine.opened == [*first, *second, "on", *third, *again]


def test_the_budget_ends_the_rounds(desk: Desk, requests: dict[str, RunRequest]) -> None:
    """With little time three rounds are made all the same; the lengths are shortened for all alike, with the budget that would do."""
    requests = _shallow({name: replace(request, prompt_tokens=1024) for name, request in requests.items()})
    records = desk.measure(requests, budget_s=8.0)

    assert {len(one.step_s) for record in records.values() for one in record.measurement.decode} == {3}
    prompts = {one.prompt_tokens for record in records.values() if (one := record.measurement.prefill)}
    assert len(prompts) == 1
    assert prompts < {*range(1024)}
    for record in records.values():
        assert {one.stopped for one in record.measurement.decode} == {"budget spent"}
        assert any("to fit the budget of 8 s" in text and "--budget" in text for text in record.warnings)


def test_models_that_do_not_fit_together_are_loaded_for_their_turn(desk: Desk, requests: dict[str, RunRequest]) -> None:
    """One session at a time, several repetitions a round, and a warning; the ratio is that of the rounds."""
    desk.machine = CountingMachine(facts=replace(FACTS, memory_usable_bytes=1_000_000))
    requests = {name: replace(request, flash_attention="on") for name, request in requests.items()}
    at_once: list[int] = []
    engine = desk.around().engine
    assert isinstance(engine, FakeEngine)
    desk.engine = _Watching(engine, at_once)
    records = desk.measure(requests, rounds=4)

    assert max(at_once) == 1
    for record in records.values():
        assert rounds_of_rows(record)["prefill"] == [n for n in (1, 2, 3, 4) for _ in range(REOPENED_REPETITIONS)]
        assert any("loaded anew for every round" in text for text in record.warnings)
    decode = paired_decode(records["small"], records["large"])
    assert decode is not None
    assert len(decode.samples) == 4
    assert decode.point == pytest.approx(0.5, rel=0.01)


class _Watching:
    """Notes how many sessions are open whenever one is opened."""

    def __init__(self, engine: FakeEngine, at_once: list[int]) -> None:
        self._engine, self._at_once, self._sessions = engine, at_once, list[FakeSession]()
        self.identity = engine.identity

    def open(self, model: Path, settings: EngineSettings, *, evict_first: bool = False) -> FakeSession:
        self._sessions.append(self._engine.open(model, settings, evict_first=evict_first))
        self._at_once.append(sum(session._open for session in self._sessions))
        return self._sessions[-1]


def test_a_model_that_does_not_fit_is_left_out(desk: Desk, requests: dict[str, RunRequest]) -> None:
    """Its record says why and has no speeds; the other is measured without it."""
    desk.machine = CountingMachine(facts=replace(FACTS, memory_usable_bytes=700_000))
    records = desk.measure(requests, rounds=3)

    assert all(record.complete for record in records.values())
    assert "not run" in records["large"].warnings[0]
    assert records["large"].measurement.decode == ()
    assert records["small"].measurement.decode
    assert interleaved_of(records["small"])["with"] == []
    assert paired_decode(records["small"], records["large"]) is None


def test_where_all_are_needed_one_that_does_not_fit_ends_it(desk: Desk, requests: dict[str, RunRequest]) -> None:
    """Before anything is measured or kept, with its name and what it needs."""
    machine = desk.machine = CountingMachine(facts=replace(FACTS, memory_usable_bytes=700_000))

    with pytest.raises(UsageError, match=r"^large: not run: the model needs .* can be used$"):
        desk.measure(requests, rounds=3, needs_all=True)

    assert (machine.readings, desk.saved) == ([], [])


@pytest.mark.parametrize("die_after", [3, 14, 16, 20, 29])
def test_an_interrupted_measurement_goes_on(desk: Desk, requests: dict[str, RunRequest], die_after: int) -> None:
    """Killed after any save: earlier rows stay in front, whole rounds are not made again, and one that was cut is made anew."""
    desk.die_after = die_after
    with pytest.raises(Interrupted):
        desk.measure(requests, rounds=5)
    earlier = desk.load()
    assert not any(record.complete for record in earlier.values())

    desk.die_after, desk.said = None, []
    records = desk.measure(requests, rounds=5, earlier=earlier)

    for name, record in records.items():
        assert record.complete
        for before, after in zip(earlier[name].measurement.decode, record.measurement.decode, strict=False):
            assert after.step_s[: len(before.step_s)] == before.step_s
    marks = [set(rounds_of_rows(record)["prefill"]) for record in records.values()]
    assert len(marks[0] & marks[1]) == 5
    assert len(marks[0] | marks[1]) <= 6
    decode = paired_decode(records["small"], records["large"])
    assert decode is not None
    assert len(decode.samples) == 5
    if die_after > 16:
        assert len([text for text in desk.said if "round" in text]) < 2 * 5 * 2


def test_a_round_that_was_cut_is_no_pair(desk: Desk, requests: dict[str, RunRequest]) -> None:
    """A row that one saved and the other did not stays in its record, and is never paired with a later one."""
    records = desk.measure(_shallow(requests), rounds=3)
    part = {name: replace(record, complete=False) for name, record in records.items()}
    part["large"] = _without_last_round(part["large"])
    desk.said.clear()

    again = desk.measure(_shallow(requests), rounds=3, earlier=part)

    assert rounds_of_rows(again["small"])["prefill"] == [1, 2, 3, 4]
    assert rounds_of_rows(again["large"])["prefill"] == [1, 2, 4]
    assert again["small"].disturbed is None
    assert [text for text in desk.said if "round" in text] == [
        "large: round 3 of 3, a prompt of 256 tokens",
        "small: round 3 of 3, a prompt of 256 tokens",
    ]


def _without_last_round(record: RunRecord) -> RunRecord:
    told = interleaved_of(record)
    marks = {"decode": [row[:-1] for row in rounds_of_rows(record)["decode"]], "prefill": [1, 2]}
    measurement = record.measurement
    assert measurement.prefill is not None
    return replace(
        record,
        settings={**record.settings, "interleaved": {**told, "round_of_row": marks}},
        measurement=replace(
            measurement,
            decode=tuple(replace(one, step_s=one.step_s[:-1]) for one in measurement.decode),
            prefill=replace(measurement.prefill, chunk_s=measurement.prefill.chunk_s[:-1]),
        ),
    )


def test_finished_records_are_kept(desk: Desk, requests: dict[str, RunRequest]) -> None:
    """Nothing is measured again where all is complete, as long as it is of these models and settings."""
    records = desk.measure(requests, rounds=3)
    desk.said.clear()

    assert desk.measure(requests, earlier=records) == records
    assert desk.said == []
    with pytest.raises(UsageError, match="large: the record to keep was made with another type_k"):
        desk.measure({**requests, "large": replace(requests["large"], type_k="q8_0")}, earlier=records)


@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize("change", [{"prompt_tokens": 250}, {"depth": 500}])
def test_records_of_other_lengths_are_not_kept(
    desk: Desk, requests: dict[str, RunRequest], change: dict[str, int], *, complete: bool
) -> None:
    """A prompt that is a little shorter needs no other context, and is another measurement all the same."""
    records = {name: replace(one, complete=complete) for name, one in desk.measure(requests, rounds=3).items()}
    others = {name: replace(request, **change) for name, request in requests.items()}  # type: ignore[arg-type]  # by name
    (length,) = change.values()

    with pytest.raises(UsageError, match=rf"small: the record to keep .* tokens, not {length}"):
        desk.measure(others, rounds=3, earlier=records)


def test_no_thread_counts_are_tried_where_one_is_given(desk: Desk, requests: dict[str, RunRequest]) -> None:
    """Nothing is chosen, and nothing else is told."""
    records = desk.measure({name: replace(request, threads=1) for name, request in requests.items()}, rounds=3)

    assert not any("trying thread counts" in text for text in desk.said)
    assert {record.measurement.decode[0].threads for record in records.values()} == {1}


def test_a_candidate_can_come_later(desk: Desk, requests: dict[str, RunRequest], tmp_path: Path) -> None:
    """Records of two are gone on with when a third joins: it gets as many rounds, with settings that were chosen before."""
    earlier = desk.measure(requests, rounds=3)
    requests["third"] = _request(tmp_path, "third")
    records = desk.measure(requests, rounds=3, earlier=earlier)

    assert rounds_of_rows(records["third"])["decode"][0] == [7, 8, 9]
    assert rounds_of_rows(records["small"])["decode"][0] == [1, 2, 3, 7, 8, 9]
    ratio = paired_decode(records["small"], records["third"])
    assert ratio is not None
    assert ratio.point == pytest.approx(2 / 3, rel=0.01)


def test_other_records_are_not_gone_on_with(desk: Desk, requests: dict[str, RunRequest]) -> None:
    """Of a run of its own, of another measurement, of another model, or without its rounds: refused, with what to do."""
    records = desk.measure(requests, rounds=3)
    part = {name: replace(record, complete=False) for name, record in records.items()}
    alone = replace(part["large"], settings={**part["large"].settings, "interleaved": None})
    told = interleaved_of(part["large"])
    other = replace(part["large"], settings={**part["large"].settings, "interleaved": {**told, "session": "x"}})
    no_rounds = replace(part["large"], settings={**part["large"].settings, "interleaved": {**told, "round_of_row": {}}})
    model = replace(part["large"], model=replace(part["large"].model, sha256="00"))

    for record, words in (
        (alone, "not measured side by side"),
        (other, "not measured side by side"),
        (no_rounds, "does not say in which rounds"),
        (model, "large: the record to resume is of another model file"),
    ):
        with pytest.raises(UsageError, match=words):
            desk.measure(requests, earlier={**part, "large": record})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"depth": 128}, "large: side by side all need the same depth"),
        ({"slots": 4}, "large: --slots 4"),
        ({"threads": 99}, "large: --threads 99"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    desk: Desk, requests: dict[str, RunRequest], changes: dict[str, Any], words: str
) -> None:
    """Other lengths, a service curve and impossible settings are refused with the name, before anything is measured."""
    requests["large"] = replace(requests["large"], **changes)
    with pytest.raises(UsageError, match=words):
        desk.measure(requests)
    with pytest.raises(UsageError, match="one model and one round"):
        desk.measure({})
    assert not any("loading" in text for text in desk.said)


def test_a_crash_names_the_model_and_keeps_earlier_rounds(desk: Desk, requests: dict[str, RunRequest]) -> None:
    """The engine of one dies in some round: the error says whose it was, and both records on disk hold the rounds before."""
    desk.engine = FakeEngine(
        clock=desk.clock,
        speed=FakeSpeed(prefill_token_s=0.0002),
        behaviour=FakeBehaviour(crash_after_calls=60),
    )
    with pytest.raises(EngineCrashError, match=r"^(small|large): the engine's process died"):
        desk.measure(requests)

    lengths = [len(record.measurement.decode[0].step_s) for record in desk.load().values()]
    assert lengths[0] == lengths[1] > 0


def test_each_repetition_of_all_is_watched(desk: Desk, requests: dict[str, RunRequest]) -> None:
    """The first two that are made are disturbed: decode behind the deep cache, of each model once. All share the readings of one kernel."""
    watch = watch_of([True] * 2 + [False])
    desk.machine = FakeMachine(facts=FACTS, observer=lambda: observer_of(watch, desk.clock.now_s))
    records = desk.measure(requests, rounds=4)
    small, large = records["small"], records["large"]

    for record in (small, large):
        assert [one.disturbed for one in record.measurement.decode[0].repetitions] == [True, False, False, False]
        assert [(q.marked, q.unmarked) for q in (record.measurement.decode[0].quiet,) if q is not None] == [(1, 3)]
        assert record.disturbed is False
    assert small.contention.references == large.contention.references
    assert len(small.contention.references) == 3  # a kernel for each sitting
    assert {name: to_json(record) for name, record in desk.load().items()} == {
        name: to_json(record) for name, record in records.items()
    }


def test_threads_of_the_turn_before_sleep_first(desk: Desk, requests: dict[str, RunRequest]) -> None:
    """They would take the CPUs of whoever is next: waited for before every turn, of which four rounds of two stages and two models have 16."""
    waited: list[float] = []
    observer = Observer(watch_of([False]), settle=lambda: waited.append(desk.clock.now_s()), clock_s=desk.clock.now_s)
    desk.machine = FakeMachine(facts=FACTS, observer=lambda: observer)
    records = desk.measure(requests, rounds=4)

    assert len(waited) == 16
    assert records["small"].contention.references == ((),)
    assert [one.disturbed for one in records["small"].measurement.decode[0].repetitions] == [None] * 4


def test_models_that_are_loaded_in_turns_are_not_watched_one_by_one(
    desk: Desk, requests: dict[str, RunRequest]
) -> None:
    """Where sessions are closed between turns there is one mark for all."""
    watch = watch_of([True])
    facts = replace(FACTS, memory_usable_bytes=1_000_000)
    desk.machine = FakeMachine(facts=facts, observer=lambda: observer_of(watch, desk.clock.now_s))
    records = desk.measure(requests, rounds=3)

    assert watch.started == 0
    assert records["small"].measurement.decode[0].repetitions == ()


def test_a_measurement_that_goes_on_keeps_its_marks(desk: Desk, requests: dict[str, RunRequest]) -> None:
    """Readings of the second part are a row of their own; the repetition that was disturbed in the first one still is."""
    watch = watch_of([True, False])
    desk.machine = FakeMachine(facts=FACTS, observer=lambda: observer_of(watch, desk.clock.now_s))
    desk.die_after = 14
    with pytest.raises(Interrupted):
        desk.measure(requests, rounds=4)
    desk.die_after = None
    records = desk.measure(requests, rounds=4, earlier=desk.load())

    assert all(len(record.contention.references) > 1 for record in records.values())
    marks = [one.disturbed for record in records.values() for one in record.measurement.decode[0].repetitions]
    assert sum(mark is True for mark in marks) == 1
    assert desk.load().keys() == records.keys()


class _Diary:
    """An engine that notes what is asked of its sessions, in order."""

    def __init__(self, engine: FakeEngine, lines: list[str]) -> None:
        self._engine, self._lines, self.identity = engine, lines, engine.identity

    def open(self, model: Path, settings: EngineSettings, *, evict_first: bool = False) -> FakeSession:
        """Note it, and note what its decoding is."""
        session = self._engine.open(model, settings, evict_first=evict_first)
        decode, close, rest, name = session.decode, session.close, session.rest, model.stem
        self._lines.append(f"{name} opens")

        def decoded(n_steps: int, *, batch: int = 1) -> tuple[float, ...]:
            self._lines.append(f"{name} {n_steps}")
            return decode(n_steps, batch=batch)

        def noted(what: Callable[[], None], text: str) -> Callable[[], None]:
            def call() -> None:
                self._lines.append(f"{name} {text}")
                what()

            return call

        session.decode = decoded  # type: ignore[method-assign]
        session.close, session.rest = noted(close, "closes"), noted(rest, "rests")  # type: ignore[method-assign]
        return session


def _diary(desk: Desk) -> list[str]:
    """What is asked of the desk's engine from now on."""
    lines: list[str] = []
    engine = desk.around().engine
    assert isinstance(engine, FakeEngine)
    desk.engine = _Diary(engine, lines)
    return lines


def test_a_repetition_is_made_in_turns_of_some_steps(desk: Desk, requests: dict[str, RunRequest]) -> None:
    """Steps of 30 ms on average: one step a turn, and whoever had a turn rests. Orders balance."""
    lines = _diary(desk)
    records = desk.measure(_shallow(requests), rounds=1)

    assert len(records["small"].measurement.decode[0].step_s[0]) == 14  # 0.4 s
    rested = [line.split()[0] for line in lines if line.endswith("rests")]
    assert rested[:10] == [
        *("small", "large"),
        *("large", "small"),
        *("small", "large"),
        *("large", "small"),
        "small",
        "large",
    ]
    first = lines.index("small rests", lines.index("large rests"))  # behind both prompts
    assert lines[first - 1 : first + 1] == ["small 1", "small rests"]
    assert [line for line in lines if line.startswith("small ")][-1] == "small closes"


def test_short_steps_come_behind_one_that_wakes(desk: Desk, requests: dict[str, RunRequest]) -> None:
    """Of 5 ms: six a turn, behind one that does not count and is cut off again, so that every step is made at its own depth."""
    depths: list[int] = []

    def step_s(_model: Path, depth: int, _batch: int) -> float:
        depths.append(depth)
        return 0.005

    desk.engine = FakeEngine(
        clock=desk.clock,
        step_cost=step_s,
        prefill_cost=lambda _model, _depth, tokens: 0.0004 * tokens,
    )
    lines = _diary(desk)
    records = desk.measure(_shallow(requests), rounds=1)

    steps = len(records["small"].measurement.decode[0].step_s[0])
    assert steps == 64
    turns = [line for line in lines if line in ("small 6", "small 4")]
    assert turns[-22:] == [*["small 6"] * 10, "small 4"] * 2  # at two depths
    place = len(lines) - 1 - lines[::-1].index("small 6")
    assert lines[place - 1] == "small 1"
    assert set(range(128, 128 + steps)) <= set(depths)
    assert max(depths[-2 * 2 * (steps + 11) :]) < 256 + 2


def test_half_of_the_rounds_are_made_after_all_were_opened_in_the_opposite_order(
    desk: Desk, requests: dict[str, RunRequest]
) -> None:
    """One stage: two sittings. Two stages: three, so that half of each lies in either order."""
    lines = _diary(desk)
    desk.measure(_shallow(requests), rounds=4)
    opened = [line.split()[0] for line in lines if line.endswith("opens")]
    assert opened[-3:] == ["large", "large", "small"]
    assert _rounds_between_loads(desk, "small") == [2, 2]

    lines.clear()
    desk.measure(requests, rounds=4)
    opened = [line.split()[0] for line in lines if line.endswith("opens")]
    assert opened[-5:] == ["large", "large", "small", "small", "large"]
    assert [lines.count(f"{name} closes") for name in requests] == [lines.count(f"{name} opens") for name in requests]
    assert _rounds_between_loads(desk, "small") == [2, 4, 2]


def _rounds_between_loads(desk: Desk, name: str) -> list[int]:
    """How many rounds of a model its progress tells between one load and the next of the last measurement; those before its first round are none."""
    said = [text.partition(": ")[2] for text in desk.said if text.startswith(f"{name}: ")]
    last = (
        len(said) - 1 - said[::-1].index("reading and hashing the model")
        if "reading and hashing the model" in said
        else 0
    )
    counts = [0]
    for text in said[last:]:
        if text.startswith("loading again"):
            counts.append(0)
        counts[-1] += text.startswith("round")
    return counts


def test_filling_a_deep_cache_does_not_end_its_second_half(desk: Desk, requests: dict[str, RunRequest]) -> None:
    """Filling takes as long as several rounds, once in each half: both have rounds, about as many."""
    desk.measure({name: replace(one, depth=2000) for name, one in requests.items()}, rounds=10, budget_s=100.0)

    deep = _rounds_between_loads(desk, "small")
    assert len(deep) == 3
    assert min(deep[0], deep[2]) >= 2


def test_no_model_is_loaded_again_for_nothing(desk: Desk, requests: dict[str, RunRequest]) -> None:
    """One round, or a measurement that goes on behind its half."""
    lines = _diary(desk)
    desk.measure(_shallow(requests), rounds=1)
    assert _rounds_between_loads(desk, "small") == [1]
    before = len([line for line in lines if line.endswith("opens")])

    desk.measure(
        _shallow(requests), rounds=2, earlier={name: replace(one, complete=False) for name, one in desk.load().items()}
    )
    assert len([line for line in lines if line.endswith("opens")]) - before <= 4


def test_models_that_take_long_to_load_are_loaded_once(desk: Desk, requests: dict[str, RunRequest]) -> None:
    """Loading again may take a quarter of the budget. What it costs is said, and stands in the record for whoever judges the ratio."""
    lines = _diary(desk)
    records = desk.measure(_shallow(requests), rounds=4, budget_s=6.0)

    opened = [line.split()[0] for line in lines if line.endswith("opens")]
    assert opened == [
        *["small"] * 3,
        *["large"] * 2,
    ]  # from the disk and the page cache, and to compare flash attention
    for record in records.values():
        assert any("opened first" in warning for warning in record.warnings)
        assert interleaved_of(record)["opened_once"] is True
    assert scatter_of_openings(records["small"]) > 0
    twice = desk.measure(_shallow(requests), rounds=4)["small"]
    assert openings_of(twice) == ([2, 2], 2)
    assert scatter_of_openings(twice) < scatter_of_openings(records["small"])


def test_models_whose_cache_cannot_be_cut_have_whole_repetitions_as_turns(
    desk: Desk, requests: dict[str, RunRequest]
) -> None:
    """A recurrent model: a step that wakes could not be taken back, and every piece of it would begin behind another's turn."""
    desk.engine = FakeEngine(clock=desk.clock, behaviour=FakeBehaviour(can_rewind=False))
    lines = _diary(desk)
    records = desk.measure(_shallow(requests), rounds=3)

    assert all(len(record.measurement.decode[0].step_s) == 3 for record in records.values())
    assert paired_decode(records["small"], records["large"]) is not None
    steps = len(records["small"].measurement.decode[0].step_s[0])
    assert steps > 4
    assert lines.count(f"small {steps}") == 6  # three rounds at two depths, each in one piece


def test_openings_are_counted_by_series(desk: Desk, requests: dict[str, RunRequest]) -> None:
    """A depth beyond the prompt has rounds of its own, so that all are loaded three times, and each series was made in two of them."""
    record = desk.measure(requests, rounds=4)["small"]
    decode, prefill = openings_of(record)

    assert decode[0] == 2
    assert prefill == 2
    assert max(decode) == 2
