"""``suffice guard``, ``baseline`` and ``history``: exit codes, one JSON document, and one sentence for everything that is wrong."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import pytest

from helpers.command_line import Result, command_line
from helpers.gguf_writer import ToyLlama
from helpers.guard import guarded_record
from helpers.quants import comparison, paired_scores
from suffice.cli.guard_asked import limits_of, metrics_of, tolerance_of
from suffice.decide.guard_types import Metric
from suffice.errors import UsageError
from suffice.records.quants_store import save_quants
from suffice.records.schema import ContentionRecord, EngineRecord
from suffice.records.store import load_record, save_record
from suffice.units import GIB

if TYPE_CHECKING:
    from collections.abc import Callable

    from suffice.records.schema import RunRecord

DEMAND = '[demand]\nkind = "interactive"\ntokens_per_second_per_user = 8\nmargin = 1.5\n'
LOADS = Path(__file__).parents[1] / "data" / "load_results"
BUSY = ContentionRecord(disturbed=True, reasons=("steal of 9 %",))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., Result]:
    """Calls `suffice ...` in this process, in a folder of its own."""
    return command_line(monkeypatch, capsys, tmp_path)


def saved(path: Path, **changes: Any) -> Path:  # noqa: ANN401  # fields of a record
    """A run record on disk."""
    save_record(guarded_record(**changes), path)
    return path


# -- what flags mean ----------------------------------------------------------------------------------------------------


def test_limits_are_read_in_their_units() -> None:
    """A plain floor is of decode; times and sizes have units."""
    limits = limits_of(["8", "prefill=100", "quality=0.9"], ["ttft_p90=2s", "ttft=500ms", "memory=4GiB"])

    assert {limit.metric: limit.value for limit in limits} == {
        Metric.DECODE: 8.0,
        Metric.PREFILL: 100.0,
        Metric.QUALITY: 0.9,
        Metric.TTFT_P90: 2.0,
        Metric.TTFT: 0.5,
        Metric.MEMORY: 4 * GIB,
    }


@pytest.mark.parametrize(
    ("floors", "ceilings", "complaint"),
    [
        (["speed=8"], [], "no metric 'speed'"),
        (["memory=4GiB"], [], "give it as --ceiling"),
        ([], ["decode=8"], "give it as --floor"),
        ([], ["4GiB"], "of what"),
        (["8", "decode=9"], [], "given twice"),
        (["quality=90"], [], "a score from 0 to 1"),
        ([], ["ttft=soon"], "not a duration"),
        ([], ["memory=much"], "not a size"),
        (["decode="], [], "--floor decode="),
        (["nan"], [], "not a positive number"),
    ],
)
def test_limits_that_are_none_are_refused(floors: list[str], ceilings: list[str], complaint: str) -> None:
    """One sentence with the flag as it was written."""
    with pytest.raises(UsageError, match=complaint):
        limits_of(floors, ceilings)


def test_tolerances_and_metrics() -> None:
    """5% and 0.05 are the same; what is no share, and what cannot be compared, is refused."""
    assert tolerance_of("5%") == pytest.approx(tolerance_of("0.05"))
    assert metrics_of("decode,ttft,decode") == (Metric.DECODE, Metric.TTFT)
    for text in ("5", "0", "-1%", "some", "nan"):
        with pytest.raises(UsageError, match="--tolerance"):
            tolerance_of(text)
    for text in ("quality", "ttft_p90", "speed", ""):
        with pytest.raises(UsageError, match="--compare"):
            metrics_of(text)


# -- limits -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [
        (("--floor", "8", "--floor", "prefill=50"), 0, "pass"),
        (("--floor", "8", "--floor", "prefill=200"), 1, "prefill 100.00 tokens/s, floor 200: below the floor"),
        (("--ceiling", "memory=2GiB"), 0, "memory 1.00 GiB, ceiling 2.00 GiB: holds"),
        (("--ceiling", "memory=512MiB"), 1, "above the ceiling"),
        (("--ceiling", "ttft=60s"), 0, "holds"),
        (("--ceiling", "ttft_p90=60s"), 3, "a P90 needs 36 repetitions, there are 8"),
        (("--floor", "quality=0.5"), 3, "give --quality quants.json"),
        (("--floor", "19.7"), 3, "reaches below the floor"),
    ],
)
def test_floors_and_ceilings(
    run: Callable[..., Result], tmp_path: Path, flags: tuple[str, ...], code: int, words: str
) -> None:
    """The worst check decides; what nobody measured is inconclusive, never a pass."""
    result = run("guard", saved(tmp_path / "run.json"), *flags)

    assert result.code == code
    assert words in result.out


def test_what_has_to_be_said_of_a_record_is_said(run: Callable[..., Result], tmp_path: Path) -> None:
    """On stderr, under the name of its file, beside the judgement."""
    saved(tmp_path / "run.json", warnings=("the prompt was shortened",), complete=False)

    said = run("guard", "run.json", "--floor", "decode=1")

    assert "run.json: the prompt was shortened" in said.err
    assert "run.json: the run was not finished" in said.err


def test_a_missing_memory_is_inconclusive(run: Callable[..., Result], tmp_path: Path) -> None:
    """A record without a peak says nothing of memory; --strict makes that a failure."""
    path = saved(tmp_path / "run.json", peak_rss_bytes=None)

    assert run("guard", path, "--ceiling", "memory=4GiB").code == 3
    assert run("guard", path, "--ceiling", "memory=4GiB", "--strict").code == 1


@pytest.mark.parametrize(("right", "floor", "code"), [(95, 0.8, 0), (95, 0.99, 1), (80, 0.78, 3)])
def test_a_quality_floor_is_the_comparisons_own_decision(
    run: Callable[..., Result], tmp_path: Path, right: int, floor: float, code: int
) -> None:
    """95 of 100 right reach 0.8 and miss 0.99; 80 of 100 show nothing about 0.78."""
    kept = comparison(*paired_scores(100, right=right, lost=0))
    save_quants(kept, tmp_path / "quants.json")
    model = replace(guarded_record().model, sha256=kept.reference.subject.identity)
    path = saved(tmp_path / "run.json", model=model)

    result = run("guard", path, "--floor", f"quality={floor}", "--quality", "quants.json")

    assert result.code == code
    assert "quants.json" in result.out


def test_a_comparison_of_other_models_is_a_slip(run: Callable[..., Result], tmp_path: Path) -> None:
    """A quants.json that does not hold the run's model is refused."""
    save_quants(comparison(*paired_scores(20, right=15, lost=0)), tmp_path / "quants.json")

    result = run("guard", saved(tmp_path / "run.json"), "--floor", "quality=0.5", "--quality", "quants.json")

    assert result.code == 2
    assert "was not compared there" in result.err


