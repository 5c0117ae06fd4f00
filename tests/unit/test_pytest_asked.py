"""What a test asks of suffice_measure, and what is made of it."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from helpers.hostile import HOSTILE
from helpers.records import run_record
from suffice.cli.pytest_asked import Asked, asked_of
from suffice.cli.pytest_judge import judge, limits_of
from suffice.cli.pytest_run import Measuring, after_rerun, file_stem, one_at_a_time
from suffice.decide.guard import Outcome
from suffice.errors import OutputError, UsageError
from suffice.records.store import save_record
from suffice.report.check_rows import CheckRow

if TYPE_CHECKING:
    from multiprocessing.synchronize import Event

    from suffice.records.schema import RunRecord


def test_the_last_word_counts() -> None:
    """Inner markers and the call replace what outer ones say, argument by argument."""
    asked = asked_of([{"model": "a", "floor": 8, "threads": 1}, {"floor": {"prefill": 9}}, {"model": Path("b")}])

    assert asked == Asked(model="b", floor={"prefill": 9}, threads=1)
    assert (asked.floors, asked.ceilings, asked.budget_s) == ({"prefill": 9}, {}, None)


def test_a_record_replaces_an_outer_model() -> None:
    """What is measured is one thing: a test that reads a record does not measure its class's model as well."""
    assert asked_of([{"model": "a"}, {"record": "run.json"}]) == Asked(record="run.json")


def test_a_plain_floor_is_that_of_decode() -> None:
    """And a budget is a time as on the command line, or seconds."""
    asked = asked_of([{"floor": 8, "budget": "500ms"}])

    assert (asked.floors, asked.budget_s) == ({"decode": 8}, 0.5)
    assert asked_of([{"budget": 20}]).budget_s == 20.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"flor": 8}, "knows no argument flor; there is baseline"),
        ({"floor": "8"}, r"floor='8'\): decode is no positive number"),
        ({"floor": True}, "no positive number"),
        ({"floor": float("nan")}, "no positive number"),
        ({"floor": {"decode": -1}}, "decode is no positive number"),
        ({"ceiling": 2}, "values by metric"),
        ({"ceiling": {"memory": 0}}, "memory is no positive number"),
        ({"budget": "soon"}, "not a duration"),
        ({"budget": 0}, "not a duration"),
        ({"budget": [1]}, "write a time"),
        ({"threads": 0}, "a whole number, 1 at least"),
        ({"depth": 1.5}, "a whole number, 0 at least"),
        ({"rerun": "yes"}, "True or False"),
        ({"model": 3}, "a text"),
        ({"model": "m", "record": "r"}, "give one of the two"),
    ],
)
def test_what_cannot_be_is_refused(arguments: dict[str, Any], message: str) -> None:
    """With the argument, its value and what it should be."""
    with pytest.raises(UsageError, match=message):
        asked_of([arguments])


@pytest.mark.parametrize(
    ("floors", "ceilings", "message"),
    [
        ({"ttft": 2.0}, {}, "ttft has a ceiling, not a floor"),
        ({}, {"decode": 2.0}, "decode has a floor, not a ceiling"),
        ({"decod": 2.0}, {}, "no metric is called 'decod'; there is decode, prefill"),
    ],
)
def test_limits_are_of_metrics_that_there_are(
    floors: dict[str, float], ceilings: dict[str, float], message: str
) -> None:
    """A floor of what is better when lower would pass the worst run."""
    with pytest.raises(UsageError, match=message):
        limits_of(floors, ceilings)


def test_a_worse_run_than_the_baseline_fails_with_its_causes() -> None:
    """The figure that got worse fails, the other passes, and what differs is told with the failure alone."""
    rows = judge(
        run_record(decode=10, prefill=100), floors={}, ceilings={}, baseline=run_record(decode=20, prefill=100)
    )

    outcomes = {row.name: row.outcome for row in rows}
    assert outcomes["decode against the baseline"] is Outcome.FAIL
    assert outcomes["prefill against the baseline"] is Outcome.PASS
    assert [row.message.startswith("likely causes:\n- ") for row in rows] == [
        row.outcome is not Outcome.PASS for row in rows
    ]


