"""A comparison that is gone on with: what still holds is used, what does not is measured again, and nothing that is there is lost."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from helpers.asked_servers import plain, said
from helpers.quants_bench import ITEMS, Bench, new_bench, toy_file
from suffice.errors import EngineMissingError, OutputError, UsageError
from suffice.load.mock_server import served_in_thread
from suffice.measure.engine.fake_text import FakeModel
from suffice.quants.folder import PART_NAME, locked
from suffice.quants.parties import parties
from suffice.quants.respondent import AskOptions
from suffice.quants.workflow import compare_models
from suffice.records.quants_store import load_quants

if TYPE_CHECKING:
    from pathlib import Path

    from suffice.load.mock_script import Answer as MockAnswer
    from suffice.load.mock_server import MockRequest
    from suffice.measure.engine.fake_text import FakeTextEngine
    from suffice.model.quants import AskedModel, QuantsRecord
    from suffice.quants.speeds import Speeds


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Two toy models, of which one answers one of six questions wrongly."""
    return new_bench(tmp_path)


def kept(bench: Bench) -> QuantsRecord:
    """The comparison on disk."""
    return load_quants(bench.folder / "out" / "quants.json")


def divergence(record: QuantsRecord, name: str) -> float:
    """Of a candidate, over all documents."""
    (found,) = (one for one in record.distances if one.candidate == name and not one.is_self)
    return sum(figures.divergence for figures in found.documents)


def scores(model: AskedModel) -> list[float | None]:
    """In the order of the items."""
    return [outcome.score for outcome in model.outcomes]


def test_the_distance_of_another_file_of_the_same_name_is_measured_again(bench: Bench) -> None:
    """Replaced by a file that is twice as far away, it has the distance of that; so has the noise floor a reference of its own."""
    near = compare_models(bench.job("low.gguf"), bench.around())
    toy_file(bench.folder / "low.gguf", "another one")
    bench.engine.models = {**bench.engine.models, "low.gguf": FakeModel(noise=2.0)}

    far = compare_models(bench.job("low.gguf", resume=True), bench.around())

    assert divergence(far, "low") > divergence(near, "low")
    assert [one.settings["candidate"] for one in far.distances] == [model.subject.identity for model in far.models]
    assert any("another model than in the earlier run" in note for note in far.models[1].notes)


@pytest.mark.parametrize("distances", [True, False])
def test_what_belongs_to_nobody_any_more_goes(bench: Bench, *, distances: bool) -> None:
    """With another candidate, distances and speeds of the first one are left out, and what is kept can be read."""
    compare_models(bench.job("low.gguf"), bench.around(speed=True))
    toy_file(bench.folder / "new.gguf", "new")

    compare_models(bench.job("new.gguf", resume=True, distances=distances), bench.around())

    record = kept(bench)
    assert {one.candidate for one in record.distances} == ({"ref", "new"} if distances else {"ref"})
    assert [one.subject for one in record.measured] == ["ref"]


def test_what_is_not_measured_now_stays_where_it_is_of_these_files(bench: Bench) -> None:
    """Without distances and speed, those of the very same files stay; of a replaced file they go."""
    first = compare_models(bench.job("low.gguf"), bench.around(speed=True))

    same = compare_models(bench.job("low.gguf", resume=True, distances=False), bench.around())
    toy_file(bench.folder / "low.gguf", "another one")
    other = compare_models(bench.job("low.gguf", resume=True, distances=False), bench.around())

    assert (same.distances, same.measured) == (first.distances, first.measured)
    assert [one.candidate for one in other.distances] == ["ref"]
    assert [one.subject for one in other.measured] == ["ref"]


def test_a_speed_that_failed_leaves_no_older_one_in_its_place(bench: Bench) -> None:
    """The figures of an earlier run would be read as those of this one."""
    compare_models(bench.job("low.gguf", distances=False), bench.around(speed=True))

    def broken(_models: object, _paths: object) -> Speeds:
        raise UsageError("no such depth")

    record = compare_models(bench.job("low.gguf", resume=True, distances=False), replace(bench.around(), speed=broken))

    assert record.measured == ()
    assert "speed was not measured: no such depth" in record.notes