# -- a baseline ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("decode", "code", "outcome"), [(20, 0, "pass"), (18.8, 3, "inconclusive"), (15, 1, "fail")])
def test_a_run_against_its_baseline(
    run: Callable[..., Result], tmp_path: Path, decode: float, code: int, outcome: str
) -> None:
    """Set, guard, and a document with checks, causes and comparison."""
    run("baseline", "set", saved(tmp_path / "base.json"), "--out", "b.json")
    engine = EngineRecord(name="fake", version="4801")
    path = saved(tmp_path / "run.json", decode=decode, engine=engine)

    text = run("guard", path, "--baseline", "b.json", "--floor", "8")
    document = run("guard", path, "--baseline", "b.json", "--floor", "8", "--json").document

    assert text.code == code
    assert text.out.startswith(f"{outcome}: ")
    assert document["outcome"] == outcome
    assert [check["name"] for check in document["checks"]] == [
        "decode floor",
        "decode against the baseline",
        "prefill against the baseline",
        "memory against the baseline",
    ]
    assert document["causes"] == ["engine 1 -> 4801"]
    assert document["comparison"]["differences"][0]["base"] == "1"
    assert ("likely cause: engine 1 -> 4801" in text.out) is (outcome == "fail")


def test_a_verdict_flip_is_a_failure_of_its_own_kind(run: Callable[..., Result], tmp_path: Path) -> None:
    """12.5 and 11.7 tokens/s differ by less than the tolerance decides, but at 8 with a margin of 1.5 "cpu" became "thin"."""
    (tmp_path / "demand.toml").write_text(DEMAND, encoding="utf-8")
    base, new = saved(tmp_path / "base.json", decode=12.5), saved(tmp_path / "run.json", decode=11.7)

    result = run("guard", new, "--baseline", base, "--demand", "demand.toml", "--json")

    assert result.code == 1
    assert result.document["flipped"] is True
    assert "the verdict flipped: cpu -> cpu, thin margin" in result.document["reason"]
    assert result.document["checks"][1]["outcome"] != "fail"


