"""A comparison from beginning to end with fakes: what is kept after each step, what goes on after a kill, what one failure costs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from helpers.quants_bench import Bench, new_bench
from suffice.decide.quants_conclusion import conclude
from suffice.errors import EngineError, UsageError
from suffice.quants.folder import record_stems
from suffice.quants.parties import parties
from suffice.quants.workflow import compare_models
from suffice.records.quants_store import load_quants

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from suffice.quants.speeds import Speeds
    from suffice.quants.subjects import LocalModel


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Two toy models, of which one answers one of six questions wrongly."""
    return new_bench(tmp_path)


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
    assert "could not be asked: " in conclude(record).sentences[0]


def test_nobody_to_compare_with_is_an_error(bench: Bench) -> None:
    """Where no candidate could be asked there is no comparison, and the message says why of each; the reference is not asked for it."""
    (bench.folder / "bad.gguf").write_bytes(b"GGUF")

    with pytest.raises(UsageError, match=r"no candidate could be asked.*bad"):
        compare_models(bench.job("bad.gguf"), bench.around())

    assert bench.engine.opened == 0


def test_the_same_reason_stands_once(bench: Bench) -> None:
    """A quantizer that dies of each recipe is one sentence for all of them."""
    bench.quantizer.crashes = True

    with pytest.raises(UsageError, match=r"no candidate could be asked\. q8_0, q5_0: ") as error:
        compare_models(bench.job(recipes=["q8_0", "q5_0"]), bench.around())

    assert str(error.value).count("SIGABRT") == 1
    assert bench.engine.opened == 0


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
    """A comparison that is there is gone on with on request only; a folder with answers and nothing else is one as well."""
    compare_models(bench.job("low.gguf", distances=False), bench.around())
    opened = bench.engine.opened

    with pytest.raises(UsageError, match="--resume"):
        compare_models(bench.job("low.gguf"), bench.around())
    (bench.folder / "out" / "quants.json").unlink()
    with pytest.raises(UsageError, match="holds answers already"):
        compare_models(bench.job("low.gguf"), bench.around())

    assert bench.engine.opened == opened


def test_speed_that_cannot_be_measured_is_a_note(bench: Bench) -> None:
    """Quality is worth having without speed; the note says what was wrong."""

    def broken(_models: Mapping[str, LocalModel], _paths: Mapping[str, Path]) -> Speeds:
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
    (stem,) = record_stems(["qwen2.5:7b (2)"]).values()

    assert stem == "qwen2.5_7b_(2)"
    assert "/" not in record_stems(["../../etc/passwd"])["../../etc/passwd"]


def test_no_two_models_share_a_record() -> None:
    """Names that become the same file name, also where large letters count as small ones, and very long ones get a mark."""
    names = ["q 4", "q_4", "Q_4", "q4", "量" * 80, "量" * 79 + "x"]

    stems = record_stems(names)

    assert len({stem.casefold() for stem in stems.values()}) == len(names)
    assert stems["q4"] == "q4"
    assert max(len(stem.encode()) for stem in stems.values()) < 140
