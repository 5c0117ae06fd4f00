"""Histories on disk and their trends: what is kept, what is refused, and the steps that are told."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from helpers.guard import guarded
from suffice.decide.guard_trend import trend_of
from suffice.decide.guard_types import KEPT, Metric, Outcome
from suffice.errors import OutputError, RecordError
from suffice.records.history import add_to_history, history_line, load_history
from suffice.records.one_writer import one_writer
from suffice.records.schema import ContentionRecord, EngineRecord
from suffice.report.history import history_document, history_text
from suffice.report.history_chart import write_history_chart

if TYPE_CHECKING:
    from pathlib import Path

    from suffice.decide.guard_types import RunFacts

BUSY = ContentionRecord(disturbed=True, reasons=("steal of 9 %",))


def stepped(*, seed: int = 1) -> list[RunFacts]:
    """Twelve runs around 20 tokens/s by engine 1, twelve around 17 by engine 2, and a busy one between them."""
    chance = random.Random(seed)  # noqa: S311  # a seed, so that a failure can be repeated
    runs = [guarded(f"a{n}", decode=20 * chance.lognormvariate(0, 0.01)) for n in range(12)]
    runs += [guarded("busy", decode=3, disturbed=True, contention=BUSY)]
    engine = EngineRecord(name="fake", version="2")
    return [*runs, *(guarded(f"b{n}", decode=17 * chance.lognormvariate(0, 0.01), engine=engine) for n in range(12))]


def test_a_run_comes_back_as_it_was(tmp_path: Path) -> None:
    """Figures with their repetitions, fingerprint, marks and verdict; P90 is not kept, because no run supports it."""
    run = guarded("run ü", disturbed=True, contention=BUSY)
    path = tmp_path / "deep" / "history.jsonl"

    assert add_to_history(path, run)
    found = load_history(path)

    assert len(found) == 1
    assert set(found[0].figures) == set(KEPT)
    assert found[0].figures == {metric: run.figures[metric] for metric in KEPT}
    assert (found[0].name, found[0].fingerprint, found[0].busy) == (run.name, run.fingerprint, run.busy)
    assert found[0].bandwidth_bytes_per_s == run.bandwidth_bytes_per_s


def test_a_run_is_added_once(tmp_path: Path) -> None:
    """The same run again changes nothing; another one is added behind it."""
    path = tmp_path / "history.jsonl"

    added = [add_to_history(path, run) for run in (guarded("a"), guarded("a"), guarded("b", decode=21))]

    assert added == [True, False, True]
    assert [run.name for run in load_history(path)] == ["a", "b"]


ADDS = """
import sys
from pathlib import Path
from helpers.guard import guarded
from suffice.records.history import add_to_history
for number in range(8):
    add_to_history(Path(sys.argv[1]), guarded(f"{sys.argv[2]}{number}", decode=20 + number + 10 * (sys.argv[2] == "b")))