def test_a_worse_verdict_on_another_machine_is_no_flip(run: Callable[..., Result], tmp_path: Path) -> None:
    """A slower runner: inconclusive, with the machine that differs."""
    (tmp_path / "demand.toml").write_text(DEMAND, encoding="utf-8")
    base = saved(tmp_path / "base.json", decode=20)
    new = saved(tmp_path / "run.json", decode=10, gigabytes_per_s=20, machine="Other CPU")

    result = run("guard", new, "--baseline", base, "--demand", "demand.toml", "--compare", "memory", "--json")

    assert result.code == 3
    assert result.document["flipped"] is False
    assert "baseline cpu, and different CPU: Test CPU -> Other CPU" in result.document["reason"]


def test_a_verdict_alone_is_judged_too(run: Callable[..., Result], tmp_path: Path) -> None:
    """Without a baseline a CPU's verdict passes and a GPU's fails."""
    (tmp_path / "demand.toml").write_text(DEMAND, encoding="utf-8")

    enough = run("guard", saved(tmp_path / "a.json", decode=20), "--demand", "demand.toml")
    short = run("guard", saved(tmp_path / "b.json", decode=5), "--demand", "demand.toml")

    assert (enough.code, short.code) == (0, 1)


def test_bad_baselines_are_not_set(run: Callable[..., Result], tmp_path: Path) -> None:
    """A busy run is refused, and set with --force; a baseline that is replaced is compared; a stranger's file is not replaced."""
    busy = saved(tmp_path / "busy.json", disturbed=True, contention=BUSY)

    refused = run("baseline", "set", busy)
    forced = run("baseline", "set", busy, "--force")
    replaced = run("baseline", "set", saved(tmp_path / "run.json", decode=18))
    (tmp_path / "notes.txt").write_text("mine\n", encoding="utf-8")
    stranger = run("baseline", "set", "run.json", "--out", "notes.txt")

    assert (refused.code, forced.code, replaced.code, stranger.code) == (2, 0, 0, 2)
    assert "steal of 9 %" in refused.err
    assert "decode 18.00 tokens/s, baseline 20.00 tokens/s" in replaced.out
    assert (tmp_path / "notes.txt").read_text(encoding="utf-8") == "mine\n"


def test_a_baseline_keeps_everything(run: Callable[..., Result], tmp_path: Path) -> None:
    """It is the run record itself, raw samples and all, and a rate raised by hand is refused like in any record."""
    run("baseline", "set", saved(tmp_path / "run.json"))
    path = tmp_path / "suffice-baseline.json"

    assert load_record(path) == load_record(tmp_path / "run.json")
    document = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**document, "decode_tokens_per_second": 5.0}), encoding="utf-8")
    assert "was edited" in run("guard", "run.json", "--baseline", path).err


def test_show_and_diff(run: Callable[..., Result], tmp_path: Path) -> None:
    """The figures and the fingerprint; every field that differs; 3 when two runs are not comparable."""
    run("baseline", "set", saved(tmp_path / "run.json"))

    shown, document = run("baseline", "show"), run("baseline", "show", "--json").document
    same = run("baseline", "diff", "run.json")
    other = run("baseline", "diff", saved(tmp_path / "gpu.json", device_kind="gpu"), "--json")

    assert (shown.code, same.code, other.code) == (0, 0, 3)
    assert "cpu_model" in shown.out
    assert document["fingerprint"]["cpu_model"] == "Test CPU"
    assert "no field of the fingerprint differs" in same.out
    assert other.document["comparability"] == "not comparable"
    assert [one["field"] for one in other.document["differences"]] == ["device_kind"]