def test_an_engine_that_is_gone_costs_nothing_that_is_there(bench: Bench) -> None:
    """All answers are kept: scores, distances and speeds are as they were, each model says why it was not asked."""
    first = compare_models(bench.job("low.gguf"), bench.around(speed=True))

    def missing() -> FakeTextEngine:
        raise EngineMissingError("no engine is installed")

    again = compare_models(bench.job("low.gguf", resume=True), replace(bench.around(), engine=missing))

    assert [scores(model) for model in again.models] == [scores(model) for model in first.models]
    assert (again.distances, again.measured, again.complete) == (first.distances, first.measured, True)
    assert all("could not be asked now (no engine is installed)" in model.notes[-1] for model in again.models)
    assert kept(bench) == again


def test_a_server_that_is_away_costs_nothing_that_is_there(bench: Bench) -> None:
    """Without it, the comparison is what it was; without an earlier one it is an error before anybody is asked."""
    is_away = False

    def answer(request: MockRequest) -> MockAnswer:
        return plain({}, status=401) if is_away else said(request, "yes")

    with served_in_thread(answer) as server:
        mixed = parties(str(bench.folder / "ref.gguf"), [f"{server.url}/v1"] * 2)
        first = compare_models(bench.job("low.gguf", parties=mixed), bench.around())
        opened, is_away = bench.engine.opened, True

        again = compare_models(bench.job("low.gguf", parties=mixed, resume=True), bench.around())
        with pytest.raises(UsageError, match="refuses access"):
            compare_models(bench.job("low.gguf", parties=mixed, folder=bench.folder / "new"), bench.around())

    assert scores(first.models[1]) == [1.0] * ITEMS
    assert [scores(model) for model in again.models] == [scores(model) for model in first.models]
    assert [model.subject.name for model in again.models] == [model.subject.name for model in first.models]
    assert again.settings == first.settings
    assert all("could not be asked now" in model.notes[-1] for model in again.models[1:])
    assert bench.engine.opened == opened + 1  # the reference, on resuming


def test_less_never_replaces_more(bench: Bench) -> None:
    """A run whose candidate dies at once, with other settings, stays beside the complete one, and says so."""
    first = compare_models(bench.job("low.gguf", distances=False), bench.around())
    bench.engine.models = {**bench.engine.models, "low.gguf": FakeModel(crash_after_requests=0)}
    options = AskOptions(max_tokens=9, slots=2)

    less = compare_models(bench.job("low.gguf", resume=True, distances=False, options=options), bench.around())

    assert kept(bench) == first
    assert "fewer answers than the comparison" in less.notes[-1]
    assert load_quants(bench.folder / "out" / PART_NAME) == less


def test_a_kill_before_the_end_leaves_the_complete_comparison(bench: Bench) -> None:
    """Ctrl-C while the reference is asked anew, by other settings: what was complete is still there."""
    first = compare_models(bench.job("low.gguf", distances=False), bench.around())

    def interrupted() -> FakeTextEngine:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare_models(bench.job("low.gguf", resume=True), replace(bench.around(), engine=interrupted))

    assert kept(bench) == first


def test_a_corrected_label_and_a_further_item_ask_nothing_again(bench: Bench) -> None:
    """The items file may change: only what is new is asked, and everything is scored by the labels that stand there now."""
    compare_models(bench.job("low.gguf", distances=False), bench.around())
    answers = sorted((bench.folder / "out" / "answers").iterdir())
    before = [path.read_text(encoding="utf-8") for path in answers]
    path = bench.folder / "items.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    rows[0]["answer"] = "no"
    rows.append({"id": "more", "prompt": "More:", "answer": "x", "score": "contains"})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

    record = compare_models(bench.job("low.gguf", resume=True, distances=False), bench.around())

    assert [scores(model)[0] for model in record.models] == [0.0, 1.0]
    assert len(record.tasks) == ITEMS + 1
    assert sorted((bench.folder / "out" / "answers").iterdir()) == answers
    after = [path.read_text(encoding="utf-8") for path in answers]
    assert all(
        now.startswith(then) and now.count("\n") == then.count("\n") + 1
        for then, now in zip(before, after, strict=True)
    )