"""


def test_two_processes_add_to_one_history(tmp_path: Path) -> None:
    """None of them loses a run of the other, from the first on, which begins the file."""
    path = tmp_path / "new" / "history.jsonl"
    command = [sys.executable, "-c", ADDS, str(path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    adding = [subprocess.Popen([*command, name], env=environment) for name in ("a", "b")]

    assert [process.wait(timeout=60) for process in adding] == [0, 0]
    assert sorted(run.name for run in load_history(path)) == sorted(f"{name}{n}" for name in "ab" for n in range(8))


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks")
def test_a_folder_that_another_process_keeps_is_told(tmp_path: Path) -> None:
    """After a while that is long for a writer; nothing is written."""
    path = tmp_path / "history.jsonl"
    with one_writer(path), pytest.raises(OutputError, match="another process"), one_writer(path, wait_s=0.05):
        pass
    with one_writer(path, wait_s=0.05):
        assert not path.exists()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"form": "something else"}, "not a run of a history"),
        ({"schema_version": 2}, "upgrade it"),
        ({"schema_version": True}, "not a version number"),
        ({"unheard of": 1}, "field 'unheard of'"),
        ({"verdict": "fine"}, "is no verdict"),
        ({"bandwidth_bytes_per_s": -1}, "field 'bandwidth_bytes_per_s'"),
    ],
)
def test_lines_of_others_are_refused(tmp_path: Path, change: dict[str, object], complaint: str) -> None:
    """With the file, the number of the line, and what is wrong."""
    path = tmp_path / "history.jsonl"
    good = history_line(guarded("a"))
    path.write_text(f"{good}\n{json.dumps({**json.loads(good), **change})}\n", encoding="utf-8")

    with pytest.raises(RecordError, match="line 2") as refused:
        load_history(path)

    assert complaint in str(refused.value)


def test_an_edited_figure_is_refused(tmp_path: Path) -> None:
    """A rate that was raised by hand is not that of its own samples."""
    document = json.loads(history_line(guarded("a")))
    document["figures"]["decode"]["point"] = 21.0
    path = tmp_path / "history.jsonl"
    path.write_text(json.dumps(document) + "\n", encoding="utf-8")

    with pytest.raises(RecordError, match="was edited"):
        load_history(path)


def test_a_torn_last_line_costs_one_run(tmp_path: Path) -> None:
    """What a killed process left half written is left out, and the next run takes its place; in the middle it is refused."""
    path = tmp_path / "history.jsonl"
    good = history_line(guarded("a"))
    path.write_text(f"{good}\n{good[:100]}", encoding="utf-8")

    assert [run.name for run in load_history(path)] == ["a"]
    assert add_to_history(path, guarded("b", decode=21))
    assert [run.name for run in load_history(path)] == ["a", "b"]

    path.write_text(f"{good[:100]}\n{good}\n", encoding="utf-8")
    with pytest.raises(RecordError, match="line 1"):
        load_history(path)


def test_a_trend_tells_its_step_and_what_changed() -> None:
    """The first run of the new level, 15 % down, with the engine as the cause; the busy run is no part of it."""
    trend = trend_of(stepped(), Metric.DECODE)

    assert [(step.run, step.is_worse, step.causes) for step in trend.steps] == [(13, True, ("engine 1 -> 2",))]
    assert trend.steps[0].ratio == pytest.approx(17 / 20, rel=0.02)
    assert (trend.others, len(trend.values)) == (1, 24)
    assert trend.outcome() is Outcome.FAIL
    assert trend.outcome(0.2) is Outcome.PASS


def test_more_memory_is_worse_and_more_speed_better() -> None:
    """The direction is the metric's own."""
    runs = [guarded(f"{n}", decode=20 + n / 100, peak_rss_bytes=10**9 + n) for n in range(8)]
    runs += [guarded(f"{n}", decode=30 + n / 100, peak_rss_bytes=2 * 10**9 + n) for n in range(8)]

    speed, memory = trend_of(runs, Metric.DECODE), trend_of(runs, Metric.MEMORY)

    assert (speed.steps[0].is_worse, memory.steps[0].is_worse) == (False, True)
    assert (speed.outcome(), memory.outcome()) == (Outcome.PASS, Outcome.FAIL)


def test_few_runs_are_no_trend() -> None:
    """Fourteen runs without a step are inconclusive, fifteen pass; none at all are inconclusive."""
    runs = [guarded(f"{n}", decode=20 + n % 3 / 100) for n in range(15)]

    assert trend_of(runs[:14], Metric.DECODE).outcome() is Outcome.INCONCLUSIVE
    assert trend_of(runs, Metric.DECODE).outcome() is Outcome.PASS
    assert trend_of([], Metric.DECODE).outcome() is Outcome.INCONCLUSIVE


def test_the_text_names_runs_marks_and_steps() -> None:
    """A line a run, its marks, and a line for the step with p and cause; hostile names stay on their line."""
    runs = [*stepped(), guarded("evil\n\x1b[2Jname", decode=17)]
    trends = [trend_of(runs, Metric.DECODE)]

    text = history_text(runs, trends)

    assert len(text.splitlines()) == 1 + len(runs) + 1 + 2
    assert "\x1b" not in text
    assert "step in decode" in text.splitlines()[14]
    assert "busy" in text.splitlines()[13]
    assert "step at run 14: -1" in text
    assert "engine 1 -> 2" in text


def test_the_document_is_json_and_counts_from_one() -> None:
    """The same for scripts."""
    runs = stepped()

    document = json.loads(json.dumps(history_document(runs, [trend_of(runs, Metric.DECODE)])))

    assert document["trends"][0]["steps"][0]["run"] == 14
    assert document["trends"][0]["outcome"] == "fail"
    assert document["runs"][12]["busy"] == ["steal of 9 %"]


def test_the_chart_is_the_same_for_the_same_history(tmp_path: Path) -> None:
    """A panel for each metric, levels, step and floor; byte for byte alike; a $ in a name is harmless."""
    runs = [guarded("$x^2$", decode=20), *stepped()]
    trends = [trend_of(runs, Metric.DECODE), trend_of(runs, Metric.MEMORY)]

    for name in ("a.svg", "b.svg"):
        write_history_chart(tmp_path / name, runs, trends, {Metric.DECODE: 18.0})

    first = (tmp_path / "a.svg").read_bytes()
    assert first == (tmp_path / "b.svg").read_bytes()
    assert b"suffice chart" in first
    assert b"level (median)" in first