# -- a history ----------------------------------------------------------------------------------------------------------


def _history(run: Callable[..., Result], tmp_path: Path, decodes: list[float]) -> None:
    files = [
        saved(tmp_path / f"{number}.json", decode=decode, created_at=f"2026-01-{number + 1:02}T00:00:00+00:00")
        for number, decode in enumerate(decodes)
    ]
    assert run("history", "add", "h.jsonl", *files).code == 0


def test_a_history_guards(run: Callable[..., Result], tmp_path: Path) -> None:
    """Six runs tell their scatter: the same passes, 15 % less fails; a run that is there already is not added again."""
    _history(run, tmp_path, [20, 20.1, 19.9, 20.05, 19.95, 20])

    same = run("guard", saved(tmp_path / "same.json", decode=20.02), "--history", "h.jsonl")
    slower = run("guard", saved(tmp_path / "slower.json", decode=17), "--history", "h.jsonl")
    again = run("history", "add", "h.jsonl", "0.json", "--json")

    assert (same.code, slower.code) == (0, 1)
    assert "decode 17.00 tokens/s, history 20.00 tokens/s" in slower.out
    assert again.document == {"history": "h.jsonl", "added": 0, "runs": 6}


def test_a_run_is_not_held_against_its_own_line_of_a_history(run: Callable[..., Result], tmp_path: Path) -> None:
    """A run that was added before it is judged: alone there it is held against nothing, behind another run against that one."""
    new = saved(tmp_path / "new.json", decode=15)
    run("history", "add", "own.jsonl", new)
    run("history", "add", "h.jsonl", saved(tmp_path / "old.json", decode=20), new)

    alone, behind = (run("guard", new, "--history", name, "--json") for name in ("own.jsonl", "h.jsonl"))

    assert alone.code == 3
    assert alone.document["reason"] == "the history has no run with decode, prefill, memory to compare with"
    assert (behind.code, behind.document["checks"][0]["limit"]) == (1, pytest.approx(20, rel=0.01))


def test_a_history_knows_verdicts_of_its_demand(run: Callable[..., Result], tmp_path: Path) -> None:
    """A verdict that was kept with the runs is held against the new one; that of another demand is not."""
    (tmp_path / "demand.toml").write_text(DEMAND, encoding="utf-8")
    (tmp_path / "other.toml").write_text(DEMAND.replace("8", "7"), encoding="utf-8")
    run("history", "add", "h.jsonl", saved(tmp_path / "run.json", decode=12.5), "--demand", "demand.toml")
    new = saved(tmp_path / "new.json", decode=11.7)

    flip = run("guard", new, "--history", "h.jsonl", "--demand", "demand.toml", "--json").document
    other = run("guard", new, "--history", "h.jsonl", "--demand", "other.toml", "--json").document

    assert (flip["outcome"], flip["flipped"]) == ("fail", True)
    assert (other["outcome"], other["flipped"]) == ("inconclusive", False)
    assert "the verdict of another demand" in other["reason"]


def test_show_checks_the_last_step(run: Callable[..., Result], tmp_path: Path) -> None:
    """A loss at the end exits with 1 under --check, and with 0 without; few runs with 3."""
    _history(run, tmp_path, [20, 20.1, 19.9, 20.05, 19.95, 20.02, 16, 16.1, 15.9, 16.05, 15.95, 16.02])

    plain, checked = run("history", "show", "h.jsonl"), run("history", "show", "h.jsonl", "--check")

    assert (plain.code, checked.code) == (0, 1)
    assert "step at run 7: -20.0%, worse" in checked.out
    (tmp_path / "h.jsonl").unlink()
    _history(run, tmp_path, [20, 20.1])
    assert run("history", "show", "h.jsonl", "--check").code == 3