def test_distances_on_other_items_are_not_taken_over(bench: Bench) -> None:
    """They are on the text of the items: with one more, they are measured again, or left out where they are not wanted."""
    first = compare_models(bench.job("low.gguf"), bench.around())
    with (bench.folder / "items.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"id": "more", "prompt": "Another one:", "answer": "yes"}\n')

    without = compare_models(bench.job("low.gguf", resume=True, distances=False), bench.around())
    anew = compare_models(bench.job("low.gguf", resume=True), bench.around())

    assert without.distances == ()
    assert {len(one.documents) for one in anew.distances} == {len(first.distances[0].documents) + 1}


def test_other_settings_are_named_when_everything_is_asked_again(bench: Bench) -> None:
    """One line says which, of each model, and stands in the comparison."""
    compare_models(bench.job("low.gguf", distances=False), bench.around())

    options = AskOptions(max_tokens=9, slots=2)
    record = compare_models(bench.job("low.gguf", resume=True, distances=False, options=options), bench.around())

    assert all("everything is asked again: max_tokens is 9 and was 8" in model.notes for model in record.models)
    assert "low: everything is asked again: max_tokens is 9 and was 8" in bench.told


def test_one_run_at_a_time_has_a_folder(bench: Bench) -> None:
    """The second is told so before anything is read; the folder is free again afterwards."""
    with locked(bench.folder / "out"), pytest.raises(OutputError, match="another run works in"):
        compare_models(bench.job("low.gguf"), bench.around())

    assert not bench.told
    assert compare_models(bench.job("low.gguf", distances=False), bench.around()).complete


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"texts": ("gone.txt",)}, "gone.txt"),
        ({"texts": ("empty.txt",)}, "holds no text"),
        ({"texts": (".",)}, "folder"),
        ({"texts": ("bad.jsonl",)}, "every line has to be"),
        ({"recipes": ["q8_0"], "imatrix": "empty.txt"}, "importance matrix"),
        ({"recipes": ["iq2_xxs"]}, "importance matrix"),
    ],
)
def test_what_can_be_seen_at_once_is_said_at_once(bench: Bench, changes: dict[str, object], words: str) -> None:
    """Texts, matrices and recipes that cannot be used are refused before any model is opened, and no folder stays."""
    (bench.folder / "empty.txt").write_text("", encoding="utf-8")
    (bench.folder / "bad.jsonl").write_text("{}\n", encoding="utf-8")
    given = dict(changes)
    if "texts" in given:
        given["texts"] = tuple(bench.folder / str(name) for name in changes["texts"])  # type: ignore[attr-defined]  # a tuple
    if "imatrix" in given:
        given["imatrix"] = bench.folder / str(given["imatrix"])

    with pytest.raises(UsageError, match=words):
        compare_models(bench.job("low.gguf", **given), bench.around())  # type: ignore[arg-type]  # by name

    assert bench.engine.opened == 0
    assert not (bench.folder / "out").exists()


def test_names_that_are_no_files_are_said_together(bench: Bench) -> None:
    """Both of two misspelt candidates, before anybody is asked."""
    with pytest.raises(UsageError, match=r"no file .*one\.gguf, .*two\.gguf"):
        compare_models(bench.job("one.gguf", "low.gguf", "two.gguf"), bench.around())

    assert bench.engine.opened == 0


def test_candidates_are_made_before_anybody_is_asked(bench: Bench) -> None:
    """A quantizer that is missing is an error while nothing was lost; one that is there has made its file before the reference is asked."""

    def missing() -> object:
        raise EngineMissingError("no quantizer")

    with pytest.raises(EngineMissingError, match="no quantizer"):
        compare_models(bench.job(recipes=["q8_0"]), replace(bench.around(), quantizer=missing))  # type: ignore[arg-type]
    assert bench.engine.opened == 0

    compare_models(bench.job(recipes=["q8_0"], distances=False), bench.around())

    places = [
        next(place for place, line in enumerate(bench.told) if words in line) for words in ("quantizing", "asking")
    ]
    assert places == sorted(places)


def test_a_model_that_never_answered_is_not_measured(bench: Bench) -> None:
    """Its engine died of every item: neither distance nor speed is tried with it, and its reason stands once."""
    toy_file(bench.folder / "dead.gguf", "dead")
    bench.engine.models = {**bench.engine.models, "dead.gguf": FakeModel(crash_after_requests=0)}

    record = compare_models(bench.job("dead.gguf", "low.gguf"), bench.around(speed=True))

    _, dead, _ = record.models
    assert set(scores(dead)) == {None}
    assert bench.measured == [["ref", "low"]]
    assert [one.candidate for one in record.distances] == ["ref", "low"]
    assert not any("SIGSEGV" in note for note in (*record.notes, *dead.notes))


def test_the_same_file_twice_is_called_a_check_of_noise(bench: Bench) -> None:
    """Whoever gives a file against itself is told what the figures are of."""
    record = compare_models(bench.job("ref.gguf"), bench.around())

    assert record.models[1].notes == ("it is the same model as ref: what differs between the two is noise",)
