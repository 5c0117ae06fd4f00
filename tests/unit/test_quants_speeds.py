"""The speed of a comparison: who is left out, what is measured again, what the records warn of."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from helpers.quants import comparison
from helpers.records import run_record
from suffice.errors import EngineCrashError, EngineMissingError, UsageError
from suffice.model.quants import Measured
from suffice.quants.speeds import kept_speeds, measure_speeds, speed_warnings
from suffice.quants.time_left import about
from suffice.records.schema import ModelRecord
from suffice.records.store import save_record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from suffice.records.schema import RunRecord


@dataclass(slots=True, kw_only=True)
class Rounds:
    """Measures everybody, except whom it has an error for, or refuses to go on with earlier records."""

    errors: Mapping[str, Exception] = field(default_factory=dict)
    refuses_earlier: bool = False
    calls: list[tuple[list[str], bool]] = field(default_factory=list)

    def __call__(self, names: Sequence[str], goes_on: bool) -> dict[str, RunRecord]:  # noqa: FBT001  # as it is called
        """Records of these names."""
        self.calls.append((list(names), goes_on))
        if goes_on and self.refuses_earlier:
            raise UsageError("ref: the record to keep was made with a prompt of 16 tokens, not 200")
        for name in names:
            if name in self.errors:
                raise self.errors[name]
        return {name: run_record(decode=1.0) for name in names}


def test_an_engine_that_dies_costs_its_own_model_only() -> None:
    """The others are measured once more without it, from the beginning, and a note says why it has no speed."""
    rounds = Rounds(errors={"b": EngineCrashError("b: it died of SIGKILL; free some memory")})

    found = measure_speeds(["ref", "b", "c"], rounds)

    assert found.names == ("ref", "c")
    assert found.notes == ("the speed of b was left out: it died of SIGKILL; free some memory",)
    assert [names for names, _ in rounds.calls] == [["ref", "b", "c"], ["ref", "c"]]


def test_the_same_advice_stands_once() -> None:
    """Two that died alike share a note."""
    died = "it died"
    rounds = Rounds(errors={"b": EngineCrashError(f"b: {died}"), "c": EngineCrashError(f"c: {died}")})

    found = measure_speeds(["ref", "b", "c", "d"], rounds)

    assert found.notes == ("the speed of b, c was left out: it died",)


def test_a_warning_stands_once() -> None:
    """Those of several records together, without names where all have it."""
    plain = run_record(decode=1.0)
    records = {"ref": replace(plain, warnings=("short", "hot")), "d": replace(plain, warnings=("short",))}

    assert speed_warnings(records) == ("speed: short", "speed of ref: hot")


def test_records_of_other_lengths_are_measured_again() -> None:
    """What the earlier records were made with is told, and everything is measured anew."""
    rounds, told = Rounds(refuses_earlier=True), list[str]()

    found = measure_speeds(["ref", "b"], rounds, resume=True, progress=told.append)

    assert found.names == ("ref", "b")
    assert rounds.calls == [(["ref", "b"], True), (["ref", "b"], False)]
    assert "a prompt of 16 tokens, not 200" in told[0]


@pytest.mark.parametrize(
    "error", [EngineMissingError("no engine"), UsageError("no place"), EngineCrashError("somebody: died")]
)
def test_what_is_about_nobody_is_an_error(error: Exception) -> None:
    """Without an engine, or where the error names none of the models, there is nothing to go on with."""
    with pytest.raises(type(error)):
        measure_speeds(["ref", "b"], Rounds(errors={"b": error}))


def test_a_record_that_does_not_fit_is_left_out_with_the_reason(tmp_path: Path) -> None:
    """A missing record and one of another model cost their own speed, not the report."""
    record = replace(
        comparison([1.0], [1.0], [1.0]),
        measured=tuple(Measured(subject=name, record=f"{name}.json") for name in ("ref", "c1", "c2")),
    )
    for name, identity in (("ref", "hash of ref"), ("c1", "hash of another")):
        save_record(run_record(decode=1.0, model=ModelRecord(sha256=identity)), tmp_path / f"{name}.json")

    found, notes = kept_speeds(record, tmp_path)

    assert list(found) == ["ref"]
    assert "c1.json is of another model" in notes[0]
    assert notes[1].startswith("the speed of c2 is left out: ")


@pytest.mark.parametrize(
    ("value_s", "words"),
    [
        (0.1, "about 1 s"),
        (7.4, "about 7 s"),
        (39.62, "about 40 s"),
        (61, "about 60 s"),
        (150, "about 2 min"),
        (9000, "about 2.5 h"),
    ],
)
def test_a_time_that_is_foretold_promises_no_more_than_is_known(value_s: float, words: str) -> None:
    """No milliseconds, no hundredths."""
    assert about(value_s) == words