def test_a_chart_is_drawn(run: Callable[..., Result], tmp_path: Path) -> None:
    """With the floor, into a picture; a name that is no picture's, and an empty history, are refused."""
    _history(run, tmp_path, [20, 20.1])

    drawn = run("history", "chart", "h.jsonl", "trend.svg", "--floor", "8")

    assert drawn.code == 0
    assert b"suffice chart" in (tmp_path / "trend.svg").read_bytes()
    assert run("history", "chart", "h.jsonl", "trend.txt").code == 2
    (tmp_path / "empty.jsonl").write_text("", encoding="utf-8")
    assert "no run that could be drawn" in run("history", "chart", "empty.jsonl", "e.svg").err


def test_a_history_is_no_run(run: Callable[..., Result], tmp_path: Path) -> None:
    """Swapped arguments destroy nothing."""
    path = saved(tmp_path / "run.json")

    assert run("history", "add", path, path).code == 2
    assert run("history", "add", path, saved(tmp_path / "b.json")).code == 2
    assert load_record(path) == guarded_record()


# -- running again, and in turns ----------------------------------------------------------------------------------------


def copying(source: Path) -> str:
    """A command that puts a record where it is told to."""
    program = "import shutil, sys; shutil.copy(sys.argv[1], sys.argv[2])"
    return shlex.join([sys.executable, "-c", program, str(source), "{out}"])


@pytest.mark.parametrize(
    ("first", "second", "code", "words"),
    [
        (5, 5, 1, "(confirmed by a rerun)"),
        (5, 20, 3, "failed (decode 5.00"),
        (20, 5, 0, "holds"),
    ],
)
def test_a_failure_is_confirmed_before_it_is_told(
    run: Callable[..., Result], tmp_path: Path, first: float, second: float, code: int, words: str
) -> None:
    """Twice under the floor fails, once is inconclusive, and a pass is not run again."""
    again = copying(saved(tmp_path / "again.json", decode=second))

    result = run("guard", saved(tmp_path / "run.json", decode=first), "--floor", "8", "--rerun", again)

    assert result.code == code
    assert words in result.out


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ((5, 100), (20, 10), {"decode": "inconclusive", "prefill": "inconclusive"}),
        ((5, 10), (5, 100), {"decode": "fail", "prefill": "inconclusive"}),
        ((5, 100), (5, 10), {"decode": "fail", "prefill": "inconclusive"}),
        ((5, 10), (5, 10), {"decode": "fail", "prefill": "fail"}),
    ],
)
def test_a_rerun_confirms_check_by_check(
    run: Callable[..., Result],
    tmp_path: Path,
    first: tuple[float, float],
    second: tuple[float, float],
    expected: dict[str, str],
) -> None:
    """What failed in both runs is a confirmed failure, what failed in one of them is inconclusive and says in which."""
    again = copying(saved(tmp_path / "again.json", decode=second[0], prefill=second[1]))
    path = saved(tmp_path / "run.json", decode=first[0], prefill=first[1])

    result = run("guard", path, "--floor", "8", "--floor", "prefill=50", "--rerun", again, "--json")

    checks = {check["metric"]: check for check in result.document["checks"]}
    assert {name: check["outcome"] for name, check in checks.items()} == expected
    assert result.code == (1 if "fail" in expected.values() else 3)
    assert ("(confirmed by a rerun)" in result.document["reason"]) is ("fail" in expected.values())
    assert ("prefill" in result.document["reason"]) is (expected["decode"] == expected["prefill"])
    if expected["prefill"] == "inconclusive":
        word = "failed (prefill" if first[1] == 10 else "failed when it was run again (prefill"
        assert checks["prefill"]["reason"].startswith(word)


