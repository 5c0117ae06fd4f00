"""A comparison from beginning to end with fakes: what is kept after each step, what goes on after a kill, what one failure costs."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from helpers.gguf_writer import ToyLlama, write_gguf
from suffice.errors import EngineError, UsageError
from suffice.loaders.items import load_items
from suffice.measure.engine.fake_text import FakeModel, FakeTextEngine
from suffice.quants.fake_quantizer import FakeQuantizer
from suffice.quants.made_store import MadeStore
from suffice.quants.parties import parties
from suffice.quants.respondent import AskOptions
from suffice.quants.workflow import Around, Job, compare_models, record_stem
from suffice.records.quants_store import load_quants

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from suffice.quants.subjects import LocalModel

ITEMS = 6


@dataclass(slots=True, kw_only=True)
class Bench:
    """A folder with two toy models and items, and an engine that says what it is told to."""

    folder: Path
    engine: FakeTextEngine
    quantizer: FakeQuantizer = field(default_factory=FakeQuantizer)
    measured: list[list[str]] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    def job(self, *candidates: str, recipes: Sequence[str] = (), **changes: object) -> Job:
        """The reference against these files and recipes."""
        names = [str(self.folder / name) for name in candidates]
        job = Job(
            parties=parties(str(self.folder / "ref.gguf"), names, recipes),
            items=load_items(self.folder / "items.jsonl"),
            folder=self.folder / "out",
            options=AskOptions(max_tokens=8, slots=2),
        )
        return replace(job, **changes)  # type: ignore[arg-type]  # fields, by name

    def around(self, *, speed: bool = False) -> Around:
        """The fakes; ``speed`` notes who would be measured."""
        return Around(
            engine=lambda: self.engine,
            quantizer=lambda: self.quantizer,
            store=lambda: MadeStore(self.folder / "cache"),
            progress=self.told.append,
            speed=self.speed if speed else None,
        )

    def speed(self, models: Mapping[str, LocalModel], _folder: Path) -> Sequence[str]:
        """All of them, without measuring."""
        self.measured.append(list(models))
        return list(models)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Two toy models, of which one answers one of six questions wrongly."""
    toy = ToyLlama()
    for name in ("ref", "low"):
        metadata = {**toy.metadata(), "general.file_type": 1, "general.name": name}
        write_gguf(tmp_path / f"{name}.gguf", metadata, toy.tensors())
    rows = [{"id": n, "prompt": f"Question {n}:", "answer": "yes", "score": "contains"} for n in range(ITEMS)]
    (tmp_path / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    right = {f"Question {n}:": "yes" for n in range(ITEMS)}
    engine = FakeTextEngine(
        models={
            "ref.gguf": FakeModel(answers=right),
            "low.gguf": FakeModel(answers={**right, "Question 0:": "no"}, noise=0.5),
        }
    )
    return Bench(folder=tmp_path, engine=engine)


def test_a_comparison_is_kept_whole(bench: Bench) -> None:
    """Answers, scores, distances and the names of speed records are in the folder's record, which reads back as it was returned."""
    record = compare_models(bench.job("low.gguf"), bench.around(speed=True))

    assert [model.subject.name for model in record.models] == ["ref", "low"]
    assert [[one.score for one in model.outcomes] for model in record.models] == [[1.0] * 6, [0.0] + [1.0] * 5]
    assert [(one.candidate, one.is_self) for one in record.distances] == [("ref", True), ("low", False)]
    assert record.distances[1].documents[0].divergence > 0
    assert [one.record for one in record.measured] == ["speed/ref.json", "speed/low.json"]
    assert load_quants(bench.folder / "out" / "quants.json") == record
    assert record.complete


def test_a_candidate_that_fails_does_not_cost_the_others(bench: Bench) -> None:
    """One that is no model file stays in the comparison without scores, with the reason; the others are asked."""
    (bench.folder / "bad.gguf").write_bytes(b"GGUF")

    record = compare_models(bench.job("bad.gguf", "low.gguf"), bench.around(speed=True))

    _, bad, low = record.models
    assert {one.score for one in bad.outcomes} == {None}
    assert "could not be asked" in (bad.outcomes[0].reason or "")
    assert low.outcomes[1].score == 1.0
    assert bench.measured == [["ref", "low"]]


def test_nobody_to_compare_with_is_an_error(bench: Bench) -> None:
    """Where no candidate could be asked there is no comparison, and the message says why of each."""
    with pytest.raises(UsageError, match=r"no candidate could be asked.*gone"):
        compare_models(bench.job("gone.gguf"), bench.around())


def test_a_model_that_is_compared_with_itself_is_asked_twice(bench: Bench) -> None:
    """What it said as the reference is not taken for what it says as the candidate."""
    record = compare_models(bench.job("ref.gguf"), bench.around())

    assert bench.engine.opened >= 2
    assert [path.name for path in sorted((bench.folder / "out").iterdir())] == ["again-1", "answers", "quants.json"]
    own = [one for one in record.distances if not one.is_self]
    assert {figures.divergence for one in own for figures in one.documents} == {0.0}


def test_made_candidates_are_made_of_the_reference(bench: Bench) -> None:
    """A recipe becomes a file in the cache, is asked like any other, and is made once."""
    first = compare_models(bench.job(recipes=["q8_0"], distances=False), bench.around())
    again = compare_models(bench.job(recipes=["q8_0"], distances=False, folder=bench.folder / "b"), bench.around())

    assert [model.subject.name for model in first.models] == ["ref", "q8_0"]
    assert first.models[1].subject.made_from == first.models[0].subject.identity
    assert len(bench.quantizer.jobs) == 1
    assert again.models[1].subject.identity == first.models[1].subject.identity


def test_an_interrupted_comparison_goes_on(bench: Bench) -> None:
    """A run that ended in the middle of the candidate asks only what is missing, and its result is that of a run without the end."""
    whole = compare_models(bench.job("low.gguf", folder=bench.folder / "whole"), bench.around())
    patient = bench.engine.models
    bench.engine.models = {**patient, "low.gguf": replace(patient["low.gguf"], crash_after_requests=2)}
    cut = compare_models(bench.job("low.gguf", distances=False), bench.around())
    assert None in {one.score for one in cut.models[1].outcomes}
    bench.engine.models = patient

    resumed = compare_models(bench.job("low.gguf", resume=True), bench.around())

    assert [model.outcomes for model in resumed.models] == [model.outcomes for model in whole.models]


def test_a_folder_is_never_overwritten(bench: Bench) -> None:
    """A comparison that is there is gone on with on request only, and only on the same items."""
    compare_models(bench.job("low.gguf", distances=False), bench.around())

    with pytest.raises(UsageError, match="--resume"):
        compare_models(bench.job("low.gguf"), bench.around())
    with (bench.folder / "items.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"id": "more", "prompt": "?", "answer": "yes"}\n')
    with pytest.raises(UsageError, match="other items"):
        compare_models(bench.job("low.gguf", resume=True), bench.around())


def test_speed_that_cannot_be_measured_is_a_note(bench: Bench) -> None:
    """Quality is worth having without speed; the note says what was wrong."""

    def broken(_models: Mapping[str, LocalModel], _folder: Path) -> Sequence[str]:
        raise EngineError("no room")

    record = compare_models(bench.job("low.gguf", distances=False), replace(bench.around(), speed=broken))

    assert record.measured == ()
    assert "speed was not measured: no room" in record.notes


def test_everybody_is_asked_as_a_server_is(bench: Bench) -> None:
    """A server weighs no choices for us, so that files beside one get them as a list as well; files alone are weighed."""
    beside = bench.job("low.gguf", parties=parties("m.gguf", ["http://127.0.0.1:1/v1"]))

    assert beside.asking.choices_as_text
    assert beside.settings["choices_as_text"] is True
    assert not bench.job("low.gguf").asking.choices_as_text


def test_file_names_of_records_are_plain() -> None:
    """What is no letter, digit or mark of a file name becomes an underscore."""
    assert record_stem("qwen2.5:7b (2)") == "qwen2.5_7b_(2)"
    assert "/" not in record_stem("../../etc/passwd")