def test_a_rerun_that_passes_is_inconclusive_and_one_that_fails_is_a_failure() -> None:
    """Check by check: what failed in one run alone contradicts itself; what passed twice passes."""
    first = tuple(
        CheckRow(name=name, outcome=outcome, reason="first")
        for name, outcome in (
            *(("a", Outcome.FAIL), ("b", Outcome.FAIL), ("c", Outcome.PASS)),
            *(("d", Outcome.PASS), ("e", Outcome.FAIL), ("f", Outcome.FAIL)),
        )
    )
    second = tuple(
        CheckRow(name=name, outcome=outcome, reason="second")
        for name, outcome in (
            *(("a", Outcome.PASS), ("b", Outcome.FAIL), ("c", Outcome.PASS)),
            *(("d", Outcome.FAIL), ("e", Outcome.INCONCLUSIVE)),
        )
    )

    rows = after_rerun(first, second)

    assert {row.name for row in rows if row.outcome is Outcome.INCONCLUSIVE} == {"a", "d", "e", "f"}
    assert [row.name for row in rows if row.outcome is Outcome.FAIL] == ["b"]
    assert rows[3].reason == "failed when it was run again (second), and not the first time (first)"
    assert rows[5].reason == "failed (first), and not when it was run again (there was nothing to judge)"
    assert rows[0].reason == "failed (first), and not when it was run again (second)"
    assert rows[1].reason == "second (confirmed by a rerun)"


@pytest.mark.parametrize("test", [*HOSTILE, "../../etc/passwd", "tests/test_speed.py::test_it[../x]", "CON"])
def test_every_test_has_a_file_name(test: str) -> None:
    """Plain characters, no folder, not hidden and not too long, whatever a parameter holds."""
    stem = file_stem(test)

    assert set(stem) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
    assert not stem.startswith(".")
    assert len(stem) < 140


def test_tests_that_differ_have_files_that_differ() -> None:
    """Also where the readable part is the same."""
    assert len({file_stem(test) for test in [*HOSTILE, "a/b", "a-b", "a:b"]}) == len(HOSTILE) + 3


class Counting:
    """Measures 20 tokens/s and counts."""

    def __init__(self) -> None:
        self.times = 0

    def measure(self, asked: Asked, out: Path) -> RunRecord:
        """Another record of the same thing."""
        assert asked.model == "m.gguf"
        self.times += 1
        record = run_record()
        save_record(record, out)
        return record


@pytest.mark.parametrize(("session", "times"), [("one", 1), ("another", 2), (None, 2)])
def test_workers_share_what_they_measured(tmp_path: Path, session: str | None, times: int) -> None:
    """A second worker of the same session reads the first one's record; another session measures anew."""
    bench, asked = Counting(), Asked(model="m.gguf", floor=8)
    first = Measuring(tmp_path, tmp_path / "runs", "one", lambda _: None)
    second = Measuring(tmp_path, tmp_path / "runs", session, lambda _: None)

    paths = [measuring(asked, bench, test).path for measuring, test in ((first, "a"), (second, "b"), (second, "c"))]

    assert bench.times == times
    assert len(set(paths)) == times


def test_workers_have_the_first_record_and_not_the_rerun(tmp_path: Path) -> None:
    """A rerun is for the test that failed: others, of whichever worker, are held against what was measured first."""
    bench, asked = Counting(), Asked(model="m.gguf", floor=80, rerun=True)
    first = Measuring(tmp_path, tmp_path / "runs", "one", lambda _: None)
    second = Measuring(tmp_path, tmp_path / "runs", "one", lambda _: None)

    again = first(asked, bench, "a")
    others = [measuring(Asked(model="m.gguf", floor=8), bench, "b") for measuring in (first, second)]

    assert bench.times == 2
    assert len({other.path for other in others}) == 1
    assert again.path not in {other.path for other in others}


def test_another_depth_is_another_measurement(tmp_path: Path) -> None:
    """What is held against the record does not matter, what is measured does."""
    bench = Counting()
    measuring = Measuring(tmp_path, tmp_path / "runs", "one", lambda _: None)

    for asked in (Asked(model="m.gguf"), Asked(model="m.gguf", floor=8), Asked(model="m.gguf", depth=9)):
        measuring(asked, bench, "test")

    assert bench.times == 2


def _hold(folder: str, held: Event, release: Event) -> None:
    with one_at_a_time(Path(folder), lambda _: None):
        held.set()
        release.wait(30)


def test_one_process_measures_at_a_time(tmp_path: Path) -> None:
    """A second one waits, says so once, and goes on when the first has ended."""
    context = multiprocessing.get_context("spawn")
    held, release = context.Event(), context.Event()
    process = context.Process(target=_hold, args=(str(tmp_path), held, release))
    process.start()
    told: list[str] = []

    def progress(step: str) -> None:
        told.append(step)
        release.set()

    assert held.wait(30)
    with one_at_a_time(tmp_path, progress):
        assert release.is_set()
    process.join(30)

    assert told == ["another test is measuring; waiting for it"]


def test_a_folder_that_cannot_be_is_an_error(tmp_path: Path) -> None:
    """One sentence with the option."""
    (tmp_path / "file").write_text("")

    with pytest.raises(OutputError, match="give another --suffice-dir"), one_at_a_time(tmp_path / "file", print):
        pass