def test_a_contradicting_rerun_is_no_green_report(run: Callable[..., Result], tmp_path: Path) -> None:
    """Though each check of the second run passed, the JUnit report holds an error."""
    again = copying(saved(tmp_path / "again.json", decode=20))

    run("guard", saved(tmp_path / "r.json", decode=5), "--floor", "8", "--rerun", again, "--junit", "g.xml")

    assert 'errors="1"' in (tmp_path / "g.xml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        ("echo hello", "write {out}"),
        ("'unclosed", "quot"),
        ("/no/such/program {out}", "could not be started"),
        (shlex.join([sys.executable, "-c", "pass", "{out}"]), "left no usable record"),
    ],
)
def test_commands_that_give_no_record_are_told(
    run: Callable[..., Result], tmp_path: Path, command: str, complaint: str
) -> None:
    """One sentence with the flag; never an outcome."""
    result = run("guard", saved(tmp_path / "run.json", decode=5), "--floor", "8", "--rerun", command)

    assert result.code == 2
    assert complaint in result.err


@pytest.mark.parametrize(("head", "code"), [(20.0, 0), (18.0, 1)])
def test_two_commands_in_turns(run: Callable[..., Result], tmp_path: Path, head: float, code: int) -> None:
    """Three rounds of each, ten percent apart: a failure with its cause; the records are kept where it was asked."""
    base = saved(tmp_path / "base.json", decode=20)
    other = saved(tmp_path / "head.json", decode=head, engine=EngineRecord(name="fake", version="2"))

    result = run("guard", "--interleave", copying(base), copying(other), "--rounds", "3", "--records", "kept", "--json")

    assert result.code == code
    assert result.document["checks"][0]["name"] == "decode against the base"
    assert result.document["checks"][0]["ratio"] == pytest.approx(head / 20)
    assert result.document["causes"] == ["engine 1 -> 2"]
    assert len(list((tmp_path / "kept").iterdir())) == 6
    assert run("guard", "--interleave", copying(base), copying(other), "--records", "kept").code == 2


def by_round(folder: Path, name: str, rounds: list[RunRecord]) -> str:
    """A command that gives another record in each round, up to nine."""
    for number, record in enumerate(rounds, start=1):
        save_record(record, folder / f"{name}-{number}")
    program = "import pathlib, shutil, sys; out = pathlib.Path(sys.argv[2]); shutil.copy(f'{sys.argv[1]}-{out.stem[-1]}', out)"
    return shlex.join([sys.executable, "-c", program, str(folder / name), "{out}"])


def behind(record: RunRecord, depth: int) -> RunRecord:
    """The record with a decode series at another depth."""
    series = replace(record.measurement.decode[0], depth=depth)
    return replace(record, measurement=replace(record.measurement, decode=(series,)))


def test_rounds_that_are_not_comparable_are_left_out(run: Callable[..., Result], tmp_path: Path) -> None:
    """One head of four decoded behind another depth: the ratio is that of the others, a note says so; with two there are too few."""
    base, odd = guarded_record(), behind(guarded_record(decode=60), 128)
    rounds = [base, odd, base, base]

    same, one_odd = by_round(tmp_path, "same", [base] * 4), by_round(tmp_path, "one", rounds)
    two_odd = by_round(tmp_path, "two", [*rounds[:3], odd])

    results = [
        run("guard", "--interleave", *sides, "--rounds", "4", "--json")
        for sides in ((same, one_odd), (same, two_odd), (one_odd, same))
    ]

    assert [result.code for result in results] == [0, 3, 0]
    assert [result.document["checks"][0]["ratio"] for result in results] == [pytest.approx(1), None, pytest.approx(1)]
    told = "1 of 4 rounds were left out, which are not comparable with the first base: decode depth 512 -> 128"
    assert told in results[0].document["notes"]
    assert told in results[2].document["notes"]
    obstacle = (
        "not comparable: decode depth 512 -> 128; 2 of 4 rounds are comparable with the first base, and 3 are needed"
    )
    assert {check["obstacle"] for check in results[1].document["checks"]} == {obstacle}


def test_all_steps_and_even_steps_are_of_the_same_rounds(run: Callable[..., Result], tmp_path: Path) -> None:
    """A round whose record has a plain number and no steps is in neither ratio."""
    record = guarded_record()
    bare = replace(record, decode_tokens_per_second=60.0, measurement=replace(record.measurement, decode=()))
    sides = (by_round(tmp_path, "a", [record] * 4), by_round(tmp_path, "b", [record, record, bare, record]))

    result = run("guard", "--interleave", *sides, "--rounds", "4", "--compare", "decode")

    assert result.code == 0
    assert "+0.0% (+0.0% to +0.0%)" in result.out


def test_what_cannot_be_judged_in_turns_tells_its_figures_and_the_obstacle(
    run: Callable[..., Result], tmp_path: Path
) -> None:
    """As against a baseline: nothing judged stands in the sentence, and the obstacle is told once for all checks."""
    base = saved(tmp_path / "base.json")
    head = saved(tmp_path / "head.json", decode=10, complete=False)

    document = run("guard", "--interleave", copying(base), copying(head), "--rounds", "3", "--json").document

    decode = document["checks"][0]
    assert decode["reason"] == "decode 10.00 tokens/s, base 20.00 tokens/s: a run was not finished"
    assert (decode["name"], decode["obstacle"], decode["ratio"]) == (
        "decode against the base",
        "a run was not finished",
        None,
    )
    assert document["reason"].count("a run was not finished") == 1


class FakeBench:
    """Gives two records of one measurement: three rounds, the head so many times as fast."""

    requests: ClassVar[dict[str, Any]] = {}
    how: ClassVar[dict[str, object]] = {}
    head = 1.0
    warnings: ClassVar[dict[str, tuple[str, ...]]] = {}

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def side_by_side(
        self, requests: dict[str, Any], save: Callable[..., None], *_: object, **how: object
    ) -> dict[str, RunRecord]:
        """The records, which are saved as well."""
        FakeBench.requests, FakeBench.how = requests, how
        rounds = {"decode": [[1, 1, 1, 2, 2, 2, 3, 3]], "prefill": [1, 1, 1, 2, 2, 2, 3, 3]}
        told = {"interleaved": {"session": "one", "round_of_row": rounds}}
        records = {
            name: guarded_record(
                decode=20 * factor, prefill=100 * factor, settings=told, warnings=self.warnings.get(name, ())
            )
            for name, factor in (("base", 1.0), ("head", self.head))
        }
        for name, record in records.items():
            save(name, record)
        return records


@pytest.mark.parametrize(("head", "code"), [(1.0, 0), (0.7, 1), (1.4, 0)])
def test_two_settings_in_turns(
    run: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, head: float, code: int
) -> None:
    """One file with two settings: the requests are what was written, decode and prefill are judged by their rounds."""
    monkeypatch.setattr("suffice.cli.session.Workbench", FakeBench)
    monkeypatch.setattr(FakeBench, "head", head)
    path = ToyLlama().write(tmp_path / "toy.gguf")

    result = run(
        *("guard", "--interleave", f"{path} --threads 2 --depth 32", f"{path} --threads 1 --depth 32 --kv-type q8_0"),
        *("--records", "kept", "--json"),
    )

    base, other = FakeBench.requests["base"], FakeBench.requests["head"]
    assert (base.threads, base.depth, base.type_k) == (2, 32, "f16")
    assert (other.threads, other.depth, other.type_k) == (1, 32, "q8_0")
    assert result.code == code
    assert [check["metric"] for check in result.document["checks"]] == ["decode", "prefill"]
    assert result.document["checks"][0]["ratio"] == pytest.approx(head, rel=0.01)
    assert {path.name for path in (tmp_path / "kept").iterdir()} == {"base.json", "head.json"}
    assert FakeBench.how["most_rounds"] is None  # no budget is stated: as many as are usual
    assert FakeBench.how["needs_all"] is True  # one alone shows nothing
    assert base.lengths_stated

    run("guard", "--interleave", str(path), str(path), "--budget", "5m")

    assert FakeBench.how["budget_s"] == 300
    assert FakeBench.how["most_rounds"] == 500
    assert not FakeBench.requests["base"].lengths_stated


@pytest.mark.parametrize(
    ("flags", "outcomes", "told"),
    [
        ("--depth 4096", ["inconclusive", "pass"], "a depth of 4096 tokens was asked for and one of 512 was measured"),
        (
            "--prompt-tokens 900",
            ["pass", "inconclusive"],
            "a prompt of 900 tokens was asked for and one of 512 was measured",
        ),
        ("--depth 512 --prompt-tokens 512", ["pass", "pass"], None),
        ("", ["pass", "pass"], None),
    ],
)
def test_a_length_that_was_shortened_is_not_what_was_asked(
    run: Callable[..., Result],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    flags: str,
    outcomes: list[str],
    told: str | None,
) -> None:
    """No pass at a shorter length than a flag states; what the records warn of stands in the notes, with the side."""
    monkeypatch.setattr("suffice.cli.session.Workbench", FakeBench)
    monkeypatch.setattr(FakeBench, "warnings", {"base": ("of both", "of both", "of one"), "head": ("of both",)})
    path = ToyLlama().write(tmp_path / "toy.gguf")

    result = run("guard", "--interleave", f"{path} {flags}", f"{path} {flags} --threads 1", "--json")

    assert [check["outcome"] for check in result.document["checks"]] == outcomes
    assert result.code == (3 if told else 0)
    obstacles = {check["obstacle"] for check in result.document["checks"]} - {""}
    assert obstacles == ({f"{told}: a longer --budget is needed"} if told else set())
    assert result.document["notes"] == ["base and head: of both", "base: of one"]


def test_too_few_rounds_say_how_many_it_takes(run: Callable[..., Result], tmp_path: Path) -> None:
    """Three rounds that scatter: inconclusive, and a note names the factor and the options."""
    rates = {"a": (20, 22, 19), "b": (23, 20, 21)}
    sides = [by_round(tmp_path, side, [guarded_record(decode=rate) for rate in own]) for side, own in rates.items()]

    result = run("guard", "--interleave", *sides, "--rounds", "3")

    assert result.code == 3
    assert "times as many for decode" in result.out
    assert "--rounds with commands" in result.out


def test_a_load_is_held_against_limits_only(run: Callable[..., Result], tmp_path: Path) -> None:
    """A load tool's file has an outcome by its P90; a baseline for it is refused."""
    file = LOADS / "vllm-0.33.0-detailed.json"

    limited = run("guard", file, "--ceiling", "ttft_p90=1ms")
    compared = run("guard", file, "--baseline", saved(tmp_path / "run.json"))

    assert limited.code in {1, 3}
    assert "ttft_p90" in limited.out
    assert compared.code == 2
    assert "--floor and --ceiling only" in compared.err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "which run"),
        (("run.json",), "guard against what"),
        (("run.json", "--floor", "8", "--baseline", "run.json", "--history", "h"), "not both"),
        (("run.json", "--interleave", "a {out}", "b {out}"), "leave out RUN"),
        (("run.json", "--baseline", "run.json"), "is the baseline itself"),
        (("run.json", "--floor", "8", "--quality", "quants.json"), "--floor quality=0.9"),
        (("run.json", "--floor", "8", "--records", "kept"), "give one of them"),
        (("--interleave", "a {out}", "b.gguf"), "not one of each"),
        (("--interleave", "a {out}", "b {out}", "--budget", "9s"), "a command's own flags"),
        (("--interleave", "a.gguf", "b.gguf", "--rounds", "12"), "--rounds is about commands"),
        (("--interleave", "a.gguf", "b.gguf", "--compare", "decode,memory,ttft"), "--compare memory,ttft"),
        (("--interleave", "a.gguf", "b.gguf", "--compare", "memory"), "decode, prefill can be compared"),
        (("--interleave", "a.gguf --slots 2", "b.gguf"), "behind a file stand"),
        (("--interleave", "a.gguf --threads two", "b.gguf"), "not a whole number"),
        (("--interleave", "a.gguf", "b.gguf"), "no such file"),
    ],
)
def test_what_makes_no_sense_is_refused(
    run: Callable[..., Result], tmp_path: Path, arguments: tuple[str, ...], complaint: str
) -> None:
    """One sentence, exit code 2, nothing on stdout."""
    saved(tmp_path / "run.json")

    result = run("guard", *arguments)

    assert (result.code, result.out) == (2, "")
    assert complaint in result.err
